"""What is let go of, and when? The oldest of the log by age and size, and queues that nobody owns, a little at a time.

A log of many gigabytes whose end of life came while the broker was off must not stop it for minutes: each step takes so
many rows, and between two steps others write. An entry of the log that is too old and still waits for somebody, or is
not finished, leaves the log, and stays on disk until it is dealt with.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from palio.network.store.interface import Keeping
from palio.network.store.ledger import Ledger
from palio.network.store.transaction import Transaction

STEP: Final = 500  # rows
MICROSECONDS: Final = 1_000_000


def is_due(connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, now: int) -> bool:
    """Whether there is something to let go of."""
    return bool(ledger.orphans) or _expired(connection, ledger, keeping, now, 1) > 0


def let_go(connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, now: int, most: int = STEP) -> None:
    """One step: a transaction of its own."""
    transaction = Transaction(connection, ledger, keeping, now)
    gone = _expired(connection, ledger, keeping, now, most)
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


def _expired(connection: sqlite3.Connection, ledger: Ledger, keeping: Keeping, now: int, most: int) -> int:
    """How many of the oldest entries of the log are too old or too much, at most so many."""
    counts = ledger.counts
    if counts.log_first == counts.log_next:
        return 0
    oldest = 0 if keeping.log_seconds is None else now - round(keeping.log_seconds * MICROSECONDS)
    surplus = 0 if keeping.log_bytes is None else counts.log_bytes - keeping.log_bytes
    gone = 0
    for time, length in connection.execute(
        "SELECT time, length(data) FROM log WHERE offset >= ? ORDER BY offset LIMIT ?", (counts.log_first, most)
    ):
        if time >= oldest and surplus <= 0:
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
