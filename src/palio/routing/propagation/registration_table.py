"""XRoute's counter-based table: filters with counts of the registrations that they stand for (Chand §4).

A router has one such table for each neighbour on the way to a producer, its *upstream*, over all other interfaces. For
each interface and filter it counts the registrations of that filter, and those of other filters which it stands for:

- On the interface of a neighbour a filter *represents* those that it covers. They are dropped there, and only the
  maximal ones stay. The neighbour keeps them, so that it can bring them back.
- A filter that another one covers, whatever their interfaces, is *substituted* by it: it stays in this table, and is
  not sent upstream any more. What clients of this broker registered is only ever substituted.

A message upstream is a list of registrations, of which the first is the main one: so many more or fewer of a filter,
and of others that it stands for. When a filter goes, the routers on its way bring back what it substituted
(`_reinsert`): an upstream router has forgotten what it represented.

The source's cancellation starts its heavy case only where the filter represents others on the interface. That loses
subscriptions, since it may substitute filters of other interfaces all the same. Here every cancellation of the last
registration on an interface goes that way. Each such table was compared with what it must be, the maximal ones among
the filters below each interface.

Costs: a search for covering filters for a new filter and for each one that is brought back; else a few counters for
each filter that stands for it. `searches` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from palio.covering.covering_index import AdaptiveIndex, CoveringIndex
from palio.covering.extents import IndexedFilter
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.messages import LOCAL, Registration

_MAX_COUNT: Final = 2**40  # of registrations in one entry, so that no sum leaves the 64 bits of a message


class Counts:
    """The registrations on one interface: of a filter itself, and of others that it represents."""

    __slots__ = ("others", "own")

    def __init__(self, own: int, others: int) -> None:
        self.own = own
        self.others = others

    @property
    def total(self) -> int:
        return self.own + self.others


class Entry:
    """A filter with its counts by interface, what it stands for in all, and its substitute."""

    __slots__ = ("columns", "node", "others", "substitute", "substituted")

    def __init__(self, node: IndexedFilter) -> None:
        self.node = node
        self.columns: dict[int, Counts] = {}
        self.others = 0
        """Registrations that it represents or substitutes."""
        self.substitute: Entry | None = None
        self.substituted: dict[Entry, None] = {}

    @property
    def filter(self) -> Filter:
        return self.node.filter

    @property
    def own(self) -> int:
        """Registrations of the filter itself."""
        return sum(counts.own for counts in self.columns.values())

    def chain(self) -> Iterator[Entry]:
        """Its substitute, the substitute of that one, and so on."""
        above = self.substitute
        while above is not None:
            yield above
            above = above.substitute

    @property
    def top(self) -> Entry:
        """The last of its substitutes, which is sent upstream; itself where it has none."""
        top = self
        while top.substitute is not None:
            top = top.substitute
        return top


class RegistrationTable:
    """The entries towards one upstream, over all other interfaces.

    >>> table = RegistrationTable()
    >>> wide, narrow = Filter.parse("price > 1"), Filter.parse("price > 2")
    >>> table.register(1, wide, 1, 0)
    [Registration(wanted=Filter.parse('price > 1'), own=1, others=0)]
    >>> table.register(2, narrow, 1, 0)
    [Registration(wanted=Filter.parse('price > 1'), own=0, others=1)]
    >>> for each in table.cancel(1, wide, 1):
    ...     print(each)
    Registration(wanted=Filter.parse('price > 1'), own=-1, others=0)
    Registration(wanted=Filter.parse('price > 2'), own=1, others=0)
    """

    def __init__(self, index: Callable[[], CoveringIndex] = AdaptiveIndex) -> None:
        self.entries: dict[bytes, Entry] = {}
        """By the digest of their filter."""
        self.searches = 0
        self.touched: dict[bytes, Filter] = {}
        """Filters that came to an interface with the last message, or went."""
        self._all = index()
        self._tops = index()
        self._by_node: dict[IndexedFilter, Entry] = {}
        self._columns: dict[int, dict[bytes, Entry]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self.entries)

    def column(self, interface: int) -> dict[bytes, Filter]:
        """The filters of an interface, by digest."""
        return {digest: entry.filter for digest, entry in self._columns.get(interface, {}).items()}

    def has(self, interface: int, digest: bytes) -> bool:
        """Whether an interface has a filter."""
        return digest in self._columns.get(interface, ())

    def tops(self) -> list[Entry]:
        """The entries without a substitute, which upstream has."""
        return [entry for entry in self.entries.values() if entry.substitute is None]

    def registrations(self) -> list[Registration]:
        """All that upstream should have, as it is told a router that has nothing yet (Chand appendix B; the counts are
        those of the downstream interfaces, where the source takes those of the upstream one)."""
        return [Registration(entry.filter, entry.own, entry.others) for entry in self.tops()]

    # Messages

    def receive(self, interface: int, message: Sequence[Registration]) -> list[Registration]:
        """Handle a message that came by an interface; the message upstream. `InvalidArgument` for one that no router
        could have sent, and then the table is as before."""
        self.check(interface, message)
        self.touched = {}
        main, *further = message
        if main.own < 0 and self.entries[main.wanted.digest].columns[interface].own + main.own == 0:
            return _merged(self._cancel(interface, main.wanted, main.own, further))
        out = self._register(interface, main)
        return _merged(out + [self._update(interface, each) for each in further])

    def register(self, interface: int, wanted: Filter, own: int, others: int) -> list[Registration]:
        """Add registrations of a filter, and of others that it stands for; the message upstream."""
        return self.receive(interface, (Registration(wanted, own, others),))

    def cancel(self, interface: int, wanted: Filter, own: int) -> list[Registration]:
        """Remove registrations of a filter; the message upstream."""
        return self.receive(interface, (Registration(wanted, -own, 0),))

    def drop_column(self, interface: int) -> list[list[Registration]]:
        """Cancel all that came by an interface; the messages upstream. What its filters represented goes with them."""
        self.touched = {}
        column = list(self._columns.get(interface, {}).values())
        messages = [
            _merged(self._cancel(interface, entry.filter, -entry.columns[interface].own, ())) for entry in column
        ]
        return [each for each in messages if each]

    def move_column(self, before: int, after: int) -> None:
        """Count what came by an interface for another one, which changes nothing for upstream."""
        moved = self._columns.pop(before, {})
        if moved:
            self._columns[after] = moved
        for entry in moved.values():
            entry.columns[after] = entry.columns.pop(before)

    def check(self, interface: int, message: Sequence[Registration]) -> None:
        """`InvalidArgument` for a message that no router could have sent."""
        if not message:
            raise InvalidArgument("a message of registrations has at least one")
        main, *further = message
        if main.wanted == Filter.nothing:
            raise InvalidArgument("a filter that never matches is not registered")
        column = self._columns.get(interface, {})
        entry = column.get(main.wanted.digest)
        known = 0 if entry is None else entry.columns[interface].own
        if main.own < -known or (main.own <= 0 and entry is None):
            raise InvalidArgument(f"of {known} registrations {-main.own} cannot be cancelled")
        is_last = main.own < 0 and main.own == -known
        named: set[bytes] = set()
        for each in message:
            if each.wanted.digest in named:
                raise InvalidArgument("a message names a filter once")
            named.add(each.wanted.digest)
            counts = column[each.wanted.digest].columns[interface] if each.wanted.digest in column else Counts(0, 0)
            if counts.own + each.own > _MAX_COUNT or abs(counts.others + each.others) > _MAX_COUNT:
                raise InvalidArgument(f"a router counts {_MAX_COUNT:,} registrations of a filter at most")
        for each in further:
            if each.own < 0 or (each.own and not is_last):
                raise InvalidArgument("only the first of some registrations is new, or cancelled")
            is_known = each.wanted.digest in column
            if not is_known and not (is_last and each.own):
                raise InvalidArgument("registrations are counted of a filter that has none")
            if (entry is None or not is_known) and _is_above(main.wanted, each.wanted) is is_known:
                raise InvalidArgument("a filter stands for those below it, and for no others")

    # Registration

    def _register(self, interface: int, given: Registration) -> list[Registration]:
        entry = self.entries.get(given.wanted.digest)
        if entry is not None and interface in entry.columns:
            return [self._update(interface, given)]
        if entry is None:
            entry = self._attach(given.wanted)
        return self._cover(interface, entry, given.own, given.others)

    def _update(self, interface: int, given: Registration) -> Registration:
        """Count registrations of a filter that the interface has: no search."""
        own, others = given.own, given.others
        entry = self.entries[given.wanted.digest]
        for above in entry.chain():
            above.others += own + others
        counts = entry.columns[interface]
        counts.own += own
        counts.others += others
        entry.others += others
        if entry.substitute is None:
            return given
        return Registration(entry.top.filter, 0, own + others)

    def _attach(self, wanted: Filter) -> Entry:
        """An entry for a new filter, with its substitute, or the substitute of those that it covers."""
        entry = self._add(wanted)
        above = self._top_above(entry.node)
        if above is not None:
            self._substitute(entry, above)
            return entry
        # Where a filter above it has no substitute, none below it lacks one: those without form an antichain.
        for node in self._tops.covered(entry.node):
            self._tops.remove(node)
            self._substitute(self._by_node[node], entry)
        self._tops.add(entry.node)
        return entry

    def _cover(self, interface: int, entry: Entry, own: int, others: int) -> list[Registration]:
        """Count the first registrations of a filter on an interface, where it represents what it covers."""
        top, moved, further = entry.top, 0, []
        for below in () if interface == LOCAL else self._below_on(interface, entry):
            counts = below.columns[interface]
            total = counts.total
            self._count(interface, entry, 0, total)
            entry.others += total
            below.others -= counts.others
            self._uncount(interface, below)
            # Registrations that were counted upstream under one filter, and now are under another.
            before = below.top
            if entry in below.chain():
                for above in below.chain():
                    above.others -= total
                    if above is entry:
                        break
            else:
                for above in below.chain():
                    above.others -= total
                if before is not top:
                    further.append(Registration(before.filter, 0, -total))
                    moved += total
                for above in entry.chain():
                    above.others += total
            if not below.columns:
                self._drop(below)
        for above in entry.chain():
            above.others += own + others
        self._count(interface, entry, own, others)
        entry.others += others
        if entry.substitute is None:
            return [Registration(entry.filter, own, others + moved), *further]
        return [Registration(top.filter, 0, own + others + moved), *further]

    def _below_on(self, interface: int, entry: Entry) -> list[Entry]:
        column = self._columns.get(interface)
        if not column:
            return []
        self.searches += 1
        found = (self._by_node[node] for node in self._all.covered(entry.node))
        return [each for each in found if interface in each.columns]

    # Cancellation

    def _cancel(self, interface: int, wanted: Filter, own: int, further: Sequence[Registration]) -> list[Registration]:
        """Remove the last registrations of a filter on an interface; `further` are those that are brought back."""
        entry = self.entries[wanted.digest]
        top = entry.top
        kept, later = 0, []
        for registration in further:
            below = self.entries.get(registration.wanted.digest)
            if below is None:
                below = self._add(registration.wanted)
                below.substitute = entry
                entry.substituted[below] = None
            if below.top is top:
                self._count(interface, below, registration.own, registration.others)
                below.others += registration.others
                for above in below.chain():
                    above.others += registration.own + registration.others
                kept += registration.own + registration.others
            else:
                later.append(registration)
        out = []
        for registration in later:
            self._count(interface, self.entries[registration.wanted.digest], 0, 0)
            out.append(self._update(interface, registration))
        represented = entry.columns[interface].others
        for above in entry.chain():
            above.others += own - represented
        self._uncount(interface, entry)
        entry.others -= represented
        if entry.substitute is not None:
            if not entry.columns:
                self._drop(entry)
            return [Registration(top.filter, 0, own - represented + kept), *out]
        if entry.columns:
            return [Registration(wanted, own, kept - represented), *out]
        return [Registration(wanted, own, 0), *out, *self._reinsert(entry)]

    def _reinsert(self, entry: Entry) -> list[Registration]:
        """Remove an entry without a substitute; the registrations of those that it substituted."""
        freed = dict(entry.substituted)
        self._remove(entry)
        for each in freed:
            each.substitute = None
            self._tops.add(each.node)
        for each in freed:
            above = self._top_above(each.node)
            if above is not None:
                self._tops.remove(each.node)
                self._substitute(each, above)
        registrations = []
        for each in freed:
            if each.substitute is None:
                registrations.append(Registration(each.filter, each.own, each.others))
            elif each.substitute not in freed:
                registrations.append(Registration(each.substitute.filter, 0, each.own + each.others))
            # Else it is among those that its substitute stands for.
        return registrations

    # Entries

    def _add(self, wanted: Filter) -> Entry:
        self._arrivals += 1
        entry = self.entries[wanted.digest] = Entry(IndexedFilter(wanted, self._arrivals))
        self._by_node[entry.node] = entry
        self._all.add(entry.node)
        return entry

    def _top_above(self, node: IndexedFilter) -> Entry | None:
        self.searches += 1
        found = self._tops.covering(node, 1)
        return self._by_node[found[0]] if found else None

    def _substitute(self, entry: Entry, above: Entry) -> None:
        entry.substitute = above
        above.substituted[entry] = None
        above.others += entry.own + entry.others

    def _drop(self, entry: Entry) -> None:
        """Remove an entry that has a substitute, which stands for what this one did."""
        above = entry.substitute
        assert above is not None, "an entry without a substitute is removed with what it stands for"
        del above.substituted[entry]
        for each in entry.substituted:
            each.substitute = above
            above.substituted[each] = None
        del self.entries[entry.filter.digest], self._by_node[entry.node]
        self._all.remove(entry.node)

    def _remove(self, entry: Entry) -> None:
        del self.entries[entry.filter.digest], self._by_node[entry.node]
        self._all.remove(entry.node)
        self._tops.remove(entry.node)

    def _count(self, interface: int, entry: Entry, own: int, others: int) -> None:
        counts = entry.columns.get(interface)
        if counts is None:
            counts = entry.columns[interface] = Counts(0, 0)
            self._columns.setdefault(interface, {})[entry.filter.digest] = entry
            self.touched[entry.filter.digest] = entry.filter
        counts.own += own
        counts.others += others

    def _uncount(self, interface: int, entry: Entry) -> None:
        del entry.columns[interface]
        self.touched[entry.filter.digest] = entry.filter
        column = self._columns[interface]
        del column[entry.filter.digest]
        if not column:
            del self._columns[interface]


def _is_above(wide: Filter, narrow: Filter) -> bool:
    return IndexedFilter(wide, 0).is_above(IndexedFilter(narrow, 1))


def _merged(message: list[Registration]) -> list[Registration]:
    """A message that names each filter once, without those that count nothing."""
    by_filter: dict[bytes, Registration] = {}
    for each in message:
        known = by_filter.get(each.wanted.digest)
        if known is not None:
            each = Registration(each.wanted, known.own + each.own, known.others + each.others)
        by_filter[each.wanted.digest] = each
    return [each for each in by_filter.values() if each.own or each.others]
