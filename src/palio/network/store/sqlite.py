"""Store on disk: SQLite in WAL mode, one writer thread, and readers on connections of their own.

A reader sees only committed transactions, and may be in another process (`palio log`).
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Any

from palio.errors import ExpiredOffset, PalioError, StoreError, StoreFull
from palio.network.data_directory import DataDirectory
from palio.network.store.disk_space import RESERVE_FILE, DiskSpace, release_reserve
from palio.network.store.interface import (
    MAX_READ_BYTES,
    MAX_RECOVERED_BYTES,
    MAX_RECOVERED_EVENTS,
    DeadLetter,
    LogEntry,
    OnWritten,
    Recovered,
    Retention,
    Size,
    Writable,
    is_half_empty,
    queue_bounds,
)
from palio.network.store.memory import new_node_number
from palio.network.store.schema import Safety, open_for_reading, open_for_writing, relax, store_error, translate_errors
from palio.network.store.transaction import (
    PARSER_VERSION,
    Ledger,
    QueueKey,
    QueueState,
    read_duplicate_keys,
    read_ledger,
)
from palio.network.store.wal_checkpoint import truncate_wal
from palio.network.store.writer import MICROSECONDS, Writer
from palio.routing import codec
from palio.routing.client_messages import AdvertiseClient, SubscribeClient
from palio.routing.effects import BrokerStanding, Client, HomeEpoch, HomeInterest, LinkRecord, Logged, Record
from palio.routing.messages import EventId, Publish


class SqliteStore:
    """A store in a directory of its own.

    Safety `durable`: answered writes survive a loss of power. `relaxed`: they survive the end of the process; a loss of
    power may take the last seconds with it, and damages nothing. The incarnation is durable in both.
    """

    def __init__(
        self,
        path: str | Path,
        retention: Retention | None = None,
        *,
        safety: Safety = "durable",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = DataDirectory(path)
        self.retention = retention or Retention()
        self._safety = safety
        self._clock = clock
        self._opened: _Opened | None = None
        self.log = SqliteLog(lambda: self._open.reader)
        self.dead_letters = SqliteDeadLetters(lambda: self._open.reader, lambda: self._open.ledger)

    def open(self) -> Recovered:
        if self._opened is not None:
            raise StoreError(str(self._directory.path), "the store is open already")
        self._directory.acquire()
        try:
            try:
                self._opened, recovered = self._start()
            except StoreFull:
                # A broker must come up on a full disk: only then can its queues be emptied.
                is_released = release_reserve(self._directory.path / RESERVE_FILE)
                if not (truncate_wal(self._directory.database) or is_released):
                    raise
                self._opened, recovered = self._start()
        except PalioError:
            self._directory.release()
            raise
        return recovered

    def _start(self) -> tuple[_Opened, Recovered]:
        path = self._directory.database
        connection = open_for_writing(path)
        try:
            with translate_errors(path):
                ledger = read_ledger(connection)
                recovered = _recover(connection, ledger, self.retention.duplicates)
                if self._safety == "relaxed":
                    # Only now: an incarnation that a loss of power took back would be given out again, and
                    # neighbours would deduplicate new events as those of the life before.
                    relax(connection)
                space = DiskSpace(connection, path, self.retention.disk_bytes)
            reader = SqliteReader(path)
            writer = Writer(connection, path, ledger, self.retention, space, self._clock)
        except PalioError as error:
            connection.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(str(self._directory.path), f"something in the store cannot be read: {error}") from None
        return _Opened(connection, reader, ledger, writer), recovered

    @property
    def takes_events(self) -> bool:
        return self._opened is not None and self._opened.writer.takes_events

    def submit(self, entries: Sequence[Writable], answer: OnWritten) -> None:
        self._open.writer.submit(entries, answer)

    def write(self, entries: Sequence[Writable]) -> None:
        written = Event()
        answers: list[PalioError | None] = []

        def answer(error: PalioError | None) -> None:
            answers.append(error)
            written.set()

        self.submit(entries, answer)
        written.wait()
        if answers[0] is not None:
            raise answers[0]

    def unfinished(self, ids: Sequence[EventId]) -> list[Publish]:
        opened = self._open
        found = []
        for id in ids:
            # No lock: a look at one item of a dictionary is atomic, and a finished event may be missing either way.
            known = opened.ledger.unfinished.get(id)
            if known is not None:
                found += opened.reader.rows("SELECT data FROM log WHERE offset = ?", known[:1])
        return [_decode(data) for (data,) in found]

    def queue(self, client: Client, name: str) -> SqliteQueue:
        return SqliteQueue(self._open.reader, self._open.ledger, (client, name))

    def is_half_empty(self, client: Client, name: str) -> bool:
        bounds = queue_bounds(self._open.ledger.settings.get((client, name)), self.retention)
        return is_half_empty(self.queue(client, name).size(), bounds)

    def retain(self) -> None:
        self._open.writer.retain()

    def change_retention(self, retention: Retention) -> None:
        self.retention = retention
        self._open.writer.change_retention(retention)

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.writer.close()
            opened.reader.close()
            opened.connection.close()
            self._directory.release()

    @property
    def _open(self) -> _Opened:
        if self._opened is None:
            raise StoreError(str(self._directory.path), "the store is not open")
        return self._opened


class _Opened:
    """Resources between `open` and `close`."""

    __slots__ = ("connection", "ledger", "reader", "writer")

    def __init__(self, connection: sqlite3.Connection, reader: SqliteReader, ledger: Ledger, writer: Writer) -> None:
        self.connection = connection
        self.reader = reader
        self.ledger = ledger
        self.writer = writer


def _recover(connection: sqlite3.Connection, ledger: Ledger, duplicates: int) -> Recovered:
    """Write the next incarnation, and read the state that the last one left."""
    known = connection.execute("SELECT node, incarnation FROM identity").fetchone()
    node, incarnation = (new_node_number(), 1) if known is None else (known[0], known[1] + 1)
    # Before everything else: a start that fails below has used its incarnation up.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM identity")
    connection.execute("INSERT INTO identity VALUES (?, ?)", (node, incarnation))
    connection.execute("COMMIT")
    records = _read_records(connection)
    for client, standing in records:
        if isinstance(standing, SubscribeClient) and standing.settings is not None:
            ledger.settings[client, standing.name] = standing.settings
    unfinished: list[Logged] = []
    spilled: list[EventId] = []
    unfinished_bytes = 0
    for offset, publisher, data, key in connection.execute(
        "SELECT log.offset, publisher, data, key FROM unfinished JOIN log ON log.offset = unfinished.offset"
        " ORDER BY unfinished.offset"
    ):
        event = codec.decode_message(data)
        assert isinstance(event, Publish)
        ledger.unfinished[event.id] = (offset, len(data))
        unfinished_bytes += len(data)
        # The first are routed at once. Millions may wait for a broker that is away: they are read when there is room.
        if not spilled and len(unfinished) < MAX_RECOVERED_EVENTS and unfinished_bytes <= MAX_RECOVERED_BYTES:
            unfinished.append(Logged(event, publisher, key))
        else:
            spilled.append(event.id)
    rows = connection.execute("SELECT broker, standing, gone FROM homes ORDER BY broker")
    homes = tuple(BrokerStanding(broker, standing, bool(gone)) for broker, standing, gone in rows)
    seen = read_duplicate_keys(connection, duplicates)
    interests = tuple(map(HomeInterest._make, connection.execute("SELECT * FROM interests ORDER BY broker, bucket")))
    links = tuple(map(LinkRecord._make, connection.execute("SELECT * FROM links ORDER BY neighbour, part, key")))
    epochs = tuple(map(HomeEpoch._make, connection.execute("SELECT * FROM epochs ORDER BY client, name")))
    return Recovered(
        node, incarnation, records, tuple(unfinished), seen, homes, interests, tuple(spilled), links, epochs
    )


def _read_records(connection: sqlite3.Connection) -> tuple[Record, ...]:
    """The standing requests. Filters that another version of Palio wrote are parsed, once after an upgrade."""
    outdated = connection.execute(
        "SELECT client, kind, name, request FROM records WHERE parser IS NOT ?", (PARSER_VERSION,)
    ).fetchall()
    if outdated:
        digests = [(_digest_of(request), PARSER_VERSION, *key) for *key, request in outdated]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "UPDATE records SET digest = ?, parser = ? WHERE client = ? AND kind = ? AND name = ?", digests
        )
        connection.execute("COMMIT")
    rows = connection.execute("SELECT client, request, digest FROM records")
    return tuple([Record(client, codec.decode_stored_request(request, digest)) for client, request, digest in rows])


def _digest_of(request: bytes) -> bytes:
    standing = codec.decode_request(request)
    assert isinstance(standing, SubscribeClient | AdvertiseClient)  # nothing else is stored
    return (standing.wanted if isinstance(standing, SubscribeClient) else standing.offered).digest


class SqliteReader:
    """A read-only connection, shared by threads under a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_for_reading(path)
        self._lock = Lock()

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(query, parameters).fetchall()
            except sqlite3.Error as error:
                raise store_error(error, self._path) from None

    def rows_with_data(self, query: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Rows whose last column is an event, until these exceed `MAX_READ_BYTES`."""
        found, size = [], 0
        with self._lock:
            try:
                cursor = self._connection.execute(query, parameters)
                for row in cursor:
                    found.append(row)
                    size += len(row[-1] or b"")
                    if size >= MAX_READ_BYTES:
                        break
                cursor.close()  # a statement that is not at its end would hold its snapshot
            except sqlite3.Error as error:
                raise store_error(error, self._path) from None
        return found

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class SqliteLog:
    """Event log in the database."""

    def __init__(self, reader: Callable[[], SqliteReader]) -> None:
        self._reader = reader

    def bounds(self) -> tuple[int, int]:
        [(first, after)] = self._reader().rows("SELECT log_first, log_next FROM counts")
        return first, after

    def read(self, start: int, limit: int) -> list[LogEntry]:
        # One statement is one snapshot: bounds that were read apart could be older than the rows.
        rows = self._reader().rows_with_data(
            "SELECT log_first, offset, time, publisher, data FROM counts"
            " LEFT JOIN log ON offset >= max(?1, log_first) ORDER BY offset LIMIT ?2",
            (start, limit),
        )
        if rows and start < rows[0][0]:
            raise ExpiredOffset(start, rows[0][0])
        return [
            LogEntry(offset, time / MICROSECONDS, publisher, _decode(data))
            for _, offset, time, publisher, data in rows
            if offset is not None
        ]

    def find(self, time: float) -> int:
        """Binary search: times never go back, and offsets have no gaps."""
        first, after = self.bounds()
        wanted = round(time * MICROSECONDS)
        while first < after:
            middle = (first + after) // 2
            rows = self._reader().rows("SELECT time FROM log WHERE offset = ?", (middle,))
            if not rows or rows[0][0] < wanted:  # expired meanwhile, or too early
                first = middle + 1
            else:
                after = middle
        return first

    def size(self) -> Size:
        [(events, length)] = self._reader().rows("SELECT log_next - log_first, log_bytes FROM counts")
        return Size(events, length)


class SqliteQueue:
    """Queue of one durable subscription."""

    def __init__(self, reader: SqliteReader, ledger: Ledger, key: QueueKey) -> None:
        self._reader = reader
        self._ledger = ledger
        self._key = key

    def read(self, after: int, limit: int) -> list[tuple[int, Publish]]:
        waiting = self._waiting()
        if waiting is None:
            return []
        rows = self._reader.rows_with_data(
            "SELECT queue.number, coalesce(log.data, held.data) FROM queue"
            " LEFT JOIN log ON log.offset = queue.event LEFT JOIN held ON held.number = -queue.event"
            " WHERE queue.queue = ? AND queue.number > ? ORDER BY queue.number LIMIT ?",
            (waiting.number, after, limit),
        )
        return [(number, _decode(data)) for number, data in rows]

    def size(self) -> Size:
        waiting = self._waiting()
        return Size(0, 0) if waiting is None else waiting.size()

    def failures(self, numbers: Sequence[int]) -> dict[int, int]:
        waiting = self._waiting()
        if waiting is None or not waiting.failed or not numbers:
            return {}
        rows = self._reader.rows(
            "SELECT number, failures FROM failed_deliveries WHERE queue = ? AND number BETWEEN ? AND ?",
            (waiting.number, min(numbers), max(numbers)),
        )
        wanted = set(numbers)
        return {number: failures for number, failures in rows if number in wanted}

    def oldest(self) -> float | None:
        waiting = self._waiting()
        if waiting is None or not waiting.events:
            return None
        query = "SELECT time FROM queue WHERE queue = ? ORDER BY number LIMIT 1"
        rows = self._reader.rows(query, (waiting.number,))
        return rows[0][0] / MICROSECONDS if rows else None

    def _waiting(self) -> QueueState | None:
        # No lock: a transaction replaces the state of a queue as a whole once it is committed, and never changes it.
        return self._ledger.queues.get(self._key)


class SqliteDeadLetters:
    """Dead letters in the database."""

    def __init__(self, reader: Callable[[], SqliteReader], ledger: Callable[[], Ledger]) -> None:
        self._reader = reader
        self._ledger = ledger

    def read(self, after: int, limit: int) -> list[DeadLetter]:
        rows = self._reader().rows(
            "SELECT * FROM dead_letters WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [DeadLetter(number, time / MICROSECONDS, *rest) for number, time, *rest in rows]

    def counts(self) -> Counter[tuple[Client, str]]:
        rows = self._reader().rows("SELECT client, name, count(*) FROM dead_letters GROUP BY client, name")
        return Counter({(client, name): count for client, name, count in rows})

    def size(self) -> Size:
        letters = self._ledger().letters
        return Size(letters.events, letters.bytes, letters.dropped)


def _decode(data: bytes) -> Publish:
    event = codec.decode_message(data)
    assert isinstance(event, Publish)  # nothing else is written there
    return event
