"""A stream gives each match once, with the version of the subscriptions that was written down for its batch."""

from __future__ import annotations

import logging
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from pyspark.errors import AnalysisException

from palio.errors import EventError, PipelineError
from palio.spark import DeltaSink, ParquetSink, SubscriptionLog, progress, stream
from palio.spark.sinks import Batch, Taken, delta
from palio.spark.streaming.journal import Journal
from tests.spark.streaming.flow import Flow, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    made = Flow(tmp_path)
    for name in range(3):
        made.add_events(name)
    return made


@pytest.mark.connect
def test_every_match_comes_once(spark: SparkSession, flow: Flow) -> None:
    log = write_log(flow, "price > 6", "symbol = 's1' AND price < 4", "TRUE")
    flow.run(spark, ParquetSink(flow.out))
    assert flow.versions() == [1, 1, 1]
    found = flow.parquet()
    assert found == flow.expected()
    assert max(found.values()) == 1
    assert sum(found.values()) > 40
    # More events later, with other subscriptions.
    log.remove("TRUE")
    log.replace("price > 6", "price > 11")
    log.add("new", "symbol = 's2'", subscriber="ada")
    log.commit()
    flow.add_events(3)
    flow.run(spark, ParquetSink(flow.out))
    assert flow.versions() == [1, 1, 1, 2]
    assert flow.parquet() == flow.expected()
    # What is read has the events' columns, who wanted them, and the batch.
    table = ds.dataset(flow.out, partitioning="hive").to_table()
    assert table.column_names == ["id", "price", "symbol", "subscription_id", "subscriber", "palio_batch"]
    rows = [row for row in table.to_pylist() if row["subscription_id"] == "new"]
    assert {row["subscriber"] for row in rows} == {"ada"}
    assert len({row["palio_batch"] for row in rows}) == 1
    # And Spark reads it too.
    assert spark.read.parquet(str(flow.out)).count() == table.num_rows
    # Nothing else lies about.
    assert {path.name for path in flow.out.parent.iterdir()} == {"events", "log", "checkpoint", "hits"}


def test_figures_are_told(spark: SparkSession, flow: Flow) -> None:
    write_log(flow, "price > 6", "TRUE")
    flow.run(spark, ParquetSink(flow.out))
    assert len(progress(flow.checkpoint)) == 1
    told = progress(flow.checkpoint, batches=10)
    assert [each.batch for each in told] == [0, 1, 2]
    assert [each.events for each in told] == [10, 10, 10]
    assert sum(each.matches or 0 for each in told) == sum(flow.parquet().values())
    last = told[-1]
    assert (last.version, last.subscriptions, last.refused, last.dead, last.lag) == (1, 2, 0, 0, None)
    assert last.totals == {"events": 30, "matches": sum(flow.parquet().values()), "dead": 0}
    assert set(last.seconds) == {"index", "sink"}
    assert last.duration >= 0
    assert last.events_per_second is not None
    assert last.events_per_second > 0


def test_delta_gets_each_batch_as_one_commit(spark: SparkSession, flow: Flow) -> None:
    from deltalake import DeltaTable

    write_log(flow, "price > 6", "symbol = 's1' AND price < 4")
    flow.run(spark, DeltaSink(flow.out))
    assert flow.delta() == flow.expected()
    table = DeltaTable(flow.out)
    journal = Journal(flow.checkpoint)
    assert table.transaction_version(journal.stream) == 2
    assert [entry.get("palio_version") for entry in table.history()] == ["1", "1", "1", None]
    # A batch that is there already makes no commit.
    batch = Batch(journal.stream, 2, 1, journal.begun(2).time)  # type: ignore[union-attr]
    assert DeltaSink(flow.out)(spark.sql("SELECT 1L AS id"), batch) is None
    assert DeltaTable(flow.out).version() == 3


@pytest.mark.parametrize("moment", ["while it is written", "just before the commit"])
def test_of_two_drivers_with_one_batch_one_commits_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """One that was thought dead, and the one that took over."""
    from deltalake import DeltaTable

    sink, rows = DeltaSink(tmp_path / "hits"), spark.sql("SELECT 2L AS id")
    sink(spark.sql("SELECT 1L AS id"), Batch("test", 0, 1, datetime.now(UTC)))
    batch, owner, name = Batch("test", 1, 1, datetime.now(UTC)), DeltaTable, "create_write_transaction"
    if moment == "while it is written":
        owner, name = delta, "write_parts"  # type: ignore[assignment]
    plain = getattr(owner, name)

    def after_the_other(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, plain)
        assert sink(rows, batch) == Taken(1)
        return plain(*arguments, **options)

    monkeypatch.setattr(owner, name, after_the_other)
    assert sink(rows, batch) is None
    table = DeltaTable(tmp_path / "hits")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    assert table.transaction_version("test") == 1


def test_moments_are_told_in_utc(spark: SparkSession, flow: Flow) -> None:
    rows = spark.sql("SELECT 1L AS id, struct(array(TIMESTAMP'2024-01-01 00:00:00Z') AS at) AS s, map(1, now()) AS m")
    batch = Batch("test", 0, 1, datetime.now(UTC))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        ParquetSink(flow.out)(rows, batch)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    schema = ds.dataset(flow.out).schema
    assert str(schema.field("s").type) == "struct<at: list<element: timestamp[us, tz=UTC] not null> not null>"
    assert "tz=UTC" in str(schema.field("m").type)


def test_a_condition_means_what_it_meant_when_it_was_added_whatever_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = SubscriptionLog(tmp_path / "log")
    log.add("there", "hour(at) = 22", timezone="America/New_York")
    log.add("nowhere", "hour(at) = 3")
    log.add("neither", "hour(at) = 22")
    log.commit()
    spark.sql("SELECT TIMESTAMP'2024-03-02 03:15:00Z' AS at").write.parquet(str(tmp_path / "events"))
    zone, found = spark.conf.get("spark.sql.session.timeZone"), list[str]()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        events = spark.readStream.schema("at timestamp").parquet(str(tmp_path / "events"))
        stream(
            events,
            log,
            lambda matches, batch: found.extend(row.subscription_id for row in matches.collect()),
            checkpoint=tmp_path / "checkpoint",
            trigger={"availableNow": True},
        ).awaitTermination()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert sorted(found) == ["nowhere", "there"]


def test_any_callable_is_a_sink(spark: SparkSession, flow: Flow) -> None:
    write_log(flow, "price > 6")
    seen: list[tuple[Batch, int]] = []

    def sink(matches: DataFrame, batch: Batch) -> None:
        seen.append((batch, matches.count()))

    flow.run(spark, sink, columns=["id"])
    assert [batch.number for batch, _ in seen] == [0, 1, 2]
    assert len({batch.key for batch, _ in seen}) == 3
    assert sum(count for _, count in seen) == sum(flow.expected().values())
    assert [(each.events, each.matches) for each in progress(flow.checkpoint, 3)] == [(None, None)] * 3


def test_a_batch_that_is_run_again_has_the_version_it_had(spark: SparkSession, flow: Flow) -> None:
    log = write_log(flow, "price > 6")

    def fails_once(matches: DataFrame, batch: Batch) -> object:
        if batch.number == 1 and not failed:
            failed.append(batch)
            # The batch has its version by now, and these come too late for it.
            log.replace("price > 6", "price > 100")
            log.add("late", "TRUE")
            log.commit()
            raise RuntimeError("the sink is out of order")
        return sink(matches, batch)

    failed: list[Batch] = []
    sink = ParquetSink(flow.out)
    with pytest.raises(Exception, match="out of order"):
        flow.run(spark, fails_once)
    flow.run(spark, fails_once)
    assert len(failed) == 1
    assert flow.versions() == [1, 1, 2]
    assert flow.parquet() == flow.expected()


def test_a_batch_that_is_published_but_not_done_is_not_published_again(spark: SparkSession, flow: Flow) -> None:
    write_log(flow, "price > 6")

    def dies_after(matches: DataFrame, batch: Batch) -> object:
        taken = ParquetSink(flow.out)(matches, batch)
        if batch.number == 1 and not died:
            died.append(batch)
            raise RuntimeError("killed")
        return taken

    died: list[Batch] = []
    with pytest.raises(Exception, match="killed"):
        flow.run(spark, dies_after)
    left = flow.out.parent / ".hits.drafts" / f"{died[0].key}.1234"
    left.mkdir(parents=True)
    (left / "part-00000.parquet").write_bytes(b"half")
    flow.run(spark, dies_after)
    assert flow.parquet() == flow.expected()
    assert not left.exists()
    # Nobody counted what was there already.
    assert [each.matches is None for each in progress(flow.checkpoint, 3)] == [False, True, False]


def test_changes_take_effect_within_one_trigger(spark: SparkSession, tmp_path: Path) -> None:
    """And from exactly the batch on whose version is written down; each of them is made in another way."""
    flow = Flow(tmp_path)
    log = write_log(flow, "price > 6", *(f"id = {id}" for id in range(50)))
    changes = [
        lambda: log.add("a", "symbol = 's0'", subscriber="ada"),
        lambda: log.replace("a", "symbol = 's1'"),
        lambda: (log.remove("a"), log.add("b", "price < 2")),
        lambda: [log.remove(f"id = {id}") for id in range(50)],  # most of them: the index is built anew
        lambda: (log.add("c", "TRUE"), log.commit(), log.compact(keep=timedelta(0)), log.remove("c")),
    ]
    query = flow.start(spark, ParquetSink(flow.out), trigger={"processingTime": "0 seconds"})
    try:
        for number, change in enumerate(changes):
            flow.add_events(number)
            query.processAllAvailable()
            assert flow.versions()[-1] == log.version
            change()
            log.commit()
        flow.add_events(len(changes))
        query.processAllAvailable()
    finally:
        query.stop()
    versions = flow.versions()
    assert versions == [1, 2, 3, 4, 5, 7]
    # The log has forgotten the versions before the compaction; the last batches can still be asked.
    found = flow.parquet()
    assert {id for id, who in found if who == "a"} == {
        *(id for id in range(1000, 1010) if id % 3 == 0),
        *(id for id in range(2000, 2010) if id % 3 == 1),
    }
    assert {id // 1000 for id, who in found if who == "b"} == {3, 4, 5}
    assert {id // 1000 for id, who in found if who == "price > 6"} == set(range(6))
    assert not [who for _, who in found if who == "c"]


def test_the_file_of_an_index_that_is_not_needed_any_more_is_removed(spark: SparkSession, flow: Flow) -> None:
    from palio.spark.shared_index import SharedIndex
    from palio.spark.streaming.indexes import Indexes

    log = write_log(flow, "price > 6 AND price < 1234567")  # as no other test has it
    indexes = Indexes(log)
    first = indexes.at(spark, 1)
    assert indexes.at(spark, 1) is first
    assert first.index is not None
    shared = SharedIndex.publish(spark, first.matcher)  # somebody else has the same
    log.add("a", "price = 1")
    log.commit()
    second = indexes.at(spark, 2)
    assert second.index is not None
    assert Path(first.index.path).exists()
    shared.release(spark)
    assert not Path(first.index.path).exists()
    assert second.matcher.match({"price": 1}) == {"a"}
    # Back to a version that was: built from the log.
    assert len(indexes.at(spark, 1).matcher.match({"price": 7})) == 1


def test_a_subscription_that_cannot_be_used_here_does_not_stop_the_others(
    spark: SparkSession, flow: Flow, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(flow, "price > 6")
    # As another Palio wrote it, with a language that is not installed here.
    monkeypatch.setattr("palio.spark.log.log._checked", lambda subscription: subscription)
    log.add("foreign", "price beyond 6", language="klingon")
    log.commit()
    with caplog.at_level(logging.WARNING, "palio.spark"):
        flow.run(spark, ParquetSink(flow.out))
    assert {who for _, who in flow.parquet()} == {"price > 6"}
    assert progress(flow.checkpoint)[0].refused == 1
    assert "subscription foreign is left out" in caplog.text


def test_a_new_checkpoint_is_a_new_stream(spark: SparkSession, flow: Flow) -> None:
    write_log(flow, "price > 6")
    flow.run(spark, ParquetSink(flow.out))
    once = flow.parquet()
    flow.checkpoint = flow.checkpoint.with_name("another")
    flow.run(spark, ParquetSink(flow.out))
    assert flow.parquet() == once + once


def test_another_log_is_not_taken_for_the_one_of_the_checkpoint(spark: SparkSession, flow: Flow) -> None:
    log = write_log(flow, "price > 6")
    log.add("a", "price = 1")
    log.commit()

    def fails(matches: DataFrame, batch: Batch) -> None:
        raise RuntimeError("not today")

    with pytest.raises(Exception, match="not today"):
        flow.run(spark, fails)
    flow.log = flow.log.with_name("other")
    other = write_log(flow, "price > 7")
    with pytest.raises(Exception, match=r"version 2 is not there; the latest is 1"):
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
    with pytest.raises(PipelineError, match="would go back from version 2 of the log to version 1"):
        Journal(flow.checkpoint).begin(8, older)


def test_records_of_long_ago_are_removed(spark: SparkSession, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.spark.streaming.journal.KEPT_BATCHES", 2)
    log = write_log(flow, "price > 6")
    flow.run(spark, ParquetSink(flow.out))
    journal = Journal(flow.checkpoint)
    assert [journal.begun(number) is not None for number in range(3)] == [False, True, True]
    assert [mark.batch for mark in journal.marks()] == [0]
    log.add("a", "price = 1")
    log.commit()
    flow.add_events(3)
    flow.run(spark, ParquetSink(flow.out))
    assert [(mark.version, mark.batch, mark.offsets) for mark in journal.marks()] == [
        (1, 0, None),
        (2, 3, [{"logOffset": 2}]),
    ]


def test_marks_of_versions_that_the_log_has_forgotten_are_forgotten(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palio.spark.streaming.journal.KEPT_BATCHES", 4)
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
    assert [mark.version for mark in journal.marks()] == [7, 8, 9]


def test_damage_to_the_journal_is_named(flow: Flow) -> None:
    write_log(flow, "price > 6")
    journal = Journal(flow.checkpoint)
    journal.begin(0, SubscriptionLog(flow.log))
    [record] = (flow.checkpoint / "palio" / "begun").iterdir()
    record.write_text("{")
    with pytest.raises(PipelineError, match=r"000000000000\.json is damaged"):
        journal.begun(0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"columns": ["nowhere"]}, "there is no column nowhere"),
        ({"json": ["nowhere"]}, "there is no column nowhere to read JSON from"),
        ({"sink": "hits"}, "a sink is called with matches and a batch"),
        ({"lateness": timedelta(hours=1)}, "say where late and malformed events go"),
        ({"lateness": timedelta(hours=1), "dead_letters": print}, "which column is the time"),
        ({"event_time": "nowhere", "dead_letters": print}, "there is no column nowhere"),
        ({"malformed": {"no": "nowhere > 1"}, "dead_letters": print}, "UNRESOLVED_COLUMN.*nowhere"),
        ({"subscriptions": "nowhere"}, "there is no subscription log at .*nowhere"),
        ({"events": "SELECT 1"}, "these events are no stream"),
        ({"rename": ("price", "Subscriber")}, "have a column subscriber already"),
        ({"rename": ("price", "palio_reason"), "dead_letters": print}, "a column palio_reason already"),
    ],
)
def test_what_makes_no_sense_is_refused(spark: SparkSession, flow: Flow, options: dict[str, Any], reason: str) -> None:
    write_log(flow, "price > 6")
    given: dict[str, Any] = {"subscriptions": flow.log, "sink": print, "checkpoint": flow.checkpoint, **options}
    rows = spark.sql(given.pop("events")) if "events" in given else flow.source(spark)
    if "rename" in given:
        rows = rows.withColumnRenamed(*given.pop("rename"))
    with pytest.raises((PipelineError, EventError, AnalysisException), match=reason):
        stream(rows, **given)


def test_parquet_is_for_disks(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="write it with DeltaSink"):
        ParquetSink("s3a://bucket/hits")
    assert ParquetSink(f"file://{tmp_path}").path == str(tmp_path)
    assert repr(ParquetSink(tmp_path)) == f"ParquetSink({str(tmp_path)!r})"
    assert repr(DeltaSink("s3a://bucket/hits")) == "DeltaSink('s3://bucket/hits')"


def test_what_is_done_with_a_batch_can_travel(flow: Flow) -> None:
    from palio.spark.streaming.stream import Job

    job = Job(str(flow.log), str(flow.checkpoint), ParquetSink(flow.out), None, (), None, None)
    assert job._at_hand is job._at_hand
    assert pickle.loads(pickle.dumps(job)).checkpoint == job.checkpoint
