"""How is a store on disk read? By a connection of its own, beside the one that writes; what it sees is safe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from palio.errors import ExpiredOffset
from palio.network.store.interface import DeadLetter, LogEntry, Size
from palio.network.store.ledger import Ledger, QueueKey, Waiting
from palio.network.store.retention import MICROSECONDS
from palio.network.store.schema import errors_of, open_for_reading
from palio.routing import codec
from palio.routing.messages import Publish


class Reader:
    """A connection that several threads may ask, one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_for_reading(path)
        self._lock = Lock()

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, errors_of(self._path):
            return self._connection.execute(query, parameters).fetchall()

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class DiskLog:
    """The log, of this process or of another."""

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self._reader = reader

    def bounds(self) -> tuple[int, int]:
        [(first, after)] = self._reader().rows("SELECT log_first, log_next FROM counts")
        return first, after

    def read(self, start: int, limit: int) -> list[LogEntry]:
        rows = self._reader().rows(
            "SELECT log_first, offset, time, publisher, data FROM counts"
            " LEFT JOIN log ON offset >= max(?1, log_first) ORDER BY offset LIMIT ?2",
            (start, limit),
        )
        if rows and start < rows[0][0]:
            raise ExpiredOffset(start, rows[0][0])
        return [
            LogEntry(offset, time / MICROSECONDS, publisher, _event(data))
            for _, offset, time, publisher, data in rows
            if offset is not None
        ]

    def find(self, time: float) -> int:
        """By halving: times never go down, and offsets have no gaps."""
        first, after = self.bounds()
        wanted = round(time * MICROSECONDS)
        while first < after:
            middle = (first + after) // 2
            found = self._reader().rows("SELECT time FROM log WHERE offset = ?", (middle,))
            if not found or found[0][0] < wanted:  # let go of meanwhile, or too early
                first = middle + 1
            else:
                after = middle
        return first

    def size(self) -> Size:
        [(events, length)] = self._reader().rows("SELECT log_next - log_first, log_bytes FROM counts")
        return Size(events, length)


class DiskQueue:
    """What waits for one subscription."""

    def __init__(self, reader: Reader, ledger: Ledger, key: QueueKey) -> None:
        self._reader = reader
        self._ledger = ledger
        self._key = key

    def read(self, after: int, limit: int) -> list[tuple[int, Publish]]:
        waiting = self._waiting()
        if waiting is None:
            return []
        rows = self._reader.rows(
            "SELECT queue.number, coalesce(log.data, held.data) FROM queue"
            " LEFT JOIN log ON log.offset = queue.event LEFT JOIN held ON held.number = -queue.event"
            " WHERE queue.queue = ? AND queue.number > ? ORDER BY queue.number LIMIT ?",
            (waiting.number, after, limit),
        )
        return [(number, _event(data)) for number, data in rows]

    def size(self) -> Size:
        waiting = self._waiting()
        return Size(0, 0) if waiting is None else waiting.size()

    def oldest(self) -> float | None:
        waiting = self._waiting()
        if waiting is None or not waiting.events:
            return None
        query = "SELECT time FROM queue WHERE queue = ? ORDER BY number LIMIT 1"
        found = self._reader.rows(query, (waiting.number,))
        return found[0][0] / MICROSECONDS if found else None

    def _waiting(self) -> Waiting | None:
        return self._ledger.queues.get(self._key)


class DiskDeadLetters:
    """What was buried."""

    def __init__(self, reader: Callable[[], Reader], ledger: Callable[[], Ledger]) -> None:
        self._reader = reader
        self._ledger = ledger

    def read(self, after: int, limit: int) -> list[DeadLetter]:
        rows = self._reader().rows(
            "SELECT * FROM dead_letters WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [DeadLetter(number, time / MICROSECONDS, *rest) for number, time, *rest in rows]

    def size(self) -> Size:
        letters = self._ledger().letters
        return Size(letters.events, letters.bytes, letters.dropped)


def _event(data: bytes) -> Publish:
    event = codec.decode_message(data)
    assert isinstance(event, Publish)  # nothing else is written there
    return event
