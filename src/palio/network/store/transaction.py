"""One transaction of the store: entries of several submissions become rows, and the ledger of totals in memory.

Each submission is written or refused as a whole. Rows are collected by table and written together, before anything that
must see them. The ledger holds what the writer knows without asking the disk: next numbers, and sizes of queues. A
transaction works on copies of the parts that it touches, and installs them once it is committed; a failed one leaves no
trace.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec

from palio import __version__
from palio.errors import QueueFull
from palio.network.store.interface import (
    CONSUMER_GONE,
    MAX_FAILED_AT_ONCE,
    QUEUE_FULL_LETTER,
    Acknowledged,
    ConsumerLost,
    DeadLetterAdded,
    DeadLettersRemoved,
    DeliveriesFailed,
    QueueBounds,
    Retention,
    Size,
    Writable,
    letter_reason,
    queue_bounds,
)
from palio.routing import codec
from palio.routing.client_messages import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.durable_settings import DurableSettings
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

QueueKey: TypeAlias = tuple[Client, str]
# By which a stored digest is known to be the one that this program would compute.
PARSER_VERSION: Final = f"{__version__}/{codec.CANONICAL_TEXT_VERSION}"

# Records of which the last one holds, by their first columns.
_REPLACEMENTS: Final[dict[type, str]] = {
    BrokerStanding: "INSERT OR REPLACE INTO homes VALUES (?, ?, ?)",
    HomeInterest: "INSERT OR REPLACE INTO interests VALUES (?, ?, ?, ?)",
    HomeEpoch: "INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?, ?, ?, ?)",
}


@dataclass(slots=True)
class Counts:
    """The one row of the table `counts`, in its order. Times are microseconds since 1970."""

    log_first: int
    log_next: int
    log_bytes: int
    log_time: int
    held_next: int
    queue_next: int
    seen: int
    letter_next: int

    def copy(self) -> Counts:
        return Counts(*_values_of(self))

    def write(self, connection: sqlite3.Connection) -> None:
        connection.execute(_SET_COUNTS, _values_of(self))


_values_of = attrgetter(*Counts.__slots__)
_SET_COUNTS = f"UPDATE counts SET {', '.join(f'{name} = ?' for name in Counts.__slots__)}"


@dataclass(slots=True)
class QueueState:
    """Number and size of a queue, and the events dropped from it."""

    number: int
    events: int = 0
    bytes: int = 0
    dropped: int = 0
    failed: int = 0  # events with failed deliveries

    def size(self) -> Size:
        return Size(self.events, self.bytes, self.dropped)


@dataclass(slots=True)
class DeadLetterCounts:
    """Number and size of the dead letters."""

    events: int = 0
    bytes: int = 0
    dropped: int = 0


@dataclass(slots=True)
class Ledger:
    """Totals of the store, as they are on disk."""

    counts: Counts
    queues: dict[QueueKey, QueueState] = field(default_factory=dict)
    orphans: list[int] = field(default_factory=list)  # abandoned queues, to be cleared in steps
    unfinished: dict[EventId, tuple[int, int]] = field(default_factory=dict)  # offset, bytes
    letters: DeadLetterCounts = field(default_factory=DeadLetterCounts)
    settings: dict[QueueKey, DurableSettings] = field(default_factory=dict)  # of queues that have any


def encode_duplicate_keys(keys: list[bytes]) -> bytes:
    """The duplicate keys of one transaction as one row; a row for each would cost as much as the event."""
    return msgspec.msgpack.encode(keys)


def read_duplicate_keys(connection: sqlite3.Connection, most: int) -> tuple[bytes, ...]:
    """The last duplicate keys, the oldest first."""
    rows = connection.execute("SELECT keys FROM seen ORDER BY upto").fetchall()
    keys = [key for (packed,) in rows for key in msgspec.msgpack.decode(packed, type=list[bytes])]
    return tuple(keys[max(0, len(keys) - most) :])


def read_ledger(connection: sqlite3.Connection) -> Ledger:
    """Read the ledger of a store, but for the unfinished events."""
    [row] = connection.execute("SELECT * FROM counts")
    ledger = Ledger(Counts(*row))
    sizes = {
        number: (events, bytes)
        for number, events, bytes in connection.execute("SELECT queue, count(*), sum(bytes) FROM queue GROUP BY queue")
    }
    failed = dict(connection.execute("SELECT queue, count(*) FROM failed_deliveries GROUP BY queue"))
    for number, client, name in connection.execute("SELECT number, client, name FROM queues"):
        if client is None:
            ledger.orphans.append(number)
        else:
            ledger.queues[client, name] = QueueState(number, *sizes.get(number, (0, 0)), failed=failed.get(number, 0))
    [(letters, bytes)] = connection.execute("SELECT count(*), coalesce(sum(length(data)), 0) FROM dead_letters")
    ledger.letters = DeadLetterCounts(letters, bytes)
    return ledger


# The number of failed deliveries of a waiting event, with one more.
_NEXT_FAILURE: Final = """
SELECT 1 + coalesce(failures, 0) FROM queue
LEFT JOIN failed_deliveries AS failed ON failed.queue = queue.queue AND failed.number = queue.number
WHERE queue.queue = ? AND queue.number = ?
"""
KEYS_PER_CLEANUP: Final = 256  # between two deletions of old keys; a reader ignores surplus ones


class Transaction:
    """Entries that are committed together; the caller begins and commits, `finish` writes the collected rows."""

    def __init__(self, connection: sqlite3.Connection, ledger: Ledger, retention: Retention, now: int) -> None:
        self._connection = connection
        self._ledger = ledger
        self._retention = retention
        self.counts = ledger.counts.copy()
        self._letters = replace(ledger.letters)
        # Times of the log never go back, even if the clock does: `find` searches them by bisection.
        self._log_time = max(now, self.counts.log_time)
        self._now = now
        self._queues: dict[QueueKey, QueueState | None] = {}  # copies of those that it changes; None is removed
        self._settings: dict[QueueKey, DurableSettings | None] = {}  # that it changes
        self._orphans: list[int] = []
        self._unfinished: dict[EventId, tuple[int, int]] = {}
        self._finished: list[EventId] = []
        self._held: dict[EventId, tuple[int, int]] = {}  # of this transaction: one row for all queues of an event
        self._log_rows: list[tuple[int, int, str, bytes]] = []
        self._unfinished_rows: dict[int, bytes] = {}
        self._seen: list[bytes] = []
        self._held_rows: list[tuple[int, bytes]] = []
        self._queue_rows: list[tuple[int, int, int, int, int]] = []
        self._freed: set[int] = set()  # events whose row may go, if nothing refers to it
        self.bytes = 0  # of events

    def apply(self, entries: Sequence[Writable]) -> None:
        """Add a submission; on `QueueFull` nothing of it is written."""
        self._check_room(entries)
        for each in entries:
            match each:
                case Logged():
                    self._log(each)
                case Queued():
                    self._enqueue(each)
                case Finished():
                    self._finish(each.event)
                case LoggedDeadLetter():
                    self._bury_logged(each)
                case BrokerStanding() | HomeInterest() | HomeEpoch():
                    self._connection.execute(_REPLACEMENTS[type(each)], each)
                case LinkRecord():
                    self._write_link(each)
                case Acknowledged():
                    self._acknowledge(each)
                case DeliveriesFailed(client, name, numbers):
                    self._fail_deliveries((client, name), numbers, each.reason, each.most)
                case ConsumerLost():
                    self._lose_consumer(each)
                case Record():
                    self._record(each)
                case DeadLetterAdded():
                    self._add_dead_letter(each)
                case DeadLettersRemoved():
                    self._remove_dead_letters(each.numbers)

    def finish(self) -> None:
        """Write the collected rows, ready to commit."""
        # The rows first: whether a queue still refers to a freed event is looked up in the tables.
        self._flush()
        run = self._connection
        self.free(self._freed)
        if self._seen:
            before = self.counts.seen
            self.counts.seen += len(self._seen)
            run.execute("INSERT INTO seen VALUES (?, ?)", (self.counts.seen, encode_duplicate_keys(self._seen)))
            # Rows pack many keys and are deleted whole, so that a cleanup is worth it only now and then.
            if before // KEYS_PER_CLEANUP != self.counts.seen // KEYS_PER_CLEANUP:
                run.execute("DELETE FROM seen WHERE upto <= ?", (self.counts.seen - self._retention.duplicates,))
        self.counts.write(run)

    def install_totals(self) -> None:
        """Install the new totals in the ledger, after the commit."""
        ledger = self._ledger
        ledger.counts = self.counts
        ledger.letters = self._letters
        ledger.orphans += self._orphans
        for key, waiting in self._queues.items():
            if waiting is None:
                ledger.queues.pop(key, None)
            else:
                ledger.queues[key] = waiting
        for key, settings in self._settings.items():
            if settings is None:
                ledger.settings.pop(key, None)
            else:
                ledger.settings[key] = settings
        ledger.unfinished |= self._unfinished
        for id in self._finished:
            ledger.unfinished.pop(id, None)

    def free(self, events: set[int]) -> None:
        """Delete events that no queue refers to and that are not within the log."""
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

    def _write_link(self, row: LinkRecord) -> None:
        run, (neighbour, part, key, data) = self._connection, row
        if key is None:
            run.execute("DELETE FROM links WHERE neighbour = ? AND part = ?", (neighbour, part))
        elif data is None:
            run.execute("DELETE FROM links WHERE neighbour = ? AND part = ? AND key = ?", (neighbour, part, key))
        else:
            run.execute("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", row)

    # Events

    def _log(self, logged: Logged) -> None:
        data = codec.encode(logged.event)
        self.bytes += len(data)
        offset = self.counts.log_next
        self.counts.log_next += 1
        self.counts.log_bytes += len(data)
        self.counts.log_time = self._log_time
        self._log_rows.append((offset, self._log_time, logged.publisher, data))
        # Unfinished until a `Finished` record: a restart resumes its delivery.
        self._unfinished_rows[offset] = logged.key
        self._unfinished[logged.event.id] = (offset, len(data))
        self._remember_key(logged.key)

    def _finish(self, id: EventId) -> None:
        known = self._unfinished.pop(id, None) or self._ledger.unfinished.get(id)
        if known is None:
            return
        offset, _ = known
        self._finished.append(id)
        # Accepted and finished within one transaction: its row is dropped before it is ever written.
        if self._unfinished_rows.pop(offset, None) is None:
            self._connection.execute("DELETE FROM unfinished WHERE offset = ?", (offset,))
            self._freed.add(offset)

    def _enqueue(self, queued: Queued) -> None:
        event, length = self._store_event(queued.event)
        for name in dict.fromkeys(queued.names):
            key = (queued.client, name)
            waiting = self._writable_queue(key)
            if not self._make_room(key, waiting, self._bounds(key), length):
                self._freed.add(event)
                continue
            waiting.events += 1
            waiting.bytes += length
            self._queue_rows.append((waiting.number, self.counts.queue_next, event, length, self._now))
            self.counts.queue_next += 1
        self._remember_key(queued.key)

    def _store_event(self, event: Publish) -> tuple[int, int]:
        """Reference and length of a stored event: in the log where it was accepted here, otherwise in `held`."""
        known = self._unfinished.get(event.id) or self._held.get(event.id) or self._ledger.unfinished.get(event.id)
        if known is not None:
            return known
        data = codec.encode(event)
        self.bytes += len(data)
        self._held_rows.append((self.counts.held_next, data))
        place = self._held[event.id] = (-self.counts.held_next, len(data))
        self.counts.held_next += 1
        return place

    def _remember_key(self, key: bytes) -> None:
        if key:
            self._seen.append(key)

    # Queues

    def _check_room(self, entries: Sequence[Writable]) -> None:
        """`QueueFull` before any row of a submission is collected, since collected rows cannot be taken back."""
        more: dict[QueueKey, tuple[int, int]] = {}
        for each in entries:
            if not isinstance(each, Queued):
                continue
            length = 0
            for name in dict.fromkeys(each.names):
                key = (each.client, name)
                bounds = self._bounds(key)
                if bounds.on_full != "refuse":
                    continue
                events, bytes = more.get(key) or self._waiting(key)
                length = length or len(codec.encode(each.event))
                if not bounds.admits(events, bytes + length):
                    raise QueueFull(*key, events)
                more[key] = (events + 1, bytes + length)

    def _bounds(self, key: QueueKey) -> QueueBounds:
        settings = self._settings[key] if key in self._settings else self._ledger.settings.get(key)
        return queue_bounds(settings, self._retention)

    def _known_queue(self, key: QueueKey) -> QueueState | None:
        return self._queues[key] if key in self._queues else self._ledger.queues.get(key)

    def _waiting(self, key: QueueKey) -> tuple[int, int]:
        waiting = self._known_queue(key)
        return (0, 0) if waiting is None else (waiting.events, waiting.bytes)

    def _writable_queue(self, key: QueueKey) -> QueueState:
        """The queue of a subscription as a copy to be changed; created where there is none."""
        waiting = self._queues.get(key)
        if waiting is None:
            known = None if key in self._queues else self._ledger.queues.get(key)
            if known is not None:
                waiting = replace(known)
            else:
                made = self._connection.execute("INSERT INTO queues (client, name) VALUES (?, ?)", key)
                assert made.lastrowid is not None
                waiting = QueueState(made.lastrowid)
            self._queues[key] = waiting
        return waiting

    def _make_room(self, key: QueueKey, waiting: QueueState, bounds: QueueBounds, length: int) -> bool:
        """Apply an overflow policy that drops; False where the new event is the one to drop."""
        # Under "refuse", `apply` has checked the room of the whole submission already.
        while bounds.on_full != "refuse" and not bounds.admits(waiting.events, waiting.bytes + length):
            if bounds.on_full == "drop_newest":
                waiting.dropped += 1
                return False
            self._flush()  # the oldest event of the queue may still be an unwritten row
            [(oldest,)] = self._connection.execute("SELECT min(number) FROM queue WHERE queue = ?", (waiting.number,))
            if bounds.on_full == "dead_letter":
                self._bury(key, waiting.number, oldest, QUEUE_FULL_LETTER)
            self._remove(waiting, oldest)
            waiting.dropped += 1
        return True

    def _bury_logged(self, letter: LoggedDeadLetter) -> None:
        """Make a dead letter of an event of the log that is not finished."""
        known = self._unfinished.get(letter.event) or self._ledger.unfinished.get(letter.event)
        if known is not None:
            self._flush()
            [(data,)] = self._connection.execute("SELECT data FROM log WHERE offset = ?", known[:1])
            self._add_dead_letter(DeadLetterAdded("", "", letter.reason, _body(data)))

    def _bury(self, key: QueueKey, queue: int, number: int, reason: str) -> None:
        """Make a waiting event a dead letter."""
        [(data,)] = self._connection.execute(
            "SELECT coalesce(log.data, held.data) FROM queue LEFT JOIN log ON log.offset = queue.event"
            " LEFT JOIN held ON held.number = -queue.event WHERE queue.queue = ? AND queue.number = ?",
            (queue, number),
        )
        self._add_dead_letter(DeadLetterAdded(*key, reason, _body(data)))

    def _acknowledge(self, acknowledged: Acknowledged) -> None:
        key = (acknowledged.client, acknowledged.name)
        if self._known_queue(key) is None:
            return
        # Rows of this transaction are still unwritten; those acknowledged already must exist before they are deleted.
        if self._queue_rows and max(acknowledged.numbers, default=0) >= self._queue_rows[0][1]:
            self._flush()
        waiting = self._writable_queue(key)
        for number in acknowledged.numbers:
            self._remove(waiting, number)

    def _remove(self, waiting: QueueState, number: int) -> None:
        removed = self._connection.execute(
            "DELETE FROM queue WHERE queue = ? AND number = ? RETURNING event, bytes", (waiting.number, number)
        )
        for event, length in removed.fetchall():
            waiting.events -= 1
            waiting.bytes -= length
            self._freed.add(event)
            if waiting.failed:
                key = (waiting.number, number)
                counted = self._connection.execute("DELETE FROM failed_deliveries WHERE queue = ? AND number = ?", key)
                waiting.failed -= counted.rowcount

    # Failed deliveries

    def _lose_consumer(self, lost: ConsumerLost) -> None:
        key = (lost.client, lost.name)
        waiting = self._known_queue(key)
        if waiting is None:
            return
        self._flush()
        rows = self._connection.execute(
            "SELECT number FROM queue WHERE queue = ?1 AND number <= ?2 AND number <= (SELECT max(?3,"
            " coalesce(min(number), 0)) FROM queue WHERE queue = ?1 AND number > ?3) ORDER BY number LIMIT ?4",
            (waiting.number, lost.delivered, lost.acknowledged, MAX_FAILED_AT_ONCE),
        )
        self._fail_deliveries(key, [number for (number,) in rows.fetchall()], CONSUMER_GONE, lost.most)

    def _fail_deliveries(self, key: QueueKey, numbers: Sequence[int], reason: str, most: int | None) -> None:
        if self._known_queue(key) is None:
            return
        self._flush()  # the events may still be unwritten rows
        waiting = self._writable_queue(key)
        for number in numbers:
            place = (waiting.number, number)
            found = self._connection.execute(_NEXT_FAILURE, place).fetchone()
            if found is None:
                continue  # acknowledged or dropped meanwhile
            [failures] = found
            if most is not None and failures >= most:
                self._bury(key, *place, letter_reason(failures, reason))
                self._remove(waiting, number)
                continue
            waiting.failed += failures == 1
            self._connection.execute("INSERT OR REPLACE INTO failed_deliveries VALUES (?, ?, ?)", (*place, failures))

    # Requests of clients

    def _record(self, record: Record) -> None:
        client, request = record
        match request:
            case SubscribeClient(name=name):
                self._put_record(client, "wants", name, codec.encode(request), request.wanted.digest, PARSER_VERSION)
                self._settings[client, name] = request.settings
            case AdvertiseClient(name=name):
                self._put_record(client, "offers", name, codec.encode(request), request.offered.digest, PARSER_VERSION)
            case UnsubscribeClient(name=name):
                self._delete_record(client, "wants", name)
                self._connection.execute("DELETE FROM epochs WHERE client = ? AND name = ?", (client, name))
                self._abandon((client, name))
                self._settings[client, name] = None
            case UnadvertiseClient(name=name):
                self._delete_record(client, "offers", name)

    def _put_record(self, *row: object) -> None:
        self._connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)", row)

    def _delete_record(self, *key: str) -> None:
        self._connection.execute("DELETE FROM records WHERE client = ? AND kind = ? AND name = ?", key)

    def _abandon(self, key: QueueKey) -> None:
        """Remove the owner of a queue; its rows may be many, and are deleted by retention in steps."""
        waiting = self._queues.get(key) or (None if key in self._queues else self._ledger.queues.get(key))
        if waiting is not None:
            self._connection.execute("UPDATE queues SET client = NULL WHERE number = ?", (waiting.number,))
            if waiting.failed:
                self._connection.execute("DELETE FROM failed_deliveries WHERE queue = ?", (waiting.number,))
            self._orphans.append(waiting.number)
            self._queues[key] = None

    # Dead letters

    def _add_dead_letter(self, buried: DeadLetterAdded) -> None:
        row = (self.counts.letter_next, self._now, *buried)
        self._connection.execute("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?)", row)
        self.counts.letter_next += 1
        self._letters.events += 1
        self._letters.bytes += len(buried.data)
        if self._letters.events > self._retention.dead_letters:
            [(oldest,)] = self._connection.execute("SELECT min(number) FROM dead_letters")
            self._remove_dead_letters((oldest,))
            self._letters.dropped += 1

    def _remove_dead_letters(self, numbers: Sequence[int]) -> None:
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


def _body(data: bytes) -> bytes:
    event = codec.decode_message(data)
    assert isinstance(event, Publish)  # nothing else is written there
    return event.body
