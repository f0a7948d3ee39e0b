"""Which interfaces want an event? The distinct filters of all interfaces in one matcher, so that one look tells all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.messages import LOCAL, Key

_WORTH_A_BATCH: Final = 16  # events from which the matcher's batches cost less than single looks
_QUIET: Final = 8  # looks without a change after which even a few filters are worth an index


class Wanted(NamedTuple):
    """Who wants an event: the links to neighbours, and the keys of local clients, both in no order."""

    links: set[int]
    local: list[Key]


class Wants:
    """Filters under keys, by interface; equal ones are looked for once."""

    def __init__(self) -> None:
        self._matcher = Matcher()
        self._by_name: dict[str, dict[int, dict[Key, None]]] = {}  # interfaces and keys, by the name of the filter
        self._names: dict[int, dict[Key, str]] = {}
        self._ends: dict[str, Wanted] = {}  # the same as it is asked for, where somebody has asked
        self._quiet = 0
        self._is_indexed = True

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        name = wanted.digest.hex()
        self._names.setdefault(interface, {})[key] = name
        self._ends.pop(name, None)
        places = self._by_name.get(name)
        if places is None:
            places = self._by_name[name] = {}
            self._matcher.add(name, wanted)
            self._quiet = 0
            self._is_indexed = False
        places.setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        name = self._names[interface].pop(key)
        self._ends.pop(name, None)
        places = self._by_name[name]
        del places[interface][key]
        if not places[interface]:
            del places[interface]
        if not places:
            del self._by_name[name]
            self._matcher.remove(name)

    def __len__(self) -> int:
        return len(self._by_name)

    def work(self) -> Callable[[], object] | None:
        """What is worth doing beside everything else: an index of what was added one by one, when that has stopped."""
        if self._is_indexed or self._quiet < _QUIET:
            return None
        self._is_indexed = True
        return partial(self._matcher.match_batch, [])  # which begins by making it

    def who(self, events: Sequence[Event]) -> list[Wanted]:
        """For each event who wants it."""
        return [self._together(names) for names in self._matches(events)]

    def _matches(self, events: Sequence[Event]) -> Sequence[Iterable[str]]:
        if not self._by_name:
            return [()] * len(events)
        self._quiet += len(events)
        if len(events) < _WORTH_A_BATCH:
            return [self._matcher.match(event) for event in events]
        found: list[list[str]] = [[] for _ in events]
        table = self._matcher.match_batch(events)
        names = table["subscription"].combine_chunks()
        known = names.dictionary.to_pylist()
        for row, place in zip(table["row"].to_numpy().tolist(), names.indices.to_numpy().tolist(), strict=True):
            found[row].append(known[place])
        return found

    def _together(self, names: Iterable[str]) -> Wanted:
        links: set[int] = set()
        local: list[Key] = []
        for name in names:
            ends = self._ends.get(name) or self._learn(name)
            links |= ends.links
            local += ends.local
        return Wanted(links, local)

    def _learn(self, name: str) -> Wanted:
        places = self._by_name[name]
        links = {interface for interface in places if interface != LOCAL}
        ends = self._ends[name] = Wanted(links, list(places.get(LOCAL, ())))
        return ends
