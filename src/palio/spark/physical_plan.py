"""Choice of the physical plan of a match job: broadcast or rendezvous, by memory.

Broadcast is chosen where the index of all subscriptions fits into the memory that an executor has for indexes. The size
is measured: on the index itself where the driver has the subscriptions already; for a DataFrame or table, on the index
of its first subscriptions, extrapolated. An index that would not fit is never built.

For a rendezvous plan this module also samples both sides and decides the number of buckets; `rendezvous.mapping_choice`
chooses the key mapping.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from palio.errors import PipelineError
from palio.matching.matcher import Matcher
from palio.matching.subscription_screening import add_usable
from palio.peers.mapping_choice import MappingChoice, Samples, check_mapping, choose_mapping
from palio.spark.attributes import is_case_sensitive
from palio.spark.projection import Projection, select_by_place
from palio.spark.record_batches import is_flat, read_events, sanitize_batch
from palio.spark.shared_index import is_connect
from palio.spark.subscription_columns import choose_from_schema, resolve_columns
from palio.spark.subscription_frame import (
    SubscriptionFrame,
    decode_rows,
    from_frame,
    from_wants,
    index_bytes,
    normalize,
)
from palio.spark.subscription_log import SubscriptionLog
from palio.spark.subscriptions import SAVED_INDEX_SUFFIX, OnError, Wants, open_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.matching.subscription import Subscription
    from palio.spark.implicit_casts import ImplicitCasts


_DRIVER_SUBSCRIPTIONS: Final = 20_000  # collected by the driver before anything is known of a frame
_INDEX_MEMORY_SHARE: Final = 0.5  # of an executor's memory
_BYTE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SAMPLED_ROWS_PER_PARTITION: Final = 256
_MAX_SAMPLED_EVENTS: Final = 4_096
_MAX_SUBSCRIPTIONS_PER_BUCKET: Final = 250_000  # building an index takes several times its size
_MIN_SUBSCRIPTIONS_PER_BUCKET: Final = 5_000  # below this, the overhead of a bucket exceeds its gain
_DEFAULT_EXECUTOR_CORES: Final = 8
_log = logging.getLogger("palio.spark")


@dataclass(frozen=True)
class Rendezvous:
    """Options of the rendezvous plan; what is left out is chosen by samples.

    `mapping` is one of `palio.peers.mapping_choice.MAPPINGS`; `buckets` is the approximate number of
    partitions of the shuffle.
    """

    mapping: str | None = None
    buckets: int | None = None

    def __post_init__(self) -> None:
        if self.buckets is not None and self.buckets < 1:
            raise PipelineError(f"there is at least one bucket, not {self.buckets}")


Plan: TypeAlias = Literal["auto", "broadcast", "rendezvous"] | Rendezvous


def check_plan(plan: Any) -> None:
    """Refuse what is no plan, or one by a mapping that there is not."""
    if not isinstance(plan, Rendezvous) and plan not in ("auto", "broadcast", "rendezvous"):
        raise PipelineError(f"plan is 'auto', 'broadcast', 'rendezvous' or a Rendezvous, not {plan!r}")
    if isinstance(plan, Rendezvous) and plan.mapping is not None:
        check_mapping(plan.mapping)


def must_be_read(spark: SparkSession, source: Any, columns: Sequence[str]) -> bool:
    """Whether subscriptions are rows of Spark or in files, and not in memory or in a saved index.

    Refuses a DataFrame that has not the columns of subscriptions, or not these. Looks into no file.
    """
    if isinstance(source, str | Path):
        address = str(source)
        # What is nowhere is left to the reader, to be refused at once.
        return not address.endswith(SAVED_INDEX_SUFFIX) and ("://" in address or Path(address).exists())
    if hasattr(source, "toArrow"):
        choose_from_schema(resolve_columns(source).schema, columns, is_case_sensitive(spark))
        return True
    return isinstance(source, SubscriptionLog)


def gather_for_plan(
    spark: SparkSession,
    source: Any,
    plan: Plan,
    memory: int,
    on_error: OnError = "quarantine",
    casts: ImplicitCasts | None = None,
    columns: Sequence[str] = (),
) -> Wants | SubscriptionFrame:
    """Choose the plan and gather the subscriptions for it: `Wants` for broadcast, a frame for rendezvous.

    `columns` are those of the subscriptions' columns that the frame has for the matches.
    """
    if isinstance(source, str | Path):
        rows = open_frame(spark, str(source))
        source = source if rows is None else rows
    count = None
    if hasattr(source, "toArrow"):
        if plan == "auto":
            count, fits = _count_and_fit(source, memory)
            plan = "broadcast" if fits else "rendezvous"
        if plan != "broadcast":
            return from_frame(source, on_error, casts, columns)
    wants = Wants.read(spark, source, on_error=on_error, casts=casts, columns=columns, count=count)
    if casts is not None:
        wants = wants.with_casts(casts)
    return wants if choose_plan(wants.matcher, plan, memory) == "broadcast" else from_wants(spark, wants, columns)


def choose_plan(matcher: Matcher, plan: Plan, memory: int) -> Literal["broadcast", "rendezvous"]:
    """The plan for subscriptions that the driver has indexed."""
    if plan == "broadcast" or (plan == "auto" and index_bytes(matcher) <= memory):
        return "broadcast"
    return "rendezvous"


def index_memory_bytes(spark: SparkSession, given: int | str | None = None) -> int:
    """Memory for indexes on an executor: as given (`"512m"`), or half of `spark.executor.memory`."""
    if given is not None:
        return _parse_bytes(given, "memory")
    name = "spark.executor.memory"
    return int(_INDEX_MEMORY_SHARE * _parse_bytes(str(spark.conf.get(name, "1g")), name))


def _parse_bytes(size: int | str, name: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", str(size).strip().lower())
    if found is None or int(found[1]) < 1:
        raise PipelineError(f"{name} is a number of bytes, such as 536870912 or '512m', not {size!r}")
    return int(found[1]) * _BYTE_UNITS[found[2]]


def _count_and_fit(rows: DataFrame, memory: int) -> tuple[int, bool]:
    """The number of rows, and whether their index takes at most this memory."""
    # One more than the driver takes: that shows whether there are more, without counting all.
    first = normalize(rows).limit(_DRIVER_SUBSCRIPTIONS + 1).toArrow()
    if first.num_rows <= _DRIVER_SUBSCRIPTIONS:
        return first.num_rows, True
    matcher = Matcher()
    # By id, the first of each; in bulk, because making a filter of each would take seconds.
    distinct = {each.id: each for each in reversed(list(decode_rows(first)))}
    add_usable(matcher, list(distinct.values()))
    count = rows.count()
    return count, index_bytes(matcher) / first.num_rows * count <= memory


def plan_rendezvous(
    events: DataFrame, projection: Projection, subscriptions: SubscriptionFrame, options: Rendezvous, memory: int
) -> MappingChoice:
    """Choose mapping and buckets by samples of both sides; reads the first batch of every partition."""
    bytes_each = max(1.0, subscriptions.bytes_each)
    per_bucket = max(1, min(_MAX_SUBSCRIPTIONS_PER_BUCKET, int(memory / bytes_each)))
    buckets = options.buckets or _count_buckets(events.sparkSession, subscriptions.count, per_bucket)
    samples = sample(events, projection, subscriptions.sample)
    choice = choose_mapping(samples, subscriptions.count, buckets, per_bucket, options.mapping)
    _log.info("rendezvous by %s", choice)
    return choice


def _count_buckets(spark: SparkSession, count: int, per_bucket: int) -> int:
    """As many buckets as memory requires; more where there are cores and subscriptions for them."""
    parallel = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    # Twice the minimum: buckets are not filled evenly.
    return max(ceil(2 * count / per_bucket), min(parallel, ceil(count / _MIN_SUBSCRIPTIONS_PER_BUCKET)), 1)


def tasks_per_executor(spark: SparkSession) -> int:
    """Concurrent tasks of an executor, and so the buckets that it holds at a time."""
    given = spark.conf.get("spark.executor.cores", None)
    if given is not None:
        return max(1, int(str(given)))
    master = "" if is_connect(spark) else spark.sparkContext.master or ""
    if not master.startswith("local"):
        # A standalone cluster gives an executor all cores of its machine, and does not report their number.
        return _DEFAULT_EXECUTOR_CORES
    threads = master.partition("[")[2].partition("]")[0].partition(",")[0] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def sample(events: DataFrame, projection: Projection, subscriptions: Sequence[Subscription]) -> Samples:
    """Sample the events; of the subscriptions there is a sample already."""
    from pyspark.sql import functions as sql

    projected = select_by_place(events, projection.all_columns)
    heads = projected.mapInArrow(palio_rendezvous_sample, projected.schema)
    # Shuffled before the limit, which would otherwise take the first partitions alone.
    taken = heads.orderBy(sql.rand(seed=1)).limit(_MAX_SAMPLED_EVENTS).toArrow()
    # With an empty array in front, because an empty result has no chunk to concatenate.
    whole = [pa.concat_arrays([pa.array([], each.type), *each.chunks]) for each in taken.columns]
    batch = sanitize_batch(pa.RecordBatch.from_arrays(whole, [*projection.attributes, *projection.json]))
    read = None if is_flat(batch, projection.json) else read_events(batch, projection.json)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Samples(subscriptions, columns, batch.num_rows, read)


def palio_rendezvous_sample(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first rows of a partition."""
    for batch in batches:
        yield batch.slice(0, _SAMPLED_ROWS_PER_PARTITION)
        return
