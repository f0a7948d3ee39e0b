"""`estimate`: how often would this subscription fire, before anybody subscribes?

A sample of the archive is matched once, together with the subscriptions that are there already if they are given; so
the same pass says with which of them the new one would fire most. The interval is Wilson's, which holds for rates near
0 as well: that a condition never fired in a sample bounds its rate, and does not make it 0.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.matching.subscription import Subscription
from palio.spark.matching import SUBSCRIPTIONS, match
from palio.spark.wants import Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Overlap:
    """A subscription that fires for the same events: for how many of the sample, and how alike both are."""

    id: str
    matches: int
    both: int
    similarity: float
    """Of the events that either matches, the share that both do."""


@dataclass(frozen=True)
class Estimate:
    """How often a condition would fire."""

    events: int
    """In the whole archive."""
    sampled: int
    matches: int
    """In the sample."""
    rate: float
    low: float
    high: float
    """The rate is between `low` and `high` with the confidence that was asked for."""
    overlaps: tuple[Overlap, ...] = ()

    @property
    def expected(self) -> int:
        """How many events of the whole archive it would fire for."""
        return round(self.rate * self.events)


def estimate(
    events: DataFrame,
    condition: Any,
    *,
    language: str = "sql",
    sample: int = 100_000,
    confidence: float = 0.95,
    seed: int = 0,
    subscriptions: Any = None,
    top: int = 10,
) -> Estimate:
    """The rate at which a condition would fire, from about so many events; exact where there are no more.

    With `subscriptions`, given as to `match`, also the `top` of those that fire for the same events.
    """
    if not 0 < confidence < 1:
        raise InvalidArgument(f"a confidence is between 0 and 1, such as 0.95, not {confidence!r}")
    if sample < 1:
        raise InvalidArgument(f"a sample is of at least one event, not {sample!r}")
    spark = events.sparkSession
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    others = [] if subscriptions is None else _subscriptions(Wants.read(spark, subscriptions))
    new = _free_id({each.id for each in others})
    wanted = Subscription(new, Filter.parse(condition, language, timezone=zone))
    total = events.count()
    whole = total <= sample
    taken = events if whole else events.sample(fraction=sample / total, seed=seed)
    sampled, counts = _count(taken, Wants.gather([wanted, *others]), new)
    own, _ = counts.pop(new, (0, 0))
    low, high = interval(own, sampled, confidence)
    rate = own / sampled if sampled else 0.0
    if whole and sampled:
        low = high = rate
    overlaps = sorted(
        (_overlap(id, all, both, own) for id, (all, both) in counts.items() if both),
        key=lambda each: (-each.similarity, each.id),
    )
    return Estimate(total, sampled, own, rate, low, high, tuple(overlaps[:top]))


def interval(matches: int, sampled: int, confidence: float) -> tuple[float, float]:
    """Wilson's interval of a rate; all there is where nothing was sampled."""
    if not sampled:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = matches / sampled
    middle = rate + z * z / (2 * sampled)
    half = z * sqrt(rate * (1 - rate) / sampled + z * z / (4 * sampled * sampled))
    scale = 1 + z * z / sampled
    # The rate itself is always in it, whatever rounding says.
    return max(0.0, min(rate, (middle - half) / scale)), min(1.0, max(rate, (middle + half) / scale))


def _subscriptions(wants: Wants) -> list[Subscription]:
    return [wants.matcher[id] for id in wants.matcher]


def _free_id(taken: Set[str]) -> str:
    id = "new"
    while id in taken:
        id += "'"
    return id


def _count(events: DataFrame, wants: Wants, new: str) -> tuple[int, dict[str, tuple[int, int]]]:
    """How many events there are, and for each subscription how many it matches, and matches with the new one."""
    from pyspark.sql import functions as sql

    found = match(events, wants, per_event=True, columns=[]).withColumn(
        "is_new", sql.array_contains(SUBSCRIPTIONS, new)
    )
    # A row of its own counts the events, so that one pass is enough.
    nobody = sql.array(sql.lit(None).cast("string"))
    ids = sql.explode(sql.concat(SUBSCRIPTIONS, nobody)).alias("id")
    rows: list[Any] = (
        found.select("is_new", ids)
        .groupBy("id")
        .agg(sql.count(sql.lit(1)).alias("all"), sql.count_if("is_new").alias("both"))
        .collect()
    )
    counts = {row["id"]: (row["all"], row["both"]) for row in rows}
    return counts.pop(None, (0, 0))[0], counts


def _overlap(id: str, matches: int, both: int, own: int) -> Overlap:
    return Overlap(id, matches, both, both / (matches + own - both))
