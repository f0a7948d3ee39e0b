"""Where did the time of a command go?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from palio.cli import terminal


class Times:
    """What took how long, by name, in the order in which it was done."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add what is done within this to the time of a name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    @property
    def rounded(self) -> dict[str, float]:
        """The same, for programs."""
        return {name: round(taken, 3) for name, taken in self.seconds.items()}


def time_fact(seconds: Mapping[str, float]) -> tuple[str, str]:
    """What a summary says of it."""
    return "time", ", ".join(f"{name} {terminal.duration(taken)}" for name, taken in seconds.items())
