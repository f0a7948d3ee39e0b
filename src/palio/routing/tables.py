"""What does a broker know? All that each neighbour and each client wants and offers, and who must be told of it.

Subscriptions and advertisements spread by the same engine. Where advertisements are on, a subscription goes only to
neighbours that advertised something it may be served by; a client whose subscription loses the last such
advertisement, wherever that was, is told so (Jerzak §2.5.6, §8.1).
"""

from __future__ import annotations

from palio.filters.filter import Filter
from palio.routing.clients import Cancelled
from palio.routing.combinations import Combination
from palio.routing.effects import Client, Effect, Reply, Send
from palio.routing.forwarding.protocol import Listener
from palio.routing.local import LocalTable
from palio.routing.messages import LOCAL, Advertise, Key, Subscribe, Unadvertise, Unsubscribe
from palio.routing.propagation.advertisements import Served
from palio.routing.propagation.differences import ServedSpread, Spread
from palio.routing.propagation.everything import Everything
from palio.routing.propagation.known import reduction_of


class Tables:
    """All filters of one broker, by interface."""

    __slots__ = ("_listener", "_offers", "_served", "_wants", "offered", "offers", "wanted", "wants")

    def __init__(self, node: int, combination: Combination, listener: Listener) -> None:
        reduce = reduction_of(combination)
        of_subscriber = combination.propagation == "simple"
        # A broker that floods is told nothing by its neighbours, so it cannot say who may be served.
        gated = combination.advertisements and combination.propagation != "flooding"
        self._listener = listener
        self._wants: Spread = ServedSpread(reduce) if gated else Spread(reduce)
        self._offers = Spread(reduce)
        self._served = Served(Everything()) if gated else None
        self.wants = LocalTable(node, of_subscriber)
        self.offers = LocalTable(node, of_subscriber)
        self.wanted: dict[int, dict[Key, Filter]] = {}
        self.offered: dict[int, dict[Key, Filter]] = {}

    # Neighbours

    def opened(self, link: int) -> None:
        self._listener.opened(link)
        self._wants.opened(link)
        self._offers.opened(link)

    def closed(self, link: int) -> None:
        self.forget(link)
        self._listener.closed(link)
        self._wants.closed(link)
        self._offers.closed(link)

    def forget(self, link: int) -> None:
        """Withdraw all that came by a link."""
        for key in self.wanted.pop(link, {}):
            self._wants.removed(link, key)
            self._listener.removed(link, key)
        for key in list(self.offered.get(link, ())):
            self.unadvertised(link, key)
        self.offered.pop(link, None)

    def subscribed(self, link: int, key: Key, wanted: Filter) -> None:
        known = self.wanted.setdefault(link, {})
        if key not in known:
            known[key] = wanted
            self._want(link, key, wanted)

    def unsubscribed(self, link: int, key: Key) -> None:
        if self.wanted.get(link, {}).pop(key, None) is not None:
            self._wants.removed(link, key)
            self._listener.removed(link, key)

    def advertised(self, link: int, key: Key, offered: Filter) -> None:
        known = self.offered.setdefault(link, {})
        if key not in known:
            known[key] = offered
            self._offer(link, key, offered)

    def unadvertised(self, link: int, key: Key) -> None:
        if self.offered.get(link, {}).pop(key, None) is not None:
            self._withdraw(link, key)

    # Clients

    def subscribe(self, client: Client, name: str, wanted: Filter) -> None:
        self.unsubscribe(client, name)
        key = self.wants.add(client, name, wanted)
        if key is not None:
            self._want(LOCAL, key, wanted)
            if self._served is not None:
                self._served.add(key, wanted)

    def unsubscribe(self, client: Client, name: str) -> None:
        if self.wants.get(client, name) is None:
            return
        key = self.wants.remove(client, name)
        if key is not None:
            self._wants.removed(LOCAL, key)
            self._listener.removed(LOCAL, key)
            if self._served is not None:
                self._served.remove(key)

    def advertise(self, client: Client, name: str, offered: Filter) -> None:
        self.unadvertise(client, name)
        key = self.offers.add(client, name, offered)
        if key is not None:
            self._offer(LOCAL, key, offered)

    def unadvertise(self, client: Client, name: str) -> None:
        if self.offers.get(client, name) is None:
            return
        key = self.offers.remove(client, name)
        if key is not None:
            self._withdraw(LOCAL, key)

    # What is to be said

    def differences(self) -> list[Effect]:
        """What neighbours and clients must be told since the last call: all that is added before all that goes."""
        effects: list[Effect] = []
        offers = self._offers.differences() if self._offers.is_touched else None
        wants = self._wants.differences() if self._wants.is_touched else None
        if offers is not None:
            effects += [Send(links, Advertise(key, offered)) for key, offered, links in offers.additions]
        if wants is not None:
            effects += [Send(links, Subscribe(key, wanted)) for key, wanted, links in wants.additions]
            effects += [Send(links, Unsubscribe(key)) for key, links in wants.withdrawals]
        if offers is not None:
            effects += [Send(links, Unadvertise(key)) for key, links in offers.withdrawals]
        if self._served is not None:
            for key in self._served.change().withdrawals:
                effects += [Reply(client, Cancelled(name)) for client, name in sorted(self.wants.owners(key))]
        return effects

    def _want(self, interface: int, key: Key, wanted: Filter) -> None:
        self._wants.added(interface, key, wanted)
        self._listener.added(interface, key, wanted)

    def _offer(self, interface: int, key: Key, offered: Filter) -> None:
        self._offers.added(interface, key, offered)
        if self._served is not None:
            self._served.offer((interface, key), offered)
            if interface != LOCAL and isinstance(self._wants, ServedSpread):
                self._wants.offered(interface, key, offered)

    def _withdraw(self, interface: int, key: Key) -> None:
        self._offers.removed(interface, key)
        if self._served is not None:
            self._served.withdraw((interface, key))
            if interface != LOCAL and isinstance(self._wants, ServedSpread):
                self._wants.withdrawn(interface, key)
