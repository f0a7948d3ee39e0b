"""A stream gives each match once, and tells what came of it."""

from __future__ import annotations

import logging
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.dataset as ds
import pytest
from pyspark.errors import AnalysisException

from palio.errors import EventError, PipelineError
from palio.spark import DeltaSink, ParquetSink, SubscriptionLog, progress, stream
from palio.spark.sinks.sink import Batch
from palio.spark.streaming.stream import MAX_START_ATTEMPTS, _start
from tests.oracles.spark_answers import session_zone
from tests.spark.streaming.scenario import StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.connect
def test_every_match_comes_once(spark: SparkSession, flow: StreamScenario) -> None:
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


def test_conditions_of_a_stream_have_the_alias_of_its_events_and_the_types_of_columns(
    spark: SparkSession, flow: StreamScenario
) -> None:
    conditions = ["e.price > 6", "split(symbol, 's')[1] > 1", "price + 2147483640 > 0"]
    write_log(flow, *conditions)
    source = flow.source(spark).alias("e")
    trigger = {"availableNow": True}
    query = stream(source, flow.log, ParquetSink(flow.out), checkpoint=flow.checkpoint, trigger=trigger)
    query.awaitTermination()
    rows = spark.read.parquet(str(flow.events)).alias("e")
    expected = {(row["id"], each) for each in conditions[:2] for row in rows.where(each).collect()}
    # What overflows an INT raises in Spark's own query.
    expected |= {(row["id"], conditions[2]) for row in rows.where("price <= 7").collect()}
    assert set(flow.parquet()) == expected
    assert len({each for _, each in expected}) == 3


def test_figures_are_told(spark: SparkSession, flow: StreamScenario) -> None:
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


@pytest.mark.parametrize("kind", [ParquetSink, DeltaSink])
def test_figures_are_told_of_a_batch_whose_driver_died_before_it_could_tell(
    spark: SparkSession, flow: StreamScenario, kind: type[ParquetSink] | type[DeltaSink]
) -> None:
    write_log(flow, "price > 6", "TRUE")
    flow.run(spark, kind(flow.out), malformed={"odd": "id = 2001"}, dead_letters=kind(flow.dead))
    before = progress(flow.checkpoint, 3)
    # As a driver leaves it that is killed between the sink's commit and its own.
    for name in ("2", ".2.crc"):
        (flow.checkpoint / "commits" / name).unlink()
    (flow.checkpoint / "palio" / "done" / "000000000002.json").unlink()
    flow.run(spark, kind(flow.out), malformed={"odd": "id = 2001"}, dead_letters=kind(flow.dead))
    after = progress(flow.checkpoint, 3)
    told = [
        [(each.batch, each.events, each.matches, each.dead, each.totals) for each in run] for run in (before, after)
    ]
    assert told[0] == told[1]
    assert (after[-1].events, after[-1].dead) == (10, 1)
    assert after[-1].matches


def test_moments_are_told_in_utc(spark: SparkSession, flow: StreamScenario) -> None:
    rows = spark.sql("SELECT 1L AS id, struct(array(TIMESTAMP'2024-01-01 00:00:00Z') AS at) AS s, map(1, now()) AS m")
    batch = Batch("test", 0, 1, datetime.now(UTC))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        ParquetSink(flow.out)(rows, batch)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    schema = ds.dataset(flow.out).schema
    assert str(schema.field("s").type) == "struct<at: list<element: timestamp[us, tz=UTC]>>"
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


def test_any_callable_is_a_sink(spark: SparkSession, flow: StreamScenario) -> None:
    write_log(flow, "price > 6")
    seen: list[tuple[Batch, int]] = []

    def sink(matches: DataFrame, batch: Batch) -> None:
        seen.append((batch, matches.count()))

    flow.run(spark, sink, columns=["id"])
    assert [batch.number for batch, _ in seen] == [0, 1, 2]
    assert len({batch.key for batch, _ in seen}) == 3
    assert sum(count for _, count in seen) == sum(flow.expected().values())
    assert [(each.events, each.matches) for each in progress(flow.checkpoint, 3)] == [(None, None)] * 3


def test_a_subscription_that_cannot_be_used_here_does_not_stop_the_others(
    spark: SparkSession, flow: StreamScenario, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(flow, "price > 6")
    # As another Palio wrote it, with a language that is not installed here.
    # A log written by another version may hold what this one would refuse.
    monkeypatch.setattr("palio.spark.subscription_log._check_subscription", lambda subscription: subscription)
    log.add("foreign", "price beyond 6", language="klingon")
    log.commit()
    with caplog.at_level(logging.WARNING, "palio.spark"):
        flow.run(spark, ParquetSink(flow.out))
    assert {who for _, who in flow.parquet()} == {"price > 6"}
    assert progress(flow.checkpoint)[0].refused == 1
    assert "subscription foreign is left out" in caplog.text


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
def test_what_makes_no_sense_is_refused(
    spark: SparkSession, flow: StreamScenario, options: dict[str, Any], reason: str
) -> None:
    write_log(flow, "price > 6")
    given: dict[str, Any] = {"subscriptions": flow.log, "sink": print, "checkpoint": flow.checkpoint, **options}
    rows = spark.sql(given.pop("events")) if "events" in given else flow.source(spark)
    if "rename" in given:
        rows = rows.withColumnRenamed(*given.pop("rename"))
    with pytest.raises((PipelineError, EventError, AnalysisException), match=reason):
        stream(rows, **given)


@pytest.mark.parametrize("kind", [ParquetSink, DeltaSink])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("INTERVAL '1' DAY", "interval day"),
        ("array(make_interval(1))", "array<interval>"),
        ("named_struct('v', parse_json('{}'))", "struct<v:variant>"),
        ("NULL", "void"),
    ],
)
def test_a_column_that_a_sink_cannot_keep_is_refused_before_the_stream_starts(
    spark: SparkSession, flow: StreamScenario, kind: type[ParquetSink] | type[DeltaSink], value: str, shown: str
) -> None:
    write_log(flow, "price > 6")
    events, sink = flow.source(spark).selectExpr("*", f"{value} AS odd"), kind(flow.out)
    reason = rf"Sink\('.*/hits'\) cannot keep the column odd, of type {shown}"
    with pytest.raises(PipelineError, match=reason):
        stream(events, flow.log, sink, checkpoint=flow.checkpoint)
    with pytest.raises(PipelineError, match=reason):
        stream(events, flow.log, print, checkpoint=flow.checkpoint, columns=["id"], dead_letters=sink)
    with pytest.raises(PipelineError, match=reason):
        sink(spark.sql(f"SELECT {value} AS odd"), Batch("test", 0, 1, datetime.now(UTC)))
    assert not flow.checkpoint.exists()


def test_parquet_is_for_disks(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="write it with DeltaSink"):
        ParquetSink("s3a://bucket/hits")
    assert ParquetSink(f"file://{tmp_path}").path == str(tmp_path)
    assert repr(ParquetSink(tmp_path)) == f"ParquetSink({str(tmp_path)!r})"
    assert repr(DeltaSink("s3a://bucket/hits")) == "DeltaSink('s3://bucket/hits')"


def test_what_is_done_with_a_batch_can_travel(flow: StreamScenario) -> None:
    from palio.spark.streaming.stream import Job

    job = Job(str(flow.log), str(flow.checkpoint), ParquetSink(flow.out), None, (), None, None)
    # What is kept across batches must not travel with the pickled job.
    assert job._state is job._state
    assert pickle.loads(pickle.dumps(job)).checkpoint == job.checkpoint


def test_times_without_a_zone_and_beyond_all_years_are_matched_in_every_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    clocks = "n = TIMESTAMP_NTZ'2024-03-01 22:15:00'", "n = '2024-03-01 22:15:00'", "hour(n) = 22", "n = t"
    log = SubscriptionLog(tmp_path / "log")
    for each in (*clocks, "year(t) > 2000 AND id + 1 > 1"):
        log.add(each, each)
    log.commit()
    with session_zone(spark, "America/New_York"):
        rows = spark.sql(
            "SELECT 1 AS id, TIMESTAMP_NTZ'2024-03-01 22:15:00' AS n, TIMESTAMP'9999-12-31 23:59:59' AS t "
            "UNION ALL SELECT 2, TIMESTAMP_NTZ'9999-12-31 23:59:59', TIMESTAMP'2024-03-01 22:15:00Z'"
        )
        rows.write.parquet(str(tmp_path / "events"))
        events = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "events"))
        sink = ParquetSink(tmp_path / "out")
        query = stream(events, log, sink, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True})
        query.awaitTermination()
    table = ds.dataset(tmp_path / "out").to_table(["id", "subscription_id"])
    found = {(row["id"], row["subscription_id"]) for row in table.to_pylist()}
    assert found == {*((1, each) for each in clocks[:3]), *((id, "year(t) > 2000 AND id + 1 > 1") for id in (1, 2))}


class _Writer:
    """Stands for Spark's writer: its first starts fail with these errors."""

    def __init__(self, *errors: str) -> None:
        self._errors = list(errors)

    def start(self) -> str:
        if self._errors:
            raise RuntimeError(self._errors.pop(0))
        return "started"


# Spark's timeout cannot be provoked without a machine that is really slow, so the loop is called by itself.
def test_a_start_for_which_a_worker_was_too_slow_is_repeated() -> None:
    slow = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back."
    assert _start(cast("Any", _Writer(slow, slow))) == "started"
    with pytest.raises(RuntimeError, match="failed to connect back"):
        _start(cast("Any", _Writer(*[slow] * MAX_START_ATTEMPTS)))
    with pytest.raises(RuntimeError, match="no such table"):
        _start(cast("Any", _Writer("no such table", "never raised")))
