"""Simulated hosts: a disk that outlives crashes, timers, and the ends of links."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf
from typing import Final

from palio.routing.client_messages import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.codec import decode_event
from palio.routing.effects import (
    DEDUPLICATION_WINDOW_KEYS,
    BrokerStanding,
    Client,
    Entry,
    Fetch,
    Fetched,
    Finished,
    HomeEpoch,
    HomeInterest,
    LinkRecord,
    Logged,
    LoggedDeadLetter,
    Persist,
    Queued,
    Read,
    Record,
    Remembered,
)
from palio.routing.messages import BrokerLogPage, EventId, PastEvent, Publish
from palio.routing.node import Node
from palio.routing.upkeep.recovery_database import write_row
from palio.simulation.links import Direction

RECOVERED_EVENTS: Final = 10_000  # unfinished ones that a restart reads at once, as a store on disk does


class Disk:
    """The persistent state of a broker: requests in force, event log, durable queues, deduplication window."""

    __slots__ = (
        "_interests",
        "_links",
        "_requests",
        "_seen",
        "_standings",
        "_unfinished",
        "dead_letters",
        "epochs",
        "log",
        "queues",
    )

    def __init__(self) -> None:
        self._requests: dict[tuple[Client, str, str], SubscribeClient | AdvertiseClient] = {}
        self._standings: dict[int, BrokerStanding] = {}
        self._interests: dict[tuple[int, int], HomeInterest] = {}
        self._links: dict[tuple[int, int, bytes], LinkRecord] = {}
        self._seen: dict[bytes, None] = {}
        self._unfinished: dict[EventId, Logged] = {}
        self.log: list[tuple[float, Publish]] = []
        self.dead_letters: list[Publish] = []
        self.epochs: dict[tuple[Client, str], HomeEpoch] = {}
        self.queues: dict[tuple[Client, str], list[Publish]] = {}

    def write(self, entry: Entry, now: float = 0.0) -> None:
        match entry:
            case Record(client, SubscribeClient() as request):
                self._requests[client, "wants", request.name] = request
            case Record(client, AdvertiseClient() as request):
                self._requests[client, "offers", request.name] = request
            case Record(client, UnsubscribeClient() as request):
                self._requests.pop((client, "wants", request.name), None)
                self.queues.pop((client, request.name), None)
                self.epochs.pop((client, request.name), None)
            case Record(client, UnadvertiseClient() as request):
                self._requests.pop((client, "offers", request.name), None)
            case Logged(event, _, key):
                self.log.append((now, event))
                self._unfinished[event.id] = entry
                self._remember_key(key)
            case Finished(id):
                self._unfinished.pop(id, None)
            case Queued(client, names, event, key):
                for name in names:
                    self.queues.setdefault((client, name), []).append(event)
                self._remember_key(key)
            case BrokerStanding(broker):
                self._standings[broker] = entry
            case HomeInterest(broker, bucket):
                self._interests[broker, bucket] = entry
            case LinkRecord():
                write_row(self._links, entry)
            case HomeEpoch(client, name):
                self.epochs[client, name] = entry
            case LoggedDeadLetter(id):
                self.dead_letters.append(self._unfinished[id].event)

    def remembered(self) -> Remembered:
        """The state that a broker restarts with."""
        records = tuple(Record(client, request) for client, request in self.read())
        standings, interests = tuple(self._standings.values()), tuple(self._interests.values())
        unfinished = tuple(self._unfinished.values())
        first, spilled = unfinished[:RECOVERED_EVENTS], tuple(each.event.id for each in unfinished[RECOVERED_EVENTS:])
        links, epochs = tuple(self._links.values()), tuple(self.epochs.values())
        seen = tuple(self._seen)
        return Remembered(records, first, seen, standings, interests, spilled=spilled, links=links, epochs=epochs)

    def unfinished_events(self) -> Iterator[str]:
        """The ids of the confirmed events that are not known to be in all their queues."""
        return (decode_event(each.event.body).id for each in self._unfinished.values())

    def lose_links(self) -> None:
        """Lose the recovery database, and nothing else."""
        self._links.clear()

    def fetch(self, fetch: Fetch) -> Fetched:
        """The events of the log that are still unfinished."""
        kept = (self._unfinished.get(id) for id in fetch.ids)
        return Fetched(fetch.token, tuple(each.event for each in kept if each is not None))

    def page(self, broker: int, read: Read) -> BrokerLogPage:
        """A page of the log, which is kept for ever."""
        start = read.place if read.place is not None else bisect_left(self.log, read.since, key=lambda each: each[0])
        looked_at = self.log[start : start + read.limit]
        events = tuple(
            PastEvent(offset, time, event.kept.identity if event.kept else b"", event.body)
            for offset, (time, event) in enumerate(looked_at, start)
            if read.wanted.matches(decode_event(event.body))
        )
        until = looked_at[-1][0] if looked_at else inf
        return BrokerLogPage(broker, 0, start, start + len(looked_at), len(self.log), until, events)

    def _remember_key(self, key: bytes) -> None:
        if key:
            self._seen[key] = None
            # The size of the broker's own window: more keys would be forgotten when they are read.
            if len(self._seen) > DEDUPLICATION_WINDOW_KEYS:
                del self._seen[next(iter(self._seen))]

    def knows(self, client: Client, name: str) -> bool:
        """Whether a subscription or an advertisement is stored under a name."""
        return any((client, kind, name) in self._requests for kind in ("wants", "offers"))

    def read(self) -> Iterator[tuple[Client, SubscribeClient | AdvertiseClient]]:
        """All requests in force."""
        return ((client, request) for (client, _, _), request in self._requests.items())


def needs_space(persist: Persist) -> bool:
    """Whether a write takes space on a disk; one that only ends things makes some."""
    freeing = UnsubscribeClient, UnadvertiseClient
    return not all(
        isinstance(each, Finished) or (isinstance(each, Record) and isinstance(each.request, freeing))
        for each in persist.records
    )


class Host:
    """A machine; it is down while it has no node."""

    __slots__ = (
        "busy_until",
        "disk",
        "fuse",
        "incarnation",
        "is_corrupted",
        "is_disk_full",
        "is_lost",
        "node",
        "number",
        "rate",
        "skew",
        "slowness",
        "timers",
        "ways",
    )

    def __init__(self, number: int, rate: float) -> None:
        self.number = number
        self.rate = rate  # of its clock: virtual seconds times this
        self.skew = 0.0  # error of its wall clock, in seconds
        self.node: Node | None = None
        self.incarnation = 0
        self.disk = Disk()
        self.ways: list[Direction] = []  # outgoing, by the number of the link, from 1
        self.timers: dict[str, int] = {}  # the last setting of each timer
        self.fuse: int | None = None  # effects that are carried out before a crash
        self.is_corrupted = False  # since its start, with an upkeep that does not mend tables
        self.is_disk_full = False
        self.is_lost = False  # with its disk
        self.slowness = 0.0  # seconds for each batch of inputs
        self.busy_until = 0.0  # when the last batch of a slow broker is handled
