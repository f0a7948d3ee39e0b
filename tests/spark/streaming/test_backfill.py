"""A subscription that is backfilled and then live is told of every event once, whenever it came and whoever died."""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from palio import InvalidSubscription, UnknownSubscription
from palio.errors import PipelineError
from palio.spark import DeltaSink, NatsSource, ParquetSink, SubscriptionLog, backfill, stream
from palio.spark.sinks.sink import Batch
from palio.spark.streaming.backfill import Handover, find_handover
from palio.spark.streaming.commit_journal import Journal, read_offsets
from tests.oracles.seeds import seeds
from tests.spark.nats_server import NatsServer, nats
from tests.spark.streaming.scenario import SCHEMA, StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["nats"]
ROWS = 10


def archive(spark: SparkSession) -> Any:
    def read(point: Handover) -> DataFrame:
        files = point.files()
        return spark.read.schema(SCHEMA).parquet(*files) if files else spark.createDataFrame([], SCHEMA)

    return read


def told(flow: StreamScenario, id: str) -> Counter[int]:
    return Counter(event for event, who in flow.parquet().elements() if who == id)


def everything(batches: int) -> Counter[int]:
    return Counter(batch * 1000 + row for batch in range(batches) for row in range(ROWS))


def test_past_and_future_meet_without_gap_or_repeat(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path / "a folder")
    log, sink = write_log(flow, "price > 6"), ParquetSink(flow.out)
    for batch in range(3):
        flow.add_events(batch)
    flow.run(spark, sink)
    log.add("new", "TRUE", subscriber="ada")
    log.commit()
    flow.add_events(3)
    # Before the stream has taken it over.
    done = backfill(archive(spark), log, sink, ["new"], checkpoint=flow.checkpoint)
    assert (done.handover.batch, done.events, done.matches) == (3, 30, 30)
    flow.run(spark, sink)
    assert told(flow, "new") == everything(4)
    # And again, after; nothing is told twice.
    again = backfill(archive(spark), log, sink, ["new"], checkpoint=flow.checkpoint)
    assert again.handover == done.handover
    assert again.matches is None
    assert told(flow, "new") == everything(4)
    # After the stream has taken it over: another, long after.
    log.add("newer", "price < 100")
    log.commit()
    flow.add_events(4)
    flow.run(spark, sink)
    log.add("unrelated", "price = 1")
    log.commit()
    flow.add_events(5)
    flow.run(spark, sink)
    late = backfill(archive(spark), log, sink, ["newer"], checkpoint=flow.checkpoint)
    assert (late.handover.batch, late.events) == (4, 40)
    assert told(flow, "newer") == everything(6)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed == 1 else [pytest.mark.deep]) for seed in seeds(1, 8)]
)
def test_a_stream_need_not_stop_for_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Events come, batches are planned and subscriptions are backfilled, all at once."""
    random, flow = Random(f"backfill {seed}"), StreamScenario(tmp_path)
    log, sink, batches = write_log(flow, "price > 6"), ParquetSink(flow.out), 10
    query = flow.start(spark, sink, trigger={"processingTime": "0 seconds"})

    def produce() -> None:
        for batch in range(batches):
            flow.add_events(batch)
            pause.wait(random.uniform(0, 0.8))

    pause = threading.Event()
    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for number in range(3):
            pause.wait(random.uniform(0, 1.5))
            log.add(f"new {number}", "TRUE")
            log.commit()
            backfill(archive(spark), log, sink, [f"new {number}"], checkpoint=flow.checkpoint)
        producer.join()
        query.processAllAvailable()
    finally:
        query.stop()
    for number in range(3):
        assert told(flow, f"new {number}") == everything(batches), number


def test_a_batch_that_is_planned_but_has_no_version_is_given_one(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    log, sink = write_log(flow, "price > 6"), ParquetSink(flow.out)
    flow.add_events(0)
    flow.add_events(1)
    flow.run(spark, sink)
    # As a driver leaves it that is killed right after Spark has planned batch 2.
    flow.add_events(2)
    flow.run(spark, sink)
    for name in ("2", ".2.crc"):
        (flow.checkpoint / "commits" / name).unlink()
    for record in ("begun", "done"):
        (flow.checkpoint / "palio" / record / "000000000002.json").unlink()
    for folder in flow.out.glob("*-000000000002"):
        folder.rename(tmp_path / "gone")
    log.add("new", "TRUE")
    log.commit()
    done = backfill(archive(spark), log, sink, ["new"], checkpoint=flow.checkpoint)
    assert done.handover.batch == 2
    log.add("later", "TRUE")
    log.commit()
    flow.run(spark, sink)
    assert flow.versions() == [1, 1, 2]
    assert told(flow, "new") == everything(3)


def test_one_that_dies_in_the_middle_does_it_again(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    log = write_log(flow, "price > 6")
    flow.add_events(0)
    flow.run(spark, DeltaSink(flow.out))
    log.add("new", "TRUE")
    log.commit()

    def dies(matches: DataFrame, batch: Batch) -> None:
        DeltaSink(flow.out)(matches, batch)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        backfill(archive(spark), log, dies, ["new"], checkpoint=flow.checkpoint)
    flow.add_events(1)
    flow.run(spark, DeltaSink(flow.out))
    assert backfill(archive(spark), log, DeltaSink(flow.out), ["new"], checkpoint=flow.checkpoint).matches is None
    assert Counter(id for id, who in flow.delta().elements() if who == "new") == everything(2)


def test_in_whatever_company_each_is_told_once(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    log, sink = write_log(flow, "price > 6"), ParquetSink(flow.out)
    flow.add_events(0)
    flow.run(spark, sink)
    for id in ("a", "b", "c"):
        log.add(id, "TRUE")
    log.commit()

    def ask(*ids: str, sink: Any = sink) -> int | None:
        return backfill(archive(spark), log, sink, ids, checkpoint=flow.checkpoint).matches

    def dies(matches: DataFrame, batch: Batch) -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        ask("b", "a", sink=dies)
    with pytest.raises(PipelineError, match=r"'b' was backfilled before.*ask for the others without it: c"):
        ask("b", "c")
    assert ask("c") == ROWS
    assert ask("b") == 2 * ROWS  # a too, as it was asked for
    assert ask("a") is None
    assert ask("a", "b") is None
    for id in ("a", "b", "c"):
        assert told(flow, id) == everything(1)
    log.replace("a", "price > 1")
    log.commit()
    with pytest.raises(PipelineError, match="'a' was backfilled as it was in version 2, and may have changed since"):
        ask("a")
    assert ask("b") is None
    assert len(list((flow.checkpoint / "palio" / "backfills").iterdir())) == 2


def test_who_asks_at_the_same_time_gets_one_answer(tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    write_log(flow, "a", "b", "c")
    found: list[tuple[str, ...]] = []

    def ask(*ids: str) -> None:
        try:
            found.append(find_handover(Journal(flow.checkpoint), SubscriptionLog(flow.log), ids).subscriptions)
        except PipelineError:
            found.append(())

    asking = [threading.Thread(target=ask, args=ids) for ids in 4 * [("a", "b"), ("b", "c"), ("a", "c")]]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(found) == 12
    assert Counter(found)[()] == 8
    assert len(set(found)) == 2


def test_before_the_stream_there_is_no_past(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    log = write_log(flow, "price > 6")
    flow.add_events(0)
    done = backfill(archive(spark), log, ParquetSink(flow.out), ["price > 6"], checkpoint=flow.checkpoint)
    assert (done.handover.batch, done.handover.offsets, done.events, done.matches) == (0, None, 0, 0)
    flow.run(spark, ParquetSink(flow.out))
    assert flow.parquet() == flow.expected()


def test_what_is_live_since_the_first_batch_has_no_past(spark: SparkSession, tmp_path: Path) -> None:
    """A call for it is a mistake, most likely in the id; an answer of 0 events would hide that."""
    flow = StreamScenario(tmp_path)
    log, sink = write_log(flow, "price > 6", "TRUE"), ParquetSink(flow.out)
    flow.add_events(0)
    flow.run(spark, sink)
    for _ in range(2):
        with pytest.raises(PipelineError, match="'TRUE' is live since the first batch of the stream; there are no"):
            backfill(archive(spark), log, sink, ["TRUE"], checkpoint=flow.checkpoint)
        log.add("new", "TRUE")
        log.commit()
        with pytest.raises(PipelineError, match="'TRUE' was live before batch 1"):
            backfill(archive(spark), log, sink, ["TRUE", "new"], checkpoint=flow.checkpoint)
        log.remove("new")
        log.commit()
    assert flow.parquet() == flow.expected()
    assert Journal(flow.checkpoint).records("backfills", Handover) == []


def test_messages_of_nats_are_the_past_too(spark: SparkSession, nats: NatsServer, tmp_path: Path) -> None:
    nats.make_stream("PAST", "past")
    spark.dataSource.register(NatsSource)
    log, sink = SubscriptionLog(tmp_path / "log"), ParquetSink(tmp_path / "hits")
    log.commit()
    options = {"servers": nats.url, "stream": "PAST"}

    def run() -> None:
        events = spark.readStream.format("nats").options(**options).load().select("sequence", "subject")
        stream(events, log, sink, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}).awaitTermination()

    def past(point: Handover) -> DataFrame:
        assert point.offsets is not None
        until = json.dumps(point.offsets[0])
        return spark.read.format("nats").options(**options, until=until).load().select("sequence", "subject")

    nats.publish("past", range(20))
    run()
    log.add("all", "TRUE")
    log.commit()
    nats.publish("past", range(5))  # these are for the stream
    assert backfill(past, log, sink, ["all"], checkpoint=tmp_path / "checkpoint").events == 20
    run()
    rows = spark.read.parquet(str(tmp_path / "hits")).collect()
    assert Counter(row.sequence for row in rows) == Counter(range(1, 26))


def test_what_was_live_before_is_not_told_again(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    log = write_log(flow, "price > 6", "gone")
    for name, change in enumerate(["remove", "replace", "add"]):
        flow.add_events(name)
        flow.run(spark, ParquetSink(flow.out))
        if change == "remove":
            log.remove("gone")
        elif change == "replace":
            log.replace("price > 6", "price > 5")
        else:
            log.add("gone", "TRUE")
            log.add("fine", "TRUE")
            log.add("old enough", "TRUE")
        log.commit()
    for id in ("price > 6", "gone"):
        with pytest.raises(PipelineError, match=f"subscription '{id}' was live before batch"):
            backfill(archive(spark), log, print, [id], checkpoint=flow.checkpoint)
    assert find_handover(Journal(flow.checkpoint), log, ["fine", "fine"]).batch == 3
    with pytest.raises(UnknownSubscription):
        backfill(archive(spark), log, print, ["nobody"], checkpoint=flow.checkpoint)
    with pytest.raises(PipelineError, match="as a list of ids, not 'fine'"):
        backfill(archive(spark), log, print, "fine", checkpoint=flow.checkpoint)
    with pytest.raises(PipelineError, match="an archive is read once"):
        backfill(lambda point: flow.source(spark), log, print, ["fine"], checkpoint=flow.checkpoint)
    # A log that was compacted may not know any more.
    log.add("newest", "TRUE")
    log.commit()
    log.compact(keep=timedelta(0))
    with pytest.raises(PipelineError, match="does not tell any more whether these subscriptions are new"):
        find_handover(Journal(flow.checkpoint), log, ["old enough"])
    log.add("newer yet", "TRUE")
    log.commit()
    assert find_handover(Journal(flow.checkpoint), log, ["newer yet"]).batch == 3


def test_a_subscription_that_cannot_be_used_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = StreamScenario(tmp_path)
    log = write_log(flow, "price > 6")
    # A log written by another version may hold what this one would refuse.
    monkeypatch.setattr("palio.spark.subscription_log._check_subscription", lambda subscription: subscription)
    log.add("foreign", "price beyond 6", language="klingon")
    log.commit()
    with pytest.raises(InvalidSubscription, match="klingon"):
        backfill(archive(spark), log, ParquetSink(flow.out), ["foreign"], checkpoint=flow.checkpoint)


def test_offsets_are_read_as_spark_writes_them() -> None:
    text = b'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}\n-\n12\n'
    assert read_offsets(text, "here") == [{"logOffset": 3}, None, 12]
    with pytest.raises(PipelineError, match="here is written in a form of Spark's that is not known here: b'v9'"):
        read_offsets(b"v9\n{}\n{}", "here")
    point = Handover(("a",), 1, 1, [12], "nowhere", datetime.now(UTC))
    with pytest.raises(PipelineError, match="source 0 of nowhere does not read files; its offset is 12"):
        point.files()
