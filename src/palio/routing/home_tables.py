"""Routing tables by home broker: each filter is known with the broker whose clients it is for.

Elsewhere a broker knows by which link a filter came, and events go back along it. Here it knows the home broker of the
filter, whatever the link: for multicast lists, which name home brokers (`forwarding.group`), and for trees of
publishers, whose links are not those by which filters come (`link_states`).

A home broker reduces the filters of its own clients, as the propagation says, and sends what is left, with its number,
to all brokers along the shared tree. Filters of two home brokers are never reduced together: on the trees of two
publishers an event goes to them by different ways. That is the price: n brokers with one filter each send n filters to
every other, where covering on a shared tree might send one.

Forwardings know interfaces, not brokers: each home broker has an interface of its own here, from 2 on, and
`forwarding.multicast` finds the links that lead there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from palio.filters.filter import Filter
from palio.routing.combinations import SUPPRESSING, Combination
from palio.routing.effects import Effect
from palio.routing.forwarding.strategy import InterestListener
from palio.routing.interest_index import ClientTable, home_key
from palio.routing.messages import LOCAL, Key, Subscribe
from palio.routing.propagation.neighbour_updates import reduction_of
from palio.routing.routing_tables import RoutingTables

NEIGHBOUR: Final = 1  # the interface of events that came from a neighbour, whichever it was; of no home broker


class HomeBrokers:
    """The interfaces of home brokers, and the links in use by which the filters of each came."""

    __slots__ = ("_interfaces", "_links", "nodes")

    def __init__(self) -> None:
        self._interfaces: dict[int, int] = {}
        self._links: dict[int, dict[int, int]] = {}  # by interface and link: the number of filters that came by it
        self.nodes: dict[int, int] = {}  # by interface

    def __contains__(self, node: int) -> bool:
        return node in self._interfaces

    def interface_of(self, node: int) -> int:
        """The interface of a home broker, which is given one where it has none."""
        interface = self._interfaces.get(node)
        if interface is None:
            interface = self._interfaces[node] = NEIGHBOUR + 1 + len(self._interfaces)
            self.nodes[interface] = node
        return interface

    def links_to(self, interface: int) -> Collection[int]:
        """The links of the shared tree that lead to a home broker: one, or while the tree changes several."""
        return self._links.get(interface, ())

    def add(self, interface: int, link: int) -> None:
        counts = self._links.setdefault(interface, {})
        counts[link] = counts.get(link, 0) + 1

    def remove(self, interface: int, link: int) -> None:
        counts = self._links[interface]
        counts[link] -= 1
        if not counts[link]:
            del counts[link]


class HomeRoutingTables(RoutingTables):
    """Filters with their home brokers."""

    __slots__ = ("_homes", "_is_reduced", "_known", "_node", "_reduction")

    def __init__(
        self,
        node: int,
        combination: Combination,
        listener: InterestListener,
        effects: list[Effect],
        homes: HomeBrokers,
    ) -> None:
        super().__init__(node, combination, listener, effects)
        self._node = node
        self._homes = homes
        self._is_reduced = combination.propagation in SUPPRESSING
        self._reduction = reduction_of(combination)()  # of the filters of this broker's clients
        self._known: dict[Key, tuple[int, dict[int, None]]] = {}  # home broker, and the links by which a filter came
        self.subscriptions = ClientTable(node, combination.propagation == "simple", has_home_keys=True)

    def on_subscribe(self, link: int, message: Subscribe) -> None:
        if message.home is not None:
            home, links = self._known.setdefault(message.key, (message.home, {}))
            if home != message.home:
                # A key belongs to one home broker: what was known before is wrong.
                self._known[message.key] = message.home, links
                self.is_damaged = True
            super().on_subscribe(link, message)

    def home_of_told(self, key: Key) -> int | None:
        known = self._known.get(key)
        return self._node if known is None else known[0]

    def home_of_received(self, key: Key) -> int | None:
        known = self._known.get(key)
        return None if known is None else known[0]

    def adopt(self, other: RoutingTables) -> None:
        super().adopt(other)
        if isinstance(other, HomeRoutingTables):
            self._homes, self._reduction, self._known = other._homes, other._reduction, other._known

    def send_updates(self) -> None:
        self._take_own_changes()
        super().send_updates()

    def _take_own_changes(self) -> None:
        change = self._reduction.change()
        for key, wanted in change.additions.items():
            self.subscription_updates.add(LOCAL, self._own_key(key), wanted)
        for key in change.withdrawals:
            self.subscription_updates.remove(LOCAL, self._own_key(key))

    def _own_key(self, key: Key) -> Key:
        # The reductions that drop filters give digests, which other home brokers may have as well.
        return home_key(self._node, key) if self._is_reduced else key

    def discard_updates(self) -> None:
        self._take_own_changes()
        super().discard_updates()

    def subscribe_message(self, key: Key, wanted: Filter) -> Subscribe:
        return Subscribe(key, wanted, self.home_of_told(key))

    def _add_subscription(self, interface: int, key: Key, wanted: Filter) -> None:
        self.is_dirty = True
        if interface == LOCAL:
            self._reduction.add(key, wanted)
            self._listener.add_filter(LOCAL, key, wanted)
            return
        self.subscription_updates.add(interface, key, wanted)
        home, links = self._known[key]
        if home == self._node:
            links[interface] = None
            return  # an own filter that comes back while the tree changes
        at = self._homes.interface_of(home)
        if not links:
            self._listener.add_filter(at, key, wanted)
        links[interface] = None
        self._homes.add(at, interface)

    def _move_subscription(self, key: Key, wanted: Filter, before: int, after: int) -> None:
        self.subscription_updates.move(key, before, after)
        home, links = self._known[key]
        del links[before]
        links[after] = None
        if home != self._node:
            at = self._homes.interface_of(home)
            self._homes.add(at, after)
            self._homes.remove(at, before)

    def _remove_subscription(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        if interface == LOCAL:
            self._reduction.remove(key)
            self._listener.remove_filter(LOCAL, key)
            return
        self.subscription_updates.remove(interface, key)
        home, links = self._known[key]
        del links[interface]
        if not links:
            del self._known[key]
        if home != self._node:
            at = self._homes.interface_of(home)
            self._homes.remove(at, interface)
            if not links:
                self._listener.remove_filter(at, key)
