"""How much of a broker does each principal have, over all of its connections, whatever they speak?"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from palio.errors import LimitReached
from palio.network.security.limits import Limits, Places, Rate

_ALL_SUBSCRIPTIONS: Final = 2**62  # of everybody together there is no other bound than each one's own


class Shares:
    """What each principal has taken. Rates outlive connections: whoever comes again finds what was left."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        """`now` is a clock that never jumps."""
        self.connections = Places("connections", limits.connections, limits.connections_per_principal, "connections")
        self.subscriptions = Places(
            "subscriptions", _ALL_SUBSCRIPTIONS, limits.subscriptions_per_principal, "subscriptions"
        )
        self.has_rate = limits.events_per_second != inf  # whether publishing is bounded at all
        self._limits = limits
        self._now = now
        self._rates: dict[str, Rate] = {}

    def left(self, who: str) -> float:
        """How many events somebody may publish at once."""
        rate = self._rates.get(who)
        if not self.has_rate:
            return inf
        return self._limits.burst_events if rate is None else rate.left(self._now())

    def publish(self, who: str, events: int) -> None:
        """Somebody is about to publish so many events; LimitReached where that is too fast."""
        if not self.has_rate:
            return
        if events > self._limits.burst_events:
            most = self._limits.burst_events
            raise LimitReached("burst_events", most, f"{events:,} events at once are never let in")
        now = self._now()
        rate = self._rates.get(who)
        if rate is None:
            rate = self._rates[who] = Rate(self._limits.events_per_second, self._limits.burst_events, now)
        if not rate.take(events, now):
            raise LimitReached("events_per_second", self._limits.events_per_second, f"{who} publishes too fast")
