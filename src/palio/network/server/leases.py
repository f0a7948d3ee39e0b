"""Leases: how long a subscription or an advertisement of a client stands without being renewed.

The length of a lease is relative and measured by this broker's own clock, so that no two clocks need agree (Jerzak §7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from palio.errors import Refused

MAX_LEASE_SECONDS: Final = 10 * 365 * 24 * 3600.0  # a timer of the loop cannot wait much longer


class Leases:
    """Leases of one client by name; `on_expired` is called with the name of each that is not renewed in time."""

    def __init__(self, on_expired: Callable[[str], None]) -> None:
        self._on_expired = on_expired
        self._loop = asyncio.get_running_loop()
        self._seconds: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def begin(self, name: str, seconds: float | None) -> None:
        """Start a lease; None is without end."""
        self.forget(name)
        if seconds is not None:
            self._seconds[name] = seconds
            self._timers[name] = self._loop.call_later(min(seconds, MAX_LEASE_SECONDS), partial(self._expire, name))

    def renew(self, name: str) -> None:
        """Start the lease anew, with the same length."""
        if name not in self._seconds:
            raise Refused(f"{name!r} has no lease to extend; its subscription was made without one, or has ended")
        self.begin(name, self._seconds[name])

    def forget(self, name: str) -> None:
        self._seconds.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        for name in list(self._timers):
            self.forget(name)

    def _expire(self, name: str) -> None:
        self.forget(name)
        self._on_expired(name)
