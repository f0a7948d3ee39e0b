"""The Spark that the tests compare with is the one they believe it to be."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from palio.errors import PipelineError
from palio.spark import open_session
from palio.spark.session import check_master

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


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4]", "local[2, 3]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:6443"],
)
def test_a_master_may_be_any_of_sparks(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["foo", "local[]", "local[x]", "spakr://host:7077", "host:7077", ""])
def test_what_is_no_master_is_refused_before_a_jvm_is_started(master: str) -> None:
    with pytest.raises(PipelineError, match=r"is no master of Spark's; write local\[\*\]"):
        check_master(master)


def test_a_master_that_nobody_is_at_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"sc://127.0.0.1:{port}/;token=x")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    for master in (f"spark://127.0.0.1:{port}", f"sc://127.0.0.1:{port}/;token=x"):
        with pytest.raises(PipelineError, match=rf"no Spark answers at \w+://127.0.0.1:{port}: Connection refused"):
            check_master(master)
    with pytest.raises(PipelineError, match="'x' is no port"):
        open_session("spark://127.0.0.1:x")
