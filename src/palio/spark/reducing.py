"""`covering`: which subscriptions could go, because another one covers them, and which are left.

Conjunctions of intervals, which nearly all subscriptions are, the driver compares as boxes of integers
(`palio.covering.boxes`): a million in seconds, less than it takes to read them. The others, and whoever is left of the
boxes, go the long way (`palio.covering.maximal`): one index of them is shared by the workers, each of which looks for
those that cover its stretch. Who covers whom comes back as numbers; the driver follows the chains to their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.covering.boxes import Boxes
from palio.covering.maximal import CoveringSearch, widest
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscriptions
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import OnError, Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ints = npt.NDArray[np.int64]


def covering(
    spark: SparkSession, subscriptions: Any, *, partitions: int | None = None, on_error: OnError = "quarantine"
) -> DataFrame:
    """A row for each subscription: its `id`, and in `covered_by` the id of one that covers it and is itself maximal.

    Those without one are the maximal elements: whoever is told of what they match is told of what any of the others
    matches. Of subscriptions that cover each other the first stays. Exact as `Filter.covers` is.
    """
    given = Wants.read(spark, subscriptions, on_error=on_error).matcher.subscriptions()
    boxes = Boxes.read(given)
    own = boxes.covered_by()
    by = np.full(len(given), -1, np.int64)
    by[boxes.numbers] = np.where(own >= 0, boxes.numbers[own], -1)
    if len(boxes.numbers) < len(given):
        left = np.flatnonzero(by < 0)
        found = _compared(spark, given.at(left.tolist()), partitions)
        by[left] = np.where(found >= 0, left[found], -1)
    by = widest(by)
    ids = pa.array(given.ids, pa.string())
    rows = pa.table({"id": ids, "covered_by": ids.take(pa.array(by, mask=by < 0))})
    return spark.createDataFrame(rows, "id string, covered_by string")


def _compared(spark: SparkSession, subscriptions: Subscriptions, partitions: int | None) -> Ints:
    """For each subscription another one that covers it, or -1, found by the workers."""
    matcher = Matcher()
    matcher.add_subscriptions([subscriptions[at] for at in range(len(subscriptions))])
    index = SharedIndex.publish(spark, matcher)

    def palio_covering(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = _search(index.open())
        for batch in batches:
            found = search.covered_by(batch.column(0).to_pylist())
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(found, pa.int64())], ["number", "by"])

    numbers = spark.range(0, len(subscriptions), 1, partitions)
    found = numbers.mapInArrow(palio_covering, "number long, by long").toArrow().sort_by("number")
    index.release(spark)
    return np.asarray(found["by"].to_numpy())


def _search(matcher: Matcher) -> CoveringSearch:
    ids = matcher.numbered_ids()

    def filter_of(number: int) -> Filter:
        return matcher[ids[number].as_py()].filter

    return CoveringSearch(filter_of, len(ids), matcher)
