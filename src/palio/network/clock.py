"""What time is it? What the wall says, unless that has just jumped: a jump is believed when it lasts.

Timers, heartbeats and patience go by a clock that never jumps. The log, whose entries are let go of by age, needs the
time of day. A clock that is wrong for a moment must not let a log go, nor leave times in it that are years ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

_SMALL: Final = (
    1.0  # seconds by which the wall may be put right at once, and a thousandth of the time since it was read
)
LASTING: Final = 600.0  # seconds after which a jump is believed


class SteadyClock:
    """Seconds since 1970. `wall` may jump; `steady` may not, and begins anywhere."""

    __slots__ = ("_doubt", "_lock", "_offset", "_read", "_steady", "_wall")

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = Lock()
        self._read = steady()
        self._offset = wall() - self._read
        self._doubt: tuple[float, float] | None = None  # another offset, and since when it is said to be right

    def __call__(self) -> float:
        with self._lock:
            now = self._steady()
            small = _SMALL + (now - self._read) / 1_000
            self._read = now
            offset = self._wall() - now
            if abs(offset - self._offset) <= small:
                self._offset, self._doubt = offset, None
            elif self._doubt is None or abs(offset - self._doubt[0]) > small:
                self._doubt = offset, now
            elif now - self._doubt[1] >= LASTING:
                self._offset, self._doubt = offset, None
            return now + self._offset
