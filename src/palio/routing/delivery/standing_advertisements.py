"""Advertisements that stand after their clients withdrew them, for as long as the event log needs them.

Subscriptions follow advertisements. A confirmed event may wait for a home broker that is away; were its advertisement
withdrawn meanwhile, because the publisher took it back or left, the subscriptions of that home would not come here when
it returns, and the event would be routed to nobody. So a withdrawn advertisement stands until the events that were
logged before have ended. What an earlier life left in the log was advertised by clients that are not here again:
everything is advertised for it.
"""

from __future__ import annotations

from typing import Final

from palio.filters.filter import Filter
from palio.routing.delivery.durable_delivery import DurableDelivery
from palio.routing.effects import Client
from palio.routing.messages import EventId
from palio.routing.routing_tables import RoutingTables

_LOG: Final = "\0log"  # the owner of these advertisements, which is no client
_EVERYTHING: Final = Filter.everything.digest.hex()
_MAX_HELD: Final = 1_000  # then everything is advertised: clients could withdraw any number while a home is away


class StandingAdvertisements:
    """The advertisements of one broker that its event log needs. `held` is empty on the way of most events."""

    __slots__ = ("_delivery", "_oldest", "_tables", "held")

    def __init__(self, tables: RoutingTables, delivery: DurableDelivery) -> None:
        self._tables = tables
        self._delivery = delivery
        self._oldest: EventId | None = None  # of the unfinished events, when it was looked for last
        self.held: dict[str, EventId] = {}  # the last event that needs each
        self._hold(Filter.everything)

    def withdraw(self, client: Client, name: str) -> None:
        """Withdraw an advertisement of a client, which stands for the events of the log."""
        advertised = self._tables.advertisements.get(client, name)
        if advertised is not None:
            self._hold(advertised.filter)
            self._tables.unadvertise(client, name)

    def _hold(self, offered: Filter) -> None:
        newest = self._delivery.newest_of_advertisements()
        if newest is None:
            return
        name = offered.digest.hex()
        if _EVERYTHING in self.held or (name not in self.held and len(self.held) >= _MAX_HELD):
            name, offered = _EVERYTHING, Filter.everything
        if name not in self.held:
            self._tables.advertise(_LOG, name, offered)
        self.held[name] = newest

    def review(self) -> None:
        """Withdraw what no event of the log needs any more."""
        before, self._oldest = self._oldest, self._delivery.oldest_unfinished(self._oldest)
        if self._oldest == before is not None:
            return
        for name, last in list(self.held.items()):
            if self._oldest is None or self._oldest > last:
                del self.held[name]
                self._tables.unadvertise(_LOG, name)
