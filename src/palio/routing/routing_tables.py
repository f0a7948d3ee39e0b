"""Routing tables: the filters that each neighbour and each client subscribed to and advertised.

Subscriptions and advertisements propagate by the same engine (`propagation.neighbour_updates`). Where advertisements
are on, a subscription goes only to neighbours that advertised something that may serve it; a client whose subscription
loses the last such advertisement, wherever that was, gets `Cancelled` (Jerzak §2.5.6, §8.1).
"""

from __future__ import annotations

from palio.filters.filter import Filter
from palio.routing.client_messages import Cancelled
from palio.routing.combinations import Combination
from palio.routing.effects import Client, Effect, Reply, Send
from palio.routing.forwarding.strategy import InterestListener
from palio.routing.interest_index import ClientTable
from palio.routing.messages import LOCAL, Advertise, Key, Subscribe, Unadvertise, Unsubscribe
from palio.routing.propagation.neighbour_updates import (
    Advertised,
    AdvertisedUpdates,
    NeighbourUpdates,
    reduction_of,
)
from palio.routing.propagation.reductions import Unreduced


class RoutingTables:
    """All filters of one broker, by interface. `listener` is called for each that comes and goes."""

    __slots__ = (
        "_advertisement_updates",
        "_effects",
        "_listener",
        "_served",
        "_subscription_updates",
        "advertisements",
        "is_dirty",
        "remote_advertisements",
        "remote_subscriptions",
        "subscriptions",
    )

    def __init__(self, node: int, combination: Combination, listener: InterestListener, effects: list[Effect]) -> None:
        reduce = reduction_of(combination)
        per_subscription = combination.propagation == "simple"
        # With flooding neighbours send no filters, so that a broker cannot tell which subscriptions may be served.
        is_limited = combination.advertisements and combination.propagation != "flooding"
        self._listener = listener
        self._effects = effects
        # Of filters with home brokers, the home broker has reduced those of its clients, and others pass them on.
        passed_on = Unreduced if combination.has_homes else reduce
        self._subscription_updates = AdvertisedUpdates(passed_on) if is_limited else NeighbourUpdates(passed_on)
        self._advertisement_updates = NeighbourUpdates(reduce)
        self._served = Advertised(Unreduced()) if is_limited else None
        self.is_dirty = False  # whether `send_updates` may have something to send
        self.subscriptions = ClientTable(node, per_subscription)
        self.advertisements = ClientTable(node, per_subscription)
        self.remote_subscriptions: dict[int, dict[Key, Filter]] = {}
        self.remote_advertisements: dict[int, dict[Key, Filter]] = {}

    # Neighbours

    def open_link(self, link: int) -> None:
        self.is_dirty = True
        self._listener.open_link(link)
        self._subscription_updates.open_link(link)
        self._advertisement_updates.open_link(link)

    def close_link(self, link: int) -> None:
        # Filters go before their link: a listener never has filters of a link that is closed.
        self.forget(link)
        self._listener.close_link(link)
        self._subscription_updates.close_link(link)
        self._advertisement_updates.close_link(link)

    def direct(self, parent: int) -> None:
        """Send filters to the parent of a hierarchy alone."""
        if self._subscription_updates.direct(parent):
            self.is_dirty = True

    def forget(self, link: int) -> None:
        """Withdraw all that came by a link."""
        for key in self.remote_subscriptions.pop(link, {}):
            self._remove_subscription(link, key)
        for key in self.remote_advertisements.pop(link, {}):
            self._remove_advertisement(link, key)

    def on_subscribe(self, link: int, message: Subscribe) -> None:
        known = self.remote_subscriptions.setdefault(link, {})
        if message.key not in known:
            known[message.key] = message.wanted
            self._add_subscription(link, message.key, message.wanted)

    def on_unsubscribe(self, link: int, key: Key) -> None:
        if self.remote_subscriptions.get(link, {}).pop(key, None) is not None:
            self._remove_subscription(link, key)

    def on_advertise(self, link: int, message: Advertise) -> None:
        known = self.remote_advertisements.setdefault(link, {})
        if message.key not in known:
            known[message.key] = message.offered
            self._add_advertisement(link, message.key, message.offered)

    def on_unadvertise(self, link: int, key: Key) -> None:
        if self.remote_advertisements.get(link, {}).pop(key, None) is not None:
            self._remove_advertisement(link, key)

    # Clients

    def subscribe(self, client: Client, name: str, wanted: Filter) -> None:
        # A name that is used again replaces its filter. If both share a key, neighbours see no change: additions and
        # withdrawals of a batch cancel out in the reductions.
        self.unsubscribe(client, name)
        key = self.subscriptions.add(client, name, wanted)
        if key is not None:
            self._add_subscription(LOCAL, key, wanted)
            if self._served is not None:
                self._served.add(key, wanted)

    def unsubscribe(self, client: Client, name: str) -> None:
        if self.subscriptions.get(client, name) is None:
            return
        key = self.subscriptions.remove(client, name)
        if key is not None:
            self._remove_subscription(LOCAL, key)
            if self._served is not None:
                self._served.remove(key)

    def advertise(self, client: Client, name: str, offered: Filter) -> None:
        self.unadvertise(client, name)
        key = self.advertisements.add(client, name, offered)
        if key is not None:
            self._add_advertisement(LOCAL, key, offered)

    def unadvertise(self, client: Client, name: str) -> None:
        if self.advertisements.get(client, name) is None:
            return
        key = self.advertisements.remove(client, name)
        if key is not None:
            self._remove_advertisement(LOCAL, key)

    # Updates

    def send_updates(self) -> None:
        """Send neighbours and clients the changes since the last call: all additions before all withdrawals."""
        self.is_dirty = False
        # Advertisements enclose subscriptions: they come before a subscription relies on them, and go after it.
        advertisements, subscriptions = self._advertisement_updates.take(), self._subscription_updates.take()
        send = self._effects
        send += [Send(links, Advertise(key, offered)) for key, offered, links in advertisements.additions]
        send += [Send(links, self._message(key, wanted)) for key, wanted, links in subscriptions.additions]
        send += [Send(links, Unsubscribe(key)) for key, links in subscriptions.withdrawals]
        send += [Send(links, Unadvertise(key)) for key, links in advertisements.withdrawals]
        if self._served is not None:
            for key in self._served.change().withdrawals:
                send += [Reply(client, Cancelled(name)) for client, name in sorted(self.subscriptions.owners(key))]

    def _message(self, key: Key, wanted: Filter) -> Subscribe:
        return Subscribe(key, wanted)

    def _add_subscription(self, interface: int, key: Key, wanted: Filter) -> None:
        self.is_dirty = True
        self._subscription_updates.add(interface, key, wanted)
        self._listener.add_filter(interface, key, wanted)

    def _remove_subscription(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        self._subscription_updates.remove(interface, key)
        self._listener.remove_filter(interface, key)

    def _add_advertisement(self, interface: int, key: Key, offered: Filter) -> None:
        self.is_dirty = True
        self._advertisement_updates.add(interface, key, offered)
        if self._served is not None:
            self._served.advertise((interface, key), offered)
            if interface != LOCAL and isinstance(self._subscription_updates, AdvertisedUpdates):
                self._subscription_updates.advertise(interface, key, offered)

    def _remove_advertisement(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        self._advertisement_updates.remove(interface, key)
        if self._served is not None:
            self._served.withdraw((interface, key))
            if interface != LOCAL and isinstance(self._subscription_updates, AdvertisedUpdates):
                self._subscription_updates.withdraw(interface, key)
