"""Leases on tables: what a neighbour sent holds for a time, and is forgotten unless it is renewed (Jerzak §7).

Each broker renews the filters of its own clients. A renewal goes on over every link whose other end was told the entry,
although nothing has changed there; one that another filter covers goes no further. An entry that is not renewed in time
is forgotten here and nothing is sent, because its renewals do not reach the brokers behind either: they forget it by
themselves, at about the same time. Withdrawals of owners are sent as with hard state. They make tables right sooner,
and none relies on them.

**What was told.** `NeighbourUpdates` gives the difference to what a link should know. Where an expiry changes that, the
difference is not sent. What is no longer needed there is taken off what was told. What is needed instead, a filter that
the expired one covered, is owed: it goes with its own next renewal. Until then the neighbour may lack it, and events
for it may be lost. That window is one refresh period and the delay of the way, from the expiry on.

**Mergers.** A merger has no owner. The broker that made it renews it whenever a filter in it is renewed, for as long as
all of those hold: a lease that was longer would let the merger outlive them, by one lease more at each broker that
merges again.

**Entries that did not come by a renewal**, because a link is new or a covering filter was withdrawn, are sent with what
remains of their leases.

So after the last fault every table is right within `max_validity` + `refresh` + the delay of the longest way: what is
wrong is forgotten within the longest lease, and what is missing comes with the next renewal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain
from math import inf
from typing import Final, TypeAlias

from palio.filters.filter import Filter
from palio.routing.effects import Effect, Send, SetTimer
from palio.routing.messages import LOCAL, Advertise, Key, Renewal, Unadvertise, Unsubscribe
from palio.routing.propagation.neighbour_updates import NeighbourUpdates, Updates
from palio.routing.routing_tables import RoutingTables
from palio.routing.strategies import Leases
from palio.routing.upkeep.lease_terms import Lease, LeaseCounters, LeaseStatistics, LeaseTerms, lease_length
from palio.routing.upkeep.timeliness import clock_reading

LEASE_TIMER: Final = "leases"
_TIMER_RESOLUTION_SECONDS: Final = 0.001  # leases that end within this time are forgotten together
_MAX_ENTRIES_OF_A_RENEWAL: Final = 64

Entries: TypeAlias = dict[int, dict[Key, Filter]]
"""By link: the entries of a table that came from it."""

Told: TypeAlias = list[tuple[Key, Filter, LeaseTerms, int]]
"""Entries to tell a link, with their terms."""


class LeasedTable:
    """The leases of one table, of subscriptions or of advertisements, and what each link was told of it."""

    __slots__ = (
        "_entries",
        "_has_mergers",
        "_heap",
        "_leases",
        "_merger_deadlines",
        "_owed",
        "_renewed",
        "_told",
        "_updates",
    )

    def __init__(self, entries: Entries, updates: NeighbourUpdates, has_mergers: bool) -> None:
        self._entries = entries
        self._updates = updates
        self._has_mergers = has_mergers
        self._leases: dict[tuple[int, Key], Lease] = {}
        # An item for each lease, at the deadline that it had when it was put there: one that was renewed since is put
        # there again when it comes up, and one that became shorter at once, by a second item.
        self._heap: list[tuple[float, int, Key]] = []
        self._told: Entries = {}
        self._owed: Entries = {}  # what links need and were not told
        self._renewed: dict[Key, dict[int, LeaseTerms]] = {}  # since the last updates, by interface
        self._merger_deadlines: dict[tuple[int, Key], float] = {}  # that links were told

    # Links

    def open_link(self, link: int) -> None:
        self._told[link] = {}
        self._owed[link] = {}

    def close_link(self, link: int) -> None:
        self._told.pop(link, None)
        self._owed.pop(link, None)
        for each in [each for each in self._merger_deadlines if each[0] == link]:
            del self._merger_deadlines[each]

    # Leases

    def entry(self, link: int, key: Key) -> Filter | None:
        return self._entries.get(link, {}).get(key)

    def lease(self, link: int, key: Key) -> Lease:
        """The lease of an entry, or one of no length for an entry that has none."""
        return self._leases.get((link, key)) or Lease()

    def keep(self, link: int, key: Key, lease: Lease) -> None:
        """Keep the lease of an entry, which has begun or was renewed."""
        self._leases[link, key] = lease
        if lease.deadline < lease.watched_at:
            self._watch(link, key, lease)

    def _watch(self, link: int, key: Key, lease: Lease) -> None:
        lease.watched_at = lease.deadline
        heappush(self._heap, (lease.deadline, link, key))

    def renew(self, interface: int, key: Key, terms: LeaseTerms) -> None:
        """Note a renewal, which goes on with the next updates."""
        self._renewed.setdefault(key, {})[interface] = terms

    def renew_own(self, terms: LeaseTerms) -> None:
        """Renew the entries of this broker's clients."""
        for key in self._updates.keys_from(LOCAL):
            self.renew(LOCAL, key, terms)

    def take_expired(self, now: float) -> list[tuple[int, Key]]:
        """The entries whose leases have ended; the leases are dropped."""
        ended = []
        while self._heap and self._heap[0][0] <= now:
            time, link, key = heappop(self._heap)
            lease = self._leases.get((link, key))
            if lease is None or time != lease.watched_at:
                continue  # another item stands for it
            if self.entry(link, key) is None:
                del self._leases[link, key]  # it was withdrawn, or went with its link
            elif lease.deadline > now:
                self._watch(link, key, lease)
            else:
                del self._leases[link, key]
                ended.append((link, key))
        return ended

    def unleased(self) -> list[tuple[int, Key]]:
        """The entries without a lease: there are none, unless a table was damaged."""
        return [(link, key) for link, keys in self._entries.items() for key in keys if (link, key) not in self._leases]

    @property
    def next_deadline(self) -> float:
        return self._heap[0][0] if self._heap else inf

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    # Updates

    def take(self, updates: Updates, now: float, fresh: LeaseTerms) -> tuple[Told, list[tuple[Key, tuple[int, ...]]]]:
        """What to tell links, and what to withdraw. `fresh` are the terms of own entries."""
        telling: dict[tuple[int, Key], Filter] = {}
        for key, wanted, links in updates.additions:
            telling |= dict.fromkeys([(link, key) for link in links], wanted)
        withdrawn = []
        for key, links in updates.withdrawals:
            known = tuple(link for link in links if self._told[link].pop(key, None) is not None)
            for link in links:
                self._drop(link, key)
            if known:
                withdrawn.append((key, known))
        telling |= self._renewals()
        if self._has_mergers and self._renewed:
            telling |= self._renewed_mergers(now, fresh)
        told = []
        for (link, key), wanted in telling.items():
            told.append((key, wanted, self._terms(link, key, wanted, now, fresh), link))
            self._owed[link].pop(key, None)
            self._told[link][key] = wanted
        self._renewed.clear()
        return told, withdrawn

    def forget(self, updates: Updates) -> None:
        """Take the changes that expiries have caused, of which nothing is sent."""
        for key, wanted, links in updates.additions:
            for link in links:
                self._owed[link][key] = wanted
        for key, links in updates.withdrawals:
            for link in links:
                self._drop(link, key)

    def _drop(self, link: int, key: Key) -> None:
        self._told[link].pop(key, None)
        self._owed[link].pop(key, None)
        self._merger_deadlines.pop((link, key), None)

    def _renewals(self) -> dict[tuple[int, Key], Filter]:
        """The entries that links were told, or are owed, and that were renewed from elsewhere."""
        found = {}
        for key, interfaces in self._renewed.items():
            sources = self._updates.sources(key)
            for link in self._told:
                wanted = next((sources[each] for each in interfaces if each != link and each in sources), None)
                if wanted is not None and (key in self._told[link] or key in self._owed[link]):
                    found[link, key] = wanted
        return found

    # Mergers

    def _renewed_mergers(self, now: float, fresh: LeaseTerms) -> dict[tuple[int, Key], Filter]:
        """The mergers that hold longer, now that something in them was renewed."""
        found = {}
        for link in self._told:
            for key, merger in chain(self._told[link].items(), self._owed[link].items()):
                if self._source_deadline(link, key, now, fresh) is not None:
                    continue  # it is an entry, too, with renewals of its own
                if not any(each in self._renewed for each in self._members(link, merger)):
                    continue
                # An older one still bounds the lease: the merger is renewed with that.
                if self._merger_deadline(link, merger, now, fresh) > self._merger_deadlines.get((link, key), -inf):
                    found[link, key] = merger
        return found

    def _members(self, link: int, merger: Filter) -> Iterator[Key]:
        """The entries of other interfaces that a merger for a link stands for."""
        return (key for key, wanted in self._updates.filters_from_others(link) if _covers(merger, wanted))

    def _merger_deadline(self, link: int, merger: Filter, now: float, fresh: LeaseTerms) -> float:
        deadlines = (self._source_deadline(link, each, now, fresh) for each in self._members(link, merger))
        return min((each for each in deadlines if each is not None), default=now)

    # Terms

    def _terms(self, link: int, key: Key, wanted: Filter, now: float, fresh: LeaseTerms) -> LeaseTerms:
        """The terms under which a link is told an entry: those of its renewal, or what remains of its lease."""
        sources = self._updates.sources(key)
        renewals = [terms for each, terms in self._renewed.get(key, {}).items() if each != link and each in sources]
        if renewals:
            return max(renewals)
        deadline = self._source_deadline(link, key, now, fresh)
        if deadline is None:
            deadline = self._merger_deadlines[link, key] = self._merger_deadline(link, wanted, now, fresh)
        remaining = max(0.0, deadline - now)
        until = fresh.until - fresh.validity + remaining if fresh.until else 0.0
        return LeaseTerms(remaining, 0, clock_reading(now), until)

    def _source_deadline(self, link: int, key: Key, now: float, fresh: LeaseTerms) -> float | None:
        """The time until which an entry holds that other interfaces have; None where none has it."""
        deadlines = [
            now + fresh.validity if each == LOCAL else self.lease(each, key).deadline
            for each in self._updates.sources(key)
            if each != link
        ]
        return max(deadlines, default=None)


@lru_cache(65_536)  # asked again with every renewal of the entries in a merger
def _covers(merger: Filter, wanted: Filter) -> bool:
    return merger.covers(wanted)


class LeaseUpkeep:
    """The leases of one broker: it takes renewals, makes them, and writes the updates of tables as renewals."""

    __slots__ = (
        "_advertisements",
        "_chosen",
        "_counters",
        "_effects",
        "_next_refresh",
        "_now",
        "_random",
        "_subscriptions",
        "_tables",
        "_timer_at",
        "_wall_clock",
    )

    def __init__(
        self,
        chosen: Leases,
        tables: RoutingTables,
        has_mergers: bool,
        has_homes: bool,
        random: Callable[[], float],
        wall_clock: Callable[[], float],
        effects: list[Effect],
    ) -> None:
        """`has_mergers` where tables are told filters that no client has; of subscriptions they are not where filters
        have home brokers."""
        self._chosen = chosen
        self._tables = tables
        self._random = random
        self._wall_clock = wall_clock
        self._effects = effects
        self._subscriptions = LeasedTable(
            tables.remote_subscriptions, tables.subscription_updates, has_mergers and not has_homes
        )
        self._advertisements = LeasedTable(tables.remote_advertisements, tables.advertisement_updates, has_mergers)
        self._counters = LeaseCounters()
        self._next_refresh: float | None = None
        self._timer_at = inf
        self._now = 0.0
        tables.writer = self

    def begin_batch(self, now: float) -> None:
        self._now = now
        if self._next_refresh is None:
            # Not after a whole period: brokers that start together would renew together ever after.
            self._next_refresh = now + self._chosen.refresh * (1 - self._random())

    def end_batch(self) -> None:
        """Set the timer for the next expiry or refresh, where that is earlier than the one that is set."""
        at = min(self._next_refresh or 0.0, *(table.next_deadline for table in self._both))
        if at < self._timer_at:
            self._timer_at = at
            self._effects.append(SetTimer(LEASE_TIMER, max(at - self._now, _TIMER_RESOLUTION_SECONDS), upkeep=True))

    def statistics(self) -> LeaseStatistics:
        return self._counters.statistics(sum(map(len, self._both)))

    @property
    def _both(self) -> tuple[LeasedTable, LeasedTable]:
        return self._advertisements, self._subscriptions

    # Renewals

    def receive(self, link: int, message: Renewal) -> None:
        """Take entries of a neighbour, new ones and those that it renews."""
        terms = LeaseTerms(message.validity, message.age, message.aged_at, message.until)
        # Advertisements enclose subscriptions: they come before a subscription relies on them.
        for offer in message.advertisements:
            if self._renew(self._advertisements, link, offer.key, offer.offered, terms, self._tables.on_unadvertise):
                self._tables.on_advertise(link, offer)
        for each in message.subscriptions:
            if self._renew(self._subscriptions, link, each.key, each.wanted, terms, self._tables.on_unsubscribe):
                self._tables.on_subscribe(link, each)

    def _renew(
        self,
        table: LeasedTable,
        link: int,
        key: Key,
        filter: Filter,
        terms: LeaseTerms,
        remove: Callable[[int, Key], None],
    ) -> bool:
        """Renew the lease of an entry; whether it holds."""
        lease = table.lease(link, key)
        length = lease_length(self._chosen, terms, lease, self._now, self._wall_clock)
        if length <= 0:
            return False
        known = table.entry(link, key)
        if known is not None:
            self._counters.count_renewal(self._now - lease.renewed_at, lease.length)
            # Only where a table was damaged: a key stands for one filter.
            if known is not filter and known != filter:
                remove(link, key)
        lease.renewed_at, lease.length = self._now, length
        table.keep(link, key, lease)
        table.renew(link, key, terms)
        self._tables.is_dirty = True
        return True

    def on_timer(self) -> None:
        """Forget what was not renewed; renew the entries of own clients, where that is due."""
        self._timer_at = inf
        self._expire()
        if self._next_refresh is None or self._now < self._next_refresh:
            return
        self._next_refresh = self._now + self._chosen.refresh
        self._tables.is_dirty = True
        fresh = self._fresh()
        for table in self._both:
            table.renew_own(fresh)
            for link, key in table.unleased():
                lease = Lease()
                lease.renewed_at, lease.length = self._now, self._chosen.max_validity
                table.keep(link, key, lease)

    def _expire(self) -> None:
        """Forget the entries whose leases have ended, without a word to neighbours."""
        advertisements, subscriptions = (table.take_expired(self._now) for table in self._both)
        if not advertisements and not subscriptions:
            return
        self._counters.expiries += len(advertisements) + len(subscriptions)
        # What owners have changed is sent first, so that all changes after it are those of expiries.
        self._tables.send_updates()
        for link, key in subscriptions:
            self._tables.on_unsubscribe(link, key)
        for link, key in advertisements:
            self._tables.on_unadvertise(link, key)
        offered, wanted = self._tables.take_updates()
        self._advertisements.forget(offered)
        self._subscriptions.forget(wanted)
        self._tables.cancel_unserved()

    def _fresh(self) -> LeaseTerms:
        """The terms of an entry of an own client."""
        validity = self._chosen.validity
        until = self._wall_clock() + validity if self._chosen.lease == "time" else 0.0
        return LeaseTerms(validity, 0, clock_reading(self._now), until)

    # Updates of tables

    def open_link(self, link: int) -> None:
        for table in self._both:
            table.open_link(link)

    def close_link(self, link: int) -> None:
        for table in self._both:
            table.close_link(link)

    def messages(self, offered: Updates, wanted: Updates) -> list[Send]:
        """The renewals and withdrawals for neighbours: what is new, what is gone, and what was renewed."""
        fresh = self._fresh()
        offers, offers_gone = self._advertisements.take(offered, self._now, fresh)
        wants, wants_gone = self._subscriptions.take(wanted, self._now, fresh)
        sends = []
        for terms, links, some in _grouped(offers):
            told = tuple(Advertise(key, filter) for key, filter in some)
            sends.append(Send(links, Renewal(terms.validity, (), told, terms.age, terms.aged_at, terms.until)))
        for terms, links, some in _grouped(wants):
            asked = tuple(self._tables.subscribe_message(key, filter) for key, filter in some)
            sends.append(Send(links, Renewal(terms.validity, asked, (), terms.age, terms.aged_at, terms.until)))
        sends += [Send(links, Unsubscribe(key)) for key, links in wants_gone]
        sends += [Send(links, Unadvertise(key)) for key, links in offers_gone]
        return sends


def _grouped(told: Told) -> Iterator[tuple[LeaseTerms, tuple[int, ...], list[tuple[Key, Filter]]]]:
    """Entries with equal terms for the same links, as many as go into one message."""
    links_of: dict[tuple[Key, LeaseTerms], tuple[Filter, list[int]]] = {}
    for key, wanted, terms, link in told:
        links_of.setdefault((key, terms), (wanted, []))[1].append(link)
    groups: dict[tuple[LeaseTerms, tuple[int, ...]], list[tuple[Key, Filter]]] = {}
    for (key, terms), (wanted, links) in links_of.items():
        groups.setdefault((terms, tuple(sorted(links))), []).append((key, wanted))
    for (terms, to), entries in groups.items():
        for start in range(0, len(entries), _MAX_ENTRIES_OF_A_RENEWAL):
            yield terms, to, entries[start : start + _MAX_ENTRIES_OF_A_RENEWAL]
