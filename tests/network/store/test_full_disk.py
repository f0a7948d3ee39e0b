"""A store on a disk of a few megabytes: history gives way, what frees space is written, and it opens again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from palio import Filter
from palio.errors import StoreFull
from palio.network.store.interface import Acknowledged
from palio.network.store.sqlite import SqliteStore
from palio.routing.client_messages import SubscribeClient
from palio.routing.effects import Finished, Queued, Record
from tests.network.store.making import assert_whole, event, logged

DISK_BYTES = 12 * 2**20
DESK, NAME = "durable desk", "all"
_FILL_AND_DIE = """
import os, signal, sys
from tests.network.store.test_full_disk import begin, fill_queue
from pathlib import Path
fill_queue(begin(Path(sys.argv[1])))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system of a chosen size may be made here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def begin(disk: Path) -> SqliteStore:
    store = SqliteStore(disk / "data")
    store.open()
    return store


def subscribe(store: SqliteStore) -> None:
    store.write([Record(DESK, SubscribeClient(NAME, Filter.parse("x > 0"), "edge", True))])


def fill_queue(store: SqliteStore) -> int:
    """Queue events until there is no room left; how many."""
    subscribe(store)
    for number in range(1, 100_000):
        try:
            store.write([Queued(DESK, (NAME,), event(number, node=7, padding=3_000))])
        except StoreFull:
            return number - 1
    raise AssertionError("there is always room")


def take_what_is_left(disk: Path) -> None:
    """By somebody else, all that is free."""
    with (disk / "other").open("wb", buffering=0) as other:
        try:
            while other.write(bytes(4_096)):
                pass
        except OSError:
            pass


def empty_queue(store: SqliteStore) -> int:
    """As a consumer does that comes back."""
    subscribe(store)
    done = 0
    while waiting := store.queue(DESK, NAME).read(0, 1_000):
        for number, _ in waiting:
            store.write([Acknowledged(DESK, NAME, (number,))])
        done += len(waiting)
    return done


@pytest.mark.parametrize("events", [1, 50, 400])
def test_history_gives_way_on_a_full_disk(disk: Path, events: int) -> None:
    store = begin(disk)
    for first in range(1, 8_001, events):
        numbers = range(first, first + events)
        store.write([logged(number, padding=3_000) for number in numbers])
        store.write([Finished(event(number).id) for number in numbers])
    first, after = store.log.bounds()
    assert after == 8_001
    assert 200 < after - first < 4_000
    assert store.takes_events
    store.close()
    assert_whole(disk / "data")


@pytest.mark.parametrize("is_taken", [False, True], ids=["filled by itself", "filled by others, too"])
def test_a_full_queue_is_emptied_on_a_full_disk_and_events_are_taken_again(disk: Path, is_taken: bool) -> None:
    store = begin(disk)
    queued = fill_queue(store)
    assert not store.takes_events
    if is_taken:
        take_what_is_left(disk)
    assert empty_queue(store) == queued > 1_000
    store.write([logged(1, padding=3_000)])
    assert store.takes_events
    store.close()
    assert_whole(disk / "data")


@pytest.mark.parametrize("is_taken", [False, True], ids=["filled by itself", "filled by others, too"])
def test_a_broker_that_was_killed_on_a_full_disk_starts_and_its_queue_is_emptied(disk: Path, is_taken: bool) -> None:
    died = subprocess.run([sys.executable, "-c", _FILL_AND_DIE, str(disk)], timeout=100, check=False)
    assert died.returncode == -9
    if is_taken:
        take_what_is_left(disk)
    for _ in range(3):  # however often
        begin(disk).close()
    store = begin(disk)
    assert empty_queue(store) > 1_000
    store.write([logged(1, padding=3_000)])
    store.close()
    assert_whole(disk / "data")
