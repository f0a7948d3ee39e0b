"""What does a broker run on? A simulated machine: a disk that outlives crashes, timers, and the ends of its links."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf

from palio.routing.clients import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.codec import decode_event
from palio.routing.effects import REMEMBERED, Client, Entry, Finished, Home, Logged, Queued, Read, Record, Remembered
from palio.routing.messages import EventId, LogPage, PastEvent, Publish
from palio.routing.node import Node
from palio.simulation.links import Direction


class Disk:
    """Keeps the last record of each name, and what was taken back not at all; the log, the queues, and their window."""

    __slots__ = ("_homes", "_kept", "_seen", "_unfinished", "log", "queues")

    def __init__(self) -> None:
        self._kept: dict[tuple[Client, str, str], SubscribeClient | AdvertiseClient] = {}
        self._homes: dict[int, Home] = {}
        self._seen: dict[bytes, None] = {}
        self._unfinished: dict[EventId, Logged] = {}
        self.log: list[tuple[float, Publish]] = []
        self.queues: dict[tuple[Client, str], list[Publish]] = {}

    def write(self, entry: Entry, now: float = 0.0) -> None:
        match entry:
            case Record(client, SubscribeClient() as request):
                self._kept[client, "wants", request.name] = request
            case Record(client, AdvertiseClient() as request):
                self._kept[client, "offers", request.name] = request
            case Record(client, UnsubscribeClient() as request):
                self._kept.pop((client, "wants", request.name), None)
            case Record(client, UnadvertiseClient() as request):
                self._kept.pop((client, "offers", request.name), None)
            case Logged(event, _, key):
                self.log.append((now, event))
                self._unfinished[event.id] = entry
                self._see(key)
            case Finished(id):
                self._unfinished.pop(id, None)
            case Queued(client, names, event, key):
                for name in names:
                    self.queues.setdefault((client, name), []).append(event)
                self._see(key)
            case Home(broker):
                self._homes[broker] = entry

    def remembered(self) -> Remembered:
        """What a broker begins a life with."""
        records = tuple(Record(client, request) for client, request in self.read())
        return Remembered(records, tuple(self._unfinished.values()), tuple(self._seen), tuple(self._homes.values()))

    def page(self, broker: int, read: Read) -> LogPage:
        """A piece of the log; nothing of it is ever let go."""
        start = read.place if read.place is not None else bisect_left(self.log, read.since, key=lambda each: each[0])
        looked_at = self.log[start : start + read.limit]
        events = tuple(
            PastEvent(offset, time, event.kept.identity if event.kept else b"", event.body)
            for offset, (time, event) in enumerate(looked_at, start)
            if read.wanted.matches(decode_event(event.body))
        )
        until = looked_at[-1][0] if looked_at else inf
        return LogPage(broker, 0, start, start + len(looked_at), len(self.log), until, events)

    def _see(self, key: bytes) -> None:
        if key:
            self._seen[key] = None
            if len(self._seen) > REMEMBERED:
                del self._seen[next(iter(self._seen))]

    def read(self) -> Iterator[tuple[Client, SubscribeClient | AdvertiseClient]]:
        """All that was not taken back."""
        return ((client, request) for (client, _, _), request in self._kept.items())


class Host:
    """A machine; it is down where it runs no node."""

    __slots__ = ("disk", "fuse", "incarnation", "node", "number", "rate", "skew", "timers", "ways")

    def __init__(self, number: int, rate: float) -> None:
        self.number = number
        self.rate = rate  # how fast its clock runs
        self.skew = 0.0  # by how much its wall clock is wrong
        self.node: Node | None = None
        self.incarnation = 0
        self.disk = Disk()
        self.ways: list[Direction] = []  # out of here, by the number of the link, from 1
        self.timers: dict[str, int] = {}  # which setting of each timer is the last
        self.fuse: int | None = None  # effects that are still carried out before a crash
