"""What is let go of, and when? The oldest of the log by age and size, and queues that nobody owns, a little at a time.

A log of many gigabytes whose end of life came while the broker was off must not stop it for minutes: each step takes so
many rows, and between two steps others write. An entry of the log that is too old and still waits for somebody, or is
not finished, leaves the log, and stays on disk until it is dealt with.
"""

from __future__ import annotations

import sqlite3
from math import inf
from typing import Final, NamedTuple

from palio.network.store.interface import Keeping
from palio.network.store.ledger import Ledger
from palio.network.store.transaction import Transaction

STEP: Final = 500  # rows
MICROSECONDS: Final = 1_000_000


class Time(NamedTuple):
    """What the clock says, in microseconds, and how much of that is not believed yet: entries of a life before, up to
    the newest of them, are taken to be so much younger."""

    now: int
    newest: int = 0
    doubt: int = 0

    def age(self, time: int) -> int:
        return self.now - time - (self.doubt if time <= self.newest else 0)


def is_due(connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, time: Time) -> bool:
    """Whether there is something to let go of."""
    return bool(ledger.orphans) or _expired(connection, ledger, keeping, time, 1) > 0


def let_go(connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, time: Time, most: int = STEP) -> None:
    """One step: a transaction of its own."""
    transaction = Transaction(connection, ledger, keeping, time.now)
    gone = _expired(connection, ledger, keeping, time, most)
    emptied = None
    connection.execute("BEGIN IMMEDIATE")
    if gone:
        _cut(connection, transaction, gone)
    if ledger.orphans:
        emptied = _clear(connection, transaction, ledger.orphans[0], most)
    transaction.finish()
    connection.execute("COMMIT")
    transaction.committed()
    if emptied is not None:
        ledger.orphans.remove(emptied)


def _expired(connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, time: Time, most: int) -> int:
    """How many of the oldest entries of the log are too old or too much, at most so many."""
    counts = ledger.counts
    if counts.log_first == counts.log_next:
        return 0
    oldest = inf if keeping.log_seconds is None else round(keeping.log_seconds * MICROSECONDS)
    surplus = 0 if keeping.log_bytes is None else counts.log_bytes - keeping.log_bytes
    gone = 0
    for logged, length in connection.execute(
        "SELECT time, length(data) FROM log WHERE offset >= ? ORDER BY offset LIMIT ?", (counts.log_first, most)
    ):
        if time.age(logged) <= oldest and surplus <= 0:
            break
        surplus -= length
        gone += 1
    return gone


def _cut(connection: sqlite3.Connection, transaction: Transaction, gone: int) -> None:
    counts = transaction.counts
    first, counts.log_first = counts.log_first, counts.log_first + gone
    [(length,)] = connection.execute(
        "SELECT sum(length(data)) FROM log WHERE offset >= ? AND offset < ?", (first, counts.log_first)
    )
    counts.log_bytes -= length
    connection.execute(
        "DELETE FROM log WHERE offset >= ? AND offset < ?"
        " AND NOT EXISTS (SELECT 1 FROM queue WHERE event = log.offset)"
        " AND NOT EXISTS (SELECT 1 FROM unfinished WHERE unfinished.offset = log.offset)",
        (first, counts.log_first),
    )


def _clear(connection: sqlite3.Connection, transaction: Transaction, queue: int, most: int) -> int | None:
    """Take some out of a queue that nobody owns; its number where nothing is left of it."""
    rows = connection.execute("SELECT number, event FROM queue WHERE queue = ? LIMIT ?", (queue, most)).fetchall()
    connection.executemany("DELETE FROM queue WHERE queue = ? AND number = ?", [(queue, row[0]) for row in rows])
    transaction.free({event for _, event in rows})
    if len(rows) == most:
        return None
    connection.execute("DELETE FROM queues WHERE number = ?", (queue,))
    return queue
