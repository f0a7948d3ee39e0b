"""A real Spark Connect server on this machine, as a process of its own, and a session that talks to it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from palio.spark.session import LOG_SETTINGS
from tests.spark_session import SETTINGS, spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HANG_GUARD_SECONDS = 600.0  # for a server that never starts; no test depends on it


@contextmanager
def connect_session(folder: Path) -> Iterator[SparkSession]:
    """A session through Spark Connect; its server keeps its files in `folder`, and ends with it."""
    from pyspark.sql import SparkSession

    port = _free_port()
    settings = {**os.environ, **spark_environment()}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(_command(folder, port), env=settings, stdout=log, stderr=log)
    try:
        _wait_for(server, port, folder / "server.log")
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        yield session
        session.stop()
    finally:
        server.terminate()
        server.wait()


def _command(folder: Path, port: int) -> list[str]:
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG_SETTINGS)
    settings = {
        **SETTINGS,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -XX:TieredStopAtLevel=1",
        "spark.local.dir": str(folder),
        "spark.master": "local[2]",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    submit = Path(spark_environment()["SPARK_HOME"]) / "bin" / "spark-class"
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    return [str(submit), "org.apache.spark.deploy.SparkSubmit", "--class", kind, *given, "spark-internal"]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _HANG_GUARD_SECONDS
    while True:
        assert server.poll() is None, f"the server has ended:\n{log.read_text()[-3000:]}"
        assert time.monotonic() < end, f"the server does not start:\n{log.read_text()[-3000:]}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
