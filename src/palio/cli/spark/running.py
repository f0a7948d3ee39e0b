"""A Spark job seen from the terminal: how far it is, and what it wrote."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from palio.cli import terminal
from palio.cli.report import Point
from palio.spark.shared_index import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

_LOOKED_AT_EVERY: Final = 0.2
Result = TypeVar("Result")


def run(spark: SparkSession, title: str, job: Callable[[], Result], tasks: list[Point] | None = None) -> Result:
    """Run a job while the terminal shows how many of its tasks are done; `tasks` gets the same as points."""
    console = terminal.messages()
    if is_connect(spark):
        with terminal.progress(console, title, None) as progress:
            progress.add_task("", done="on the cluster")
            return job()
    done = threading.Event()
    with terminal.progress(console, title, 1) as progress:
        task = progress.add_task("", total=None, done="starting")
        watcher = threading.Thread(target=_watch, args=(spark, progress, task, done, tasks), daemon=True)
        watcher.start()
        try:
            return job()
        finally:
            done.set()
            watcher.join()


def _watch(
    spark: SparkSession, progress: Progress, task: TaskID, done: threading.Event, tasks: list[Point] | None
) -> None:
    tracker = spark.sparkContext.statusTracker()
    seen: dict[int, tuple[int, int]] = {}
    started = time.perf_counter()
    while not done.wait(_LOOKED_AT_EVERY):
        with suppress(Exception):  # a stage that ended meanwhile
            for stage in tracker.getActiveStageIds():
                info: Any = tracker.getStageInfo(stage)
                if info is not None:
                    seen[stage] = (info.numCompletedTasks, info.numTasks)
        completed, total = (sum(each[at] for each in seen.values()) for at in (0, 1))
        if total:
            elapsed = time.perf_counter() - started
            progress.update(
                task, completed=completed, total=total, done=f"{completed} of {total} tasks  {elapsed:.0f} s"
            )
            if tasks is not None:
                tasks.append(Point(elapsed, completed))
