"""How do entries become rows? Those of all that is written together go to each table at once.

A transaction is made of several submissions, each of which is written or refused as a whole. What is added is
collected, and written before anything that might have to see it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from palio.errors import QueueFull
from palio.network.store.interface import Acknowledged, Buried, Exhumed, Keeping, Writable
from palio.network.store.ledger import Ledger, QueueKey, Waiting, pack_keys
from palio.routing import codec
from palio.routing.clients import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.effects import Finished, Home, Logged, Queued, Record
from palio.routing.messages import EventId, Publish

FORGOTTEN_TOGETHER: Final = 256  # keys of duplicates; those that are too many until then are not read


class Transaction:
    """What is written together. It has begun when this is made; `finish` writes the rest, the caller commits."""

    def __init__(self, connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, now: int) -> None:
        self._connection = connection
        self._ledger = ledger
        self._keeping = keeping
        self.counts = ledger.counts.copy()
        self._letters = replace(ledger.letters)
        # A clock that is set back does not set the log back.
        self._log_time = max(now, self.counts.log_time)
        self._now = now
        self._queues: dict[QueueKey, Waiting | None] = {}
        self._orphans: list[int] = []
        self._unfinished: dict[EventId, tuple[int, int]] = {}
        self._finished: list[EventId] = []
        self._held: dict[EventId, tuple[int, int]] = {}
        self._log_rows: list[tuple[int, int, str, bytes]] = []
        self._unfinished_rows: dict[int, bytes] = {}
        self._seen: list[bytes] = []
        self._held_rows: list[tuple[int, bytes]] = []
        self._queue_rows: list[tuple[int, int, int, int, int]] = []
        self._freed: set[int] = set()
        self.bytes = 0  # of events

    def apply(self, entries: Sequence[Writable]) -> None:
        """Write a submission; `QueueFull`, and nothing of it is written."""
        if self._keeping.queue_overflow == "refuse":
            self._check_room(entries)
        for each in entries:
            match each:
                case Logged():
                    self._log(each)
                case Queued():
                    self._enqueue(each)
                case Finished():
                    self._finish(each.event)
                case Home():
                    self._connection.execute("INSERT OR REPLACE INTO homes VALUES (?, ?, ?)", each)
                case Acknowledged():
                    self._acknowledge(each)
                case Record():
                    self._record(each)
                case Buried():
                    self._bury(each)
                case Exhumed():
                    self._exhume(each.numbers)

    def finish(self) -> None:
        """Write what is left, ready to commit."""
        self._flush()
        run = self._connection
        self.free(self._freed)
        if self._seen:
            before = self.counts.seen
            self.counts.seen += len(self._seen)
            run.execute("INSERT INTO seen VALUES (?, ?)", (self.counts.seen, pack_keys(self._seen)))
            if before // FORGOTTEN_TOGETHER != self.counts.seen // FORGOTTEN_TOGETHER:
                run.execute("DELETE FROM seen WHERE upto <= ?", (self.counts.seen - self._keeping.duplicates,))
        self.counts.write(run)

    def committed(self) -> None:
        """It is on disk: what was found out here holds from now on."""
        ledger = self._ledger
        ledger.counts = self.counts
        ledger.letters = self._letters
        ledger.orphans += self._orphans
        for key, waiting in self._queues.items():
            if waiting is None:
                ledger.queues.pop(key, None)
            else:
                ledger.queues[key] = waiting
        ledger.unfinished |= self._unfinished
        for id in self._finished:
            ledger.unfinished.pop(id, None)

    def free(self, events: set[int]) -> None:
        """Let go of events for which nothing waits any more, and which are not, or no longer, in the log."""
        held = [(event,) for event in events if event < 0]
        past = [(event,) for event in events if 0 < event < self.counts.log_first]
        if held:
            self._connection.executemany(
                "DELETE FROM held WHERE number = -?1 AND NOT EXISTS (SELECT 1 FROM queue WHERE event = ?1)", held
            )
        if past:
            self._connection.executemany(
                "DELETE FROM log WHERE offset = ?1 AND NOT EXISTS (SELECT 1 FROM queue WHERE event = ?1)"
                " AND NOT EXISTS (SELECT 1 FROM unfinished WHERE offset = ?1)",
                past,
            )

    # Events

    def _log(self, logged: Logged) -> None:
        data = codec.encode(logged.event)
        self.bytes += len(data)
        offset = self.counts.log_next
        self.counts.log_next += 1
        self.counts.log_bytes += len(data)
        self.counts.log_time = self._log_time
        self._log_rows.append((offset, self._log_time, logged.publisher, data))
        self._unfinished_rows[offset] = logged.key
        self._unfinished[logged.event.id] = (offset, len(data))
        self._see(logged.key)

    def _finish(self, id: EventId) -> None:
        known = self._unfinished.pop(id, None) or self._ledger.unfinished.get(id)
        if known is None:
            return
        offset, _ = known
        self._finished.append(id)
        if self._unfinished_rows.pop(offset, None) is None:
            self._connection.execute("DELETE FROM unfinished WHERE offset = ?", (offset,))
            self._freed.add(offset)

    def _enqueue(self, queued: Queued) -> None:
        event, length = self._place(queued.event)
        for name in dict.fromkeys(queued.names):
            waiting = self._touch((queued.client, name))
            if not self._make_room(waiting, length):
                self._freed.add(event)
                continue
            waiting.events += 1
            waiting.bytes += length
            self._queue_rows.append((waiting.number, self.counts.queue_next, event, length, self._now))
            self.counts.queue_next += 1
        self._see(queued.key)

    def _place(self, event: Publish) -> tuple[int, int]:
        """Where an event is kept: in the log where it was let in here, otherwise among what is held."""
        known = self._unfinished.get(event.id) or self._held.get(event.id) or self._ledger.unfinished.get(event.id)
        if known is not None:
            return known
        data = codec.encode(event)
        self.bytes += len(data)
        self._held_rows.append((self.counts.held_next, data))
        place = self._held[event.id] = (-self.counts.held_next, len(data))
        self.counts.held_next += 1
        return place

    def _see(self, key: bytes) -> None:
        if key:
            self._seen.append(key)

    # Queues

    def _check_room(self, entries: Sequence[Writable]) -> None:
        more: dict[QueueKey, tuple[int, int]] = {}
        for each in entries:
            if not isinstance(each, Queued):
                continue
            length = 0
            for name in dict.fromkeys(each.names):
                key = (each.client, name)
                events, bytes = more.get(key) or self._waiting(key)
                length = length or len(codec.encode(each.event))
                if not self._keeping.has_room(events, bytes + length):
                    raise QueueFull(*key, events)
                more[key] = (events + 1, bytes + length)

    def _waiting(self, key: QueueKey) -> tuple[int, int]:
        waiting = self._queues[key] if key in self._queues else self._ledger.queues.get(key)
        return (0, 0) if waiting is None else (waiting.events, waiting.bytes)

    def _touch(self, key: QueueKey) -> Waiting:
        """The queue of a subscription, to be changed; it is made where there is none."""
        waiting = self._queues.get(key)
        if waiting is None:
            known = None if key in self._queues else self._ledger.queues.get(key)
            if known is not None:
                waiting = replace(known)
            else:
                made = self._connection.execute("INSERT INTO queues (client, name) VALUES (?, ?)", key)
                assert made.lastrowid is not None
                waiting = Waiting(made.lastrowid)
            self._queues[key] = waiting
        return waiting

    def _make_room(self, waiting: Waiting, length: int) -> bool:
        """Apply the rule for overflow; False where the new event is what is dropped."""
        keeping = self._keeping
        while not keeping.has_room(waiting.events, waiting.bytes + length):
            if keeping.queue_overflow == "drop_newest":
                waiting.dropped += 1
                return False
            self._flush()
            [(oldest,)] = self._connection.execute("SELECT min(number) FROM queue WHERE queue = ?", (waiting.number,))
            self._remove(waiting, oldest)
            waiting.dropped += 1
        return True

    def _acknowledge(self, acknowledged: Acknowledged) -> None:
        key = (acknowledged.client, acknowledged.name)
        if (self._queues[key] if key in self._queues else self._ledger.queues.get(key)) is None:
            return
        if self._queue_rows and max(acknowledged.numbers, default=0) >= self._queue_rows[0][1]:
            self._flush()
        waiting = self._touch(key)
        for number in acknowledged.numbers:
            self._remove(waiting, number)

    def _remove(self, waiting: Waiting, number: int) -> None:
        removed = self._connection.execute(
            "DELETE FROM queue WHERE queue = ? AND number = ? RETURNING event, bytes", (waiting.number, number)
        )
        for event, length in removed.fetchall():
            waiting.events -= 1
            waiting.bytes -= length
            self._freed.add(event)

    # What clients asked for

    def _record(self, record: Record) -> None:
        client, request = record
        match request:
            case SubscribeClient(name=name):
                self._keep(client, "wants", name, codec.encode(request))
            case AdvertiseClient(name=name):
                self._keep(client, "offers", name, codec.encode(request))
            case UnsubscribeClient(name=name):
                self._take_back(client, "wants", name)
                self._abandon((client, name))
            case UnadvertiseClient(name=name):
                self._take_back(client, "offers", name)

    def _keep(self, *row: object) -> None:
        self._connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", row)

    def _take_back(self, *key: str) -> None:
        self._connection.execute("DELETE FROM records WHERE client = ? AND kind = ? AND name = ?", key)

    def _abandon(self, key: QueueKey) -> None:
        """Leave a queue to nobody: what is in it may be much, and is cleared away bit by bit."""
        waiting = self._queues.get(key) or (None if key in self._queues else self._ledger.queues.get(key))
        if waiting is not None:
            self._connection.execute("UPDATE queues SET client = NULL WHERE number = ?", (waiting.number,))
            self._orphans.append(waiting.number)
            self._queues[key] = None

    # Dead letters

    def _bury(self, buried: Buried) -> None:
        row = (self.counts.letter_next, self._now, *buried)
        self._connection.execute("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?)", row)
        self.counts.letter_next += 1
        self._letters.events += 1
        self._letters.bytes += len(buried.data)
        if self._letters.events > self._keeping.dead_letters:
            [(oldest,)] = self._connection.execute("SELECT min(number) FROM dead_letters")
            self._exhume((oldest,))
            self._letters.dropped += 1

    def _exhume(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            removed = self._connection.execute(
                "DELETE FROM dead_letters WHERE number = ? RETURNING length(data)", (number,)
            )
            for (length,) in removed.fetchall():
                self._letters.events -= 1
                self._letters.bytes -= length

    def _flush(self) -> None:
        run = self._connection.executemany
        if self._log_rows:
            run("INSERT INTO log VALUES (?, ?, ?, ?)", self._log_rows)
            run("INSERT INTO unfinished VALUES (?, ?)", self._unfinished_rows.items())
            self._log_rows, self._unfinished_rows = [], {}
        if self._held_rows:
            run("INSERT INTO held VALUES (?, ?)", self._held_rows)
            self._held_rows = []
        if self._queue_rows:
            run("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", self._queue_rows)
            self._queue_rows = []
