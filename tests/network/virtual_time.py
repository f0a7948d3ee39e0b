"""Virtual time for what waits by timers of the event loop."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    """Handle of a callback at a time."""

    def __init__(self, end: float, callback: Callable[[], None]) -> None:
        self.end = end
        self.callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class VirtualTime:
    """The timers of an event loop; they end when the test says that time has passed."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[Timer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self._now + seconds, callback))
        return self._timers[-1]

    def time(self) -> float:
        return self._now

    def pass_seconds(self, seconds: float) -> None:
        self._now += seconds
        for timer in list(self._timers):  # a callback may start another
            if timer.end <= self._now and not timer.is_over:
                timer.is_over = True
                timer.callback()
