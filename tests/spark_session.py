"""A small local Spark, the same on every machine: the oracle of the language, the engine of the Spark tests.

Two threads, no web page, no adaptive plans, two shuffle partitions, UTC; everything else as Spark ships it,
ANSI mode included, because what Spark means by a condition *by default* is what Palio promises.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

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
    return {**environment(), "PYTHONPATH": os.pathsep.join([str(_PROJECT), str(_PROJECT / "src")])}


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
