"""Benchmark clock: CPU time of this process on one core, all its threads included.

Wall time on a shared machine measures the neighbours. CPU time of the whole process also counts what an
engine does in background threads, which would otherwise be free.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time


def pin_to_one_core() -> int | None:
    """Keep this process, and those it starts, on one core; its number, or None where that cannot be."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


class OutOfTime(Exception):
    """An engine did not finish in the time it was given."""


class Budget:
    """Some seconds of CPU time, counted from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = process_time() + seconds

    @property
    def spent(self) -> bool:
        return process_time() >= self._end

    def check(self) -> None:
        if self.spent:
            raise OutOfTime


class Stopwatch:
    """The CPU seconds of a `with` block."""

    seconds = 0.0


@contextmanager
def timed() -> Iterator[Stopwatch]:
    watch = Stopwatch()
    start = process_time()
    try:
        yield watch
    finally:
        watch.seconds = process_time() - start


def with_bytecode(folder: Path) -> dict[str, str]:
    """The variables of this process, for others that measure their start: bytecode is kept, as installed packages have
    it, in a folder of its own."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return variables | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
