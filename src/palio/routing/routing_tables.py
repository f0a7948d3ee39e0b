"""Routing tables: the filters that each neighbour and each client subscribed to and advertised.

Subscriptions and advertisements propagate by the same engine (`propagation.neighbour_updates`). Where advertisements
are on, a subscription goes only to neighbours that advertised something that may serve it; a client whose subscription
loses the last such advertisement, wherever that was, is told so (Jerzak §2.5.6, §8.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

from palio.filters.filter import Filter
from palio.routing.combinations import Combination
from palio.routing.effects import Client, Effect, Recipient, Reply, Send
from palio.routing.forwarding.strategy import InterestListener
from palio.routing.interest_index import Multimap
from palio.routing.memo import IdentityMemo
from palio.routing.messages import (
    LOCAL,
    Advertise,
    Cancelled,
    Key,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from palio.routing.propagation.neighbour_updates import (
    Advertised,
    AdvertisedUpdates,
    NeighbourUpdates,
    reduction_of,
)
from palio.routing.propagation.reductions import Unreduced

_CLIENT_OF: Final = itemgetter(0)  # of a recipient
_NAMES_OF: Final = itemgetter(1)


class ClientFilter(NamedTuple):
    """A filter of a client, and the key under which neighbours know it."""

    key: Key
    filter: Filter


class ClientTable:
    """Filters of clients by name; several clients may own one key."""

    __slots__ = ("_node", "_owned", "_owners", "_per_subscription", "_recipients")

    def __init__(self, node: int, per_subscription: bool) -> None:
        """With `per_subscription` each name has a key of its own (simple routing); else equal filters share one."""
        self._node = node
        self._per_subscription = per_subscription
        self._owned: dict[Client, dict[str, ClientFilter]] = {}
        # Recipients of one name each, always the same object: memos by identity depend on that.
        self._owners = Multimap[Key, Recipient]()
        self._recipients = IdentityMemo[tuple[Key, ...], tuple[Recipient, ...]]()

    def get(self, client: Client, name: str) -> ClientFilter | None:
        return self._owned.get(client, {}).get(name)

    def add(self, client: Client, name: str, filter: Filter) -> Key | None:
        """Add a filter under a new name; its key, where that is new as well."""
        key = self._key(client, name, filter)
        self._owned.setdefault(client, {})[name] = ClientFilter(key, filter)
        self._recipients.clear()
        return key if self._owners.add(key, Recipient(client, (name,))) == 1 else None

    def remove(self, client: Client, name: str) -> Key | None:
        """Remove a name; its key, where no other name has it."""
        self._recipients.clear()
        names = self._owned[client]
        key = names.pop(name).key
        if not names:
            del self._owned[client]
        return None if self._owners.remove(key, Recipient(client, (name,))) else key

    def clients(self) -> list[Client]:
        return list(self._owned)

    def names(self, client: Client) -> list[str]:
        return list(self._owned.get(client, ()))

    def filters(self, client: Client) -> list[Filter]:
        return [owned.filter for owned in self._owned.get(client, {}).values()]

    def keys(self) -> dict[Key, Filter]:
        """Every key once, with its filter."""
        return {owned.key: owned.filter for names in self._owned.values() for owned in names.values()}

    def owners(self, key: Key) -> Iterable[tuple[Client, str]]:
        return [(client, name) for client, (name,) in self._owners.at(key)]

    def recipients(self, keys: tuple[Key, ...]) -> tuple[Recipient, ...]:
        """The clients behind some keys, each once, with all their names that have one of the keys."""
        known = self._recipients.get(keys)
        return self._recipients.put(keys, self._group_by_client(keys)) if known is None else known

    def _group_by_client(self, keys: tuple[Key, ...]) -> tuple[Recipient, ...]:
        alone = self._owners.all_at(keys)
        # The common cases first: each client once, or one client alone.
        clients = set(map(_CLIENT_OF, alone))
        if len(clients) == len(alone):
            return tuple(sorted(alone))
        if len(clients) == 1:
            [only] = clients
            return (Recipient(only, tuple(sorted(chain.from_iterable(map(_NAMES_OF, alone))))),)
        together: dict[Client, list[Recipient]] = {}
        for each in alone:
            together.setdefault(each.client, []).append(each)
        return tuple(
            mine[0] if len(mine) == 1 else Recipient(client, tuple(sorted([name for _, (name,) in mine])))
            for client, mine in sorted(together.items())
        )

    def __len__(self) -> int:
        return len(self._owners)

    def _key(self, client: Client, name: str, filter: Filter) -> Key:
        if not self._per_subscription:
            return filter.digest
        owner = f"{self._node}\n{len(client)}\n{client}\n{name}".encode("utf-8", "surrogatepass")
        return blake2b(filter.digest + owner, digest_size=16).digest()


class RoutingTables:
    """All filters of one broker, by interface. `listener` is told of each that comes and goes."""

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
        # A broker that floods is told nothing by its neighbours, so it cannot say which subscriptions may be served.
        is_limited = combination.advertisements and combination.propagation != "flooding"
        self._listener = listener
        self._effects = effects
        self._subscription_updates = AdvertisedUpdates(reduce) if is_limited else NeighbourUpdates(reduce)
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
        self._listener.opened(link)
        self._subscription_updates.open_link(link)
        self._advertisement_updates.open_link(link)

    def close_link(self, link: int) -> None:
        self.forget(link)
        self._listener.closed(link)
        self._subscription_updates.close_link(link)
        self._advertisement_updates.close_link(link)

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
        advertisements, subscriptions = self._advertisement_updates.take(), self._subscription_updates.take()
        send = self._effects
        send += [Send(links, Advertise(key, offered)) for key, offered, links in advertisements.additions]
        send += [Send(links, Subscribe(key, wanted)) for key, wanted, links in subscriptions.additions]
        send += [Send(links, Unsubscribe(key)) for key, links in subscriptions.withdrawals]
        send += [Send(links, Unadvertise(key)) for key, links in advertisements.withdrawals]
        if self._served is not None:
            for key in self._served.change().withdrawals:
                send += [Reply(client, Cancelled(name)) for client, name in sorted(self.subscriptions.owners(key))]

    def _add_subscription(self, interface: int, key: Key, wanted: Filter) -> None:
        self.is_dirty = True
        self._subscription_updates.add(interface, key, wanted)
        self._listener.added(interface, key, wanted)

    def _remove_subscription(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        self._subscription_updates.remove(interface, key)
        self._listener.removed(interface, key)

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
