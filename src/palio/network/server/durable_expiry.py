"""Expiry of durable subscriptions: one that asks for it ends after a time without a consumer.

The time runs from the moment at which the last consumer left, and from the start of the broker at the earliest: a
broker that was away for long must not end subscriptions whose consumers had no chance to come back. A timer for each
subscription that expires; the others cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from palio.network.server.consumer_groups import consumers_of
from palio.routing.client_messages import UnsubscribeClient

if TYPE_CHECKING:
    from palio.network.server.host import Host

log = logging.getLogger("palio.server")


class DurableExpiry:
    """The timers of the durable subscriptions that no session reads."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        host.on_consumer_gone = self.begin

    def begin_all(self) -> None:
        """Begin the time of all durable subscriptions that were recovered."""
        for client, name in list(self._host.durable_keys()):
            self.begin(client, name)

    def begin(self, client: str, name: str) -> None:
        """Begin the time of one: its last consumer has left, or its settings have changed."""
        timer = self._timers.pop((client, name), None)
        if timer is not None:
            timer.cancel()
        seconds = self._seconds(client, name)
        if seconds is not None and not consumers_of(self._host, client):
            self._timers[client, name] = self._loop.call_later(seconds, partial(self._expire, client, name))

    def _expire(self, client: str, name: str) -> None:
        del self._timers[client, name]
        # Where a consumer has come meanwhile, the time begins when it leaves.
        if self._seconds(client, name) is not None and not consumers_of(self._host, client):
            log.info("durable subscription expired", extra={"client": client, "subscription": name})
            self._host.counts["expired subscriptions"] += 1
            self._host.request(client, UnsubscribeClient(name))

    def _seconds(self, client: str, name: str) -> float | None:
        settings = self._host.durable_settings(client, name)
        return None if settings is None else settings.expires_after

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
