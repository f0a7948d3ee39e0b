"""A subscription log: what was committed is there, once, in order, whoever else writes, compacts or dies meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import DuplicateSubscription, Filter, InvalidSubscription, UnknownSubscription
from palio.errors import PipelineError, SubscriptionLogError, VersionNotKept
from palio.matching.subscription import Subscription
from palio.spark import SubscriptionLog
from palio.spark.places import Place
from tests.spark.log.crashes import Crash, crashing

AT_ONCE = timedelta(0)


def contents(log: SubscriptionLog, version: int | None = None) -> dict[str, Any]:
    return {each.id: each.where for each in log.at(version)}


@pytest.fixture
def log(tmp_path: Path) -> SubscriptionLog:
    made = SubscriptionLog(tmp_path / "log")
    made.add("a", "x = 1")
    made.add("b", "x = 2", subscriber="ada", metadata={"url": "http://here", "tags": [1, None]})
    made.commit()
    made.replace("a", "x = 10")
    made.remove("b")
    made.commit()
    return made


def test_every_version_can_be_come_back_to(log: SubscriptionLog) -> None:
    assert log.version == 2
    assert len(log.at(0)) == 0
    assert contents(log, 1) == {"a": "x = 1", "b": "x = 2"}
    assert contents(log) == {"a": "x = 10"}
    assert log.at(1)["b"] == Subscription("b", "x = 2", "sql", "ada", {"url": "http://here", "tags": [1, None]})
    assert "b" in log.at(1)
    assert repr(log.at(1)) == "<2 subscriptions at version 1>"


def test_changes_are_told_with_their_times(log: SubscriptionLog) -> None:
    first, second = log.versions()
    assert [(each.kind, each.id) for each in second.changes] == [("change", "a"), ("remove", "b")]
    assert first.time <= second.time <= datetime.now(UTC)
    assert second.previous == first.digest
    assert [each.number for each in log.versions(1)] == [2]
    assert log.at(2).digest == second.digest == log.head(2).digest


def test_another_reader_sees_the_same(log: SubscriptionLog) -> None:
    other = SubscriptionLog(f"file://{log.path}")
    assert contents(other) == contents(log)
    log.add("c", "x = 3")
    log.commit()
    assert other.version == 3
    assert contents(other) == contents(log)


def test_nothing_gathered_is_no_version_but_the_first(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path / "log")
    assert not log.exists()
    assert log.commit() == 1
    assert log.commit() == 1
    assert log.exists()
    log.add("a", "x = 1")
    log.discard()
    assert log.commit() == 1


def test_a_filter_is_kept_with_its_zone(log: SubscriptionLog) -> None:
    condition = Filter.parse("hour(at) = 3", timezone="America/New_York")
    log.add("zoned", condition)
    log.commit()
    assert log.at()["zoned"].timezone == "America/New_York"
    assert log.at()["zoned"].filter == condition


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda log: log.add("a", "x = 5"), DuplicateSubscription),
        (lambda log: (log.add("n", "x = 5"), log.add("n", "x = 6")), DuplicateSubscription),
        (lambda log: log.remove("b"), UnknownSubscription),
        (lambda log: log.replace("z", "x = 5"), UnknownSubscription),
        (lambda log: (log.remove("a"), log.replace("a", "x = 5")), UnknownSubscription),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    log: SubscriptionLog, change: Callable[[SubscriptionLog], object], error: type[Exception]
) -> None:
    log.add("fine", "x = 1")
    change(log)
    with pytest.raises(error):
        log.commit()
    assert SubscriptionLog(log.path).version == 2
    log.discard()
    log.add("fine", "x = 1")
    assert log.commit() == 3


@pytest.mark.parametrize(
    ("id", "where", "options", "reason"),
    [
        ("a", "x >", {}, "where a value should stand"),
        ("", "x = 1", {}, "an id must not be empty"),
        (7, "x = 1", {}, "an id is text"),
        ("\ud800", "x = 1", {}, "lone surrogate"),
        ("a", "x = '\ud800'", {}, "what JSON can hold"),
        ("a", "x = 1", {"metadata": {"when": datetime.now(UTC)}}, "what JSON can hold"),
        ("a", "x = 1", {"metadata": {"rate": float("nan")}}, "what JSON can hold"),
        ("a", "x = 1", {"language": "klingon"}, "no condition language"),
    ],
)
def test_a_bad_one_never_comes_into_the_log(
    log: SubscriptionLog, id: Any, where: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidSubscription, match=reason):
        log.add(id, where, **options)
    assert log.commit() == 2


def test_of_many_the_bad_ones_are_set_aside(log: SubscriptionLog) -> None:
    many = [Subscription("c", "x = 3"), Subscription("d", "x >"), Subscription("c", "x = 4"), Subscription("", "x = 1")]
    refused = log.extend(many)
    assert [each.id for each in refused] == ["c", "", "d"]
    assert "where a value should stand" in refused[2].reason
    log.commit()
    assert contents(log) == {"a": "x = 10", "c": "x = 3"}


def test_a_snapshot_stands_for_what_was_before(log: SubscriptionLog) -> None:
    log.compact()
    assert [contents(log, version) for version in range(3)] == [{}, {"a": "x = 1", "b": "x = 2"}, {"a": "x = 10"}]
    assert log.oldest == 0
    log.add("c", "x = 3")
    log.commit()
    log.compact(keep=AT_ONCE)
    assert (log.oldest, log.version) == (3, 3)
    assert contents(log) == {"a": "x = 10", "c": "x = 3"}
    with pytest.raises(VersionNotKept, match="version 2 was compacted away; the oldest that is kept is 3"):
        log.at(2)
    with pytest.raises(VersionNotKept, match="version 9 is not there; the latest is 3"):
        log.at(9)
    log.remove("c")
    assert log.commit() == 4
    assert contents(log) == {"a": "x = 10"}
    assert contents(log, 3) == {"a": "x = 10", "c": "x = 3"}


def test_versions_that_were_in_force_lately_are_kept(log: SubscriptionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=10)

    monkeypatch.setattr("palio.spark.log.log.datetime", Later)
    log.compact()
    log.add("c", "x = 3")
    log.commit()
    log.compact()
    # Version 2 was in force seven days before, so it stays; version 1 was not.
    assert log.oldest == 2
    assert contents(log, 2) == {"a": "x = 10"}


def test_a_writer_that_slept_through_a_compaction_goes_on(log: SubscriptionLog) -> None:
    other = SubscriptionLog(log.path)
    assert other.version == 2
    log.add("c", "x = 3")
    log.commit()
    log.add("d", "x = 4")
    log.commit()
    log.compact(keep=AT_ONCE)
    other.replace("d", "x = 40")
    assert other.commit() == 5
    assert contents(log) == {"a": "x = 10", "c": "x = 3", "d": "x = 40"}


def test_time_does_not_run_backwards(log: SubscriptionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(1999, 1, 1, tzinfo=tz)

    monkeypatch.setattr("palio.spark.log.log.datetime", Slow)
    log.add("c", "x = 3")
    log.commit()
    before, now = list(log.versions(1))
    assert now.time == before.time


# Damage


def files(log: SubscriptionLog) -> list[Path]:
    return sorted(path for path in Path(log.path).rglob("*.zst"))


@given(file=st.integers(0, 3), place=st.integers(0, 1000), way=st.sampled_from(["cut", "flip", "empty"]))
@settings(max_examples=60)
def test_damage_is_found(tmp_path_factory: pytest.TempPathFactory, file: int, place: int, way: str) -> None:
    log = SubscriptionLog(tmp_path_factory.mktemp("damage") / "log")
    for number in range(3):
        log.add(f"s{number}", f"x = {number}")
        log.commit()
        if number == 1:
            log.compact()
    expected = [contents(log, version) for version in range(4)]
    path = files(log)[file]
    whole = path.read_bytes()
    place %= len(whole)
    flipped = whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]
    path.write_bytes({"cut": whole[:place], "flip": flipped, "empty": b""}[way])
    for version, before in enumerate(expected):
        try:
            assert contents(SubscriptionLog(log.path), version) == before
        except SubscriptionLogError as error:
            assert path.name in str(error)
            assert "bring it back from a copy" in str(error)


def test_a_file_of_another_log_does_not_fit(log: SubscriptionLog, tmp_path: Path) -> None:
    other = SubscriptionLog(tmp_path / "other")
    other.commit()
    other.add("z", "x = 1")
    other.commit()
    files(log)[1].write_bytes(files(other)[1].read_bytes())
    with pytest.raises(SubscriptionLogError, match="does not follow version 1"):
        log.at()
    files(log)[1].write_bytes(files(log)[0].read_bytes())
    with pytest.raises(SubscriptionLogError, match="it is of version 1"):
        log.at()


def test_a_damaged_snapshot_is_done_without_and_written_again(log: SubscriptionLog) -> None:
    log.compact()
    snapshot = next(path for path in files(log) if path.parent.name == "snapshots")
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:-5])
    assert contents(log) == {"a": "x = 10"}
    log.compact(keep=AT_ONCE)
    assert snapshot.read_bytes() == whole
    snapshot.write_bytes(whole[:-5])
    with pytest.raises(SubscriptionLogError, match="is damaged"):
        log.at()


def test_a_newer_format_is_told_from_damage(log: SubscriptionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.spark.log.versions.FORMAT", 2)
    with pytest.raises(SubscriptionLogError, match="has format 1, and this Palio reads 2"):
        log.at()


# Several at once


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


# Crashes


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
    monkeypatch.setattr("palio.spark.places._DRAFT_SECONDS", -1.0)
    log.compact()
    assert not draft.exists()


# Places


def test_what_cannot_be_opened_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere://x cannot be opened"):
        SubscriptionLog("nowhere://x")
    place = Place(tmp_path)
    with pytest.raises(FileNotFoundError):
        place.read("missing")
    place.remove("missing")
    assert repr(place) == f"Place({str(tmp_path)!r})"


def test_a_disk_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("palio.spark.places.os.link", refuse)
    with pytest.raises(PipelineError, match="has no links"):
        SubscriptionLog(tmp_path / "log").commit()
    assert list((tmp_path / "log" / "changes").iterdir()) == []


def test_an_answer_that_got_lost_on_the_way_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    link = os.link

    def forgetful(source: Any, target: Any) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr("palio.spark.places.os.link", forgetful)
    assert Place(tmp_path).create("a", b"1")
    assert not Place(tmp_path).create("a", b"2")
    assert Place(tmp_path).read("a") == b"1"


def test_a_change_keeps_whose_it_is_unless_told_otherwise(log: SubscriptionLog) -> None:
    log.add("kept", "x = 1", subscriber="ada", metadata={"team": "blue"})
    log.replace("kept", "x = 2")  # in the same version
    log.commit()
    log.replace("kept", "x = 3", metadata={"team": "red"})
    log.commit()
    other = SubscriptionLog(log.path)
    found = other.at()["kept"]
    assert (found.where, found.subscriber, dict(found.metadata)) == ("x = 3", "ada", {"team": "red"})
    other.replace("kept", "x = 4", subscriber=None, metadata=None)
    log.replace("kept", "x = 5", subscriber="bob")
    other.commit()
    log.commit()  # on top of the other's
    found = log.at()["kept"]
    assert (found.where, found.subscriber, dict(found.metadata)) == ("x = 5", "bob", {})
