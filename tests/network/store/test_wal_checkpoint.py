"""WAL checkpoints: pages reach the database while others write, and the WAL stays short."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from palio.errors import StoreError
from palio.network.data_directory import DATABASE_FILE
from palio.network.store import wal_checkpoint, writer
from palio.network.store.sqlite import SqliteStore
from palio.network.store.wal_checkpoint import checkpoint
from tests.network.store.making import logged

PADDING = 8_000
LONGEST = 16 * 2**20  # bytes; what is written below is twice as much, and each page of it several times


def wal(path: Path) -> int:
    return (path / f"{DATABASE_FILE}-wal").stat().st_size


def write(store: SqliteStore, count: int, look: Callable[[], None] = lambda: None) -> None:
    """Write without a pause: there is always more that waits."""
    done = Event()
    left = count

    def answered(error: Exception | None) -> None:
        nonlocal left
        assert error is None
        left -= 1
        look()
        if not left:
            done.set()

    for number in range(1, count + 1):
        store.submit([logged(number, padding=PADDING)], answered)
    done.wait()


def test_the_wal_stays_short_while_there_is_more_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MAX_GROUP_SUBMISSIONS", 20)
    monkeypatch.setattr(wal_checkpoint, "MAX_WAL_BYTES", 8 * 2**20)
    store = SqliteStore(tmp_path)
    store.open()
    longest = 0

    def look() -> None:
        nonlocal longest
        longest = max(longest, wal(tmp_path))

    write(store, 4_000, look)
    assert longest < LONGEST
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (4_000,)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_somebody_who_reads_for_long_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "_WAL_RESTART_BYTES", 0)
    monkeypatch.setattr(wal_checkpoint, "MAX_WAL_BYTES", 2**20)
    store = SqliteStore(tmp_path)
    store.open()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (0,)
        write(store, 1_000)
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (0,)
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (1_000,)
        assert checkpoint(reader)
    store.close()


def write_until_refused(store: SqliteStore) -> None:
    for number in range(2, 10_000):
        store.write([logged(number)])


def test_what_cannot_be_moved_is_said_to_whoever_writes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "_CHECKPOINT_STEP_BYTES", 0)
    store = SqliteStore(tmp_path)
    store.open()
    failed = Event()

    def fail(connection: sqlite3.Connection) -> bool:
        failed.set()
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("palio.network.store.wal_checkpoint.checkpoint", fail)
    store.write([logged(1)])
    failed.wait()
    with pytest.raises(StoreError, match="disk I/O error"):
        write_until_refused(store)
    store.close()
