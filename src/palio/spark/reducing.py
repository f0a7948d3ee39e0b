"""`covering`: which subscriptions could go, because another one covers them, and which are left.

One index of all is shared by the workers, and each looks for those that cover its stretch of subscriptions
(`palio.covering.maximal`). Who covers whom comes back as numbers; the driver follows the chains to their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from palio.covering.maximal import CoveringSearch, widest
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import OnError, Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def covering(
    spark: SparkSession, subscriptions: Any, *, partitions: int | None = None, on_error: OnError = "quarantine"
) -> DataFrame:
    """A row for each subscription: its `id`, and in `covered_by` the id of one that covers it and is itself maximal.

    Those without one are the maximal elements: whoever is told of what they match is told of what any of the others
    matches. Of subscriptions that cover each other the first stays. Exact as `Filter.covers` is.
    """
    wants = Wants.read(spark, subscriptions, on_error=on_error)
    index = SharedIndex.publish(spark, wants.matcher)

    def palio_covering(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        search = _search(index.open())
        for batch in batches:
            found = search.covered_by(batch.column(0).to_pylist())
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(found, pa.int64())], ["number", "by"])

    ids = wants.matcher.numbered_ids()
    numbers = spark.range(0, len(ids), 1, partitions)
    found = numbers.mapInArrow(palio_covering, "number long, by long").toArrow().sort_by("number")
    by = widest(found["by"].to_numpy()) if len(ids) else np.empty(0, np.int64)
    covered_by = ids.take(pa.array(by, mask=by < 0))
    rows = pa.table({"id": ids, "covered_by": covered_by})
    return spark.createDataFrame(rows, "id string, covered_by string")


def _search(matcher: Matcher) -> CoveringSearch:
    ids = matcher.numbered_ids()

    def filter_of(number: int) -> Filter:
        return matcher[ids[number].as_py()].filter

    return CoveringSearch(filter_of, len(ids), matcher)
