"""Analyses of subscriptions: the rate at which a condition would fire, and which subscriptions are covered.

`estimate` matches a sample of an archive once, together with the existing subscriptions if given, so that one pass also
finds those that fire for the same events. The interval is Wilson's, which is valid for rates near 0: a condition that
never fired in a sample has a bounded rate, not the rate 0.

`covering` compares conjunctions of intervals, which nearly all subscriptions are, on the driver as boxes of integers
(`palio.covering.boxes`): a million in seconds, less than it takes to read them. The others, and the maximal ones of the
boxes, are compared by the workers over one shared index (`palio.covering.covering_search`). They return pairs of
numbers; the driver follows the chains to their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.covering.boxes import Boxes
from palio.covering.covering_search import CoveringSearch, maximal_coverers
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.filters.value_predicates import Test, XPath
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription, Subscriptions
from palio.spark.match_job import SUBSCRIPTIONS_COLUMN, check_events, match, with_document
from palio.spark.projection import session_zone
from palio.spark.record_batches import OutputColumns
from palio.spark.shared_index import SharedIndex
from palio.spark.subscription_columns import id_type
from palio.spark.subscriptions import OnError, Wants
from palio.spark.workers import choose_worker_python
from palio.xml.synopsis import DocumentSynopsis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Overlap:
    """A subscription that fires for the same events of the sample."""

    id: str
    matches: int
    both: int
    similarity: float
    """Jaccard index: events that both match, over events that either matches."""


@dataclass(frozen=True)
class Estimate:
    """The rate at which a condition would fire."""

    events: int
    """In the whole archive."""
    sampled: int
    matches: int
    """In the sample."""
    rate: float
    low: float
    high: float
    """The rate is between `low` and `high` with the given confidence."""
    overlaps: tuple[Overlap, ...] = ()
    by_synopsis: float | None = None
    """The rate of an XPath by a synopsis of documents, if one was given: for what is too rare for a sample."""

    @property
    def expected(self) -> int:
        """Expected matches in the whole archive."""
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
    xml: str | None = None,
    synopsis: DocumentSynopsis | None = None,
) -> Estimate:
    """Estimate the rate of a condition from about `sample` events; exact where the archive has no more.

    With `subscriptions`, given as to `match`, also the `top` subscriptions that fire for the same events. `xml` is the
    column of documents that XPath asks about, `xml` unless given. A `synopsis` of such documents gives a second
    estimate of an XPath, which also tells rates that are too small for the sample.
    """
    check_events(events)
    if xml is not None:
        events = with_document(events, xml)
    if not 0 < confidence < 1:
        raise InvalidArgument(f"a confidence is between 0 and 1, such as 0.95, not {confidence!r}")
    spark = events.sparkSession
    others = [] if subscriptions is None else _subscriptions(Wants.read(spark, subscriptions))
    new = free_id({each.id for each in others})
    wanted = Subscription(new, Filter.parse(condition, language, timezone=session_zone(spark)))
    taken, total = draw_sample(events, sample, seed)
    whole = total <= sample
    sampled, counts = count_matches(taken, Wants.gather([wanted, *others]), new)
    own, _ = counts.pop(new, (0, 0))
    low, high = interval(own, sampled, confidence)
    rate = own / sampled if sampled else 0.0
    if whole and sampled:
        low = high = rate
    overlaps = sorted(
        (_overlap(id, all, both, own) for id, (all, both) in counts.items() if both),
        key=lambda each: (-each.similarity, each.id),
    )
    by_synopsis = None if synopsis is None else _rate_by_synopsis(wanted.filter, synopsis)
    return Estimate(total, sampled, own, rate, low, high, tuple(overlaps[:top]), by_synopsis)


def draw_sample(events: DataFrame, sample: int, seed: int) -> tuple[DataFrame, int]:
    """About `sample` events, or all where there are no more; and how many there are."""
    if sample < 1:
        raise InvalidArgument(f"a sample is of at least one event, not {sample!r}")
    total = events.count()
    return (events if total <= sample else events.sample(fraction=sample / total, seed=seed)), total


def _rate_by_synopsis(wanted: Filter, synopsis: DocumentSynopsis) -> float | None:
    """The rate of a condition that is one XPath; None for any other."""
    match wanted.tree:
        case Leaf(values=values):
            match tuple(values.tests):
                case (Test(XPath(pattern), True),):
                    return synopsis.selectivity(pattern)
    return None


def interval(matches: int, sampled: int, confidence: float) -> tuple[float, float]:
    """Wilson's interval of a rate; [0, 1] for an empty sample."""
    if not sampled:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = matches / sampled
    middle = rate + z * z / (2 * sampled)
    half = z * sqrt(rate * (1 - rate) / sampled + z * z / (4 * sampled * sampled))
    scale = 1 + z * z / sampled
    # Clamped, so that rounding never excludes the rate itself.
    return max(0.0, min(rate, (middle - half) / scale)), min(1.0, max(rate, (middle + half) / scale))


def _subscriptions(wants: Wants) -> list[Subscription]:
    return [wants.matcher[id] for id in wants.matcher]


def free_id(taken: Set[str]) -> str:
    """An id that no subscription has."""
    id = "new"
    while id in taken:
        id += "'"
    return id


def count_matches(events: DataFrame, wants: Wants, new: str) -> tuple[int, dict[str, tuple[int, int]]]:
    """The number of events, and for each subscription its matches, and those together with the new one."""
    from pyspark.sql import functions as sql

    found = match(events, wants, per_event=True, columns=[]).withColumn(
        "is_new", sql.array_contains(SUBSCRIPTIONS_COLUMN, new)
    )
    # A NULL id for every event counts the events in the same pass.
    no_id = sql.array(sql.lit(None).cast("string"))
    ids = sql.explode(sql.concat(SUBSCRIPTIONS_COLUMN, no_id)).alias("id")
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


def covering(
    spark: SparkSession, subscriptions: Any, *, partitions: int | None = None, on_error: OnError = "quarantine"
) -> DataFrame:
    """A row for each subscription: its `id`, and in `covered_by` the id of one that covers it and is itself maximal.

    Those without one are the maximal elements: together they match every event that any other matches. Of
    subscriptions that cover each other the first stays. Exact as `Filter.covers` is.
    """
    wants = Wants.read(spark, subscriptions, on_error=on_error)
    given = wants.matcher.subscriptions()
    boxes = Boxes.read(given)
    own = boxes.covered_by()
    by = np.full(len(given), -1, np.int64)
    by[boxes.numbers] = np.where(own >= 0, boxes.numbers[own], -1)
    if len(boxes.numbers) < len(given):
        # Boxes that a box covers need no further comparison; what covers their coverer covers them.
        left = np.flatnonzero(by < 0)
        found = _compare_on_workers(spark, given.at(left.tolist()), partitions)
        by[left] = np.where(found >= 0, left[found], -1)
    by = maximal_coverers(by)
    output = OutputColumns("id", id_type=id_type(wants.schema))
    ids = pa.array(given.ids, pa.string()).cast(output.arrow_type)
    rows = pa.table({"id": ids, "covered_by": ids.take(pa.array(by, mask=by < 0))})
    kind = "string" if output.id_type is None else output.id_type.simpleString()
    return spark.createDataFrame(rows, f"id {kind}, covered_by {kind}")


def _compare_on_workers(spark: SparkSession, subscriptions: Subscriptions, partitions: int | None) -> Ints:
    """For each subscription the number of another one that covers it, or -1; computed by the workers."""
    matcher = Matcher()
    matcher.add_subscriptions([subscriptions[at] for at in range(len(subscriptions))])
    index = SharedIndex.publish(spark, matcher)

    def palio_covering(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = _search(index.open())
        for batch in batches:
            found = search.covered_by(batch.column(0).to_pylist())
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(found, pa.int64())], ["number", "by"])

    choose_worker_python(spark)
    numbers = spark.range(0, len(subscriptions), 1, partitions)
    found = numbers.mapInArrow(palio_covering, "number long, by long").toArrow().sort_by("number")
    index.release(spark)
    return np.asarray(found["by"].to_numpy())


def _search(matcher: Matcher) -> CoveringSearch:
    ids = matcher.numbered_ids()

    def filter_of(number: int) -> Filter:
        return matcher[ids[number].as_py()].filter

    return CoveringSearch(filter_of, len(ids), matcher)
