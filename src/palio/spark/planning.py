"""Broadcast or rendezvous? By how large the index of all subscriptions is, measured, beside what an executor may hold.

What the driver has gathered anyway is measured as it is. A DataFrame or table is looked at first: if it is short it is
gathered, else the index of a sample says how large that of all would be, and only one that fits is ever made.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from palio.errors import PipelineError
from palio.matching.matcher import Matcher
from palio.spark.rendezvous.rows import SubscriptionRows, from_frame, from_wants, normal, read_rows, size_of, usable
from palio.spark.rendezvous.sampling import Rendezvous
from palio.spark.wants import OnError, Wants, check_on_error, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Plan: TypeAlias = Literal["auto", "broadcast", "rendezvous"] | Rendezvous

_FEW: Final = 20_000  # subscriptions that come to the driver before anything is known about them
_SHARE: Final = 0.5  # of an executor's memory, for indexes
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def gather(
    spark: SparkSession, source: Any, plan: Plan, memory: int, on_error: OnError = "quarantine"
) -> Wants | SubscriptionRows:
    """The subscriptions of a job: as one index for the broadcast plan, as rows for the rendezvous plan."""
    if not isinstance(plan, Rendezvous) and plan not in ("auto", "broadcast", "rendezvous"):
        raise PipelineError(f"plan is 'auto', 'broadcast', 'rendezvous' or a Rendezvous, not {plan!r}")
    check_on_error(on_error)
    if isinstance(source, str | Path):
        rows = rows_of(spark, str(source))
        source = source if rows is None else rows
    if hasattr(source, "toArrow"):
        if plan == "auto":
            plan = "broadcast" if _index_fits(source, memory) else "rendezvous"
        if plan != "broadcast":
            return from_frame(source, on_error)
    wants = Wants.read(spark, source, on_error=on_error)
    return wants if plan_for(wants.matcher, plan, memory) == "broadcast" else from_wants(spark, wants)


def plan_for(matcher: Matcher, plan: Plan, memory: int) -> Literal["broadcast", "rendezvous"]:
    """The plan by which subscriptions are matched that are in an index already."""
    if plan == "broadcast" or (plan == "auto" and size_of(matcher) <= memory):
        return "broadcast"
    return "rendezvous"


def index_memory(spark: SparkSession, given: int | str | None = None) -> int:
    """The bytes that indexes may take on an executor: as given (`"512m"`), or half of its memory."""
    if given is not None:
        return _bytes(given, "memory")
    name = "spark.executor.memory"
    return int(_SHARE * _bytes(str(spark.conf.get(name, "1g")), name))


def _bytes(size: int | str, name: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", str(size).strip().lower())
    if found is None or int(found[1]) < 1:
        raise PipelineError(f"{name} is a number of bytes, such as 536870912 or '512m', not {size!r}")
    return int(found[1]) * _UNITS[found[2]]


def _index_fits(rows: DataFrame, memory: int) -> bool:
    few = normal(rows).limit(_FEW + 1).toArrow()
    if few.num_rows <= _FEW:
        return True
    matcher = Matcher()
    matcher.add_subscriptions(list(usable(read_rows(few))))
    return bool(size_of(matcher) / few.num_rows * rows.count() <= memory)
