"""A small local Spark, the same on every machine: the oracle of the language, the engine of the Spark tests.

Two threads, no web page, no adaptive plans, two shuffle partitions, UTC; everything else as Spark ships it,
ANSI mode included, because what Spark means by a condition *by default* is what Palio promises.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from palio.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROJECT = Path(__file__).parent.parent

# Only what goes wrong is worth reading; without this file Spark greets with a dozen lines at every start.
_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


def spark_environment() -> dict[str, str]:
    """The environment variables that Spark reads when its JVM starts."""
    import pyspark

    return {
        "JAVA_HOME": str(find_java().path),
        # Workers would take the `python3` of PATH, which has none of our modules.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Functions of test modules travel to the workers by name.
        "PYTHONPATH": os.pathsep.join([str(_PROJECT), str(_PROJECT / "src")]),
        # A host name that does not resolve, or not to this machine, stops Spark at the start.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        # Another Spark that is installed on the machine would be started instead of pyspark's own.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }


def open_session(folder: Path) -> SparkSession:
    """A new session that keeps its files in `folder`.

    The caller has put `spark_environment()` into the environment, and stops the session.
    """
    from pyspark.sql import SparkSession

    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS)
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
    return (
        SparkSession.builder.master("local[2]")
        .appName("palio tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
