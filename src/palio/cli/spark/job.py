"""Spark session and jobs of a command: start, progress bar, times, Ctrl-C.

Spark's own handler of Ctrl-C cancels its jobs and then reports at length that they were cancelled. Here nothing is
logged from that moment on. A JVM that this process started has ended before the command cleans up: a task that is slow
to die would write again what was removed.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from palio.cli import terminal
from palio.cli.html_report import Point

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from palio.spark.record_batches import MatchCounter


_CANCEL_TIMEOUT_SECONDS: Final = 5.0
_JVM_EXIT_TIMEOUT_SECONDS: Final = 10.0
_POLL_INTERVAL_SECONDS: Final = 0.2
_LISTENER_TIMEOUT_MILLISECONDS: Final = 2_000
Result = TypeVar("Result")


@contextmanager
def command_session(master: str | None, settings: Mapping[str, str], times: Stopwatch) -> Iterator[SparkSession]:
    """A session for the time of a command; its start is measured as `starting`."""
    from palio.spark.session import open_session

    with _quiet_interrupts() as handler:
        with times.measure("starting"), terminal.status(f"Starting Spark at {master}" if master else "Starting Spark"):
            spark = open_session(master, settings, tell=_notice)
        handler.take_over(spark)
        try:
            yield spark
        finally:
            spark.stop()


def _notice(text: str) -> None:
    terminal.messages().print(text, style="warning", soft_wrap=True)


class _InterruptHandler:
    """Handler of Ctrl-C: cancels the jobs, quietly."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None

    def take_over(self, spark: SparkSession | None = None) -> None:
        """Install the handler; again after Spark has started, because Spark installs its own."""
        self._spark = spark
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C does not wait
        # Otherwise the cancelled calls are logged at length.
        logging.disable(logging.CRITICAL)
        if self._spark is not None:
            # In another thread: the Py4J connection of this one is waiting for an answer.
            cancelling = threading.Thread(target=_cancel, args=(self._spark,), daemon=True)
            cancelling.start()
            cancelling.join(_CANCEL_TIMEOUT_SECONDS)
        raise KeyboardInterrupt


@contextmanager
def _quiet_interrupts() -> Iterator[_InterruptHandler]:
    before, handler = signal.getsignal(signal.SIGINT), _InterruptHandler()
    handler.take_over()
    try:
        yield handler
    except KeyboardInterrupt:
        _stop_jvm()
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


def _cancel(spark: SparkSession) -> None:
    from palio.spark.shared_index import is_connect

    with suppress(Exception):  # the command ends anyway
        if is_connect(spark):
            spark.interruptAll()
            return
        spark.sparkContext.setLogLevel("OFF")
        spark.sparkContext.cancelAllJobs()


def _stop_jvm() -> None:
    """End the JVM that this process started, if any; it exits when its input is closed."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    with suppress(Exception):
        gateway.shutdown()
        process.stdin.close()
        process.wait(_JVM_EXIT_TIMEOUT_SECONDS)


@dataclass
class JobProgress:
    """Progress of a job, updated when tasks end; through Connect without rows and matches."""

    rows: int = 0
    """Rows read, or generated."""
    matches: int = 0
    completed: int = 0
    tasks: int = 0
    seconds: float = 0.0
    points: list[Point] = field(default_factory=list)
    """Rows over time."""

    def __str__(self) -> str:
        parts = [
            terminal.plural(self.rows, "row") if self.rows else "",
            f"{terminal.rate(self.rows, self.seconds)}/s" if self.rows else "",
            terminal.plural(self.matches, "match", "matches") if self.matches else "",
            f"{self.completed:,} of {terminal.plural(self.tasks, 'task')}" if self.tasks else "starting",
        ]
        return "  ".join(each for each in parts if each)


def run(spark: SparkSession, title: str, job: Callable[[], Result], status: JobProgress | None = None) -> Result:
    """Run a job with a progress bar; `status` gets the figures."""
    from palio.spark.implicit_casts import TYPE_CONFLICT_WARNING
    from palio.spark.match_job import MISSING_COLUMN_WARNING
    from palio.spark.record_batches import count_matches

    status = JobProgress() if status is None else status
    # The bar is full when all tasks that are known so far are done.
    with terminal.progress(terminal.messages(), title, 1) as progress:
        bar = progress.add_task("", total=None, done=str(status))

        def show() -> None:
            progress.update(bar, completed=status.completed, total=status.tasks or None, done=str(status))

        with count_matches(spark) as counter, _watch(spark, counter, status, show), warnings.catch_warnings():
            for beginning in (MISSING_COLUMN_WARNING, TYPE_CONFLICT_WARNING):  # the summary has them
                warnings.filterwarnings("ignore", beginning)
            return job()


@contextmanager
def _watch(
    spark: SparkSession, counter: MatchCounter | None, status: JobProgress, show: Callable[[], None]
) -> Iterator[None]:
    """Keep the progress up to date, by events of Connect or by polling."""
    from palio.spark.shared_index import is_connect

    started = time.perf_counter()
    look = _connect_progress(status) if counter is None else _status_progress(spark, counter, status)

    def take(*given: Any, **named: Any) -> None:
        with suppress(Exception):  # a stage that ended meanwhile
            look(*given, **named)
        status.seconds = time.perf_counter() - started
        show()

    if is_connect(spark):
        spark.registerProgressHandler(take)  # type: ignore[arg-type]
        try:
            yield
        finally:
            spark.removeProgressHandler(take)  # type: ignore[arg-type]
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_INTERVAL_SECONDS):
            take()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        with suppress(Exception):  # reports of the last tasks may be on their way
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_LISTENER_TIMEOUT_MILLISECONDS)
        take()


def _status_progress(spark: SparkSession, counter: MatchCounter, status: JobProgress) -> Callable[[], None]:
    """A function that reads the progress of the jobs that begin from now on."""
    tracker = spark.sparkContext.statusTracker()
    # The status tracker has no row counts; the store behind it and behind Spark's web page has them.
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    before = set(tracker.getJobIdsForGroup())

    def look() -> None:
        jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = [store.lastStageAttempt(stage) for stage in stages]
        status.rows = sum(each.inputRecords() for each in found)
        status.completed = sum(each.numCompleteTasks() for each in found)
        status.tasks = sum(each.numTasks() for each in found)
        status.matches = counter.value
        status.points.append(Point(status.seconds, status.rows))

    return look


def _connect_progress(status: JobProgress) -> Callable[..., None]:
    def update(stages: Any, **rest: Any) -> None:
        found = list(stages or ())
        status.completed = sum(each.num_completed_tasks for each in found)
        status.tasks = sum(each.num_tasks for each in found)

    return update


class Stopwatch:
    """Durations of the steps of a command, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the duration of the block to a name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    @property
    def rounded(self) -> dict[str, float]:
        """Milliseconds precision, for JSON."""
        return {name: round(taken, 3) for name, taken in self.seconds.items()}


def time_fact(seconds: Mapping[str, float]) -> tuple[str, str]:
    """The line of the summary about durations."""
    return "time", ", ".join(f"{name} {terminal.duration(taken)}" for name, taken in seconds.items())
