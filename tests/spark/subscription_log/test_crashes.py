"""Subscription log under concurrent writers, compaction and crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from palio.errors import VersionNotKept
from palio.spark import SubscriptionLog
from palio.spark.storage import StorageFolder
from tests.spark.subscription_log.contents import AT_ONCE, contents
from tests.spark.subscription_log.crashing_disk import Crash, crashing


def test_two_writers_never_both_win(tmp_path: Path) -> None:
    path, each = tmp_path / "log", 12

    def write(name: str) -> None:
        log = SubscriptionLog(path)
        for number in range(each):
            log.add(f"{name}{number}", f"x = {number}")
            won.append(log.commit())
            if number % 5 == 4:
                log.compact(keep=AT_ONCE)

    won: list[int] = []
    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(won) == list(range(1, 3 * each + 1))
    assert set(contents(SubscriptionLog(path))) == {f"{name}{number}" for name in "abc" for number in range(each)}


@pytest.mark.parametrize("does", ["commit", "compact"])
def test_a_version_that_is_compacted_away_while_it_is_looked_at_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    other = SubscriptionLog(tmp_path / "log")
    for number in range(2):
        other.add(f"first {number}", "x = 1")
        other.commit()
    slow = SubscriptionLog(tmp_path / "log")
    read = StorageFolder.read

    def interrupted(place: StorageFolder, name: str) -> bytes:
        monkeypatch.setattr(StorageFolder, "read", read)
        other.add("other", "x = 2")
        other.commit()
        other.compact(keep=AT_ONCE)
        return read(place, name)

    slow.add("slow", "x = 3")
    monkeypatch.setattr(StorageFolder, "read", interrupted)
    if does == "compact":
        slow.compact(keep=AT_ONCE)
    assert slow.commit() == 4
    assert set(contents(SubscriptionLog(tmp_path / "log"))) == {"first 0", "first 1", "other", "slow"}


def test_a_snapshot_of_another_who_compacts_is_never_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = SubscriptionLog(tmp_path / "log"), SubscriptionLog(tmp_path / "log")
    log.add("a", "x = 1")
    log.commit()
    read, remove = StorageFolder.read, StorageFolder.remove

    def interrupted(place: StorageFolder, name: str) -> bytes:
        if name.startswith("changes/"):
            monkeypatch.setattr(StorageFolder, "read", read)
            other.compact(keep=AT_ONCE)
            monkeypatch.setattr(StorageFolder, "remove", watched)
        return read(place, name)

    def watched(place: StorageFolder, name: str) -> None:
        assert not name.startswith("snapshots/")  # the change that it stands for is gone already
        remove(place, name)

    monkeypatch.setattr(StorageFolder, "read", interrupted)
    log.compact(keep=AT_ONCE)
    assert set(contents(SubscriptionLog(tmp_path / "log"))) == {"a"}


@pytest.mark.parametrize("versions", [1, 3])
@pytest.mark.parametrize("before", [True, False])
def test_a_number_that_was_compacted_away_is_not_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, versions: int
) -> None:
    slow, other = SubscriptionLog(tmp_path / "log"), SubscriptionLog(tmp_path / "log")
    slow.commit()
    create = StorageFolder.create

    def interrupted(place: StorageFolder, name: str, data: bytes) -> bool:
        monkeypatch.setattr(StorageFolder, "create", create)
        is_ours = not before and create(place, name, data)
        for number in range(versions):
            other.add(f"other {number}", "x = 2")
            other.commit()
        other.compact(keep=AT_ONCE)
        return create(place, name, data) if before else is_ours

    slow.add("slow", "x = 1")
    monkeypatch.setattr(StorageFolder, "create", interrupted)
    assert slow.commit() == (versions + 2 if before else 2)
    assert other.version == versions + 2
    assert set(contents(other)) == {"slow", *(f"other {number}" for number in range(versions))}
    assert contents(SubscriptionLog(tmp_path / "log")) == contents(slow) == contents(other)


def test_readers_do_not_mind_compaction(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer, reader = SubscriptionLog(path), SubscriptionLog(path)
    done = threading.Event()

    def write() -> None:
        for number in range(40):
            writer.add(str(number), f"x = {number}")
            writer.commit()
            writer.compact(keep=AT_ONCE)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not done.is_set():
        try:
            now = len(reader.at())
        except VersionNotKept:
            continue  # a newer one came between asking for the version and reading it, many times over
        assert now >= seen
        seen = now
    thread.join()
    assert len(reader.at()) == 40


def steps_of(work: Callable[[], object]) -> int:
    with crashing(None) as disk:
        work()
    return disk.steps


def prepared(path: Path) -> SubscriptionLog:
    log = SubscriptionLog(path)
    log.add("a", "x = 1")
    log.commit()
    log.compact()
    log.add("b", "x = 2")
    log.commit()
    return log


def commit(path: Path) -> None:
    log = SubscriptionLog(path)
    log.add("c", "x = 3")
    log.remove("a")
    log.commit()


def compact(path: Path) -> None:
    SubscriptionLog(path).compact(keep=AT_ONCE)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("work", [commit, compact])
def test_whoever_dies_leaves_a_log_that_is_whole(tmp_path: Path, work: Callable[[Path], None], after: bool) -> None:
    prepared(tmp_path / "counted")
    steps = steps_of(lambda: work(tmp_path / "counted"))
    assert steps >= 5
    before, done = {"a": "x = 1", "b": "x = 2"}, {"b": "x = 2", "c": "x = 3"}
    outcomes = []
    for step in range(steps):
        path = tmp_path / f"at {step}"
        prepared(path)
        with pytest.raises(Crash), crashing(step, after=after):
            work(path)
        log = SubscriptionLog(path)
        found = contents(log)
        outcomes.append(found == done)
        assert found in ((before, done) if work is commit else (before,))
        for version in range(log.oldest, log.version + 1):
            assert len(log.at(version)) == min(version, 2)
        log.add("next", "x = 9")
        assert log.commit() == log.version
        log.compact(keep=AT_ONCE)
        assert contents(SubscriptionLog(path)) == {**found, "next": "x = 9"}
    assert outcomes == sorted(outcomes)  # once it is done it stays done
    assert any(outcomes) == (work is commit)


def test_drafts_of_the_dead_are_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = prepared(tmp_path / "log")
    with pytest.raises(Crash), crashing(2):
        commit(tmp_path / "log")
    [draft] = Path(log.path).rglob(".draft-*")
    log.compact()
    assert draft.exists()  # its writer may live
    # Every draft is old enough.
    monkeypatch.setattr("palio.spark.storage._DRAFT_EXPIRY_SECONDS", -1.0)
    log.compact()
    assert not draft.exists()
