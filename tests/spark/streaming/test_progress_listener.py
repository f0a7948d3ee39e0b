"""Spark's own listener gets the result of each batch with Spark's report of it, through Connect too."""

from __future__ import annotations

from queue import Queue
from typing import TYPE_CHECKING

import pytest

from palio.spark import ParquetSink, ProgressListener, progress
from tests.spark.streaming.scenario import StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from palio.spark.streaming.commit_journal import Progress

_HANG_GUARD_SECONDS = 300.0


@pytest.mark.connect
def test_a_listener_gets_version_matches_and_lag_of_each_batch(spark: SparkSession, flow: StreamScenario) -> None:
    write_log(flow, "price > 6", "TRUE")
    # Another query of the session is none of its business.
    other = StreamScenario(flow.out.parent / "other")
    other.add_events(0)
    write_log(other, "TRUE")
    seen: Queue[tuple[StreamingQueryProgress, Progress]] = Queue()
    listener = ProgressListener(flow.checkpoint, lambda report, result: seen.put((report, result)))
    spark.streams.addListener(listener)
    try:
        other.run(spark, ParquetSink(other.out))
        flow.run(spark, ParquetSink(flow.out))
        found = [seen.get(timeout=_HANG_GUARD_SECONDS) for _ in range(3)]
    finally:
        spark.streams.removeListener(listener)
    assert seen.empty()
    assert [report.batchId for report, _ in found] == [0, 1, 2]
    assert [report.numInputRows for report, _ in found] == [10, 10, 10]
    assert [result for _, result in found] == progress(flow.checkpoint, 3)
    assert sum(result.matches or 0 for _, result in found) == flow.parquet().total()
