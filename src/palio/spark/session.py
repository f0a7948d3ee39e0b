"""A Spark of this machine, for commands: the caller of a function brings a session of its own.

Everything that makes a local Spark fail on a machine that has nothing but Python is set here: which Java, which Python
for the workers, an address that resolves, and logs that say only what goes wrong.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palio.errors import PipelineError
from palio.spark.java import find_java, without_warning
from palio.spark.masters import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
# Only what goes wrong is worth reading; without this file Spark greets with a dozen lines at every start. What ends a
# stream its query tells whoever asks, and who does not ask cannot use a hundred lines of it.
LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


def environment() -> dict[str, str]:
    """The environment variables that Spark reads when its JVM starts."""
    import pyspark

    return {
        "JAVA_HOME": str(without_warning(find_java())),
        # Workers would take the `python3` of PATH, which has none of our modules.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # A host name that does not resolve, or not to this machine, stops Spark at the start.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        # Another Spark that is installed on the machine would be started instead of pyspark's own.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }


def open_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on this machine, on a cluster by its address (`spark://…`), or through Spark Connect (`sc://…`)."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError("Spark is not installed; run: pip install 'palio[spark]'") from None

    where = master or LOCAL
    is_connect = where.startswith("sc://")
    if is_connect and find_spec("grpc") is None:
        raise PipelineError("Spark Connect needs packages that are not here; run: pip install 'palio[connect]'")
    check_master(where)
    builder = SparkSession.builder.appName("palio")
    if is_connect:
        builder = builder.remote(where)
    else:
        os.environ.update(environment())
        builder = builder.master(where).config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{_log_settings()}")
        if where.startswith("local"):
            for name in ("spark.driver.bindAddress", "spark.driver.host"):
                builder = builder.config(name, "127.0.0.1")
            builder = builder.config("spark.ui.enabled", "false")
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _log_settings() -> Path:
    """The file with the settings of the log; the same for all, because it says the same to all."""
    path = Path(tempfile.gettempdir()) / f"palio-spark-log-{os.getuid()}.properties"
    with suppress(OSError):
        if path.exists() and path.read_text() == LOG_SETTINGS:
            return path
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(LOG_SETTINGS)
    draft.replace(path)
    return path
