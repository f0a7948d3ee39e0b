"""Routing tables: the filters that each neighbour and each client subscribed to and advertised.

Subscriptions and advertisements propagate by the same engine (`propagation.neighbour_updates`). Where advertisements
are on, a subscription goes only to neighbours that advertised something that may serve it; a client whose subscription
loses the last such advertisement, wherever that was, gets `Cancelled` (Jerzak §2.5.6, §8.1).
"""

from __future__ import annotations

from typing import Protocol

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
    Updates,
    reduction_of,
)
from palio.routing.propagation.reductions import Unreduced


class UpdateWriter(Protocol):
    """Writes the updates of tables as messages to neighbours, in another way than once each."""

    def open_link(self, link: int) -> None: ...

    def close_link(self, link: int) -> None: ...

    def messages(self, offered: Updates, wanted: Updates) -> list[Send]:
        """The messages for changes of advertisements and of subscriptions, in the order in which they are sent."""
        ...


class RoutingTables:
    """All filters of one broker, by interface. `listener` is called for each that comes and goes."""

    __slots__ = (
        "_effects",
        "_listener",
        "_served",
        "advertisement_updates",
        "advertisements",
        "is_dirty",
        "remote_advertisements",
        "remote_subscriptions",
        "subscription_updates",
        "subscriptions",
        "writer",
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
        self.subscription_updates = AdvertisedUpdates(passed_on) if is_limited else NeighbourUpdates(passed_on)
        self.advertisement_updates = NeighbourUpdates(reduce)
        self._served = Advertised(Unreduced()) if is_limited else None
        self.writer: UpdateWriter | None = None  # None where each update is sent once
        self.is_dirty = False  # whether `send_updates` may have something to send
        self.subscriptions = ClientTable(node, per_subscription)
        self.advertisements = ClientTable(node, per_subscription)
        self.remote_subscriptions: dict[int, dict[Key, Filter]] = {}
        self.remote_advertisements: dict[int, dict[Key, Filter]] = {}

    # Neighbours

    def open_link(self, link: int) -> None:
        self.is_dirty = True
        self._listener.open_link(link)
        self.subscription_updates.open_link(link)
        self.advertisement_updates.open_link(link)
        if self.writer is not None:
            self.writer.open_link(link)

    def close_link(self, link: int) -> None:
        # Filters go before their link: a listener never has filters of a link that is closed.
        self.forget(link)
        self._listener.close_link(link)
        self.subscription_updates.close_link(link)
        self.advertisement_updates.close_link(link)
        if self.writer is not None:
            self.writer.close_link(link)

    def direct(self, parent: int) -> None:
        """Send filters to the parent of a hierarchy alone."""
        if self.subscription_updates.direct(parent):
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
        offered, wanted = self.take_updates()
        if self.writer is None:
            # Advertisements enclose subscriptions: they come before a subscription relies on them, and go after it.
            send = self._effects
            send += [Send(links, Advertise(key, each)) for key, each, links in offered.additions]
            send += [Send(links, self.subscribe_message(key, each)) for key, each, links in wanted.additions]
            send += [Send(links, Unsubscribe(key)) for key, links in wanted.withdrawals]
            send += [Send(links, Unadvertise(key)) for key, links in offered.withdrawals]
        else:
            self._effects += self.writer.messages(offered, wanted)
        self.cancel_unserved()

    def take_updates(self) -> tuple[Updates, Updates]:
        """The changes of advertisements and of subscriptions since the last call."""
        self.is_dirty = False
        return self.advertisement_updates.take(), self.subscription_updates.take()

    def cancel_unserved(self) -> None:
        """Tell clients whose subscriptions have lost the last advertisement that could serve them."""
        if self._served is not None:
            for key in self._served.change().withdrawals:
                owners = sorted(self.subscriptions.owners(key))
                self._effects += [Reply(client, Cancelled(name)) for client, name in owners]

    def subscribe_message(self, key: Key, wanted: Filter) -> Subscribe:
        return Subscribe(key, wanted)

    def _add_subscription(self, interface: int, key: Key, wanted: Filter) -> None:
        self.is_dirty = True
        self.subscription_updates.add(interface, key, wanted)
        self._listener.add_filter(interface, key, wanted)

    def _remove_subscription(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        self.subscription_updates.remove(interface, key)
        self._listener.remove_filter(interface, key)

    def _add_advertisement(self, interface: int, key: Key, offered: Filter) -> None:
        self.is_dirty = True
        self.advertisement_updates.add(interface, key, offered)
        if self._served is not None:
            self._served.advertise((interface, key), offered)
            if interface != LOCAL and isinstance(self.subscription_updates, AdvertisedUpdates):
                self.subscription_updates.advertise(interface, key, offered)

    def _remove_advertisement(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        self.advertisement_updates.remove(interface, key)
        if self._served is not None:
            self._served.withdraw((interface, key))
            if interface != LOCAL and isinstance(self.subscription_updates, AdvertisedUpdates):
                self.subscription_updates.withdraw(interface, key)
