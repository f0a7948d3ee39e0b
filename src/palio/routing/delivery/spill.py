"""Spill of the event log: confirmed events that wait on disk for durable subscriptions that take none now.

An event waits for each of its destinations, the durable subscriptions whose home is away or whose queue is full. The
bounds hold for each destination by itself, so that one subscription never stops the events of others. Bodies are on
disk alone; memory holds an id and a length for each event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from palio.routing.messages import EventId, Key


class _Waiting(NamedTuple):
    bytes: int
    destinations: tuple[Key, ...]


class Spill:
    """The events that wait, by destination. A destination is *refusing* from when it is full until half is free."""

    __slots__ = ("_bytes", "_events", "_max_bytes", "_max_events", "_waiting", "refusing")

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: dict[EventId, _Waiting] = {}
        self._waiting: dict[Key, dict[EventId, None]] = {}  # by destination, in the order in which they came
        self._bytes: dict[Key, int] = {}
        self.refusing: set[Key] = set()

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[EventId]:
        return iter(self._events)

    def __contains__(self, id: EventId) -> bool:
        return id in self._events

    def count(self, destination: Key) -> int:
        """The number of events that wait for a destination."""
        return len(self._waiting.get(destination, ()))

    def first(self, destination: Key) -> EventId:
        """The oldest of the events that wait for a destination."""
        return next(iter(self._waiting[destination]))

    def has_room(self, destination: Key, length: int) -> bool:
        """Whether one more event may wait; the first may, however long it is."""
        events = self.count(destination)
        return not events or (events < self._max_events and self._bytes[destination] + length <= self._max_bytes)

    def add(self, id: EventId, length: int, destinations: tuple[Key, ...]) -> None:
        self.remove(id)
        self._events[id] = _Waiting(length, destinations)
        for each in destinations:
            self._waiting.setdefault(each, {})[id] = None
            self._bytes[each] = self._bytes.get(each, 0) + length
            if not self.has_room(each, 1):
                self.refusing.add(each)

    def remove(self, id: EventId) -> None:
        known = self._events.pop(id, None)
        for each in () if known is None else known.destinations:
            self._leave(id, known.bytes if known else 0, each)

    def remove_oldest(self, destination: Key) -> tuple[EventId, bool]:
        """Let the oldest event of a destination go without it: its id, and whether it waits for no other one."""
        id = self.first(destination)
        length, destinations = self._events[id]
        self._leave(id, length, destination)
        rest = tuple(each for each in destinations if each != destination)
        if rest:
            self._events[id] = _Waiting(length, rest)
        else:
            del self._events[id]
        return id, not rest

    def release(self, away: Collection[Key]) -> list[EventId]:
        """Remove the events all of whose destinations take events again, in the order in which they were accepted."""
        ready = [id for id, each in self._events.items() if not any(place in away for place in each.destinations)]
        for id in ready:
            self.remove(id)
        return sorted(ready)  # ids of one incarnation sort by their count

    def _leave(self, id: EventId, length: int, destination: Key) -> None:
        waiting = self._waiting[destination]
        del waiting[id]
        self._bytes[destination] -= length
        if not waiting:
            del self._waiting[destination], self._bytes[destination]
        # Hysteresis: with one free place publishers would be refused and resumed event by event.
        if 2 * len(waiting) <= self._max_events and 2 * self._bytes.get(destination, 0) <= self._max_bytes:
            self.refusing.discard(destination)
