"""NATS JetStream as a source: every message once, through restarts of the driver, of the stream and of the server."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

from palio.cli.spark.event_source import Messages
from palio.errors import PipelineError
from palio.spark import NatsSource, PalioSource, ParquetSink, SubscriptionLog, stream
from palio.spark.sources.nats import JetStream
from palio.spark.sources.offset_reader import OffsetRange, OffsetReader, OffsetStreamReader, ReadOptions
from tests.spark.nats_server import NatsServer, nats
from tests.spark.restarts import run_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["nats"]


# The readers, over a place that is a list


class Shelf:
    """Two parts, with the numbers that they hold."""

    def __init__(self, **parts: tuple[int, int]) -> None:
        self.parts = parts

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        return dict(self.parts)

    def read(self, part: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"part": [part] * (stop - start), "number": list(range(start, stop))})


def everything(shelf: Shelf, pieces: list[OffsetRange]) -> Counter[tuple[str, int]]:
    return Counter(
        (row["part"], row["number"])
        for piece in pieces
        for batch in shelf.read(piece.part, piece.start, piece.stop)
        for row in batch.to_pylist()
    )


class Limit:
    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows


@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    size=st.integers(1, 5),
    most=st.integers(1, 7),
)
def test_batches_follow_one_another_without_gap_or_overlap(steps: list[tuple[int, int]], size: int, most: int) -> None:
    shelf = Shelf(a=(1, 1), b=(5, 5))
    reader = OffsetStreamReader(shelf, ReadOptions(rows_per_partition=size))
    offset, found = reader.initialOffset(), Counter[tuple[str, int]]()
    for more_a, more_b in [*steps, *[(0, 0)] * 200]:
        shelf.parts = {"a": (1, shelf.parts["a"][1] + more_a), "b": (5, shelf.parts["b"][1] + more_b)}
        after = reader.latestOffset(offset, Limit(most))
        pieces = [each for each in reader.partitions(offset, after) if isinstance(each, OffsetRange)]
        got = everything(shelf, pieces)
        assert got.total() <= most
        assert all(piece.stop - piece.start <= size for piece in pieces)
        # The same again, as after a restart.
        assert list(reader.partitions(json.loads(json.dumps(offset)), after)) == pieces
        found += got
        offset = after
    there = [(part, number) for part, (low, high) in shelf.parts.items() for number in range(low, high)]
    assert found == Counter(there)


def test_a_query_that_ends_ends_with_what_was_there() -> None:
    shelf = Shelf(a=(1, 4))
    reader = OffsetStreamReader(shelf, ReadOptions(rows_per_batch=2))
    reader.prepareForTriggerAvailableNow()
    shelf.parts = {"a": (1, 9)}
    assert reader.latestOffset({"a": 1}, Limit(2)) == {"a": 3}
    assert reader.latestOffset({"a": 3}, Limit(2)) == {"a": 4}
    assert reader.latestOffset() == {"a": 4}  # as before Spark 4.2
    assert reader.reportLatestOffset() == {"a": 9}


def test_batches_are_limited_where_spark_can() -> None:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource")
    shelf = Shelf(a=(1, 4))
    reader = OffsetStreamReader(shelf, ReadOptions(rows_per_batch=2))
    assert reader.getDefaultReadLimit() == limits.ReadMaxRows(2)
    assert OffsetStreamReader(shelf, ReadOptions()).getDefaultReadLimit() == limits.ReadAllAvailable()
    assert reader.latestOffset({"a": 1}, limits.ReadMaxRows(2)) == {"a": 3}
    assert reader.latestOffset({"a": 1}, limits.ReadAllAvailable()) == {"a": 4}


@pytest.mark.parametrize(
    ("start", "first"), [("earliest", {"a": 2, "b": 1}), ("latest", {"a": 9, "b": 3}), ('{"a": 5}', {"a": 5, "b": 1})]
)
def test_reading_begins_where_it_is_told(start: str, first: dict[str, int]) -> None:
    shelf = Shelf(a=(2, 9), b=(1, 3))
    assert OffsetStreamReader(shelf, ReadOptions(start)).initialOffset() == first


def test_what_is_gone_before_it_was_read_is_told() -> None:
    shelf = Shelf(a=(5, 9))
    with pytest.raises(PipelineError, match="a has removed its events 2 to 4 before they were read"):
        ReadOptions().plan_ranges(shelf, {"a": 2}, {"a": 9})
    assert ReadOptions(on_loss="skip").plan_ranges(shelf, {"a": 2}, {"a": 9}) == [OffsetRange("a", 5, 9)]
    assert ReadOptions().plan_ranges(shelf, {"a": 2}, {"a": 2}) == []


def test_a_batch_ends_where_it_is_told() -> None:
    shelf = Shelf(a=(1, 9), b=(1, 3))
    reader = OffsetReader(shelf, ReadOptions(until='{"a": 4}'))
    pieces = [each for each in reader.partitions() if isinstance(each, OffsetRange)]
    assert pieces == [OffsetRange("a", 1, 4), OffsetRange("b", 1, 3)]
    assert sum(batch.num_rows for piece in pieces for batch in reader.read(piece)) == 5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"onLoss": "cry"}, "onLoss is fail or skip"),
        ({"maxRowsPerBatch": "many"}, "maxRowsPerBatch is a number of rows"),
        ({"rowsPerPartition": "0"}, "rowsPerPartition is a number of rows"),
        ({"start": "yesterday"}, "start is offsets as JSON"),
        ({"start": '{"c": 1}'}, "start names c, which is not here; there is a"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        ReadOptions.from_options(options).first({"a": (1, 2)})


@pytest.mark.parametrize(
    ("source", "address"),
    [(NatsSource, "nats://localhost/NAME?strat=latest"), (PalioSource, "palio://host?strat=latest")],
)
def test_options_that_a_source_does_not_have_are_refused(
    spark: SparkSession, source: type[DataSource], address: str
) -> None:
    """A mistyped `where` would read everything."""
    spark.dataSource.register(source)
    with pytest.raises(AnalysisException, match="has no option 'strat'; is start meant"):
        spark.read.format(source.name()).option("strat", "latest").load()
    with pytest.raises(PipelineError, match="has no option 'strat'; is start meant"):
        Messages.at(address, {})


# A real server


def source(spark: SparkSession, nats: NatsServer, stream: str, **options: Any) -> DataFrame:
    spark.dataSource.register(NatsSource)
    reader = spark.readStream.format("nats").options(servers=nats.url, stream=stream, **options)
    read = reader.load().selectExpr("sequence", "subject", "from_json(cast(data AS STRING), 'id long, price int') AS o")
    return read.select("sequence", "subject", "o.*")


def pairs(out: Path, spark: SparkSession) -> Counter[tuple[int, str]]:
    rows = spark.read.parquet(str(out)).select("id", "subscription_id").collect()
    return Counter((row.id, row.subscription_id) for row in rows)


def test_every_message_comes_once_through_a_restart(spark: SparkSession, nats: NatsServer, tmp_path: Path) -> None:
    nats.make_stream("ORDERS", "orders.>")
    log = SubscriptionLog(tmp_path / "log")
    log.add("dear", "price > 6")
    log.add("one", "subject = 'orders.one'")
    log.commit()

    def run() -> None:
        events = source(spark, nats, "ORDERS", maxRowsPerBatch=40, rowsPerPartition=15)
        hits, checkpoint = ParquetSink(tmp_path / "hits"), tmp_path / "checkpoint"
        run_to_end(lambda: stream(events, log, hits, checkpoint=checkpoint, trigger={"availableNow": True}))

    nats.publish("orders.one", [{"id": id, "price": id % 10} for id in range(70)])
    run()
    nats.kill()  # and with it all that was in memory
    nats.start()
    nats.publish("orders.two", [{"id": id, "price": id % 10} for id in range(70, 100)])
    run()
    run()
    expected = Counter({(id, "dear"): 1 for id in range(100) if id % 10 > 6} | {(id, "one"): 1 for id in range(70)})
    assert pairs(tmp_path / "hits", spark) == expected


def test_a_batch_reads_what_is_there(spark: SparkSession, nats: NatsServer) -> None:
    nats.make_stream("READ", "read.>")
    nats.publish("read.a", [{"id": id} for id in range(25)])
    nats.publish("read.b", [{"id": id} for id in range(25, 30)])
    nats.run(lambda jetstream: jetstream.delete_msg("READ", 3))
    nats.run(lambda jetstream: jetstream.delete_msg("READ", 30))
    spark.dataSource.register(NatsSource)
    reader = spark.read.format("nats").options(servers=nats.url, stream="READ", rowsPerPartition=10)
    rows = reader.load().orderBy("sequence").collect()
    assert [row.sequence for row in rows] == [number for number in range(1, 30) if number != 3]
    assert rows[0].asDict() == {
        "stream": "READ",
        "subject": "read.a",
        "sequence": 1,
        "time": rows[0].time,
        "headers": {"kind": "test"},
        "data": b'{"id": 0}',
    }
    assert reader.option("subject", "read.b").load().count() == 4
    assert reader.option("subject", "read.b").option("until", '{"READ": 28}').load().count() == 2
    assert reader.option("until", '{"READ": 10}').option("subject", "read.a").load().count() == 8
    assert reader.option("subject", "read.nothing").load().count() == 0


def test_what_a_stream_let_go_of_is_told(nats: NatsServer) -> None:
    nats.make_stream("SHORT", "short", max_msgs=5)
    nats.publish("short", range(12))
    place = JetStream({"servers": [nats.url]}, "SHORT")
    assert place.bounds() == {"SHORT": (8, 13)}
    with pytest.raises(PipelineError, match="SHORT has removed its events 3 to 7"):
        ReadOptions().plan_ranges(place, {"SHORT": 3}, {"SHORT": 13})
    [batch] = place.read("SHORT", 8, 13)
    assert batch.column("sequence").to_pylist() == [8, 9, 10, 11, 12]


def test_a_stream_or_a_server_that_is_not_there_is_named(nats: NatsServer) -> None:
    with pytest.raises(PipelineError, match="there is no stream 'NONE' at nats://127"):
        JetStream({"servers": [nats.url]}, "NONE").bounds()
    with pytest.raises(PipelineError, match="no NATS server answers at nats://127"):
        JetStream({"servers": ["nats://127.0.0.1:1"], "allow_reconnect": False}, "NONE").bounds()
    for options in ({}, {"servers": nats.url}):
        with pytest.raises(PipelineError, match="the source nats needs the option"):
            NatsSource(options).reader(pa.schema([]))


def test_reading_goes_on_after_a_connection_that_broke(nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    nats.make_stream("LONG", "long")
    nats.publish("long", range(50))
    # Several fetches for few messages, and a short wait for the broken one.
    monkeypatch.setattr("palio.spark.sources.nats._FETCH_MESSAGES", 10)
    monkeypatch.setattr("palio.spark.sources.nats._FETCH_TIMEOUT_SECONDS", 2.0)
    found: list[int] = []
    for batch in JetStream({"servers": [nats.url]}, "LONG").read("LONG", 1, 51):
        found += batch.column("sequence").to_pylist()
        if found[-1] == 20:
            nats.kill()
            nats.start()
    assert found == list(range(1, 51))
