"""What becomes of an event for durable subscriptions? It is written into their queues once, and then acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palio.routing.effects import Client, Deliver, Drop, Effect, Queued, Recipient
from palio.routing.keeping.window import Window, queued
from palio.routing.messages import EventId, Key, Publish

_ENTRIES = 1_024  # lives of brokers whose order is watched


class Queues:
    """The durable subscriptions of one broker."""

    __slots__ = ("_durable", "_full", "_highest", "_seen", "_unwritten", "_writing", "inversions")

    def __init__(self, seen: Window) -> None:
        self._seen = seen
        self._durable: set[tuple[Client, str]] = set()
        self._full: set[tuple[Client, str]] = set()
        self._unwritten: list[Queued] = []
        self._writing: dict[Key, list[tuple[EventId, int]]] = {}  # attempts that wait until an event is written
        self._highest: dict[tuple[int, int], int] = {}
        self.inversions = 0  # events that came after one which the same broker had let in later

    def __len__(self) -> int:
        return len(self._durable)

    def __iter__(self) -> Iterator[tuple[Client, str]]:
        """All durable subscriptions of clients of this broker."""
        return iter(self._durable)

    @property
    def has_any(self) -> bool:
        return bool(self._durable)

    @property
    def has_full(self) -> bool:
        return bool(self._full)

    def is_durable(self, client: Client, name: str) -> bool:
        return (client, name) in self._durable

    def subscribed(self, client: Client, name: str, durable: bool) -> None:
        (self._durable.add if durable else self._durable.discard)((client, name))
        self._full.discard((client, name))

    def filled(self, client: Client, name: str) -> None:
        if (client, name) in self._durable:
            self._full.add((client, name))

    def freed(self, client: Client, name: str) -> None:
        self._full.discard((client, name))

    def take(self, recipients: Sequence[Recipient], event: Publish) -> list[Effect]:
        """An event that nobody was assured of: to each as it wants it."""
        passing, lasting = self._split(recipients)
        effects: list[Effect] = [Deliver(passing, event)] if passing else []
        for client, names in lasting:
            room = tuple(name for name in names if (client, name) not in self._full)
            if room:
                self._unwritten.append(Queued(client, room, event))
            if len(room) < len(names):
                effects.append(Drop("the queue of a subscription is full", event))
        return effects

    def is_blocked(self, recipients: Sequence[Recipient]) -> bool:
        """Whether a kept event cannot be taken now."""
        return any((client, name) in self._full for client, names in recipients for name in names)

    def keep(self, recipients: Sequence[Recipient], event: Publish, identity: Key) -> list[Effect]:
        """A kept event, unless it was here before."""
        key = queued(identity)
        if not recipients or key in self._seen:
            return []
        self._seen.add(key)
        passing, lasting = self._split(recipients)
        for client, names in lasting:
            self._unwritten.append(Queued(client, names, event, key))
            key = b""  # once is enough
        if lasting:
            self._writing[identity] = []
            self._watch(event.id)
        return [Deliver(passing, event)] if passing else []

    def is_written(self, identity: Key, id: EventId, attempt: int) -> bool:
        """Whether nothing of an event is still to be written here; otherwise the attempt is told by `written`."""
        waiting = self._writing.get(identity)
        if waiting is None:
            return True
        waiting.append((id, attempt))
        return False

    def unwritten(self) -> list[Queued]:
        """What is to be written since the last call."""
        records, self._unwritten = self._unwritten, []
        return records

    def written(self, record: Queued) -> list[tuple[EventId, int]]:
        """A record is on disk, and with it all of its event; the attempts that waited for it."""
        return self._writing.pop(record.event.kept.identity, []) if record.event.kept is not None else []

    def failed(self, record: Queued) -> list[tuple[EventId, int]]:
        """A record could not be written; the attempts that waited for it must be made again."""
        if record.event.kept is not None:
            self._seen.discard(queued(record.event.kept.identity))
        return self.written(record)

    def _split(self, recipients: Sequence[Recipient]) -> tuple[tuple[Recipient, ...], list[Recipient]]:
        """Those that hear of an event as it passes, and those for which it is kept."""
        passing: list[Recipient] = []
        lasting: list[Recipient] = []
        for client, names in recipients:
            for found, is_durable in ((passing, False), (lasting, True)):
                some = tuple(name for name in names if ((client, name) in self._durable) == is_durable)
                if some:
                    found.append(Recipient(client, some))
        return tuple(passing), lasting

    def _watch(self, id: EventId) -> None:
        entry = id.node, id.incarnation
        highest = self._highest.pop(entry, 0)
        self.inversions += id.sequence < highest
        self._highest[entry] = max(highest, id.sequence)
        if len(self._highest) > _ENTRIES:
            del self._highest[next(iter(self._highest))]
