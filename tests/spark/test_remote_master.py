"""Commands on a cluster whose worker is on another machine: a network namespace of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from palio import __version__
from tests.spark.cluster import Cluster, Host, two_hosts
from tests.spark.test_java import make_program
from tests.spark_session import spark_environment

pytestmark = [pytest.mark.spark, pytest.mark.deep]

WORKER_PYTHON = spark_environment()["PYSPARK_PYTHON"]


class Remote:
    """A cluster, and the machine of a driver; neither reaches the other's 127.0.0.1."""

    def __init__(self, cluster: Cluster, driver: Host, folder: Path) -> None:
        self.cluster = cluster
        self._driver = driver
        self._folder = folder
        (folder / "events.jsonl").write_text("".join(f'{{"x": {number}}}\n' for number in range(10)))
        (folder / "wants.jsonl").write_text('{"id": "a", "where": "x > 6"}\n')

    def start(self, *settings: str, **variables: str) -> subprocess.Popen[str]:
        """`palio spark match`, with these settings and environment variables of the user's."""
        command = [*self._driver.enter, sys.executable, "-m", "palio", "spark", "match", "--json"]
        command += ["--events", f"{self._folder}/events.jsonl", "--subscriptions", f"{self._folder}/wants.jsonl"]
        command += ["--master", self.cluster.address]
        for setting in ("spark.executor.memory=512m", *settings):
            command += ["--conf", setting]
        return subprocess.Popen(
            command, env=user_environment(variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def fail(self, *settings: str, **variables: str) -> str:
        """The error of a command that cannot run."""
        job = self.start(*settings, **variables)
        _output, errors = job.communicate()
        assert job.returncode == 2, errors
        told: str = json.loads(errors.splitlines()[-1])["error"]
        return told


def user_environment(variables: Mapping[str, str]) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    return {**known, "PYTHONPATH": spark_environment()["PYTHONPATH"], **variables}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    folder = tmp_path_factory.mktemp("cluster")
    with two_hosts() as (driver, worker):
        cluster = Cluster(folder, driver, worker)
        try:
            cluster.start(workers=1)
            yield Remote(cluster, driver, folder)
        finally:
            cluster.stop()


def test_a_worker_on_another_machine_reaches_the_driver(remote: Remote) -> None:
    job = remote.start(PYSPARK_PYTHON=WORKER_PYTHON)
    output, errors = job.communicate()
    assert job.returncode == 0, errors
    assert (json.loads(output)["events"], json.loads(output)["matches"]) == (10, 3)


def test_the_setting_of_the_workers_python_is_followed(remote: Remote) -> None:
    job = remote.start(f"spark.pyspark.python={WORKER_PYTHON}", PYSPARK_PYTHON="/not/this/one")
    output, errors = job.communicate()
    assert job.returncode == 0, errors
    assert json.loads(output)["matches"] == 3


def test_an_address_of_the_users_wins_and_workers_that_cannot_reach_it_are_told(remote: Remote) -> None:
    told = remote.fail(PYSPARK_PYTHON=WORKER_PYTHON, SPARK_LOCAL_IP="127.0.0.1")
    assert "executors of spark://10.213.7.1:" in told
    assert "on 10.213.7.2 end (Command exited with code 1) before they have reached the driver at " in told
    assert "spark.driver.host" in told


def test_a_python_that_the_workers_have_not_is_named(remote: Remote) -> None:
    told = remote.fail(PYSPARK_PYTHON="/no/such/python")
    assert "cannot start /no/such/python: No such file or directory" in told
    assert "PYSPARK_PYTHON or the setting spark.pyspark.python" in told


def test_a_python_without_palio_is_named(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['palio'] = None\n")
    told = remote.fail(PYSPARK_PYTHON=str(python_with(tmp_path)))
    assert "which has no palio; install 'palio[spark]==" in told


def test_a_python_with_another_palio_is_named(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "palio").mkdir()
    (tmp_path / "palio" / "__init__.py").write_text("__version__ = '9.9'\n")
    told = remote.fail(PYSPARK_PYTHON=str(python_with(tmp_path)))
    assert f"which has palio 9.9, and this is {__version__}" in told


def python_with(folder: Path) -> Path:
    """A Python that finds the modules of a folder first."""
    return make_program(folder / "python", f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n')


def test_a_cluster_without_room_is_told_while_the_command_waits(remote: Remote) -> None:
    job = remote.start("spark.executor.memory=64g", PYSPARK_PYTHON=WORKER_PYTHON)
    assert job.stderr is not None
    told = job.stderr.readline()
    assert "has started no executor yet, and this waits for one: it asks for 64g of memory" in told
    assert job.poll() is None
    job.send_signal(signal.SIGINT)
    job.communicate()
    assert job.returncode == 130
