"""Does a broker that has just started know its network? Not before those that it dials have told it what is wanted.

What is asked of the whole network waits for that: "all brokers know" and "nobody else has it" mean nothing where
nobody was met yet. It waits for a bounded time, for a broker that is dialled may be away for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_PAUSE: Final = 0.02  # seconds between two looks


class Settling:
    """Calls that wait until something holds for the first time, but for so many seconds at most."""

    def __init__(self, holds: Callable[[], bool], patience: float) -> None:
        self._holds = holds
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + patience
        self._calls: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_settled = False

    def then(self, call: Callable[[], None]) -> None:
        """Call at once where it is settled, otherwise when it is."""
        if self._is_settled or self._looks_settled():
            call()
        else:
            self._calls.append(call)
            self._wait()

    def stop(self) -> None:
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _looks_settled(self) -> bool:
        self._is_settled = self._holds() or self._loop.time() >= self._deadline
        return self._is_settled

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_PAUSE, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._looks_settled():
            self._wait()
            return
        calls, self._calls = self._calls, []
        for call in calls:
            call()
