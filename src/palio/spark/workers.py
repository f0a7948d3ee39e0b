"""Workers of a Spark session: the Python they run, and a check that they can run a task.

PySpark starts workers with `PYSPARK_PYTHON`, else with the `python3` of their PATH, and ignores the setting
`spark.pyspark.python` in a session that a script has made. `choose_worker_python` follows the setting. On a local
master without either, workers get the Python of the driver, which is the one that has its modules.

A cluster whose workers cannot run a task makes Spark wait for minutes, or for ever: an executor that cannot open a
connection to the driver ends, and the master starts another; a cluster without room starts none. Spark writes this into
logs. `check_workers` runs a task that asks a worker for its versions, and reports what hinders it: by an error where it
will not go away, and by a notice where waiting may help. What becomes of executors before they register is known to the
client of a standalone master only, and it tells nobody but the log, so that is read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from palio import __version__
from palio.errors import PipelineError
from palio.spark.error_cause import cause_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_PYTHON: Final = "python3"  # PySpark's
_PYTHON_SETTING: Final = "spark.pyspark.python"
_SESSION_PYTHON_SETTING: Final = "spark.sql.execution.pyspark.python"
_LOCAL_SERVER: Final = "SPARK_LOCAL_REMOTE"  # PySpark sets it where it starts a server of Connect in this process
_POLL_INTERVAL_SECONDS: Final = 0.2
_NOTICE_SECONDS: Final = 10.0  # an idle cluster starts an executor in three
# An executor that can reach the driver registers in two seconds; the rest is for a machine that is very busy.
_REGISTRATION_TIMEOUT_SECONDS: Final = 60.0
_MAX_LOST_EXECUTORS: Final = 2  # the first may have been bad luck
_CLIENT_LOGGER: Final = "org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint"
_MAX_NAMED_WORKERS: Final = 3


def is_local(master: str | None) -> bool:
    """Whether a master runs its workers on the driver's machine."""
    return master is not None and re.match(r"local(\[|-cluster\[|$)", master) is not None


def choose_worker_python(spark: SparkSession) -> None:
    """Make the functions that this session is going to run use the Python that was chosen for its workers.

    Every function of the API calls this first: the session may be one that `SparkSession.builder` has made. Functions
    remember the Python of the session when they are made, so those that others have made before keep theirs. A session
    through Connect has a setting for it, which is made where the server runs in this process: `remote("local[*]")`.
    """
    from pyspark import SparkContext

    from palio.spark.shared_index import is_connect  # with all of matching, which the sources do without

    through_connect = is_connect(spark)
    context: Any = SparkContext._active_spark_context if through_connect else spark.sparkContext
    if context is None or (through_connect and _LOCAL_SERVER not in os.environ):
        return  # a server elsewhere chooses
    chosen = context._conf.get(_PYTHON_SETTING)
    if chosen is None and is_local(context.master) and not os.environ.get("PYSPARK_PYTHON"):
        chosen = sys.executable if context.pythonExec == _DEFAULT_PYTHON else None
    if not chosen:
        return
    if not through_connect:
        context.pythonExec = chosen
    elif spark.conf.get(_SESSION_PYTHON_SETTING, None) is None:
        spark.conf.set(_SESSION_PYTHON_SETTING, chosen)


def check_python_of_batches(spark: SparkSession) -> None:
    """Refuse to start `foreachBatch` through a Connect server of this process under a Python without Palio.

    No setting names that Python: it is that of the environment in which the server has started, else the `python3` of
    its PATH. Spark itself only reports, a minute later, that the worker has not connected.
    """
    from palio.spark.shared_index import is_connect

    chosen = os.environ.get("PYSPARK_PYTHON") or os.environ.get("PYSPARK_DRIVER_PYTHON")
    if chosen or _LOCAL_SERVER not in os.environ or not is_connect(spark):
        return
    try:
        tried = subprocess.run([_DEFAULT_PYTHON, "-c", "import palio.spark, pyarrow"], capture_output=True, check=False)
        usable = tried.returncode == 0
    except OSError:
        usable = False
    if not usable:
        raise PipelineError(
            f"through Spark Connect, a stream's batches run under the {_DEFAULT_PYTHON} of PATH, which has no Palio; "
            "before the session is made, set os.environ['PYSPARK_PYTHON'] = sys.executable"
        )


def choose_python_of_active_session() -> None:
    """`choose_worker_python` for what is handed to the session of the driver; nothing in a worker, which has none."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        choose_worker_python(session)


@dataclass(frozen=True, slots=True)
class ExecutorLog:
    """Executors that a standalone master has started for this application, from the log of its client."""

    _text: Callable[[], str]

    @property
    def hosts(self) -> dict[str, str]:
        """Host, by the number of an executor."""
        return dict(re.findall(r"Executor added: \S+/(\d+) on \S+ \(([^)]+):\d+\)", self._text()))

    @property
    def ends(self) -> dict[str, str]:
        """How it ended, by the number of an executor that has."""
        return dict(
            re.findall(r"Executor updated: \S+/(\d+) is now (?:EXITED|FAILED|LOST) ?\(?([^)\n]*)", self._text())
        )


@contextmanager
def record_executors(jvm: Any) -> Iterator[ExecutorLog]:
    """Record executors from now on; the record stays empty where the log is not written by Log4j 2."""
    try:
        log4j = jvm.org.apache.logging.log4j
        writer = jvm.java.io.StringWriter()
        layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%m%n").build()
        appender = log4j.core.appender.WriterAppender.createAppender(layout, None, writer, "palio", False, True)
        appender.start()
        logger = log4j.LogManager.getContext(False).getLogger(_CLIENT_LOGGER)
        logger.addAppender(appender)
        logger.setAdditive(False)
        log4j.core.config.Configurator.setLevel(_CLIENT_LOGGER, log4j.Level.INFO)
    except Exception:  # py4j's, or a TypeError, where a class is not there
        yield ExecutorLog(str)
        return
    try:
        yield ExecutorLog(writer.toString)
    finally:
        with suppress(Exception):  # the JVM may have ended
            logger.removeAppender(appender)
            log4j.core.config.Configurator.setLevel(_CLIENT_LOGGER, log4j.Level.ERROR)


def check_workers(spark: SparkSession, executors: ExecutorLog, tell: Callable[[str], None]) -> None:
    """Wait until a worker has run a task under a Python with this version of Palio; PipelineError if none can.

    Costs the start of one executor and of one Python worker, which stay for the tasks to come.
    """
    context = spark.sparkContext
    probe = _Probe(spark)
    started = time.monotonic()
    is_told = False
    try:
        while not probe.is_done(_POLL_INTERVAL_SECONDS):
            if _has_executors(context):
                continue
            waited = time.monotonic() - started
            hosts, ends = executors.hosts, executors.ends
            if len(ends) >= _MAX_LOST_EXECUTORS or (hosts and waited > _REGISTRATION_TIMEOUT_SECONDS):
                raise PipelineError(_unreachable_driver(context, hosts, ends))
            if waited > _NOTICE_SECONDS and not is_told:
                is_told = True
                tell(_unreachable_driver(context, hosts, ends) if hosts else _no_executor(context))
        _check_answer(context, probe)
    finally:
        probe.cancel()


class _Probe:
    """A task that describes the Python of a worker, in a thread of its own."""

    _GROUP: Final = "palio-worker-check"

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.answer: Mapping[str, Any] | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_done(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        if self._thread.is_alive():
            with suppress(Exception):  # the application may have ended
                self._context.cancelJobGroup(self._GROUP)

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._GROUP, "palio: check of the workers", interruptOnCancel=True)
            [self.answer] = self._context.parallelize([0], 1).map(_describing_function()).collect()
        except BaseException as error:  # for the thread that waits
            self.error = error


def _describing_function() -> Callable[[int], Mapping[str, Any]]:
    # Nested, so that it travels with its code: the worker may have no Palio to import it from.
    def describe(_: int) -> Mapping[str, Any]:
        import platform
        import sys
        from importlib.util import find_spec

        version = None
        if find_spec("palio") is not None:
            import palio

            version = palio.__version__
        missing = [name for name in ("numba", "numpy", "pandas", "pyarrow") if find_spec(name) is None]
        where = f"{sys.executable} of {platform.node()}"
        return {"where": where, "palio": version, "missing": missing}

    return describe


def _check_answer(context: Any, probe: _Probe) -> None:
    if probe.error is not None:
        raise _failed_task(context, probe.error) from probe.error
    assert probe.answer is not None
    version, missing = probe.answer["palio"], probe.answer["missing"]
    if version is None:
        fault = "no palio"
    elif version != __version__:
        fault = f"palio {version}, and this is {__version__}"
    elif missing:
        fault = f"no {' and no '.join(missing)}"
    else:
        return
    where = probe.answer["where"]
    raise PipelineError(f"the workers of {context.master} run {where}, which has {fault}; {_python_remedy(context)}")


def _python_remedy(context: Any) -> str:
    return (
        f"install 'palio[spark]=={__version__}' on the workers, in a Python {context.pythonVer}, and name that Python "
        f"by PYSPARK_PYTHON or the setting {_PYTHON_SETTING} (it is {context.pythonExec} now)"
    )


def _failed_task(context: Any, error: BaseException) -> PipelineError:
    text = str(error)
    if found := re.search(r'Cannot run program "([^"]*)"[^\n]*?(?:error=\d+, )([^\n]+)', text):
        return PipelineError(
            f"the workers of {context.master} cannot start {found[1]}: {found[2].strip()}; {_python_remedy(context)}"
        )
    if found := re.search(r"\[PYTHON_VERSION_MISMATCH\] ([^\n.]*)", text):
        return PipelineError(
            f"the workers of {context.master} run another Python than this one: {found[1]}; {_python_remedy(context)}"
        )
    return PipelineError(f"no worker of {context.master} can run a task: {cause_in(text)}; {_python_remedy(context)}")


def _has_executors(context: Any) -> bool:
    return bool(context._jsc.sc().getExecutorMemoryStatus().size() > 1)  # the driver is one of them


def _unreachable_driver(context: Any, hosts: Mapping[str, str], ends: Mapping[str, str]) -> str:
    where = ", ".join(sorted(set(hosts.values()))[:_MAX_NAMED_WORKERS])
    host, port = (context.getConf().get(f"spark.driver.{name}") for name in ("host", "port"))
    said = f" ({next(iter(ends.values()))})" if ends else ""
    ended = f"end{said} before they have reached" if ends else "have not reached"
    return (
        f"executors of {context.master} on {where} {ended} the driver at {host}:{port}; "
        "let SPARK_LOCAL_IP or the setting spark.driver.host name an address of this machine that they can connect to, "
        "and open the ports spark.driver.port and spark.blockManager.port of its firewall. Their own reasons are in "
        f"{context.applicationId}/*/stderr, in the work folder of a worker"
    )


def _no_executor(context: Any) -> str:
    conf = context.getConf()
    memory = conf.get("spark.executor.memory", "1g")
    cores = conf.get("spark.executor.cores")
    asked = f"{memory} of memory" + (f" and {cores} cores" if cores else "")
    return (
        f"{context.master} has started no executor yet, and this waits for one: it asks for {asked}. Either no worker "
        "has registered with the master, or none has that much free: lower spark.executor.memory, spark.executor.cores "
        "or spark.cores.max, or end other applications; the page of the master shows them"
    )
