"""Forwarding by content: every broker asks its own index who wants an event (Jerzak §2.5.1, Shen's Never-Reuse §3.3).

One matcher holds the distinct filters of all interfaces, so that one look tells the links and the local keys alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.forwarding.protocol import Arrival, Route, Setting
from palio.routing.messages import LOCAL, Key

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

    def clear(self, interface: int) -> None:
        for key in list(self._names.get(interface, ())):
            self.remove(interface, key)
        self._names.pop(interface, None)

    def __len__(self) -> int:
        return len(self._by_filter)

    def places(self, events: Sequence[Event]) -> list[dict[int, list[Key]]]:
        """For each event the interfaces that want it, each with the keys for which it does, in canonical order."""
        return [self._gather(names) for names in self._matches(events)]

    def _matches(self, events: Sequence[Event]) -> list[list[str]]:
        if not self._by_filter:
            return [[] for _ in events]
        self._quiet += len(events)
        if len(events) < _WORTH_A_BATCH and self._quiet < _QUIET:
            return [sorted(self._matcher.match(event)) for event in events]
        if len(events) < _WORTH_A_BATCH:
            if self._quiet - len(events) < _QUIET:
                self._matcher.match_batch(events)  # which indexes what was added one by one
            return [sorted(self._matcher.match(event)) for event in events]
        found: list[list[str]] = [[] for _ in events]
        table = self._matcher.match_batch(events)
        for row, name in zip(table["row"].to_pylist(), table["subscription"].to_pylist(), strict=True):
            found[row].append(name)
        return [sorted(names) for names in found]

    def _gather(self, names: list[str]) -> dict[int, list[Key]]:
        places: dict[int, list[Key]] = {}
        for name in names:
            for interface, keys in self._by_filter[name].items():
                places.setdefault(interface, []).extend(keys)
        return places


class ContentForwarding:
    """Matches content at every broker; writes no header."""

    def __init__(self, setting: Setting) -> None:
        self._wants: Wants | None = None  # a broker that nobody told anything is small

    def opened(self, interface: int) -> None:
        pass

    def closed(self, interface: int) -> None:
        if self._wants is not None:
            self._wants.clear(interface)

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        if self._wants is None:
            self._wants = Wants()
        self._wants.add(interface, key, wanted)

    def removed(self, interface: int, key: Key) -> None:
        if self._wants is not None:
            self._wants.remove(interface, key)

    def announced(self, topic: str, version: int, data: bytes) -> None:
        pass

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        if self._wants is None or not len(self._wants):
            return [_NOWHERE] * len(arrivals)
        found = self._wants.places([each.event for each in arrivals])
        return [_route(each.interface, places) for each, places in zip(arrivals, found, strict=True)]


def _route(came_by: int, places: dict[int, list[Key]]) -> Route:
    links = tuple(sorted(each for each in places if each not in (came_by, LOCAL)))
    return Route(((None, links),) if links else (), tuple(places.get(LOCAL, ())))


_NOWHERE: Final = Route((), ())
