"""Routers with counter-based tables and nothing else, over links that keep order, and what their tables must be."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import lru_cache

from palio import Filter
from palio.covering.extents import IndexedFilter
from palio.routing.messages import LOCAL, Registration
from palio.routing.propagation.registration_table import RegistrationTable

Triple = tuple[Filter, int, int]


class RegistrationNetwork:
    """A tree of routers, of which some have producers; messages travel when `deliver` says so."""

    def __init__(self, links: Iterable[tuple[str, str]], producers: Sequence[str]) -> None:
        self.neighbours: dict[str, list[str]] = {}
        for a, b in links:
            self.neighbours.setdefault(a, []).append(b)
            self.neighbours.setdefault(b, []).append(a)
        self.population = {each: Counter[Filter]() for each in self.neighbours}
        self.upstream = {
            each: [other for other in near if any(self._lies_behind(each, other, producer) for producer in producers)]
            for each, near in self.neighbours.items()
        }
        # Under None the table of all interfaces, by which events are routed.
        self.tables = {
            each: {None: RegistrationTable(), **{other: RegistrationTable() for other in self.upstream[each]}}
            for each in self.neighbours
        }
        self.under_way: dict[tuple[str, str], deque[list[Registration]]] = {}
        self.messages: list[tuple[str, str, list[Triple]]] = []

    def register(self, at: str, wanted: Filter, count: int = 1) -> None:
        self.population[at][wanted] += count
        self._handle(at, LOCAL, [Registration(wanted, count, 0)])

    def cancel(self, at: str, wanted: Filter, count: int = 1) -> None:
        self.population[at][wanted] -= count
        self.population[at] += Counter()
        self._handle(at, LOCAL, [Registration(wanted, -count, 0)])

    def deliver(self, link: tuple[str, str]) -> None:
        sender, receiver = link
        message = self.under_way[link].popleft()
        if not self.under_way[link]:
            del self.under_way[link]
        self._handle(receiver, self._interface(receiver, sender), message)

    def settle(self) -> list[tuple[str, str, list[Triple]]]:
        """Deliver all messages; those that were sent since the last call."""
        while self.under_way:
            self.deliver(next(iter(self.under_way)))
        sent, self.messages = self.messages, []
        return sent

    def send(self, sender: str, receiver: str, message: list[Registration]) -> None:
        self.messages.append((sender, receiver, [(each.wanted, each.own, each.others) for each in message]))
        self.under_way.setdefault((sender, receiver), deque()).append(message)

    def column(self, at: str, near: str | None, upstream: str | None = None) -> dict[Filter, tuple[int, int]]:
        """The filters of an interface with their counts."""
        interface = LOCAL if near is None else self._interface(at, near)
        entries = self.tables[at][upstream].entries.values()
        return {
            each.filter: (each.columns[interface].own, each.columns[interface].others)
            for each in entries
            if interface in each.columns
        }

    def substitutes(self, at: str, upstream: str | None = None) -> dict[Filter, Filter | None]:
        entries = self.tables[at][upstream].entries.values()
        return {each.filter: None if each.substitute is None else each.substitute.filter for each in entries}

    def totals(self, at: str, upstream: str | None = None) -> dict[Filter, int]:
        return {each.filter: each.others for each in self.tables[at][upstream].entries.values()}

    def check(self) -> None:
        """All that holds when no message is under way."""
        assert not self.under_way
        for at, tables in self.tables.items():
            for upstream, table in tables.items():
                self._check_columns(at, upstream)
                check_entries(table)
                if upstream is not None:
                    there = self.column(upstream, at)
                    assert there == {each.filter: (each.own, each.others) for each in table.tops()}

    def _check_columns(self, at: str, upstream: str | None) -> None:
        own = self.column(at, None, upstream)
        assert {wanted: count for wanted, (count, _) in own.items()} == dict(self.population[at])
        assert all(others == 0 for _, others in own.values())
        for near in self.neighbours[at]:
            if near == upstream or at not in self.upstream[near]:
                continue
            below = self.below(at, near)
            column = self.column(at, near, upstream)
            assert {wanted: count for wanted, (count, _) in column.items()} == {
                wanted: below[wanted] for wanted in maximal(below)
            }
            assert sum(map(sum, column.values())) == below.total()

    def below(self, at: str, near: str) -> Counter[Filter]:
        """All registrations behind a neighbour."""
        found = Counter[Filter]()
        for each in self.neighbours:
            if self._lies_behind(at, near, each):
                found += self.population[each]
        return found

    def _handle(self, at: str, interface: int, message: list[Registration]) -> None:
        for upstream, table in self.tables[at].items():
            if upstream is None or interface != self._interface(at, upstream):
                out = table.receive(interface, message)
                if out and upstream is not None:
                    self.send(at, upstream, out)

    def _interface(self, at: str, near: str) -> int:
        return self.neighbours[at].index(near) + 1

    def _lies_behind(self, at: str, near: str, sought: str) -> bool:
        return near == sought or any(
            self._lies_behind(near, further, sought) for further in self.neighbours[near] if further != at
        )


def check_entries(table: RegistrationTable) -> None:
    """Laws of one table: substitutes are wider, those without one incomparable, and no registration is lost."""
    for entry in table.entries.values():
        assert entry.columns
        assert all(counts.own > 0 and counts.others >= 0 for counts in entry.columns.values())
        assert all(table.entries[above.filter.digest] is above and is_above(above.filter, entry.filter)
                   for above in entry.chain())  # fmt: skip
        tree = [each for each in table.entries.values() if entry in each.chain()]
        assert entry.others == sum(counts.others for counts in entry.columns.values()) + sum(
            counts.total for each in tree for counts in each.columns.values()
        )
    tops = [each.filter for each in table.tops()]
    assert maximal(tops) == set(tops)


@lru_cache(100_000)
def is_above(wide: Filter, narrow: Filter) -> bool:
    return IndexedFilter(wide, 0).is_above(IndexedFilter(narrow, 1))


def maximal(filters: Iterable[Filter]) -> set[Filter]:
    """By comparing all pairs."""
    distinct = set(filters)
    return {each for each in distinct if not any(is_above(other, each) for other in distinct)}
