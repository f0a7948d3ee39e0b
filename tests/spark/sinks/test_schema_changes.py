"""Changes of the events' schema between two starts of a stream: what each sink takes, and what it refuses in time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from palio.errors import PipelineError
from palio.spark import DeltaSink, ParquetSink, SubscriptionLog, stream
from palio.spark.sinks.sink import Batch, Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = type[ParquetSink] | type[DeltaSink]
BOTH = pytest.mark.parametrize("kind", [ParquetSink, DeltaSink])


def batch(number: int) -> Batch:
    return Batch("test", number, 1, datetime.now(UTC))


def put(spark: SparkSession, sink: ParquetSink | DeltaSink, number: int, columns: str) -> None:
    rows = spark.sql(f"SELECT {columns}, 'a' AS subscription_id, CAST(NULL AS STRING) AS subscriber")
    assert sink(rows, batch(number)) == Taken(1)


def read(spark: SparkSession, folder: Path, kind: Kind) -> list[dict[str, Any]]:
    """All rows, by a reader that is told nothing but the folder."""
    if kind is ParquetSink:
        found = [row.asDict() for row in spark.read.parquet(str(folder)).collect()]
    else:
        from deltalake import DeltaTable

        found = DeltaTable(folder).to_pyarrow_table().to_pylist()
    kept = [{name: value for name, value in row.items() if "_" not in name and name != "subscriber"} for row in found]
    return sorted(kept, key=lambda row: row["id"])


@BOTH
def test_a_stream_whose_column_has_another_type_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, kind: Kind
) -> None:
    log, sink = SubscriptionLog(tmp_path / "log"), kind(tmp_path / "hits")
    log.add("all", "TRUE")
    log.commit()

    def run(schema: str, text: str) -> None:
        events = tmp_path / "events"
        events.mkdir(exist_ok=True)
        (events / f"{len(list(events.iterdir()))}.json").write_text(text)
        rows: DataFrame = spark.readStream.schema(schema).json(str(events))
        query = stream(rows, log, sink, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True})
        query.awaitTermination()

    run("id long, x int", '{"id": 1, "x": 1}')
    reason = r"Sink\('.*hits'\) has the column x as int, and now it is double; read it as int \(in the schema,"
    with pytest.raises(PipelineError, match=reason):
        run("id long, x double", '{"id": 2, "x": 2.5}')
    # Dead letters are kept by the same rules.
    rows = spark.readStream.schema("id long, x double").json(str(tmp_path / "events"))
    with pytest.raises(PipelineError, match=reason):
        stream(rows, log, print, checkpoint=tmp_path / "other", columns=["id"], dead_letters=sink)
    run("id long, x int", '{"id": 3, "x": 3}')
    assert [(row["id"], row["x"]) for row in read(spark, tmp_path / "hits", kind)] == [(1, 1), (2, None), (3, 3)]


@BOTH
def test_columns_may_come_go_and_come_again_with_their_type(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    sink = kind(tmp_path / "hits")
    put(spark, sink, 0, "1L AS id, 1 AS x")
    put(spark, sink, 1, "2L AS id")
    put(spark, sink, 2, "3L AS id, array(named_struct('k', 'v')) AS y")
    put(spark, sink, 3, "4L AS id, 4 AS x")
    nothing = {"x": None, "y": None}
    assert read(spark, tmp_path / "hits", kind) == [
        {**nothing, "id": 1, "x": 1},
        {**nothing, "id": 2},
        {**nothing, "id": 3, "y": read(spark, tmp_path / "hits", kind)[2]["y"]},
        {**nothing, "id": 4, "x": 4},
    ]
    # What was left out for a while has not been forgotten.
    for columns, reason in {
        "5L AS id, 5.5D AS x": "the column x as int, and now it is double",
        "5L AS id, 5L AS x": "the column x as int, and now it is bigint",
        "5L AS id, 5 AS X": "the column x, and now it is X; rename it",
        "5L AS id, array(named_struct('k', 1)) AS y": r"the column y as array<struct<k:string>>",
    }.items():
        rows = spark.sql(f"SELECT {columns}, 'a' AS subscription_id, CAST(NULL AS STRING) AS subscriber")
        with pytest.raises(PipelineError, match=reason):
            sink(rows, batch(4))
    put(spark, sink, 4, "5L AS id, 5 AS x")
    assert len(read(spark, tmp_path / "hits", kind)) == 5


def test_a_folder_of_one_schema_has_nothing_but_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """Polars reads no folder that has files of another suffix."""
    import polars

    sink = ParquetSink(tmp_path / "hits")
    put(spark, sink, 0, "1L AS id, TIMESTAMP'2024-01-01 00:00:00Z' AS at")
    put(spark, sink, 1, "2L AS id, TIMESTAMP'2024-01-01 00:00:00Z' AS at")
    assert sorted(polars.read_parquet(tmp_path / "hits")["id"]) == [1, 2]
    put(spark, sink, 2, "3L AS id")
    assert {path.name.partition("=")[0] for path in (tmp_path / "hits").iterdir()} == {
        "palio_batch",
        "_common_metadata",
    }
    assert not list(tmp_path.glob(".hits*"))
    assert sorted(ds.dataset(tmp_path / "hits", partitioning="hive").to_table()["id"].to_pylist()) == [1, 2, 3]


@BOTH
def test_whether_values_may_be_missing_is_no_part_of_a_type(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    sink = kind(tmp_path / "hits")
    put(spark, sink, 0, "1L AS id, array(1) AS x, named_struct('k', 1) AS s")
    put(spark, sink, 1, "nullif(2L, 3L) AS id, array(1, NULL) AS x, named_struct('k', CAST(NULL AS INT)) AS s")
    put(spark, sink, 2, "3L AS id")
    found = read(spark, tmp_path / "hits", kind)
    assert [row["x"] for row in found] == [[1], [1, None], None]


@BOTH
def test_a_batch_that_is_run_again_is_counted_again(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    sink = kind(tmp_path / "hits")
    rows = spark.sql("SELECT id, 'a' AS subscription_id, CAST(NULL AS STRING) AS subscriber FROM range(0, 7, 1, 3)")
    assert sink(rows, batch(0)) == Taken(7)
    assert sink(rows.limit(1), batch(0)) == Taken(7, is_replay=True)
    assert len(read(spark, tmp_path / "hits", kind)) == 7
