"""SQLite schema of a store: tables, migrations, connections and the translation of errors.

An event is stored once: in `log` where it was accepted here, in `held` where it came from a neighbour and waits in a
queue. A row of `queue` is an event that waits for one subscription; its `event` is an offset of the log or, negated, a
number in `held`. The failed deliveries of an event are counted apart, in `failed_deliveries`: few events have any, and
the rows of `queue` stay short. Duplicate keys are packed, one row for those of a transaction. Totals over many rows are
kept in `counts`, one row, so that opening need not count. The `digest` of a record is that of its filter, as the
version of Palio in `parser` computes it, so that opening need not parse. The rows of `links` are the recovery database
(`routing.upkeep.recovery`), those of `epochs` the homes of durable subscriptions (`routing.delivery.standby`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from os import statvfs
from pathlib import Path
from typing import Final, Literal

from palio.errors import StoreError, StoreFull

Safety = Literal["durable", "relaxed"]
VERSION: Final = 7
_APPLICATION: Final = 0x50414C49  # "PALI"
_MIN_SQLITE_VERSION: Final = (3, 35)
_MIN_FREE_BYTES: Final = 1024 * 1024
NO_ROOM: Final = "there is no room left for the store"
_CACHE_KIB: Final = 16 * 1024

_TABLES: Final = """
CREATE TABLE identity (node INTEGER NOT NULL, incarnation INTEGER NOT NULL);
CREATE TABLE counts (
    log_first INTEGER NOT NULL, log_next INTEGER NOT NULL, log_bytes INTEGER NOT NULL, log_time INTEGER NOT NULL,
    held_next INTEGER NOT NULL, queue_next INTEGER NOT NULL, seen INTEGER NOT NULL, letter_next INTEGER NOT NULL
);
INSERT INTO counts VALUES (1, 1, 0, 0, 1, 1, 0, 1);
CREATE TABLE records (
    client TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, request BLOB NOT NULL,
    digest BLOB, parser TEXT,
    PRIMARY KEY (client, kind, name)
) WITHOUT ROWID;
CREATE TABLE log (
    offset INTEGER PRIMARY KEY, time INTEGER NOT NULL, publisher TEXT NOT NULL, data BLOB NOT NULL
);
CREATE TABLE unfinished (offset INTEGER PRIMARY KEY, key BLOB NOT NULL);
CREATE TABLE homes (broker INTEGER PRIMARY KEY, standing INTEGER NOT NULL, gone INTEGER NOT NULL);
CREATE TABLE interests (
    broker INTEGER NOT NULL, bucket INTEGER NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (broker, bucket)
) WITHOUT ROWID;
CREATE TABLE links (
    neighbour INTEGER NOT NULL, part INTEGER NOT NULL, key BLOB NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (neighbour, part, key)
) WITHOUT ROWID;
CREATE TABLE epochs (
    client TEXT NOT NULL, name TEXT NOT NULL, epoch INTEGER NOT NULL, home INTEGER NOT NULL, standby INTEGER,
    former INTEGER, address TEXT NOT NULL, PRIMARY KEY (client, name)
) WITHOUT ROWID;
CREATE TABLE seen (upto INTEGER PRIMARY KEY, keys BLOB NOT NULL);
CREATE TABLE held (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE queues (number INTEGER PRIMARY KEY, client TEXT, name TEXT, UNIQUE (client, name));
CREATE TABLE queue (
    queue INTEGER NOT NULL, number INTEGER NOT NULL, event INTEGER NOT NULL, bytes INTEGER NOT NULL,
    time INTEGER NOT NULL, PRIMARY KEY (queue, number)
) WITHOUT ROWID;
CREATE INDEX queue_event ON queue (event);
CREATE TABLE failed_deliveries (
    queue INTEGER NOT NULL, number INTEGER NOT NULL, failures INTEGER NOT NULL, PRIMARY KEY (queue, number)
) WITHOUT ROWID;
CREATE TABLE dead_letters (
    number INTEGER PRIMARY KEY, time INTEGER NOT NULL, client TEXT NOT NULL, name TEXT NOT NULL,
    reason TEXT NOT NULL, data BLOB NOT NULL
);
"""

# Migrations from each version to the next, beginning with version 1.
_MIGRATIONS: Final[tuple[str, ...]] = (
    """
    ALTER TABLE queue ADD COLUMN time INTEGER NOT NULL DEFAULT 0;
    UPDATE queue SET time = coalesce((SELECT time FROM log WHERE offset = event), (SELECT log_time FROM counts));
    """,
    # Requests may have settings of durable subscriptions as well, which an older Palio would read and ignore.
    """
    CREATE TABLE interests (
        broker INTEGER NOT NULL, bucket INTEGER NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (broker, bucket)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE failed_deliveries (
        queue INTEGER NOT NULL, number INTEGER NOT NULL, failures INTEGER NOT NULL, PRIMARY KEY (queue, number)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE records ADD COLUMN digest BLOB;
    ALTER TABLE records ADD COLUMN parser TEXT;
    """,
    """
    CREATE TABLE links (
        neighbour INTEGER NOT NULL, part INTEGER NOT NULL, key BLOB NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (neighbour, part, key)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE epochs (
        client TEXT NOT NULL, name TEXT NOT NULL, epoch INTEGER NOT NULL, home INTEGER NOT NULL, standby INTEGER,
        former INTEGER, address TEXT NOT NULL, PRIMARY KEY (client, name)
    ) WITHOUT ROWID;
    """,
)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """The one connection that writes; creates or migrates the database. It is durable until `relax`."""
    if sqlite3.sqlite_version_info < _MIN_SQLITE_VERSION:
        raise StoreError(str(path), f"a store needs SQLite 3.35 or newer, and this is {sqlite3.sqlite_version}")
    connection = _connect(path, "rwc")
    with translate_errors(path):
        connection.execute("PRAGMA journal_mode = WAL")
        _set_durable(connection)
        _migrate(connection, path)
    return connection


def relax(connection: sqlite3.Connection) -> None:
    """Leave it to checkpoints to sync: in WAL mode, NORMAL does not sync when a transaction is committed."""
    connection.execute("PRAGMA synchronous = NORMAL")


def open_for_checkpoints(path: Path) -> sqlite3.Connection:
    """A connection beside the one that writes, for WAL checkpoints."""
    connection = _connect(path, "rw")
    with translate_errors(path):
        _set_durable(connection)
    return connection


def _set_durable(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync does not reach the disk
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # a commit must not wait for a checkpoint


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection beside the one that writes, which may belong to another process."""
    if not path.is_file():
        raise StoreError(str(path.parent), "there is no store here")
    connection = _connect(path, "ro")
    with translate_errors(path):
        _check_version(connection, path)
    return connection


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as store errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, path) from None


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0)
    where = str(path.parent)
    if code == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and _is_full(path)):
        return StoreFull(where, NO_ROOM)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or code & 0xFF == sqlite3.SQLITE_CORRUPT:
        return StoreError(where, f"the store is damaged ({error}); bring it back from a copy, or begin a new one")
    return StoreError(where, f"the store does not work: {error}")


def _is_full(path: Path) -> bool:
    try:
        room = statvfs(path.parent)
    except OSError as error:
        return error.errno == ENOSPC
    return room.f_bavail * room.f_frsize < _MIN_FREE_BYTES


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    with translate_errors(path):
        connection = sqlite3.connect(
            # No isolation level: the driver begins no transactions by itself. Each connection is used by one thread at
            # a time, but opened in another.
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master")
    if not tables:
        # One transaction: a crash leaves either no table or all of them with their version.
        connection.executescript(
            f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
        )
    version = _check_version(connection, path)
    for step, migration in enumerate(_MIGRATIONS[version - 1 :], start=version + 1):
        connection.executescript(f"BEGIN; {migration} PRAGMA user_version = {step}; COMMIT;")


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    [(application,)] = connection.execute("PRAGMA application_id")
    [(version,)] = connection.execute("PRAGMA user_version")
    if application != _APPLICATION:
        raise StoreError(str(path.parent), f"{path.name} is a database, but not the store of a broker")
    if version > VERSION:
        raise StoreError(str(path.parent), f"the store was written by a newer Palio, in its version {version}")
    return int(version)
