"""Which interfaces want an event? The distinct filters of all interfaces in one index, so that one look tells all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.effects import Job
from palio.routing.forwarding.numbered import NumberedFilters
from palio.routing.messages import LOCAL, Key


class Wanted(NamedTuple):
    """Who wants an event: the links to neighbours, and the keys of local clients, both in no order."""

    links: set[int]
    local: list[Key]


class Wants:
    """Filters under keys, by interface; equal ones are looked for once."""

    def __init__(self) -> None:
        self._filters = NumberedFilters()
        self._number_of: dict[bytes, int] = {}  # by the digest of the filter
        self._places: dict[int, dict[int, dict[Key, None]]] = {}  # interfaces and keys, by the number of the filter
        self._digests: dict[int, dict[Key, bytes]] = {}
        self._ends: dict[int, Wanted] = {}  # the same as it is asked for, where somebody has asked

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        digest = wanted.digest
        self._digests.setdefault(interface, {})[key] = digest
        number = self._number_of.get(digest)
        if number is None:
            number = self._number_of[digest] = self._filters.add(wanted)
            self._places[number] = {}
        self._ends.pop(number, None)
        self._places[number].setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        digest = self._digests[interface].pop(key)
        number = self._number_of[digest]
        self._ends.pop(number, None)
        places = self._places[number]
        del places[interface][key]
        if not places[interface]:
            del places[interface]
        if not places:
            del self._places[number], self._number_of[digest]
            self._filters.remove(number)

    def __len__(self) -> int:
        return len(self._places)

    def work(self) -> Job | None:
        """What is worth doing beside everything else."""
        return self._filters.work()

    def who(self, events: Sequence[Event]) -> list[Wanted]:
        """For each event who wants it."""
        return [self._together(numbers) for numbers in self._filters.find_each(events)]

    def _together(self, numbers: Sequence[int]) -> Wanted:
        links: set[int] = set()
        local: list[Key] = []
        for number in numbers:
            ends = self._ends.get(number) or self._learn(number)
            links |= ends.links
            local += ends.local
        return Wanted(links, local)

    def _learn(self, number: int) -> Wanted:
        places = self._places[number]
        links = {interface for interface in places if interface != LOCAL}
        ends = self._ends[number] = Wanted(links, list(places.get(LOCAL, ())))
        return ends
