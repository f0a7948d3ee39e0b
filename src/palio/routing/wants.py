"""Which interfaces want an event? The distinct filters of all interfaces in one index, so that one look tells all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.effects import Job
from palio.routing.forwarding.numbered import NumberedFilters
from palio.routing.messages import LOCAL, Key


class Wanted(NamedTuple):
    """Who wants an event: the links to neighbours, in order, and the keys of local clients, in none."""

    links: tuple[int, ...]
    local: tuple[Key, ...]


_NOBODY: Final = Wanted((), ())
_MOST_REMEMBERED: Final = 4_096


class Wants:
    """Filters under keys, by interface; equal ones are looked for once."""

    def __init__(self) -> None:
        self._filters = NumberedFilters()
        self._number_of: dict[bytes, int] = {}  # by the digest of the filter
        self._places: dict[int, dict[int, dict[Key, None]]] = {}  # interfaces and keys, by the number of the filter
        self._digests: dict[int, dict[Key, bytes]] = {}
        # The same for the filters that events match together, where some did: few such sets occur, and often.
        self._known: dict[tuple[int, ...], Wanted] = {}

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        digest = wanted.digest
        self._digests.setdefault(interface, {})[key] = digest
        number = self._number_of.get(digest)
        if number is None:
            number = self._number_of[digest] = self._filters.add(wanted)
            self._places[number] = {}
        self._known.clear()
        self._places[number].setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        digest = self._digests[interface].pop(key)
        number = self._number_of[digest]
        self._known.clear()
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
        return [
            (self._known.get(matched) or self._learn(matched)) if matched else _NOBODY
            for matched in map(tuple, self._filters.find_each(events))
        ]

    def _learn(self, matched: tuple[int, ...]) -> Wanted:
        """Who has any of some filters."""
        links: set[int] = set()
        local: list[Key] = []
        for number in matched:
            places = self._places[number]
            links.update(places)
            local += places.get(LOCAL, ())
        links.discard(LOCAL)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        found = self._known[matched] = Wanted(tuple(sorted(links)), tuple(local))
        return found
