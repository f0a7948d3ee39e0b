"""Commit journal of a stream: its identity, its progress, its size."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from palio.errors import PipelineError
from palio.spark import ParquetSink, SubscriptionLog, backfill
from palio.spark.sinks.sink import Batch
from palio.spark.streaming.backfill import Handover
from palio.spark.streaming.commit_journal import Journal
from palio.spark.streaming.stream import Job
from tests.spark.streaming.scenario import StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_new_checkpoint_is_a_new_stream(spark: SparkSession, flow: StreamScenario) -> None:
    write_log(flow, "price > 6")
    flow.run(spark, ParquetSink(flow.out))
    once = flow.parquet()
    flow.checkpoint = flow.checkpoint.with_name("another")
    flow.run(spark, ParquetSink(flow.out))
    assert flow.parquet() == once + once


def test_another_log_is_not_taken_for_the_one_of_the_checkpoint(spark: SparkSession, flow: StreamScenario) -> None:
    log = write_log(flow, "price > 6")
    log.add("a", "price = 1")
    log.commit()

    def fails(matches: DataFrame, batch: Batch) -> None:
        raise RuntimeError("not today")

    with pytest.raises(Exception, match="not today"):
        flow.run(spark, fails)
    flow.log = flow.log.with_name("other")
    other = write_log(flow, "price > 7")
    with pytest.raises(Exception, match=r"has come to version 2 .* ends with version 1"):
        flow.run(spark, ParquetSink(flow.out))
    other.add("a", "price = 1")
    other.commit()
    with pytest.raises(Exception, match="this is not the subscription log"):
        flow.run(spark, ParquetSink(flow.out))
    # Nor for a batch that has no version yet.
    with pytest.raises(PipelineError, match="version 2 is another"):
        Journal(flow.checkpoint).begin(7, SubscriptionLog(flow.log))
    older = SubscriptionLog(flow.log.with_name("older"))
    older.commit()
    with pytest.raises(PipelineError, match="has come to version 2 of its subscription log"):
        Journal(flow.checkpoint).begin(8, older)


def test_one_start_with_another_log_does_no_harm(spark: SparkSession, flow: StreamScenario) -> None:
    """Neither of a stream nor of a backfill, neither with as many versions as the right log nor with more."""
    right = write_log(flow, "price > 6")
    flow.run(spark, ParquetSink(flow.out))
    flow.add_events(3)
    own, flow.log = flow.log, flow.log.with_name("other")
    other = write_log(flow, "price > 7")
    before = sorted(flow.checkpoint.rglob("palio/*/*"))

    def archive(point: Handover) -> DataFrame:
        raise AssertionError("nothing is read for a stranger")

    for number in range(2):
        with pytest.raises(Exception, match="this is not the subscription log"):
            flow.run(spark, ParquetSink(flow.out))
        with pytest.raises(PipelineError, match="this is not the subscription log"):
            backfill(archive, other, ParquetSink(flow.out), ["price > 7"], checkpoint=flow.checkpoint)
        other.add(f"later {number}", "price = 1")
        other.commit()
    assert sorted(flow.checkpoint.rglob("palio/*/*")) == before
    flow.log = own
    right.add("b", "price = 2")
    right.commit()
    flow.run(spark, ParquetSink(flow.out))
    assert flow.versions() == [1, 1, 1, 2]
    assert flow.parquet() == flow.expected()


def test_a_log_that_was_compacted_is_still_known(flow: StreamScenario) -> None:
    right, journal = write_log(flow, "price > 6"), Journal(flow.checkpoint)
    journal.begin(0, right)
    flow.log = flow.log.with_name("other")
    other = write_log(flow, "price > 7")
    (flow.checkpoint / "offsets").mkdir()
    (flow.checkpoint / "offsets" / "0").write_text("v1\n{}\n0\n")
    for log in (right, other):
        log.add("a", "price = 1")
        log.commit()
        log.compact(keep=timedelta(0))
        assert log.oldest == 2
    with pytest.raises(PipelineError, match="version 1 is another"):
        journal.begin(1, other)
    assert journal.begin(1, right).version == 2


def test_a_checkpoint_without_the_part_of_sparks_is_refused(spark: SparkSession, flow: StreamScenario) -> None:
    """Spark would count batches from 0 again, and those would be taken for done."""
    log = write_log(flow, "price > 6")
    flow.run(spark, ParquetSink(flow.out))
    away = flow.checkpoint.with_name("away")
    away.mkdir()
    parts = ("offsets", "commits", "sources", "metadata")
    for name in parts:
        (flow.checkpoint / name).rename(away / name)
    with pytest.raises(PipelineError, match=r"batch 2 was begun, and Spark's own record of it .* is gone"):
        flow.run(spark, ParquetSink(flow.out))
    with pytest.raises(PipelineError, match="Spark's own record of it"):
        backfill(lambda point: spark.range(1), log, ParquetSink(flow.out), ["price > 6"], checkpoint=flow.checkpoint)
    # Nor is a batch of the same number, planned by Spark at another time, the one that was done.
    (flow.checkpoint / "offsets").mkdir()
    there = (away / "offsets" / "2").read_text()
    (flow.checkpoint / "offsets" / "2").write_text(there.replace('"batchTimestampMs":1', '"batchTimestampMs":2'))
    with pytest.raises(PipelineError, match="is gone or another"):
        Job(str(flow.log), str(flow.checkpoint), print, None, (), None, None)(flow.source(spark), 2)
    (flow.checkpoint / "offsets" / "2").unlink()
    (flow.checkpoint / "offsets").rmdir()
    # Nothing was done to it: brought back, it goes on.
    for name in parts:
        (away / name).rename(flow.checkpoint / name)
    flow.add_events(3)
    flow.run(spark, ParquetSink(flow.out))
    assert flow.parquet() == flow.expected()


def test_records_of_long_ago_are_removed(
    spark: SparkSession, flow: StreamScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palio.spark.streaming.commit_journal.RETAINED_BATCHES", 2)
    log = write_log(flow, "price > 6")
    flow.run(spark, ParquetSink(flow.out))
    journal = Journal(flow.checkpoint)
    assert [journal.begun(number) is not None for number in range(3)] == [False, True, True]
    assert [mark.batch for mark in journal.version_starts()] == [0]
    log.add("a", "price = 1")
    log.commit()
    flow.add_events(3)
    flow.run(spark, ParquetSink(flow.out))
    assert [(mark.version, mark.batch, mark.offsets) for mark in journal.version_starts()] == [
        (1, 0, None),
        (2, 3, [{"logOffset": 2}]),
    ]


def test_marks_of_versions_that_the_log_has_forgotten_are_forgotten(
    flow: StreamScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palio.spark.streaming.commit_journal.RETAINED_BATCHES", 4)
    log, journal = write_log(flow, "price > 6"), Journal(flow.checkpoint)
    offsets = flow.checkpoint / "offsets"
    offsets.mkdir(parents=True)
    for batch in range(9):
        (offsets / str(batch)).write_text(f"v1\n{{}}\n{batch}\n")
        journal.begin(batch, log)
        log.add(f"new {batch}", "price = 1")
        log.commit()
        if batch == 6:
            log.compact(keep=timedelta(0))
    assert log.oldest == 8
    # One that is gone from the log says that there were any.
    assert [mark.version for mark in journal.version_starts()] == [7, 8, 9]


def test_damage_to_the_journal_is_named(flow: StreamScenario) -> None:
    write_log(flow, "price > 6")
    journal = Journal(flow.checkpoint)
    journal.begin(0, SubscriptionLog(flow.log))
    [record] = (flow.checkpoint / "palio" / "begun").iterdir()
    record.write_text("{")
    with pytest.raises(PipelineError, match=r"000000000000\.json is damaged"):
        journal.begun(0)
