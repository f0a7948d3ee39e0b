"""A Spark job seen from the terminal: how many rows it has read, how fast, what it found, and how far it is."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from palio.cli import terminal
from palio.cli.report import Point
from palio.spark.counting import counting_matches
from palio.spark.missing import SAID
from palio.spark.shared_index import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from palio.spark.counting import Counter

_LOOKED_AT_EVERY: Final = 0.2
_LAST_WORDS: Final = 2_000  # milliseconds to wait for them
Result = TypeVar("Result")


@dataclass
class Seen:
    """How far a job is, as far as Spark tells: when tasks are done, and through Connect the tasks alone."""

    rows: int = 0
    """What was read, or, of what comes from nowhere, made."""
    matches: int = 0
    completed: int = 0
    tasks: int = 0
    seconds: float = 0.0
    points: list[Point] = field(default_factory=list)
    """How many rows there were at which moment."""

    def __str__(self) -> str:
        said = [
            terminal.plural(self.rows, "row") if self.rows else "",
            f"{terminal.rate(self.rows, self.seconds)}/s" if self.rows else "",
            terminal.plural(self.matches, "match", "matches") if self.matches else "",
            f"{self.completed:,} of {terminal.plural(self.tasks, 'task')}" if self.tasks else "starting",
        ]
        return "  ".join(each for each in said if each)


def run(spark: SparkSession, title: str, job: Callable[[], Result], seen: Seen | None = None) -> Result:
    """Run a job while the terminal shows how far it is; `seen` gets the same figures."""
    seen = Seen() if seen is None else seen
    # The bar is full when all tasks are done that are known so far.
    with terminal.progress(terminal.messages(), title, 1) as progress:
        bar = progress.add_task("", total=None, done=str(seen))

        def show() -> None:
            progress.update(bar, completed=seen.completed, total=seen.tasks or None, done=str(seen))

        with counting_matches(spark) as counter, _watched(spark, counter, seen, show), warnings.catch_warnings():
            warnings.filterwarnings("ignore", SAID)  # the summary tells of them
            return job()


@contextmanager
def _watched(spark: SparkSession, counter: Counter | None, seen: Seen, show: Callable[[], None]) -> Iterator[None]:
    started = time.perf_counter()
    look = _told_by_connect(seen) if counter is None else _look_into(spark, counter, seen)

    def take(*given: Any, **named: Any) -> None:
        with suppress(Exception):  # a stage that ended meanwhile
            look(*given, **named)
        seen.seconds = time.perf_counter() - started
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
        while not done.wait(_LOOKED_AT_EVERY):
            take()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        with suppress(Exception):  # what the last tasks told is on its way
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_LAST_WORDS)
        take()


def _look_into(spark: SparkSession, counter: Counter, seen: Seen) -> Callable[[], None]:
    """A look at the stages of the jobs that begin from now on."""
    tracker = spark.sparkContext.statusTracker()
    # What the status tracker says of a stage has no rows; the store behind it, and behind Spark's own page, does.
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    before = set(tracker.getJobIdsForGroup())

    def look() -> None:
        jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = [store.lastStageAttempt(stage) for stage in stages]
        seen.rows = sum(each.inputRecords() for each in found)
        seen.completed = sum(each.numCompleteTasks() for each in found)
        seen.tasks = sum(each.numTasks() for each in found)
        seen.matches = counter.value
        seen.points.append(Point(seen.seconds, seen.rows))

    return look


def _told_by_connect(seen: Seen) -> Callable[..., None]:
    def told(stages: Any, **rest: Any) -> None:
        found = list(stages or ())
        seen.completed = sum(each.num_completed_tasks for each in found)
        seen.tasks = sum(each.num_tasks for each in found)

    return told
