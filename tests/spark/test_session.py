"""The Spark that the tests compare with is the one they believe it to be."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from palio.errors import PipelineError
from palio.spark import open_session
from palio.spark.session import check_master, environment
from tests.spark_session import spark_environment

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


CHOICES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")


@pytest.fixture
def without_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("without_choices")
def test_a_local_master_gets_the_python_of_the_driver_and_the_loopback_address() -> None:
    made = environment("local[2]")
    assert made["PYSPARK_PYTHON"] == made["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert (made["SPARK_LOCAL_IP"], made["SPARK_LOCAL_HOSTNAME"]) == ("127.0.0.1", "localhost")


@pytest.mark.usefixtures("without_choices")
@pytest.mark.parametrize("master", ["spark://hub:7077", "yarn", "k8s://https://host:6443"])
def test_a_cluster_gets_neither(master: str) -> None:
    made = environment(master, None)
    assert made["PYSPARK_DRIVER_PYTHON"] == sys.executable  # runs here
    assert not {"PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"} & set(made)


@pytest.mark.parametrize("master", ["local[2]", "spark://hub:7077"])
def test_what_the_user_has_set_stays(master: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.touch()
    chosen = {name: f"/of/the/user/{name}" for name in CHOICES} | {"SPARK_HOME": str(tmp_path)}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    made = environment(master, "10.0.0.1")
    assert {name: made.get(name, chosen[name]) for name in CHOICES} == chosen


def test_a_spark_home_without_a_spark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/nowhere/spark")
    with pytest.raises(PipelineError, match="SPARK_HOME is /nowhere/spark, which has no bin/spark-submit; unset it"):
        environment()


SESSION = """
import json, os
before = dict(os.environ)
from palio.spark import match, open_session
spark = open_session("local[1]", {"spark.sql.session.timeZone": "UTC", "spark.pyspark.python": os.environ["CHOSEN"]})
conf = spark.sparkContext.getConf()
names = ("app.name", "driver.host", "driver.extraJavaOptions", "ui.enabled", "sql.session.timeZone")
print(json.dumps({
    "conf": {name: conf.get("spark." + name) for name in names},
    "property": spark.sparkContext._jvm.System.getProperty("of.the.user"),
    "python": spark.sparkContext.pythonExec,
    "matches": match(spark.range(10), [{"id": "a", "where": "id = 3"}]).count(),
    "changed": sorted(name for name in before.keys() | os.environ if before.get(name) != os.environ.get(name)),
}))
spark.stop()
"""


@pytest.mark.spark
def test_settings_of_the_user_win_and_the_environment_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.driver.host localhost\nspark.driver.extraJavaOptions -Dof.the.user=yes\nspark.sql.session.timeZone CET\n"
    )
    chosen = tmp_path / "python"
    chosen.write_text(f'#!/bin/sh\nexec {shlex.quote(spark_environment()["PYSPARK_PYTHON"])} "$@"\n')
    chosen.chmod(0o755)
    known = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    paths = spark_environment()["PYTHONPATH"]
    variables = {**known, "PYTHONPATH": paths, "SPARK_CONF_DIR": str(tmp_path), "CHOSEN": str(chosen)}
    variables["PYSPARK_PYTHON"] = "/not/this/one"  # a setting wins over the variable, as in spark-submit
    done = subprocess.run([sys.executable, "-c", SESSION], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["conf"] == {
        "app.name": "palio",
        "driver.host": "localhost",
        "driver.extraJavaOptions": told["conf"]["driver.extraJavaOptions"],
        "ui.enabled": "false",
        "sql.session.timeZone": "UTC",
    }
    assert "-Dof.the.user=yes" in told["conf"]["driver.extraJavaOptions"]
    assert (told["property"], told["python"], told["matches"]) == ("yes", str(chosen), 1)
    # PySpark's own, for its workers.
    assert set(told["changed"]) <= {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "PYTHONHASHSEED"}
