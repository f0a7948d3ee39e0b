"""Retention of the event log and of abandoned queues, in tolerance steps, and the clock that it trusts.

A log of gigabytes that expired while the broker was off must not stop it for minutes: a step takes a bounded number of
rows, and others write between two steps. An expired entry that still waits in a queue, or is not delivered everywhere,
leaves the log but stays on disk until it is done.

Timers use a monotonic clock; the log needs the time of day. A wall clock that is wrong for a moment must neither expire
a log nor leave times in it that are years ahead. So a jump of the wall clock is believed only when it lasts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Final, NamedTuple

from palio.network.store.interface import Retention
from palio.network.store.transaction import Ledger, Transaction

RETENTION_STEP_ROWS: Final = 500  # rows
MICROSECONDS: Final = 1_000_000
# A correction of the wall clock that is believed at once: this, and a thousandth of the time since it was last read.
_MAX_CORRECTION_SECONDS: Final = 1.0
JUMP_ACCEPTED_SECONDS: Final = 600.0  # after which a lasting jump is believed


class RetentionTime(NamedTuple):
    """The time in microseconds, with a doubt: entries up to `newest`, of earlier incarnations, count as so much
    younger."""

    now: int
    newest: int = 0
    doubt: int = 0

    def age(self, time: int) -> int:
        return self.now - time - (self.doubt if time <= self.newest else 0)


def is_retention_due(connection: sqlite3.Connection, ledger: Ledger, retention: Retention, time: RetentionTime) -> bool:
    """Whether anything has expired."""
    return bool(ledger.orphans) or _expired(connection, ledger, retention, time, 1) > 0


def expire_step(
    connection: sqlite3.Connection,
    ledger: Ledger,
    retention: Retention,
    time: RetentionTime,
    most: int = RETENTION_STEP_ROWS,
) -> None:
    """Remove some expired rows, in a transaction of its own."""
    transaction = Transaction(connection, ledger, retention, time.now)
    expired = _expired(connection, ledger, retention, time, most)
    emptied = None
    connection.execute("BEGIN IMMEDIATE")
    if expired:
        _truncate_log(connection, transaction, expired)
    if ledger.orphans:
        emptied = _clear_queue(connection, transaction, ledger.orphans[0], most)
    transaction.finish()
    connection.execute("COMMIT")
    transaction.committed()
    if emptied is not None:
        ledger.orphans.remove(emptied)


def _expired(
    connection: sqlite3.Connection, ledger: Ledger, retention: Retention, time: RetentionTime, most: int
) -> int:
    """Number of the oldest log entries that exceed age or size, up to `most`."""
    counts = ledger.counts
    if counts.log_first == counts.log_next:
        return 0
    oldest = inf if retention.log_seconds is None else round(retention.log_seconds * MICROSECONDS)
    surplus = 0 if retention.log_bytes is None else counts.log_bytes - retention.log_bytes
    expired = 0
    for logged, length in connection.execute(
        "SELECT time, length(data) FROM log WHERE offset >= ? ORDER BY offset LIMIT ?", (counts.log_first, most)
    ):
        if time.age(logged) <= oldest and surplus <= 0:
            break
        surplus -= length
        expired += 1
    return expired


def _truncate_log(connection: sqlite3.Connection, transaction: Transaction, expired: int) -> None:
    counts = transaction.counts
    first, counts.log_first = counts.log_first, counts.log_first + expired
    [(length,)] = connection.execute(
        "SELECT sum(length(data)) FROM log WHERE offset >= ? AND offset < ?", (first, counts.log_first)
    )
    counts.log_bytes -= length
    # Entries that a queue or an unfinished delivery refers to stay as rows outside the bounds of the log.
    connection.execute(
        "DELETE FROM log WHERE offset >= ? AND offset < ?"
        " AND NOT EXISTS (SELECT 1 FROM queue WHERE event = log.offset)"
        " AND NOT EXISTS (SELECT 1 FROM unfinished WHERE unfinished.offset = log.offset)",
        (first, counts.log_first),
    )


def _clear_queue(connection: sqlite3.Connection, transaction: Transaction, queue: int, most: int) -> int | None:
    """Remove rows of an abandoned queue; its number where nothing is left of it."""
    rows = connection.execute("SELECT number, event FROM queue WHERE queue = ? LIMIT ?", (queue, most)).fetchall()
    connection.executemany("DELETE FROM queue WHERE queue = ? AND number = ?", [(queue, row[0]) for row in rows])
    transaction.free({event for _, event in rows})
    if len(rows) == most:
        return None
    connection.execute("DELETE FROM queues WHERE number = ?", (queue,))
    return queue


class SteadyClock:
    """Seconds since 1970, without transient jumps of `wall`; `steady` is a monotonic clock."""

    __slots__ = ("_candidate", "_lock", "_offset", "_read", "_steady", "_wall")

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = Lock()
        self._read = steady()
        self._offset = wall() - self._read
        self._candidate: tuple[float, float] | None = None  # a new offset, and since when the wall clock shows it

    def __call__(self) -> float:
        with self._lock:
            now = self._steady()
            tolerance = _MAX_CORRECTION_SECONDS + (now - self._read) / 1_000
            self._read = now
            offset = self._wall() - now
            if abs(offset - self._offset) <= tolerance:
                self._offset, self._candidate = offset, None
            elif self._candidate is None or abs(offset - self._candidate[0]) > tolerance:
                self._candidate = offset, now
            elif now - self._candidate[1] >= JUMP_ACCEPTED_SECONDS:
                self._offset, self._candidate = offset, None
            return now + self._offset
