"""Store in memory: for brokers that need no durability, and the executable specification of the one on disk.

A model-based test compares the two on random sequences of calls.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from secrets import randbelow
from threading import RLock
from typing import Final

from palio.errors import ExpiredOffset, PalioError, QueueFull
from palio.network.store.interface import (
    CONSUMER_GONE,
    MAX_FAILED_AT_ONCE,
    QUEUE_FULL_LETTER,
    Acknowledged,
    ConsumerLost,
    DeadLetter,
    DeadLetterAdded,
    DeadLettersRemoved,
    DeliveriesFailed,
    LogEntry,
    OnWritten,
    QueueBounds,
    Recovered,
    Retention,
    Size,
    Writable,
    is_half_empty,
    letter_reason,
    queue_bounds,
)
from palio.routing import codec
from palio.routing.client_messages import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.effects import (
    BrokerStanding,
    Client,
    Finished,
    HomeEpoch,
    HomeInterest,
    LinkRecord,
    Logged,
    LoggedDeadLetter,
    Queued,
    Record,
)
from palio.routing.messages import EventId, Publish
from palio.routing.upkeep.recovery_database import write_row

_MAX_NODE_NUMBER: Final = 2**32 - 1


def new_node_number() -> int:
    """A random broker number; it takes five bytes in an event's id."""
    return 1 + randbelow(_MAX_NODE_NUMBER)


class MemoryStore:
    """A store in dictionaries; submissions are answered before `submit` returns."""

    def __init__(self, retention: Retention | None = None, clock: Callable[[], float] = time.time) -> None:
        self.retention = retention or Retention()
        self._clock = clock
        self._lock = RLock()
        self._node = new_node_number()
        self._incarnation = 0
        self._records: dict[tuple[Client, str, str], Record] = {}
        self._unfinished: dict[EventId, Logged] = {}
        self._homes: dict[int, BrokerStanding] = {}
        self._interests: dict[tuple[int, int], HomeInterest] = {}
        self._links: dict[tuple[int, int, bytes], LinkRecord] = {}
        self._epochs: dict[tuple[Client, str], HomeEpoch] = {}
        self._seen: deque[bytes] = deque(maxlen=self.retention.duplicates)
        self._queues: dict[tuple[Client, str], MemoryQueue] = {}
        self._number = 0
        self.takes_events = True  # memory has no bound that is known here
        self.log = MemoryLog(self._lock)
        self.dead_letters = MemoryDeadLetters(self.retention.dead_letters)

    def open(self) -> Recovered:
        self._incarnation += 1
        records, unfinished = tuple(self._records.values()), tuple(self._unfinished.values())
        return Recovered(
            self._node,
            self._incarnation,
            records,
            unfinished,
            tuple(self._seen),
            tuple(self._homes.values()),
            tuple(self._interests.values()),
            links=tuple(self._links.values()),
            epochs=tuple(self._epochs.values()),
        )

    def submit(self, entries: Sequence[Writable], answer: OnWritten) -> None:
        try:
            self.write(entries)
        except PalioError as error:
            answer(error)
        else:
            answer(None)

    def write(self, entries: Sequence[Writable]) -> None:
        with self._lock:
            # Checked as a whole before anything is written: all or none.
            self._check_room(entries)
            for each in entries:
                self._write(each)
            self.retain()

    def unfinished(self, ids: Sequence[EventId]) -> list[Publish]:
        with self._lock:
            return [self._unfinished[id].event for id in ids if id in self._unfinished]

    def queue(self, client: Client, name: str) -> MemoryQueue:
        return self._queues.get((client, name), MemoryQueue())

    def change_retention(self, retention: Retention) -> None:
        with self._lock:
            self.retention = retention

    def is_half_empty(self, client: Client, name: str) -> bool:
        with self._lock:
            return is_half_empty(self.queue(client, name).size(), self._bounds(client, name))

    def retain(self) -> None:
        with self._lock:
            self.log.retain(self._clock(), self.retention)

    def close(self) -> None:
        """Nothing to release."""

    def _check_room(self, entries: Sequence[Writable]) -> None:
        """`QueueFull` before anything is changed; acknowledgements among the same entries make no room for them."""
        more: dict[tuple[Client, str], Size] = {}
        for each in entries:
            if not isinstance(each, Queued):
                continue
            length = len(codec.encode(each.event))
            for name in dict.fromkeys(each.names):
                key = (each.client, name)
                bounds = self._bounds(*key)
                if bounds.on_full != "refuse":
                    continue
                waiting = more.get(key) or self.queue(*key).size()
                if not bounds.admits(waiting.events, waiting.bytes + length):
                    raise QueueFull(*key, waiting.events)
                more[key] = Size(waiting.events + 1, waiting.bytes + length)

    def _bounds(self, client: Client, name: str) -> QueueBounds:
        record = self._records.get((client, "wants", name))
        settings = record.request.settings if record and isinstance(record.request, SubscribeClient) else None
        return queue_bounds(settings, self.retention)

    def _write(self, entry: Writable) -> None:
        match entry:
            case Record():
                self._record(entry)
            case Logged(event, publisher, key):
                self.log.add(self._clock(), publisher, event)
                self._unfinished[event.id] = entry
                self._remember_key(key)
            case Queued():
                self._enqueue(entry)
            case Finished(id):
                self._unfinished.pop(id, None)
            case LoggedDeadLetter(id, reason):
                self._bury_logged(id, reason)
            case HomeInterest(broker, bucket):
                self._interests[broker, bucket] = entry
            case LinkRecord():
                write_row(self._links, entry)
            case HomeEpoch(client, name):
                self._epochs[client, name] = entry
            case BrokerStanding(broker):
                self._homes[broker] = entry
            case Acknowledged(client, name, numbers):
                self.queue(client, name).remove(numbers)
            case DeliveriesFailed(client, name, numbers, reason, most):
                self._fail_deliveries(client, name, numbers, reason, most)
            case ConsumerLost(client, name, acknowledged, delivered, most):
                passed_over = self.queue(client, name).passed_over(acknowledged, delivered)
                self._fail_deliveries(client, name, passed_over, CONSUMER_GONE, most)
            case DeadLetterAdded():
                self.dead_letters.add(self._clock(), entry)
            case DeadLettersRemoved(numbers):
                self.dead_letters.remove(numbers)

    def _enqueue(self, queued: Queued) -> None:
        client, names, event, key = queued
        for name in dict.fromkeys(names):
            queue = self._queues.setdefault((client, name), MemoryQueue())
            bounds, now = self._bounds(client, name), self._clock()
            for surplus in queue.make_room(event, bounds):
                self.dead_letters.add(now, DeadLetterAdded(client, name, QUEUE_FULL_LETTER, surplus.body))
            self._number += queue.add(self._number + 1, event, bounds, now)
        self._remember_key(key)

    def _bury_logged(self, id: EventId, reason: str) -> None:
        if id in self._unfinished:
            body = self._unfinished[id].event.body
            self.dead_letters.add(self._clock(), DeadLetterAdded("", "", reason, body))

    def _fail_deliveries(
        self, client: Client, name: str, numbers: Sequence[int], reason: str, most: int | None
    ) -> None:
        queue = self.queue(client, name)
        for number in numbers:
            failures = queue.fail(number)
            if most is not None and failures >= most:
                letter = DeadLetterAdded(client, name, letter_reason(failures, reason), queue.body(number))
                self.dead_letters.add(self._clock(), letter)
                queue.remove((number,))

    def _record(self, record: Record) -> None:
        client, request = record
        match request:
            case SubscribeClient(name=name):
                self._records[client, "wants", name] = record
            case AdvertiseClient(name=name):
                self._records[client, "offers", name] = record
            case UnsubscribeClient(name=name):
                self._records.pop((client, "wants", name), None)
                self._queues.pop((client, name), None)
                self._epochs.pop((client, name), None)
            case UnadvertiseClient(name=name):
                self._records.pop((client, "offers", name), None)

    def _remember_key(self, key: bytes) -> None:
        if key:
            self._seen.append(key)


class MemoryQueue:
    """Queue of one durable subscription."""

    def __init__(self) -> None:
        # Not a plain dict, which scans its deleted slots to find its first item.
        self._waiting: OrderedDict[int, Publish] = OrderedDict()
        self._since: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._bytes = 0
        self._dropped = 0

    def read(self, after: int, limit: int) -> list[tuple[int, Publish]]:
        return list(islice((each for each in self._waiting.items() if each[0] > after), limit))

    def size(self) -> Size:
        return Size(len(self._waiting), self._bytes, self._dropped)

    def failures(self, numbers: Sequence[int]) -> dict[int, int]:
        return {number: self._failures[number] for number in numbers if number in self._failures}

    def fail(self, number: int) -> int:
        """Count a failed delivery; how many there were of this event, 0 where it is not in the queue."""
        if number not in self._waiting:
            return 0
        self._failures[number] = self._failures.get(number, 0) + 1
        return self._failures[number]

    def passed_over(self, acknowledged: int, delivered: int) -> list[int]:
        """The events up to the last acknowledged one, and the first after them, of those that were delivered."""
        numbers = list(islice((each for each in self._waiting if each <= delivered), MAX_FAILED_AT_ONCE))
        following = next((each for each in numbers if each > acknowledged), acknowledged)
        return [each for each in numbers if each <= following]

    def body(self, number: int) -> bytes:
        return self._waiting[number].body

    def oldest(self) -> float | None:
        return self._since[next(iter(self._waiting))] if self._waiting else None

    def make_room(self, event: Publish, bounds: QueueBounds) -> list[Publish]:
        """Drop the oldest events where the policy is to; answers those that become dead letters."""
        dead = []
        while bounds.on_full in ("drop_oldest", "dead_letter") and not self._takes(event, bounds):
            number, oldest = next(iter(self._waiting.items()))
            self.remove((number,))
            self._dropped += 1
            if bounds.on_full == "dead_letter":
                dead.append(oldest)
        return dead

    def add(self, number: int, event: Publish, bounds: QueueBounds, now: float) -> bool:
        """Append an event; False where the policy drops it."""
        length = len(codec.encode(event))
        if bounds.on_full == "drop_newest" and not self._takes(event, bounds):
            self._dropped += 1
            return False
        self._waiting[number] = event
        self._since[number] = now
        self._bytes += length
        return True

    def remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            event = self._waiting.pop(number, None)
            if event is not None:
                del self._since[number]
                self._failures.pop(number, None)
                self._bytes -= len(codec.encode(event))

    def _takes(self, event: Publish, bounds: QueueBounds) -> bool:
        return bounds.admits(len(self._waiting), self._bytes + len(codec.encode(event)))


class MemoryLog:
    """Event log; callers that write hold the lock."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._entries: list[LogEntry] = []
        self._next = 1
        self._bytes = 0
        self._latest = 0.0

    def bounds(self) -> tuple[int, int]:
        with self._lock:
            return self._next - len(self._entries), self._next

    def read(self, start: int, limit: int) -> list[LogEntry]:
        with self._lock:
            oldest, _ = self.bounds()
            if start < oldest:
                raise ExpiredOffset(start, oldest)
            return self._entries[start - oldest : start - oldest + limit]

    def find(self, time: float) -> int:
        with self._lock:
            return self.bounds()[0] + bisect_left(self._entries, time, key=lambda entry: entry.time)

    def size(self) -> Size:
        return Size(len(self._entries), self._bytes)

    def add(self, now: float, publisher: Client, event: Publish) -> None:
        """Append an event; times never go back, even if the clock does."""
        self._latest = max(now, self._latest)
        self._entries.append(LogEntry(self._next, self._latest, publisher, event))
        self._next += 1
        self._bytes += len(codec.encode(event))

    def retain(self, now: float, retention: Retention) -> None:
        gone = 0
        for entry in self._entries:
            too_old = retention.log_seconds is not None and entry.time < now - retention.log_seconds
            too_much = retention.log_bytes is not None and self._bytes > retention.log_bytes
            if not (too_old or too_much):
                break
            self._bytes -= len(codec.encode(entry.event))
            gone += 1
        del self._entries[:gone]


class MemoryDeadLetters:
    """The last dead letters, up to a number."""

    def __init__(self, max_letters: int) -> None:
        self._letters: OrderedDict[int, DeadLetter] = OrderedDict()
        self._max_letters = max_letters
        self._number = 0
        self._dropped = 0

    def read(self, after: int, limit: int) -> list[DeadLetter]:
        return [letter for number, letter in self._letters.items() if number > after][:limit]

    def counts(self) -> Counter[tuple[Client, str]]:
        return Counter((each.client, each.name) for each in self._letters.values())

    def size(self) -> Size:
        return Size(len(self._letters), sum(len(each.data) for each in self._letters.values()), self._dropped)

    def add(self, now: float, buried: DeadLetterAdded) -> None:
        self._number += 1
        self._letters[self._number] = DeadLetter(self._number, now, *buried)
        if len(self._letters) > self._max_letters:
            self._letters.popitem(last=False)
            self._dropped += 1

    def remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._letters.pop(number, None)
