"""The Spark that the tests compare with is the one they believe it to be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def test_it_means_by_a_condition_what_spark_means_by_default(spark: SparkSession) -> None:
    from pyspark.errors import ArithmeticException

    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        spark.sql("SELECT 1 / 0").collect()


def test_it_lives_in_utc(spark: SparkSession) -> None:
    [row] = spark.sql("SELECT unix_seconds(TIMESTAMP'1970-01-02'), current_timezone()").collect()
    assert tuple(row) == (86_400, "UTC")


def test_its_python_workers_are_this_python_and_see_this_palio(spark: SparkSession) -> None:
    import palio.errors

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import palio.errors

        for _ in batches:
            yield pa.record_batch({"python": [sys.executable], "palio": [palio.errors.__file__]})

    [row] = spark.range(1, numPartitions=1).mapInArrow(where, "python string, palio string").collect()
    assert Path(row.python) == Path(sys.executable)
    assert Path(row.palio) == Path(palio.errors.__file__)


def test_it_leaves_nothing_behind_in_the_working_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spark.createDataFrame(pa.table({"x": [1, 2, 3]})).createOrReplaceTempView("numbers")
    assert spark.sql("SELECT sum(x) AS total FROM numbers WHERE x > 1").toArrow().to_pydict() == {"total": [5]}
    assert list(tmp_path.iterdir()) == []
