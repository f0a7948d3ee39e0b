"""How long does what a client asked for stand? As long as its filter is valid, counted from when it was last said.

The interval is relative and counted by this broker's own clock, so that no two clocks need agree (Jerzak §7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from palio.errors import Refused

LONGEST: Final = 10 * 365 * 24 * 3600.0  # seconds; the loop cannot wait much longer


class Validity:
    """What one client asked for a while only; `over` is called with the name of what is not valid any more."""

    def __init__(self, over: Callable[[str], None]) -> None:
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._seconds: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, name: str, seconds: float | None) -> None:
        """From now on it is valid for so long; None is without end."""
        self.forget(name)
        if seconds is not None:
            self._seconds[name] = seconds
            self._timers[name] = self._loop.call_later(min(seconds, LONGEST), partial(self._end, name))

    def renew(self, name: str) -> None:
        """It is valid for as long again."""
        if name not in self._seconds:
            raise Refused(f"{name!r} is nothing that is valid for a while only")
        self.begin(name, self._seconds[name])

    def forget(self, name: str) -> None:
        self._seconds.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for name in list(self._timers):
            self.forget(name)

    def _end(self, name: str) -> None:
        self.forget(name)
        self._over(name)
