"""Rebuild of a broker's derived tables: from what its clients asked for, and what its neighbours sent.

All other tables of routing are functions of these two: reductions and relation graphs, what links were told, indexes of
forwarding with their digests, trees and keys, memos, counters. A wrong entry in any of them cannot be told from a right
one without making the table anew; so that is what a round does. The rejected alternative, a digest of each derived
table, needs the right digest from somewhere, which costs the same.

`TableRebuild` fills a second set of tables, some entries at a time, while the broker works with the first; at the end
the second takes its place. So a round costs a broker as much as its start does, in slices of bounded length, and both
sets are in memory for that time.

`GuardedTables` take an exception of the tables for what it is where tables may be wrong in any way: two of them
contradict each other. They note it, and the broker rebuilds all of them before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Final, NamedTuple

from palio.filters.filter import Filter
from palio.routing.effects import Client
from palio.routing.forwarding.filter_index import filter_index_of
from palio.routing.forwarding.strategy import Forwarding
from palio.routing.home_tables import HomeRoutingTables
from palio.routing.interest_index import InterestIndex
from palio.routing.messages import KEY_BYTES, LOCAL, Advertise, Key, Subscribe
from palio.routing.routing_tables import RoutingTables

_NO_FILTERS: Final[dict[Key, Filter]] = {}


class RebuiltInterest:
    """Listener that fills the tables of events: a forwarding, the numbers of filters by link, and where `matcher` names
    one, the index of local filters."""

    __slots__ = ("filter_counts", "forwarding", "index")

    def __init__(self, forwarding: Forwarding, matcher: str | None) -> None:
        self.forwarding = forwarding
        self.filter_counts: dict[int, int] = {}
        self.index = None if matcher is None else InterestIndex(filter_index_of(matcher))

    def open_link(self, interface: int) -> None:
        self.forwarding.open_link(interface)

    def close_link(self, interface: int) -> None:
        self.forwarding.close_link(interface)

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        self.forwarding.add_filter(interface, key, wanted)
        if interface != LOCAL:
            self.filter_counts[interface] = self.filter_counts.get(interface, 0) + 1
        elif self.index is not None:
            self.index.add(LOCAL, key, wanted)

    def remove_filter(self, interface: int, key: Key) -> None:
        self.forwarding.remove_filter(interface, key)
        if interface != LOCAL:
            self.filter_counts[interface] -= 1
            if not self.filter_counts[interface]:
                del self.filter_counts[interface]
        elif self.index is not None:
            self.index.remove(LOCAL, key)


class _Received(NamedTuple):
    """A filter that came by a link."""

    is_offer: bool
    link: int
    key: Key


class _Owned(NamedTuple):
    """A filter of a client."""

    is_offer: bool
    client: Client
    name: str


class TableRebuild:
    """A second set of tables that is being filled. `forwarding` is the one without multicast lists around it."""

    __slots__ = ("_is_begun", "_links", "_pending", "_source", "forwarding", "interest", "tables")

    def __init__(
        self, source: RoutingTables, tables: RoutingTables, interest: RebuiltInterest, forwarding: Forwarding
    ) -> None:
        """`tables` are empty, and report to `interest`; `source` are the tables in use."""
        self._source = source
        self._links: dict[int, None] = {}
        self._pending: Iterator[_Received | _Owned] = iter(())
        self._is_begun = False
        self.tables = tables
        self.interest = interest
        self.forwarding = forwarding

    def advance(self, links: Collection[int], entries: int) -> bool:
        """Take over some more entries of the links in use; whether none is left to be taken."""
        if not self._is_begun:
            self._is_begun = True
            self._follow_links(links)
            self._pending = iter(list(self._all(links)))
        for _ in range(entries):
            item = next(self._pending, None)
            if item is None:
                return True
            self._take(item)
        # A slice at a time, too: the index takes what was added, and reductions decide on it.
        self.interest.forwarding.route(())
        self.tables.discard_updates()
        return False

    def finish(self, links: Collection[int], held: Collection[int] = ()) -> RoutingTables:
        """Take over what is left, and what has changed since it was taken; the tables, which owe no neighbour a
        message. Of the links some may be `held`: they are down, and what came by them is kept."""
        while not self.advance(links, 1_000_000):
            pass
        self._follow_links(links)
        for link in links:
            self._follow(
                self._source.remote_advertisements.get(link, _NO_FILTERS),
                self.tables.remote_advertisements.get(link, _NO_FILTERS),
                partial(self.tables.on_unadvertise, link),
                partial(self._take_offer, link),
            )
            self._follow(
                self._source.remote_subscriptions.get(link, _NO_FILTERS),
                self.tables.remote_subscriptions.get(link, _NO_FILTERS),
                partial(self.tables.on_unsubscribe, link),
                partial(self._take_filter, link),
            )
        self._follow_clients()
        self.tables.discard_updates()
        for link in held:
            self.tables.hold_link(link)
        return self.tables

    def _all(self, links: Collection[int]) -> Iterator[_Received | _Owned]:
        source = self._source
        # Advertisements first: a subscription that nothing serves would wait, and be looked at again for each.
        yield from (_Owned(True, *place) for place in source.advertisements.entries())
        for link in links:
            yield from (_Received(True, link, key) for key in source.remote_advertisements.get(link, ()))
        yield from (_Owned(False, *place) for place in source.subscriptions.entries())
        for link in links:
            yield from (_Received(False, link, key) for key in source.remote_subscriptions.get(link, ()))

    def _take(self, item: _Received | _Owned) -> None:
        if isinstance(item, _Received):
            take = self._take_offer if item.is_offer else self._take_filter
            take(item.link, item.key)
            return
        owned = (self._source.advertisements if item.is_offer else self._source.subscriptions).get(*item[1:])
        if owned is not None:
            add = self.tables.advertise if item.is_offer else self.tables.subscribe
            add(item.client, item.name, owned.filter)

    def _take_offer(self, link: int, key: Key) -> None:
        offered = self._source.remote_advertisements.get(link, _NO_FILTERS).get(key)
        if offered is not None and len(key) == KEY_BYTES:  # no neighbour could have sent another key
            self.tables.on_advertise(link, Advertise(key, offered))

    def _take_filter(self, link: int, key: Key) -> None:
        wanted = self._source.remote_subscriptions.get(link, _NO_FILTERS).get(key)
        if wanted is not None and len(key) == KEY_BYTES:
            self.tables.on_subscribe(link, Subscribe(key, wanted, self._source.home_of_received(key)))

    def _follow_links(self, links: Collection[int]) -> None:
        for link in [each for each in self._links if each not in links]:
            del self._links[link]
            self.tables.close_link(link)
        for link in links:
            if link not in self._links:
                self._links[link] = None
                self.tables.open_link(link)

    def _follow(
        self,
        source: dict[Key, Filter],
        taken: dict[Key, Filter],
        remove: Callable[[Key], None],
        add: Callable[[Key], None],
    ) -> None:
        for key in [key for key, wanted in taken.items() if source.get(key) is not wanted]:
            remove(key)
        for key in [key for key in source if key not in taken]:
            add(key)

    def _follow_clients(self) -> None:
        for is_offer, source, taken, remove in (
            (True, self._source.advertisements, self.tables.advertisements, self.tables.unadvertise),
            (False, self._source.subscriptions, self.tables.subscriptions, self.tables.unsubscribe),
        ):
            theirs, own = source.entries(), taken.entries()
            for place in [place for place, wanted in own.items() if theirs.get(place) is not wanted]:
                remove(*place)
            own = taken.entries()
            for place in theirs:
                if place not in own:
                    self._take(_Owned(is_offer, *place))


class _Guard(RoutingTables):
    """Tables that note an exception as damage. What clients and neighbours sent is written before anything can fail."""

    __slots__ = ()

    def _try(self, change: Callable[[], None]) -> None:
        try:
            change()
        except Exception:  # whatever contradictory tables may lead to
            self.is_damaged = True

    def open_link(self, link: int) -> None:
        self._try(lambda: super(_Guard, self).open_link(link))

    def close_link(self, link: int) -> None:
        self._try(lambda: super(_Guard, self).close_link(link))

    def hold_link(self, link: int) -> None:
        self._try(lambda: super(_Guard, self).hold_link(link))

    def resume_link(self, link: int) -> None:
        self._try(lambda: super(_Guard, self).resume_link(link))

    def direct(self, parent: int) -> None:
        self._try(lambda: super(_Guard, self).direct(parent))

    def subscribe(self, client: Client, name: str, wanted: Filter) -> None:
        self._try(lambda: super(_Guard, self).subscribe(client, name, wanted))

    def unsubscribe(self, client: Client, name: str) -> None:
        self._try(lambda: super(_Guard, self).unsubscribe(client, name))

    def advertise(self, client: Client, name: str, offered: Filter) -> None:
        self._try(lambda: super(_Guard, self).advertise(client, name, offered))

    def unadvertise(self, client: Client, name: str) -> None:
        self._try(lambda: super(_Guard, self).unadvertise(client, name))

    def send_updates(self) -> None:
        self._try(super().send_updates)

    def _add_subscription(self, interface: int, key: Key, wanted: Filter) -> None:
        self._try(lambda: super(_Guard, self)._add_subscription(interface, key, wanted))

    def _remove_subscription(self, interface: int, key: Key) -> None:
        self._try(lambda: super(_Guard, self)._remove_subscription(interface, key))

    def _add_advertisement(self, interface: int, key: Key, offered: Filter) -> None:
        self._try(lambda: super(_Guard, self)._add_advertisement(interface, key, offered))

    def _remove_advertisement(self, interface: int, key: Key) -> None:
        self._try(lambda: super(_Guard, self)._remove_advertisement(interface, key))


class GuardedTables(_Guard):
    """Routing tables that note damage."""

    __slots__ = ()


class GuardedHomeTables(_Guard, HomeRoutingTables):
    """Routing tables by home broker that note damage."""

    __slots__ = ()
