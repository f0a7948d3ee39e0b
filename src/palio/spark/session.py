"""Spark sessions for commands: the master address, the environment of the driver, the settings.

Everything that makes a local Spark fail on a machine with nothing but Python is settled here: which Java, which Python
for the workers, an address that resolves, a log without noise. Functions of the API take the caller's session instead.

What the user has set wins everywhere: environment variables, `spark-defaults.conf`, PYSPARK_SUBMIT_ARGS, the settings
that are given here. Ours fill the gaps. The variables are set while the JVM starts, and put back afterwards: another
session of this process may be for another master.

A local master gets the Python of the driver, and the address 127.0.0.1. On other machines neither means anything: the
workers of a cluster run what `PYSPARK_PYTHON` or `spark.pyspark.python` names, else their own `python3`, and the driver
gives them the address from which it reaches the master. A master that nothing listens at is reported before a JVM
starts, which would answer with pages, some after a minute; workers that cannot run a task, by `workers.check_workers`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies

from palio.errors import PipelineError
from palio.spark.java import find_java, quiet_java_home
from palio.spark.workers import check_workers, choose_worker_python, is_local, record_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOCAL: Final = "local[*]"
# Spark's own forms: SparkContext's `SparkMasterRegex`, and the address of Connect.
_MASTER_PATTERN: Final = re.compile(
    r"local|local\[(\*|[1-9]\d*)(,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|k8s://.+|spark://.+|sc://.+"
)
_DEFAULT_PORTS: Final = {"spark": 7077, "sc": 15002}
_CONNECT_TIMEOUT_SECONDS: Final = 5.0
_LOOPBACK: Final = "127.0.0.1"
# Either of them is the user's choice of an address, which an address of ours would contradict.
_ADDRESS_VARIABLES: Final = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
# Errors only: by default Spark prints a dozen lines at every start. The failure of a stream is reported by its query;
# the log would repeat it in a hundred lines.
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


def open_session(
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    *,
    tell: Callable[[str], None] | None = None,
) -> SparkSession:
    """Open a session on this machine, on a cluster (`spark://…`), or through Spark Connect (`sc://…`).

    On a cluster this waits until one of its workers has run a task under a Python that has this version of Palio, and
    raises PipelineError, with the reason, if none can. While the cluster has no room, `tell` gets the reason once, by
    default as a warning, and the session goes on waiting, as Spark does.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError("Spark is not installed; run: pip install 'palio[spark]'") from None

    where = master or LOCAL
    if where.startswith("sc://"):
        if find_spec("grpc") is None:
            raise PipelineError("Spark Connect needs packages that are not here; run: pip install 'palio[connect]'")
        check_master(where)
        return SparkSession.builder.appName("palio").remote(where).config(map=dict(settings or {})).getOrCreate()

    check_master(where)
    address = _driver_address(where)
    launching = environment(where, address)
    named = {*(settings or {}), *_configured_names(launching["SPARK_HOME"])}
    chosen = {**_own_settings(where, address, named), **(settings or {}), "spark.master": where}
    chosen.setdefault("spark.app.name", "palio")
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    with _environment_variables({**launching, "SPARK_SUBMIT_OPTS": _java_options()}):
        with _deferred_interrupt():
            SparkContext._ensure_initialized(conf=conf)  # so that executors are recorded from the first one on
        with record_executors(SparkContext._jvm) as executors:
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
            choose_worker_python(spark)
            if not is_local(spark.sparkContext.master):
                try:
                    check_workers(spark, executors, tell or warnings.warn)
                except BaseException:
                    spark.stop()
                    raise
    return spark


def environment(master: str = LOCAL, address: str | None = _LOOPBACK) -> dict[str, str]:
    """The environment variables for starting Spark's JVM: those of this process, and defaults for the others."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    if home and not Path(home, "bin", "spark-submit").is_file():
        raise PipelineError(
            f"SPARK_HOME is {home}, which has no bin/spark-submit; unset it to start the Spark that pyspark brings"
        )
    defaults = {
        # Another Spark could be found before pyspark's own: the scripts look around the working directory first.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master):
        # By default workers run the `python3` of PATH, which may lack our modules.
        defaults["PYSPARK_PYTHON"] = sys.executable
    if address and not any(map(os.environ.get, _ADDRESS_VARIABLES)):
        # A host name that does not resolve, or not to this machine, stops Spark at the start.
        defaults["SPARK_LOCAL_IP"] = address
        if address == _LOOPBACK:
            defaults["SPARK_LOCAL_HOSTNAME"] = "localhost"
    given = {name: os.environ.get(name) or value for name, value in defaults.items()}
    return {"JAVA_HOME": str(quiet_java_home(find_java())), **given}


@contextmanager
def _environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Raise the KeyboardInterrupt of a first Ctrl-C at the end, of a second one at once.

    PySpark removes the file by which its JVM reports its port when it is interrupted, and the JVM, which ignores
    Ctrl-C, outlives the process.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    is_interrupted = False

    def defer(signum: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            raise KeyboardInterrupt
        is_interrupted = True

    before = signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if is_interrupted:
        raise KeyboardInterrupt


def _own_settings(master: str, address: str | None, named: Set[str]) -> dict[str, str]:
    """Settings beside those that the user has named."""
    own = {"spark.ui.showConsoleProgress": "false"}
    if is_local(master):
        own["spark.ui.enabled"] = "false"
    # Also as settings: the JVM of an earlier session keeps its environment.
    if address and "spark.driver.host" not in named and not any(map(os.environ.get, _ADDRESS_VARIABLES)):
        own |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    return {name: value for name, value in own.items() if name not in named}


def _configured_names(spark_home: str) -> set[str]:
    """Names of the settings in `spark-defaults.conf` and PYSPARK_SUBMIT_ARGS, which settings of a session override."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home, "conf")
    names = re.findall(r"(spark\.[\w.]+)\s*=", os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    with suppress(OSError):
        text = Path(folder, "spark-defaults.conf").read_text(errors="replace")
        names += re.findall(r"^\s*(spark\.[\w.]+)[\s=:]", text, re.MULTILINE)
    return set(names)


def _java_options() -> str:
    """Options of the driver's JVM. Those of `spark.driver.extraJavaOptions` come later on its command line, and win."""
    own = f"-Dlog4j2.configurationFile=file:{_log_settings()}"
    return f"{own} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()


def _log_settings() -> Path:
    """The log configuration file, shared by all processes of the user."""
    path = Path(tempfile.gettempdir()) / f"palio-spark-log-{os.getuid()}.properties"
    with suppress(OSError):
        if path.exists() and path.read_text() == LOG_SETTINGS:
            return path
    # Renamed into place: another process may be reading the file.
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(LOG_SETTINGS)
    draft.replace(path)
    return path


def check_master(master: str) -> None:
    """Refuse an invalid master, and one at which nothing listens."""
    if _MASTER_PATTERN.fullmatch(master) is None:
        raise PipelineError(
            f"{master} is no master of Spark's; write local[*] or local[4] for this machine, spark://host:7077, yarn "
            "or k8s://… for a cluster, sc://host:15002 for Spark Connect"
        )
    scheme, _, rest = master.partition("://")
    if scheme not in _DEFAULT_PORTS or (
        scheme == "sc" and getproxies()
    ):  # a proxy may know hosts that this machine does not
        return
    reasons = [_connection_error(each, _DEFAULT_PORTS[scheme]) for each in rest.partition("/")[0].split(",")]
    if None not in reasons:  # the standby masters of a cluster may not answer
        raise PipelineError(f"no Spark answers at {scheme}://{rest.partition('/')[0]}: {reasons[0]}")


def _connection_error(address: str, usual_port: int) -> str | None:
    """Why `host:port` cannot be reached; None where something listens."""
    try:
        _connect(address, usual_port).close()
    except ValueError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return None


def _connect(address: str, usual_port: int) -> socket.socket:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):  # the colons of an IPv6 address are in brackets
        host, port = address, str(usual_port)
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{port!r} is no port")
    return socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_SECONDS)


def _driver_address(master: str) -> str | None:
    """The address at which workers find the driver; None where Spark chooses it.

    For a standalone master it is the one from which this machine reaches the master, in whose network the workers are:
    Spark would look its host name up, which may lead to another network or nowhere. A master that is reached by the
    loopback interface does not tell where its workers are.
    """
    if is_local(master):
        return _LOOPBACK
    scheme, _, rest = master.partition("://")
    for each in rest.partition("/")[0].split(",") if scheme == "spark" else ():
        with suppress(OSError, ValueError), _connect(each, _DEFAULT_PORTS[scheme]) as connection:
            address = ip_address(connection.getsockname()[0])
            return str(address) if address.version == 4 and not address.is_loopback else None
    return None
