"""Time limit for code that must not hang: a slow call is interrupted, so that the test shows where."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Hangs(Exception):
    """It took a minute of CPU time, where a second would be long."""


@contextmanager
def no_hang(seconds: float = 60) -> Iterator[None]:
    """Not to judge speed: the limit is what no machine needs, unless the work grows with a power of its input."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise Hangs(f"not done after {seconds} seconds of CPU time")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
