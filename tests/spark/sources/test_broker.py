"""Palio's own brokers as a source and a sink: real processes, killed and started again between batches."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from palio import Event, connect_blocking
from palio.errors import PalioError, PipelineError
from palio.network.store.interface import Retention, Writable
from palio.network.store.sqlite import SqliteStore
from palio.routing import codec
from palio.routing.effects import Finished, Logged
from palio.routing.messages import EventId, Publish
from palio.spark import PalioSource
from palio.spark.connections import Brokers
from palio.spark.record_batches import arrow_schema
from palio.spark.sources.broker import BrokerLogs
from palio.spark.sources.offset_reader import ReadOptions
from tests.network.processes import Broker, running, served
from tests.spark.restarts import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_HTTP = ("--http", "off")
SCHEMA = pa.schema([("offset", pa.int64()), ("price", pa.int64())])


def fill(directory: Path, prices: range, **keeping: Any) -> int:
    """Put events into the log of a broker that is not running; its node number."""
    store = SqliteStore(directory, Retention(**keeping))
    node = store.open().node
    entries: list[Writable] = []
    for price in prices:
        id = EventId(node, 1, price)
        content = {"symbol": "ACME" if price % 2 else "INIT", "price": price, "quote": {"day": date(2026, 11, 15)}}
        body = codec.encode_event(Event.from_dict(content, id=f"e{price}", source="/exchange"))
        entries += [Logged(Publish(id, body), "exchange"), Finished(id)]
    store.write(entries)
    store.retain()
    store.close()
    return node


def stream(spark: SparkSession, url: str, out: Path, **options: Any) -> None:
    """Follow a broker up to what is there now, with a checkpoint."""
    spark.dataSource.register(PalioSource)
    events = spark.readStream.format("palio").options(url=url, where="symbol = 'ACME'", **options).load()
    query = events.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
    run_to_end(lambda: query.trigger(availableNow=True).start(str(out / "rows")))


def test_every_event_comes_once_through_restarts(spark: SparkSession, tmp_path: Path) -> None:
    node = fill(tmp_path / "data", range(1, 41))
    for more in (range(0), range(41, 61)):
        fill(tmp_path / "data", more)
        with running(Broker(*NO_HTTP, data=str(tmp_path / "data"))) as broker:
            stream(spark, broker.url, tmp_path, maxRowsPerBatch=30, rowsPerPartition=25)  # type: ignore[attr-defined]
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(1, 61, 2))
    first = rows[0]
    assert abs((datetime.now(UTC) - first.logged.replace(tzinfo=UTC)).total_seconds()) < 3_600
    assert first.asDict() == {
        "node": node,
        "offset": 1,
        "logged": first.logged,
        "id": "e1",
        "source": "/exchange",
        "time": None,
        "event": '{"symbol":"ACME","price":1,"quote":{"day":"2026-11-15"}}',
    }


def test_a_schema_makes_columns_of_attributes(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "one", range(1, 6))
    node = fill(tmp_path / "two", range(6, 11))
    spark.dataSource.register(PalioSource)
    with (
        served(*NO_HTTP, data=str(tmp_path / "one")) as one,
        served(*NO_HTTP, data=str(tmp_path / "two")) as two,
    ):
        reader = spark.read.format("palio").options(url=f"{one.url},{two.url}")
        typed = reader.schema("offset long, price double, symbol int, quote struct<day: date>, missing string").load()
        rows = sorted(typed.collect(), key=lambda row: row.price)
        assert [row.price for row in rows] == [float(price) for price in range(1, 11)]
        assert (rows[0].offset, rows[0].symbol, rows[0].quote.day, rows[0].missing) == (
            1,
            None,
            date(2026, 11, 15),
            None,
        )
        reader = spark.read.format("palio").options(url=two.url, where="price < 10")
        some = reader.options(start=json.dumps({str(node): 3}), until=json.dumps({str(node): 6})).load()
        assert sorted(row.offset for row in some.collect()) == [3, 4]


def test_what_a_log_let_go_of_is_told(tmp_path: Path) -> None:
    node = fill(tmp_path, range(1, 31), log_bytes=1_000)
    with served(*NO_HTTP, data=str(tmp_path)) as broker:
        place = BrokerLogs(Brokers((broker.url,)), "true", SCHEMA)
        oldest, after = place.bounds()[str(node)]
        assert 1 < oldest < after == 31
        with pytest.raises(PipelineError, match=f"removed its events 1 to {oldest - 1}"):
            ReadOptions().plan_ranges(place, {str(node): 1}, {str(node): after})
        with pytest.raises(PipelineError, match="no longer has offset 1"):
            list(place.read(str(node), 1, after))
        [batch] = place.read(str(node), oldest, after)
        assert batch.column("price").to_pylist() == list(range(oldest, after))
        with pytest.raises(PipelineError, match="is the broker 17, whose log is to be read"):
            list(place.read("17", 1, 2))
        with pytest.raises(PipelineError, match="ends at 31, and went to 40"):
            list(place.read(str(node), after, 40))


def test_a_type_that_no_event_has_is_refused_by_the_name_of_its_column() -> None:
    nested = StructType().add("a", ArrayType(DecimalType(10, 2))).add("m", MapType(StringType(), DateType()))
    assert arrow_schema(nested).types == [pa.list_(pa.decimal128(10, 2)), pa.map_(pa.string(), pa.date32())]
    with pytest.raises(PipelineError, match="a column 'i' of type interval"):
        arrow_schema(StructType().add("i", DayTimeIntervalType()))


def test_a_column_of_the_source_keeps_its_type() -> None:
    own = StructType().add("id", StringType()).add("time", TimestampType()).add("price", LongType())
    PalioSource({}).reader(own)
    with pytest.raises(PipelineError, match="id is what the source itself says of an event, a string, not a int64"):
        PalioSource({}).reader(StructType().add("id", LongType()))


def test_a_broker_or_a_condition_that_is_wrong_is_named() -> None:
    with pytest.raises(PipelineError, match=r"palio://127\.0\.0\.1:1: .*nothing listens there"):
        BrokerLogs(Brokers(("palio://127.0.0.1:1",), patience=0), "true", SCHEMA).bounds()
    with pytest.raises(PipelineError, match="patience is a number of seconds"):
        Brokers.from_options({"patience": "long"})
    with pytest.raises(PalioError):
        Brokers.from_options({"url": "http://here"})


# Writing


def numbers(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("n long, name string").json(str(folder))


def publish(spark: SparkSession, url: str, rows: DataFrame, checkpoint: Path) -> None:
    spark.dataSource.register(PalioSource)
    writer = rows.writeStream.format("palio").options(url=url, checkpointLocation=str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_batch_that_is_run_again_publishes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for batch in range(3):
        if batch < 2:
            lines = [json.dumps({"n": 10 * batch + number, "name": "x"}) for number in range(10)]
            (tmp_path / "in" / f"{batch}.json").write_text("\n".join(lines))
        else:  # as if the driver had died before it noted that the batch is done
            for name in ("1", ".1.crc"):
                (tmp_path / "checkpoint" / "commits" / name).unlink()
        with running(Broker(*NO_HTTP, data=str(tmp_path / "data"))) as broker:  # which is killed afterwards
            publish(spark, broker.url, numbers(spark, tmp_path / "in"), tmp_path / "checkpoint")  # type: ignore[attr-defined]
    with served(*NO_HTTP, data=str(tmp_path / "data")) as broker, connect_blocking(broker.url) as client:
        logged = client.read_log("name = 'x'").events
    assert sorted(each.event.get("n") for each in logged) == list(range(20))  # type: ignore[type-var]
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    assert {each.event.id.rsplit("-", 2)[0] for each in logged} == {f"{query}-0", f"{query}-1"}


def test_a_table_is_published_with_ids_of_its_own(spark: SparkSession) -> None:
    spark.dataSource.register(PalioSource)
    table = spark.createDataFrame([("a", 1), ("b", 2)], "key string, n int")
    with served(*NO_HTTP) as broker, connect_blocking(broker.url) as client, client.subscribe("n > 0") as events:
        writer = table.write.format("palio").options(url=broker.url, id="key", source="/table").mode("append")
        writer.save()
        received = [events.get(300) for _ in range(2)]
        assert {(event.id, event.source, event.get("n")) for event in received if event is not None} == {
            ("a", "/table", 1),
            ("b", "/table", 2),
        }
        with pytest.raises(Exception, match="what was published stays published"):
            table.write.format("palio").options(url=broker.url).mode("overwrite").save()
