"""Backups of a data directory: one moment of a broker that goes on, whole or refused."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

from palio.errors import InputError, InvalidArgument, StoreError
from palio.network.data_directory import DATABASE_FILE
from palio.network.security.authentication import PRINCIPALS_FILE, Authenticator, Tokens
from palio.network.security.authorization import Principal
from palio.network.store.backup import MANIFEST_FILE, SETTINGS_FILE, back_up, restore, verify_backup
from palio.network.store.sqlite import SqliteStore
from tests.network.store.making import event, logged, queued, subscribed


def filled(path: Path, events: int = 50) -> SqliteStore:
    store = SqliteStore(path)
    store.open()
    store.write([subscribed("all", "price > 100")])
    store.write([logged(number) for number in range(1, events + 1)])
    store.write([queued(number, "desk", "all") for number in range(1, events + 1)])
    return store


def test_a_backup_of_a_store_in_use_has_all_that_was_confirmed_before_it(tmp_path: Path) -> None:
    token = Tokens(tmp_path / "data").add(Principal("desk"))
    settings = tmp_path / "palio.toml"
    settings.write_text("watch = 1.0\n")
    with closing(filled(tmp_path / "data")) as store:
        made = back_up(tmp_path / "data", tmp_path / "copy", settings)
        store.write([logged(51)])
    assert (made.subscriptions, made.log_events, made.queued_events, made.incarnation) == (1, 50, 50, 1)
    assert {DATABASE_FILE, PRINCIPALS_FILE, SETTINGS_FILE} <= made.files.keys()
    assert verify_backup(tmp_path / "copy") == made
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in (tmp_path / "copy").iterdir())
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "data", "palio.toml"]  # no draft is left
    restore(tmp_path / "copy", tmp_path / "again")
    assert Authenticator(tmp_path / "again").authenticate(token).name == "desk"
    with closing(SqliteStore(tmp_path / "again")) as store:
        found = store.open()
        assert found.node == made.node
        assert [record.request for record in found.records] == [subscribed("all", "price > 100").request]
        assert [entry.event for entry in store.log.read(1, 100)] == [event(number) for number in range(1, 51)]
        assert store.queue("desk", "all").size().events == 50


def test_a_backup_ends_although_the_broker_never_stops_writing(tmp_path: Path) -> None:
    store = filled(tmp_path / "data", 3_000)
    done, writes = Event(), 0

    def write() -> None:
        nonlocal writes
        while not done.is_set():
            writes += 1
            store.write([logged(10_000 + writes, padding=2_000)])

    writer = Thread(target=write)
    writer.start()
    try:
        steps: list[int] = []
        made = back_up(tmp_path / "data", tmp_path / "copy", progress=lambda what, at, of: steps.append(at))
    finally:
        done.set()
        writer.join()
        store.close()
    assert steps
    assert 3_000 <= made.log_events <= 3_000 + writes
    verify_backup(tmp_path / "copy")


def test_a_restored_broker_begins_a_life_and_queue_numbers_that_it_never_had(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    back_up(tmp_path / "data", tmp_path / "copy")
    last = store.queue("desk", "all").read(0, 100)[-1][0]
    store.close()
    for _ in range(3):  # later lives
        with closing(SqliteStore(tmp_path / "data")) as store:
            later = store.open().incarnation
    restore(tmp_path / "copy", tmp_path / "again")
    with closing(SqliteStore(tmp_path / "again")) as store:
        assert store.open().incarnation > later + 1_000
        before = {number for number, _ in store.queue("desk", "all").read(0, 100)}
        store.write([queued(99, "desk", "all")])
        [new] = {number for number, _ in store.queue("desk", "all").read(0, 100)} - before
        assert last + 1_000 < new < 2**53  # a number that a browser can hold


@pytest.mark.parametrize("name", [DATABASE_FILE, MANIFEST_FILE, PRINCIPALS_FILE])
def test_a_damaged_backup_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    Tokens(tmp_path / "data").add(Principal("desk"))
    filled(tmp_path / "data").close()
    back_up(tmp_path / "data", tmp_path / "copy")
    damaged = tmp_path / "copy" / name
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    with pytest.raises(InputError, match=r"not what was backed up|not the manifest"):
        restore(tmp_path / "copy", tmp_path / "again")
    damaged.unlink()
    with pytest.raises(InputError, match=r"missing|there is no manifest"):
        restore(tmp_path / "copy", tmp_path / "again")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "data"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    (tmp_path / "empty").mkdir()
    back_up(tmp_path / "data", tmp_path / "empty")
    with pytest.raises(InvalidArgument, match="exists and is not empty; nothing is overwritten"):
        back_up(tmp_path / "data", tmp_path / "empty")
    with pytest.raises(InvalidArgument, match="exists and is not empty"):
        restore(tmp_path / "empty", tmp_path / "data")
    with pytest.raises(StoreError, match="there is no store here"):
        back_up(tmp_path / "nowhere", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_damaged_database_is_not_backed_up(tmp_path: Path) -> None:
    filled(tmp_path / "data", 2_000).close()
    with (tmp_path / "data" / DATABASE_FILE).open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xff" * 4096 * 20)
    with pytest.raises(StoreError, match="damaged"):
        back_up(tmp_path / "data", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_backup_is_one_file_that_sqlite_reads_alone(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    back_up(tmp_path / "data", tmp_path / "copy")
    with closing(sqlite3.connect(f"{(tmp_path / 'copy' / DATABASE_FILE).as_uri()}?immutable=1", uri=True)) as copy:
        assert copy.execute("SELECT count(*) FROM log").fetchone() == (50,)
