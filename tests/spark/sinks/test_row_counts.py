"""Every sink takes every number of rows: none, one, and those around its row groups, Arrow batches and windows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from palio import connect_blocking
from palio.spark import DeltaSink, HttpSink, NatsSink, PalioSink, ParquetSink, backfill, progress
from palio.spark.sinks.sink import Batch, Taken
from palio.spark.streaming.backfill import Handover
from tests.network.processes import served
from tests.spark.nats_server import NatsServer, nats
from tests.spark.sinks.http_receiver import Receiver
from tests.spark.streaming.scenario import SCHEMA, StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["nats"]
BATCH = Batch("test", 0, 1, datetime.now(UTC))
LIMIT = 4
"""Rows of a row group, messages of a window."""
ARROW_ROWS = 3
"""Rows of an Arrow batch: no divisor of the limit, so that batches end within a group and at its end."""
MOST = 3 * LIMIT + 1
EVERY_COUNT = sum(range(MOST + 1))


@pytest.fixture(autouse=True)
def _small_arrow_batches(request: pytest.FixtureRequest) -> Iterator[None]:
    if "spark" not in request.fixturenames:
        yield
        return
    spark, name = request.getfixturevalue("spark"), "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, str(ARROW_ROWS))
    yield
    spark.conf.set(name, before)


def every_count(spark: SparkSession) -> DataFrame:
    """A partition with no row, one with one, and so on, as matches."""
    return spark.sql(f"""
        SELECT partition * 100 + place AS id, 'all' AS subscription_id, CAST(NULL AS STRING) AS subscriber
        FROM (SELECT id AS partition, posexplode(array_repeat(0, CAST(id AS INT))) AS (place, _)
              FROM range(0, {MOST + 1}, 1, {MOST + 1}))
    """)


IDS = Counter(partition * 100 + place for partition in range(MOST + 1) for place in range(partition))


def test_parquet_takes_every_number_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "hits", row_group_rows=LIMIT)
    assert sink(every_count(spark), BATCH) == Taken(EVERY_COUNT)
    assert Counter(ds.dataset(tmp_path / "hits").to_table()["id"].to_pylist()) == IDS
    files = sorted(pq.read_metadata(file).num_rows for file in sink.files(BATCH))
    assert files == list(range(1, MOST + 1))  # a task without rows leaves no file


def test_delta_takes_every_number_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    sink = DeltaSink(tmp_path / "hits", row_group_rows=LIMIT)
    assert sink(every_count(spark), BATCH) == Taken(EVERY_COUNT)
    assert Counter(DeltaTable(tmp_path / "hits").to_pyarrow_table()["id"].to_pylist()) == IDS


def test_http_takes_every_number_of_rows(spark: SparkSession) -> None:
    receiver = Receiver()
    try:
        assert HttpSink(receiver.url, key=["id"], connections=2)(every_count(spark), BATCH) == Taken(EVERY_COUNT)
        assert Counter(json.loads(body)["id"] for _, _, body in receiver.taken.values()) == IDS
    finally:
        receiver.close()


def test_nats_takes_every_number_of_rows(spark: SparkSession, nats: NatsServer) -> None:
    nats.make_stream("COUNTS", "counts")
    sink = NatsSink(nats.url, "counts", key=["id"], max_pending=LIMIT - 2)
    assert sink(every_count(spark), BATCH) == Taken(EVERY_COUNT)
    assert Counter(data["id"] for _, _, data in nats.messages("COUNTS")) == IDS


def test_a_broker_takes_every_number_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    with served("--http", "off", data=str(tmp_path / "data")) as broker, connect_blocking(broker.url) as client:
        sink = PalioSink(broker.url, key=["id"], max_pending=LIMIT - 2)
        assert sink(every_count(spark), BATCH) == Taken(EVERY_COUNT)
        assert Counter(each.event.get("id") for each in client.read_log("id >= 0").events) == IDS


def test_what_is_undelivered_is_kept_for_every_number_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.refused = {"/"}
    try:
        dead = ParquetSink(tmp_path / "dead", row_group_rows=LIMIT)
        assert HttpSink(receiver.url, key=["id"], dead_letters=dead)(every_count(spark), BATCH) == Taken(EVERY_COUNT)
    finally:
        receiver.close()
    kept = ds.dataset(tmp_path / "dead").to_table()["data"].to_pylist()
    assert Counter(json.loads(each)["id"] for each in kept) == IDS


@pytest.mark.parametrize("kind", [ParquetSink, DeltaSink])
def test_streams_dead_letters_and_backfills_take_batches_around_the_limit(
    spark: SparkSession, tmp_path: Path, kind: type[ParquetSink] | type[DeltaSink]
) -> None:
    flow = StreamScenario(tmp_path)
    counts = [LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT]
    for name, rows in enumerate(counts):
        flow.add_events(name, rows)
        flow.add_events(name + 10, rows)
    log, hits = write_log(flow, "TRUE"), kind(flow.out, row_group_rows=LIMIT)
    dead = kind(flow.dead, row_group_rows=LIMIT)
    flow.run(spark, hits, malformed={"late ids": "id >= 10000"}, dead_letters=dead)
    found = flow.parquet() if kind is ParquetSink else flow.delta()
    assert found == {(name * 1000 + row, "TRUE"): 1 for name, rows in enumerate(counts) for row in range(rows)}
    told = progress(flow.checkpoint, 10)
    figures = Counter((each.events, each.matches, each.dead) for each in told)
    assert figures == Counter({**{(rows, rows, 0): 1 for rows in counts}, **{(rows, 0, rows): 1 for rows in counts}})
    log.add("again", "TRUE")
    log.commit()

    def archive(point: Handover) -> DataFrame:
        return spark.read.schema(SCHEMA).parquet(*point.files()).repartition(3)

    done = backfill(archive, log, hits, ["again"], checkpoint=flow.checkpoint)
    assert (done.events, done.matches) == (2 * sum(counts),) * 2
