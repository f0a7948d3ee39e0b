"""The Python of workers, and what becomes of executors; on a real cluster, see `test_remote_master`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from palio.spark.workers import ExecutorLog, choose_worker_python, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As the client of a standalone master writes it.
LOG = """\
Connecting to master spark://10.213.7.1:44215...
Executor added: app-20261116194435-0004/0 on worker-20261116194402-10.213.7.2-37235 (10.213.7.2:37235) with 1 core(s)
Executor updated: app-20261116194435-0004/0 is now RUNNING
Executor updated: app-20261116194435-0004/0 is now EXITED (Command exited with code 1)
Executor added: app-20261116194435-0004/1 on worker-20261116194402-10.213.7.2-37235 (10.213.7.2:37235) with 1 core(s)
Executor updated: app-20261116194435-0004/1 is now RUNNING
"""


def test_executors_are_read_from_the_log_of_the_client() -> None:
    log = ExecutorLog(lambda: LOG)
    assert log.hosts == {"0": "10.213.7.2", "1": "10.213.7.2"}
    assert log.ends == {"0": "Command exited with code 1"}


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "local-cluster[2,1,1024]"])
def test_the_workers_of_a_local_master_are_here(master: str) -> None:
    assert is_local(master)


@pytest.mark.parametrize("master", ["spark://localhost:7077", "spark://local:7077", "yarn", "k8s://local", None])
def test_the_workers_of_others_may_be_anywhere(master: str | None) -> None:
    assert not is_local(master)


def test_the_default_python_of_a_local_session_becomes_that_of_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3")
    choose_worker_python(spark)  # PYSPARK_PYTHON is set, in the tests: to python3, as far as this session knows
    assert context.pythonExec == "python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    choose_worker_python(spark)
    assert context.pythonExec == sys.executable
    monkeypatch.setattr(context, "pythonExec", "/of/the/user")
    choose_worker_python(spark)
    assert context.pythonExec == "/of/the/user"
