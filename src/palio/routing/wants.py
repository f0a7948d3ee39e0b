"""Which interfaces want an event? The distinct filters of all interfaces in one matcher, so that one look tells all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.messages import Key

_WORTH_A_BATCH: Final = 16  # events from which the matcher's batches cost less than single looks
_QUIET: Final = 8  # looks without a change after which even a few filters are worth an index


class Wants:
    """Filters under keys, by interface; equal ones are looked for once."""

    def __init__(self) -> None:
        self._by_filter: dict[str, dict[int, dict[Key, None]]] = {}  # interfaces and keys, by the name of the filter
        self._names: dict[int, dict[Key, str]] = {}
        self._matcher = Matcher()
        self._quiet = 0

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        name = wanted.digest.hex()
        self._names.setdefault(interface, {})[key] = name
        places = self._by_filter.get(name)
        if places is None:
            places = self._by_filter[name] = {}
            self._matcher.add(name, wanted)
            self._quiet = 0
        places.setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        name = self._names[interface].pop(key)
        places = self._by_filter[name]
        del places[interface][key]
        if not places[interface]:
            del places[interface]
        if not places:
            del self._by_filter[name]
            self._matcher.remove(name)

    def __len__(self) -> int:
        return len(self._by_filter)

    def places(self, events: Sequence[Event]) -> list[dict[int, list[Key]]]:
        """For each event the interfaces that want it, each with the keys for which it does, in no order."""
        return [self._gather(names) for names in self._matches(events)]

    def _matches(self, events: Sequence[Event]) -> Sequence[Iterable[str]]:
        if not self._by_filter:
            return [()] * len(events)
        was_quiet = self._quiet >= _QUIET
        self._quiet += len(events)
        if len(events) < _WORTH_A_BATCH:
            if not was_quiet and self._quiet >= _QUIET:
                self._matcher.match_batch(events)  # which indexes what was added one by one
            return [self._matcher.match(event) for event in events]
        found: list[list[str]] = [[] for _ in events]
        table = self._matcher.match_batch(events)
        for row, name in zip(table["row"].to_pylist(), table["subscription"].to_pylist(), strict=True):
            found[row].append(name)
        return found

    def _gather(self, names: Iterable[str]) -> dict[int, list[Key]]:
        places: dict[int, list[Key]] = {}
        for name in names:
            for interface, keys in self._by_filter[name].items():
                places.setdefault(interface, []).extend(keys)
        return places
