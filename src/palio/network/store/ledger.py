"""What does the writer of a store know without asking the disk? The next numbers, and how much waits for whom.

A transaction works on a copy of the parts it touches, and hands them back when it is on disk: one that fails leaves
nothing behind.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

import msgspec

from palio.network.store.interface import Size
from palio.routing.effects import Client
from palio.routing.messages import EventId

QueueKey: TypeAlias = tuple[Client, str]


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
class Waiting:
    """A queue: its number, how much waits in it, and how much was dropped."""

    number: int
    events: int = 0
    bytes: int = 0
    dropped: int = 0

    def size(self) -> Size:
        return Size(self.events, self.bytes, self.dropped)


@dataclass(slots=True)
class Letters:
    """How many dead letters there are."""

    events: int = 0
    bytes: int = 0
    dropped: int = 0


@dataclass(slots=True)
class Ledger:
    """All that is known, as it is on disk."""

    counts: Counts
    queues: dict[QueueKey, Waiting] = field(default_factory=dict)
    orphans: list[int] = field(default_factory=list)  # queues that nobody owns, to be cleared away
    unfinished: dict[EventId, tuple[int, int]] = field(default_factory=dict)  # offset, bytes
    letters: Letters = field(default_factory=Letters)


def pack_keys(keys: list[bytes]) -> bytes:
    """The keys of one transaction, in one row: a row for each would cost as much as the event."""
    return msgspec.msgpack.encode(keys)


def read_keys(connection: sqlite3.Connection, most: int) -> tuple[bytes, ...]:
    """The last so many keys, the oldest first."""
    rows = connection.execute("SELECT keys FROM seen ORDER BY upto").fetchall()
    keys = [key for (packed,) in rows for key in msgspec.msgpack.decode(packed, type=list[bytes])]
    return tuple(keys[max(0, len(keys) - most) :])


def read_ledger(connection: sqlite3.Connection) -> Ledger:
    """The ledger of a store that is being opened, but for the unfinished events."""
    [row] = connection.execute("SELECT * FROM counts")
    ledger = Ledger(Counts(*row))
    sizes = {
        number: (events, bytes)
        for number, events, bytes in connection.execute("SELECT queue, count(*), sum(bytes) FROM queue GROUP BY queue")
    }
    for number, client, name in connection.execute("SELECT number, client, name FROM queues"):
        if client is None:
            ledger.orphans.append(number)
        else:
            ledger.queues[client, name] = Waiting(number, *sizes.get(number, (0, 0)))
    [(letters, bytes)] = connection.execute("SELECT count(*), coalesce(sum(length(data)), 0) FROM dead_letters")
    ledger.letters = Letters(letters, bytes)
    return ledger
