"""A small local Spark, the same on every machine: the oracle of the language, the engine of the Spark tests.

Two threads, no web page, no adaptive plans, two shuffle partitions, UTC; everything else as Spark ships it,
ANSI mode included, because what Spark means by a condition *by default* is what Palio promises.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from palio.spark.session import LOG_SETTINGS, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROJECT = Path(__file__).parent.parent
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_environment() -> dict[str, str]:
    """The environment variables that Spark reads when its JVM starts."""
    # Functions of test modules travel to the workers by name.
    paths = os.pathsep.join([str(_PROJECT), str(_PROJECT / "src")])
    return {**environment(), "PYTHONPATH": paths, "PYSPARK_PYTHON": str(_worker_python())}


def _worker_python() -> Path:
    """A Python for the workers that imports pyspark as it is installed, in compiled form.

    Spark puts a zip of pyspark first on their path, from which every start compiles it anew: half of the second of CPU
    that a start takes. Spark gives the workers of streams ten seconds of time, so on a busy machine that half decides.
    """
    # One for each Python, because tests may run with another one, and another Spark, at the same time.
    place = f"palio-tests-{os.getuid()}-{crc32(sys.executable.encode()):08x}"
    launcher = Path(tempfile.gettempdir()) / place / "python"
    script = f'#!/bin/sh\nPYTHONPATH=${{PYTHONPATH#*/pyspark.zip:}}\nexec {shlex.quote(sys.executable)} "$@"\n'
    if not launcher.exists() or launcher.read_text() != script:
        launcher.parent.mkdir(exist_ok=True)
        draft = launcher.with_name(f"draft-{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(launcher)  # other processes of the tests may be starting it
    return launcher


def open_session(folder: Path) -> SparkSession:
    """A new session that keeps its files in `folder`.

    The caller has put `spark_environment()` into the environment, and stops the session.
    """
    from pyspark.sql import SparkSession

    log_settings = folder / "log4j2.properties"
    log_settings.write_text(LOG_SETTINGS)
    # Compiling quickly matters more than running quickly when a job has a few hundred rows.
    java_options = " ".join(
        [
            f"-Dlog4j2.configurationFile=file:{log_settings}",
            f"-Djava.io.tmpdir={folder}",
            "-Duser.timezone=UTC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
        ]
    )
    builder = SparkSession.builder.master("local[2]").appName("palio tests")
    builder = builder.config("spark.driver.extraJavaOptions", java_options).config("spark.local.dir", str(folder))
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
