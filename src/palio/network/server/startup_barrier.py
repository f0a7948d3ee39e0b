"""Startup barrier: requests to the whole network wait until the dialled neighbours have sent their routing tables.

Such requests are "all brokers know it" and "no other broker has it". Before the barrier opens, no broker could answer
them. It opens after a bounded time in any case, since a dialled broker may stay away for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_POLL_SECONDS: Final = 0.02


class StartupBarrier:
    """Calls that wait until `is_open` holds for the first time, at most for `patience` seconds."""

    def __init__(self, is_open: Callable[[], bool], patience: float) -> None:
        self._is_open = is_open
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + patience
        self._calls: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._has_opened = False

    def run_after(self, call: Callable[[], None]) -> None:
        """Call once the barrier is open: at once where it is."""
        if self._has_opened or self._check():
            call()
        else:
            self._calls.append(call)
            self._poll_later()

    @property
    def is_open_now(self) -> bool:
        """Whether the condition holds now, whatever was before."""
        return self._is_open()

    def stop(self) -> None:
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> bool:
        self._has_opened = self._is_open() or self._loop.time() >= self._deadline
        return self._has_opened

    def _poll_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_POLL_SECONDS, self._poll)

    def _poll(self) -> None:
        self._timer = None
        if not self._check():
            self._poll_later()
            return
        calls, self._calls = self._calls, []
        for call in calls:
            call()
