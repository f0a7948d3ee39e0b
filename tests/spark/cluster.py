"""A real standalone cluster on this machine: a master and workers, each a process that can be killed with all it has.

`python -m tests.spark.cluster MASTER FOLDER PLAN` is a job on it, slow enough to lose a worker in the middle of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark_session import spark_environment

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS = 24
ROWS = 2_400
SUBSCRIPTIONS = {
    "even": "id % 2 = 0",
    "small": "price < 3",
    "one": "symbol = 's1' AND price BETWEEN 2 AND 9",
    "late": f"id >= {ROWS - 100}",
    "none": "price > 1000",
}
HANG_GUARD_SECONDS = 600.0  # for a process that never starts; no test depends on it


class Host(NamedTuple):
    """A place for processes: its address, and the command that enters it."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()


HERE = Host()


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two network namespaces with a link between them: as on two machines, neither reaches the other's 127.0.0.1."""
    names = [f"palio-{os.getpid()}-{number}" for number in range(2)]
    links = [f"palio{os.getpid() % 100_000}{letter}" for letter in "ab"]
    hosts = [Host(f"10.213.7.{number + 1}", ("ip", "netns", "exec", name)) for number, name in enumerate(names)]
    try:
        try:
            for name in names:
                _ip("netns", "add", name)
            _ip("link", "add", links[0], "netns", names[0], "type", "veth", "peer", links[1], "netns", names[1])
            for name, link, host in zip(names, links, hosts, strict=True):
                _ip("-n", name, "address", "add", f"{host.address}/30", "dev", link)
                _ip("-n", name, "link", "set", link, "up")
                _ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this user cannot make network namespaces: {error}")
        yield hosts[0], hosts[1]
    finally:
        for name in names:
            with suppress(OSError, subprocess.CalledProcessError):  # not made
                _ip("netns", "delete", name)  # with its end of the link


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Cluster:
    """Processes by name: `master`, `worker 0`, `worker 1`. Each is the head of a group with what it has started."""

    def __init__(self, folder: Path, master: Host = HERE, worker: Host = HERE) -> None:
        self._folder = folder
        self._hosts = {"master": master, "worker": worker}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""

    def start(self, workers: int) -> None:
        address = self._hosts["master"].address
        self._start("master", "master.Master", "--host", address, "--port", "0", "--webui-port", "0")
        self.address = "spark://" + self._told("master", "Starting Spark master at spark://")
        for number in range(workers):
            name = f"worker {number}"
            place = ["--work-dir", str(self._folder / name), "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            self._start(name, "worker.Worker", *place, self.address)
        for number in range(workers):
            self._told(f"worker {number}", "Successfully registered with master ")

    def kill(self, name: str) -> None:
        """With its executors, by SIGKILL."""
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        host = self._hosts[name.partition(" ")[0]]
        settings = {**spark_environment(), "SPARK_LOCAL_IP": host.address, "SPARK_LOCAL_HOSTNAME": host.address}
        program = Path(settings["SPARK_HOME"]) / "bin" / "spark-class"
        log4j = self._folder / "log4j2.properties"
        log4j.write_text(LOG_SETTINGS)
        options = {"SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{log4j}", "SPARK_DAEMON_MEMORY": "256m"}
        with self._log(name).open("wb") as output:
            self._processes[name] = subprocess.Popen(
                [*host.enter, str(program), f"org.apache.spark.deploy.{kind}", *arguments],
                env={**os.environ, **settings, **options},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _told(self, name: str, what: str) -> str:
        """What follows some words in the log of a process, as soon as it is there."""
        end = time.monotonic() + HANG_GUARD_SECONDS
        while True:
            text = self._log(name).read_text()
            for line in text.splitlines():
                if what in line:
                    return line.partition(what)[2].strip()
            assert self._processes[name].poll() is None, f"the {name} has ended:\n{text[-3000:]}"
            assert time.monotonic() < end, f"the {name} does not start:\n{text[-3000:]}"
            time.sleep(0.1)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


LOG_SETTINGS = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %p %c{1}: %m%n
"""


def main(address: str, folder: Path, plan: str) -> None:
    from pyspark.sql import SparkSession

    from palio import Subscription
    from palio.spark import Rendezvous, match

    builder = SparkSession.builder.master(address).appName("palio tests")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.range(0, ROWS, numPartitions=PARTITIONS).selectExpr(
        "id", "CAST(id * 7 % 13 AS INT) AS price", "concat('s', id % 3) AS symbol"
    )
    slow = rows.mapInArrow(partial(slowly, str(folder / "begun")), rows.schema)
    wants = [Subscription(id, where) for id, where in SUBSCRIPTIONS.items()]
    if plan != "per event":
        found = match(slow, wants, plan=plan, columns=["id"])  # type: ignore[arg-type]
    else:
        # What comes out of a shuffle comes in another order when it is computed again.
        shuffled = slow.repartition(8).mapInArrow(partial(slowly, str(folder / "begun")), rows.schema)
        lists = match(shuffled, wants, plan=Rendezvous("key-space-split", 8), columns=["id"], per_event=True)
        found = lists.selectExpr("id", "explode_outer(subscription_ids) AS subscription_id")
    found.write.parquet(str(folder / "hits"))
    spark.stop()


def slowly(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that take their time, and leave a mark that somebody has begun with them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    Path(folder, f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}").touch()
    time.sleep(0.5)
    yield from batches


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
