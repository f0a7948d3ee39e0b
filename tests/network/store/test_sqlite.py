"""The store on disk: locking, damage, full disks and retention."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

from palio import Filter
from palio.errors import StoreError, StoreFull, StoreInUse
from palio.network.data_directory import DATABASE_FILE
from palio.network.store import sqlite
from palio.network.store.interface import Acknowledged, Retention
from palio.network.store.schema import open_for_writing
from palio.network.store.sqlite import SqliteStore
from palio.network.store.transaction import PARSER_VERSION, Ledger
from palio.network.store.writer import expire_step
from palio.routing.client_messages import SubscribeClient, UnsubscribeClient
from palio.routing.effects import Finished, Queued, Record
from tests.network.store.making import assert_whole, event, logged, queued, subscribed


def opened(path: Path, **keeping: object) -> SqliteStore:
    store = SqliteStore(path, Retention(**keeping))  # type: ignore[arg-type]
    store.open()
    return store


def fill(store: SqliteStore) -> int:
    """Write until there is no room left; how much was written."""
    for written in range(1_000):
        try:
            store.write([logged(written + 1, padding=20_000)])
        except StoreFull as full:
            assert "no room left" in str(full)
            return written
    raise AssertionError("there is always room")


def test_a_start_reads_the_first_unfinished_events_and_leaves_the_others_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(tmp_path)) as store:
        store.write([logged(number) for number in range(1, 6)])
    monkeypatch.setattr(sqlite, "MAX_RECOVERED_EVENTS", 2)
    with closing(SqliteStore(tmp_path)) as store:
        recovered = store.open()
        assert recovered.unfinished == (logged(1), logged(2))
        assert recovered.spilled == tuple(logged(number).event.id for number in (3, 4, 5))
        assert store.unfinished(recovered.spilled[1:]) == [logged(4).event, logged(5).event]
    monkeypatch.setattr(sqlite, "MAX_RECOVERED_BYTES", 1)
    with closing(SqliteStore(tmp_path)) as store:
        assert store.open().unfinished == ()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "data"
    store = opened(path)
    store.write([logged(1)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.iterdir()} == {0o600}
    assert len(list(path.iterdir())) == 5  # the database, its WAL, the WAL's index, the lock, and the reserve
    store.close()


def test_a_directory_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    opened(tmp_path).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.parametrize(("safety", "level"), [("durable", 2), ("relaxed", 1)])
def test_a_durable_store_syncs_before_it_answers(tmp_path: Path, safety: Any, level: int) -> None:
    store = SqliteStore(tmp_path, safety=safety)
    store.open()
    # The pragmas of the writing connection are what the test is about.
    connection = store._open.connection
    assert connection.execute("PRAGMA synchronous").fetchall() == [(level,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    store.close()


def test_a_data_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreError, match="belongs to another user"):
        opened(tmp_path)


def test_a_relaxed_store_syncs_its_incarnation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a loss of power could take the incarnation back, and the next start would repeat it."""
    statements: list[str] = []

    def open_traced(path: Path) -> sqlite3.Connection:
        connection = open_for_writing(path)
        assert connection.execute("PRAGMA synchronous").fetchall() == [(2,)]  # FULL
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr("palio.network.store.sqlite.open_for_writing", open_traced)
    store = SqliteStore(tmp_path, safety="relaxed")
    store.open()
    store.close()
    [written] = [at for at, each in enumerate(statements) if each.startswith("INSERT INTO identity")]
    committed = statements.index("COMMIT", written)
    assert committed < statements.index("PRAGMA synchronous = NORMAL")


def test_two_brokers_cannot_have_one_directory(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(StoreInUse, match="another broker is using this directory"):
        opened(tmp_path)
    script = f"from palio.network.store.sqlite import SqliteStore; SqliteStore({str(tmp_path)!r}).open()"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "StoreInUse" in other.stderr
    store.close()
    opened(tmp_path).close()


def test_an_open_store_is_not_opened_again_and_a_closed_one_not_used(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(StoreError, match="open already"):
        store.open()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="not open"):
        store.write([logged(1)])


def test_what_is_no_store_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).write_bytes(b"this is not a database" * 1000)
    with pytest.raises(StoreError, match="the store is damaged"):
        opened(tmp_path)
    (tmp_path / DATABASE_FILE).unlink()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(StoreError, match="a database, but not the store of a broker"):
        opened(tmp_path)


def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer Palio, in its version 99"):
        opened(tmp_path)


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write([subscribed("a"), logged(1), queued(1, "desk", "a")])
    before = store.queue("desk", "a").oldest()
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.executescript(
            "ALTER TABLE queue DROP COLUMN time; DROP TABLE interests; DROP TABLE failed_deliveries; DROP TABLE links;"
            " DROP TABLE epochs;"
            " ALTER TABLE records DROP COLUMN digest; ALTER TABLE records DROP COLUMN parser; PRAGMA user_version = 1;"
        )
    store = opened(tmp_path)
    assert before is not None
    assert store.queue("desk", "a").oldest() == before
    store.close()


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot keep a store here"):
        opened(tmp_path / "file" / "data")


def test_damage_in_the_middle_is_an_error_and_not_a_guess(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write([logged(number, padding=2_000) for number in range(1, 200)])
    store.close()
    whole = (tmp_path / DATABASE_FILE).read_bytes()
    pages = len(whole) // 4096
    (tmp_path / DATABASE_FILE).write_bytes(whole[: 4096 * 2] + os.urandom(4096 * (pages - 2)))
    with pytest.raises(StoreError, match="damaged"):
        opened(tmp_path)


def test_what_no_broker_wrote_is_an_error(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write([subscribed("all")])
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        connection.execute("UPDATE records SET request = x'c1'")
    with pytest.raises(StoreError, match="something in the store cannot be read"):
        opened(tmp_path)


def test_a_failure_of_retention_is_reported_to_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("palio.network.store.writer.is_retention_due", lambda *_: 1 / 0)
    store = opened(tmp_path)
    store.write([logged(1)])
    store.retain()
    with pytest.raises(StoreError, match="the store does not work: ZeroDivisionError"):
        store.write([logged(2)])
    store.close()
    assert "retention failed" in caplog.text


def test_what_is_too_much_for_one_transaction_takes_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.network.store.writer._MAX_GROUP_BYTES", 20_000)
    store = opened(tmp_path)
    answers: list[object] = []
    for number in range(1, 31):
        store.submit([logged(number, padding=5_000)], answers.append)
    store.close()
    assert answers == [None] * 30
    store.open()
    assert [entry.event.id.sequence for entry in store.log.read(1, 100)] == list(range(1, 31))
    store.close()


def test_each_of_many_writers_gets_its_own_answer(tmp_path: Path) -> None:
    store = opened(tmp_path, queue_events=50)
    answers: dict[int, object] = {}

    def write(start: int) -> None:
        for number in range(start, start + 50):
            entry = queued(number) if number % 2 else logged(number)
            store.submit([entry], lambda answer, number=number: answers.__setitem__(number, answer))  # type: ignore[misc]

    threads = [Thread(target=write, args=(start,)) for start in range(0, 500, 50)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    store.close()
    assert len(answers) == 500
    refused = [number for number, answer in answers.items() if answer is not None]
    assert len(refused) == 200
    assert all(number % 2 for number in refused)
    store.open()
    assert store.log.bounds() == (1, 251)
    assert store.queue("desk", "all").size().events == 50
    store.close()


def test_an_entry_that_no_table_can_hold_harms_no_other(tmp_path: Path) -> None:
    store = opened(tmp_path)
    answers: list[object] = []
    for publisher in ("fine", "\ud800", "fine too"):
        store.submit([logged(len(answers), publisher)], answers.append)
    store.close()
    assert [type(answer) for answer in answers] == [type(None), StoreError, type(None)]


def test_an_answer_that_fails_keeps_no_other_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(tmp_path)
    store.submit([logged(1)], lambda answer: 1 / 0)
    store.write([logged(2)])
    store.close()
    assert "was not taken" in caplog.text


def test_what_is_old_goes_a_little_at_a_time_and_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.network.store.writer._IDLE_SECONDS", 0.01)
    steps: list[int] = []

    def counted(connection: Any, ledger: Ledger, *rest: Any) -> None:
        before = ledger.counts.log_first
        expire_step(connection, ledger, *rest)
        steps.append(ledger.counts.log_first - before)

    monkeypatch.setattr("palio.network.store.writer.expire_step", counted)
    now = [1_000.0]
    store = SqliteStore(tmp_path, Retention(log_seconds=60), clock=lambda: now[0])
    store.open()
    store.write([each for number in range(1_201) for each in (logged(number), Finished(event(number).id))])
    now[0] += 100
    while store.log.bounds() != (1_202, 1_202):
        sleep(0.01)
    store.close()
    assert steps == [500, 500, 201]
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchall() == [(0,)]


def test_what_waits_for_a_subscription_that_ends_is_cleared_away(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write([subscribed("all"), *(queued(number, node=7) for number in range(1, 1_201))])
    store.write([queued(1_201, "desk", "all", "other", node=7)])
    store.write([Record("desk", UnsubscribeClient("all"))])
    assert store.queue("desk", "all").size().events == 0
    store.retain()
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM queue").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM queues").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM held").fetchall() == [(1,)]


def test_an_event_is_kept_once_for_all_who_wait_for_it(tmp_path: Path) -> None:
    store = opened(tmp_path, log_bytes=0)
    store.write([logged(1)])
    store.write([queued(1, "desk", "a", "b"), queued(1, "other", "c"), Finished(event(1).id)])
    store.write([queued(2, "desk", "a", "b", node=7), queued(2, "other", "c", node=7)])
    store.retain()

    def kept() -> tuple[int, int]:
        with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
            [(log,)] = connection.execute("SELECT count(*) FROM log")
            [(held,)] = connection.execute("SELECT count(*) FROM held")
        return log, held

    assert kept() == (1, 1)
    for client, name in (("desk", "a"), ("desk", "b"), ("other", "c")):
        assert kept() == (1, 1)
        waiting = store.queue(client, name).read(0, 10)
        assert [each[1] for each in waiting] == [event(1), event(2, node=7)]
        store.write([Acknowledged(client, name, tuple(number for number, _ in waiting))])
    assert kept() == (0, 0)
    store.close()


def test_a_full_store_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    store = opened(tmp_path, disk_bytes=512 * 1024, log_seconds=None)
    written = fill(store)
    assert 5 < written < 50
    assert store.log.bounds() == (1, written + 1)
    store.write([Finished(event(1).id)])  # what takes no room is written all the same
    store.close()
    assert_whole(tmp_path)
    store = opened(tmp_path, disk_bytes=512 * 1024, log_bytes=100 * 1024)
    store.write([Finished(event(number).id) for number in range(1, written + 1)])
    store.retain()
    store.write([logged(written + 1, padding=20_000)])
    assert store.log.bounds()[1] == written + 2
    store.close()
    assert_whole(tmp_path)


def test_one_without_room_keeps_nobody_else_from_writing(tmp_path: Path) -> None:
    store = opened(tmp_path, disk_bytes=256 * 1024)
    answers: list[object] = []
    store.submit([logged(1)], answers.append)
    store.submit([logged(2, padding=400_000)], answers.append)
    store.submit([logged(3)], answers.append)
    store.close()
    assert [type(answer) for answer in answers] == [type(None), StoreFull, type(None)]
    store.open()
    assert [entry.event.id.sequence for entry in store.log.read(1, 10)] == [1, 3]
    store.close()


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system of a chosen size may be made here: {mounted.stderr.strip()}")
    try:
        ballast = place / "ballast"
        ballast.write_bytes(bytes(2 * 1024 * 1024))
        store = opened(place / "data")
        written = fill(store)
        store.write([Finished(event(1).id)])  # with the reserve
        store.close()
        (place / "more").write_bytes(b"")
        store = opened(place / "data")  # also where nothing is free
        assert not store.dead_letters.read(0, 1)
        ballast.unlink()
        store.write([logged(written + 1, padding=20_000)])
        store.close()
        assert_whole(place / "data")
        store = opened(place / "data")
        assert [entry.event.id.sequence for entry in store.log.read(1, 1_000)] == list(range(1, written + 2))
        store.close()
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_stored_conditions_are_read_without_parsing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(tmp_path)
    wanted = subscribed("dear", "price > 100 AND symbol IN ('ACME', 'INIT')")
    store.write([wanted])
    store.close()

    def parse(*arguments: object, **options: object) -> Filter:
        raise AssertionError("a start must not parse")

    with monkeypatch.context() as patched:
        patched.setattr(Filter, "parse", parse)
        with closing(SqliteStore(tmp_path)) as again:
            [record] = again.open().records
    assert record == wanted  # parsed by now


def test_conditions_that_another_version_wrote_are_parsed_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    wanted = subscribed("dear", "price > 100")
    store.write([wanted])
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        connection.execute("UPDATE records SET parser = 'another', digest = x'00'")
    with closing(SqliteStore(tmp_path)) as again:
        [record] = again.open().records
    assert isinstance(record.request, SubscribeClient)
    assert record.request.wanted.digest == Filter.parse("price > 100").digest
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        [(parser,)] = connection.execute("SELECT parser FROM records")
    assert parser == PARSER_VERSION


def test_history_gives_way_before_publishers_do(tmp_path: Path) -> None:
    bound = 4 * 2**20
    store = opened(tmp_path, disk_bytes=bound)
    for number in range(1, 4_001):
        store.write([logged(number, padding=3_000)])
        store.write([Finished(event(number).id)])
    assert (tmp_path / DATABASE_FILE).stat().st_size <= bound
    first, after = store.log.bounds()
    assert after == 4_001
    assert 100 < after - first < 1_500
    assert store.takes_events
    store.close()
    assert_whole(tmp_path)


def test_a_full_store_says_so_takes_acknowledgements_and_opens_again(tmp_path: Path) -> None:
    store = opened(tmp_path, disk_bytes=512 * 1024)
    first, more = (
        [Queued("desk", ("all",), event(number, node=7, padding=9_000)) for number in numbers]
        for numbers in (range(30), range(30, 70))
    )
    store.write(first)
    with pytest.raises(StoreFull):
        store.write(more)
    assert not store.takes_events
    store.close()
    store = opened(tmp_path, disk_bytes=512 * 1024)
    for number, _ in store.queue("desk", "all").read(0, 1_000):
        store.write([Acknowledged("desk", "all", (number,))])
    store.write([logged(1, padding=9_000)])
    assert store.takes_events
    store.close()
    assert_whole(tmp_path)
