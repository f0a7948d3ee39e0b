"""The segment set: removed subscriptions are forgotten with id and text; maintenance without threads is handed out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching import live_segment, segments
from palio.matching.catalogue import Catalogue
from palio.matching.matcher import Matcher
from tests.matching.suite import EVENTS, SORTS, check, ids_by_row, wait_for_merges


def replaced(times: int) -> Matcher:
    matcher = Matcher()
    matcher.add("a", "x > 0", subscriber="ops", metadata={"k": 1})
    for number in range(times):
        matcher.replace("a", f"x > {number}")
    return matcher


def test_merging_keeps_nothing_of_what_was_removed() -> None:
    matcher = replaced(3_000)
    matcher.merge()
    statistics = matcher.statistics()
    assert (statistics.subscriptions, statistics.removed, statistics.segments) == (1, 0, 1)
    assert statistics.beside_bytes < 1_000
    assert len(matcher.numbered_ids()) == 1
    assert matcher.match_batch([{"x": 5_000}]).column("subscription").to_pylist() == ["a"]
    assert (matcher["a"].where, matcher["a"].subscriber, matcher["a"].metadata) == ("x > 2999", "ops", {"k": 1})


def test_so_does_saving(tmp_path: Path) -> None:
    matcher = replaced(3_000)
    matcher.save(tmp_path / "wants.palio")
    assert (tmp_path / "wants.palio").stat().st_size < 10_000
    for each in (matcher, Matcher.open(tmp_path / "wants.palio")):
        assert each.match({"x": 5_000}) == {"a"}
        assert list(each) == ["a"]
        assert each.statistics().removed == 0


def test_all_may_be_removed(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add_many(["a", "b"], ["x > 1", "x > 2"])
    matcher.remove_many(["a", "b"])
    matcher.merge()
    matcher.save(tmp_path / "wants.palio")
    for each in (matcher, Matcher.open(tmp_path / "wants.palio")):
        assert (len(each), list(each), each.match({"x": 5})) == (0, [], set())
        assert each.match_batch([{"x": 5}]).num_rows == 0
        each.add("a", "x > 3")
        each.add_many(["c"], ["x > 4"])
        assert each.match({"x": 5}) == {"a", "c"}


def test_where_less_than_half_is_gone_numbers_stay() -> None:
    matcher = Matcher()
    matcher.add_many(SORTS, SORTS.values())
    for id in list(SORTS)[:10]:
        matcher.remove(id)
    matcher.merge()
    assert matcher.statistics().removed == 10
    check(matcher, {id: Filter.parse(SORTS[id]) for id in list(SORTS)[10:]}, map(Event.from_dict, EVENTS))


def test_every_sort_of_filter_survives(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add_many(SORTS, SORTS.values())
    matcher.add_many([f"gone {n}" for n in range(200)], [f"a = {n}" for n in range(200)])
    matcher.add("last", "a = 1")
    matcher.remove_many([f"gone {n}" for n in range(200)])
    matcher.save(tmp_path / "wants.palio")
    filters = {id: Filter.parse(where) for id, where in {**SORTS, "last": "a = 1"}.items()}
    for each in (matcher, Matcher.open(tmp_path / "wants.palio")):
        assert each.statistics().removed == 0
        assert list(each) == [*SORTS, "last"]
        check(each, filters, map(Event.from_dict, EVENTS))


def test_the_background_forgets_where_thousands_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_TO_RENUMBER", 50)
    matcher = Matcher()
    matcher.add_many([str(n) for n in range(150)], [f"x >= {n}" for n in range(150)])
    for number in range(100):
        matcher.remove(str(number))
        wait_for_merges(matcher)
    assert matcher.statistics().removed < 50
    assert len(matcher.numbered_ids()) < 100
    assert matcher.match({"x": 120}) == {str(n) for n in range(100, 121)}


def test_what_comes_and_goes_meanwhile_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_TO_RENUMBER", 5)
    begun, may_end = threading.Event(), threading.Event()
    many = Catalogue.many

    def slowly(catalogue: Catalogue, numbers: Any) -> Any:
        found = many(catalogue, numbers)
        if threading.current_thread().name == "palio-merge":
            begun.set()
            assert may_end.wait(60)
        return found

    matcher = Matcher()
    matcher.add_many([str(n) for n in range(10)], [f"x >= {n}" for n in range(10)])
    monkeypatch.setattr(Catalogue, "many", slowly)
    matcher.remove_many([str(n) for n in range(6)])
    assert begun.wait(60)
    matcher.add("new", "x > 0")
    matcher.add_many(["many", "gone"], ["x > 0", "x > 0"])
    matcher.replace("7", "x < 0")
    matcher.remove("gone")
    matcher.remove("8")
    assert matcher.match({"x": 9}) == {"6", "9", "new", "many"}
    may_end.set()
    wait_for_merges(matcher)
    assert matcher.match({"x": 9}) == {"6", "9", "new", "many"}
    assert matcher.match({"x": -1}) == {"7"}
    assert list(matcher) == ["6", "9", "new", "many", "7"]
    assert len(matcher) == 5
    assert len(matcher.numbered_ids()) == 7  # with the old 7 and with 8, which were there when it began
    matcher.remove("9")
    matcher.add("8", "x = 9")
    assert ids_by_row(matcher.match_batch([{"x": 9}]), 1) == [{"6", "8", "new", "many"}]


def test_what_stays_is_always_found_while_most_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_TO_RENUMBER", 20)
    monkeypatch.setattr(live_segment, "_MAX_SUBSCRIPTIONS", 16)
    matcher = Matcher()
    staying = {f"stays {n}" for n in range(5)}
    for id in staying:
        matcher.add(id, "x >= 0")
    done = threading.Event()
    wrong: list[Any] = []

    def change() -> None:
        try:
            for round in range(40):
                ids = [f"{round}-{n}" for n in range(12)]
                matcher.add_many(ids[:6], ["x = 1"] * 6)
                for id in ids[6:]:
                    matcher.add(id, "x = 1 AND s = 'a'")
                matcher.remove_many(ids[::2])
                for id in ids[1::2]:
                    matcher.remove(id)
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            found = matcher.match({"x": 1, "s": "b"})
            batch = ids_by_row(matcher.match_batch([{"x": 1, "s": "b"}]), 1)[0]
            if not (staying <= found and staying <= batch) or "stays 1" not in matcher:
                wrong.append((found, batch))

    threads = [threading.Thread(target=work) for work in (change, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for_merges(matcher)
    assert not wrong
    assert matcher.match({"x": 1, "s": "a"}) == staying
    assert len(matcher) == 5


def test_subscriptions_that_came_one_by_one_settle_to_one_segment() -> None:
    matcher = Matcher()
    for number in range(5_000):
        matcher.add(str(number), f"x = {number} AND s = 'v{number % 7}'")
    wait_for_merges(matcher)
    assert (matcher.statistics().segments, matcher.statistics().live) == (1, 0)
    assert matcher.match({"x": 8, "s": "v1"}) == {"8"}


def test_a_batch_after_every_addition_leaves_few_segments() -> None:
    matcher = Matcher()
    many(matcher, 0, 200)
    events = [{"x": number} for number in range(2_000)]
    most = 0
    for number in range(200, 264):
        matcher.add(str(number), f"x = {number}")
        assert matcher.match_batch(events).num_rows == number + 1
        most = max(most, matcher.statistics().segments)
    assert most <= 8
    wait_for_merges(matcher)
    assert matcher.statistics().segments == 1


def test_a_few_additions_are_evaluated_on_a_small_batch_without_being_sealed() -> None:
    matcher = Matcher(background=False)
    matcher.add("a", "x > 1")
    assert matcher.match_batch([{"x": 2}] * 16).num_rows == 16
    assert (matcher.statistics().segments, matcher.statistics().live) == (0, 1)


def test_the_index_shrinks_when_a_part_was_removed() -> None:
    matcher = Matcher()
    many(matcher, 0, 3_000)
    before = matcher.statistics().index_bytes
    matcher.remove_many(map(str, range(0, 3_000, 3)))
    wait_for_merges(matcher)
    assert matcher.statistics().index_bytes < 0.8 * before
    assert matcher.match({"x": 4}) == {"4"}
    assert matcher.match({"x": 3}) == set()


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise AssertionError(f"{thread.name} was started")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def many(matcher: Matcher, first: int, count: int = 20) -> None:
    ids = range(first, first + count)
    matcher.add_many(map(str, ids), (f"x = {each}" for each in ids))


@pytest.mark.usefixtures("no_threads")
def test_merging_is_told_once_and_changes_no_answer() -> None:
    matcher = Matcher(background=False)
    for first in range(0, 160, 20):
        assert matcher.work() is None
        many(matcher, first)
    before = matcher.statistics().segments
    job = matcher.work()
    assert job is not None
    assert matcher.work() is None
    assert matcher.match({"x": 7}) == {"7"}
    many(matcher, 160)
    job()
    assert (before, matcher.statistics().segments) == (8, 1)
    assert all(matcher.match({"x": each}) == {str(each)} for each in range(180))


@pytest.mark.usefixtures("no_threads")
def test_the_few_that_were_added_last_become_a_segment_when_that_has_stopped() -> None:
    matcher = Matcher(background=False)
    matcher.add("a", "x > 1")
    told = [matcher.work() for _ in range(20) if matcher.match({"x": 2}) == {"a"}]
    [job] = [each for each in told if each is not None]
    job()
    assert (matcher.statistics().segments, matcher.statistics().live) == (1, 0)
    assert matcher.match({"x": 2}) == {"a"}
    matcher.add("b", "x > 0")
    assert matcher.work() is None
    assert sorted(matcher.match_event(Event.from_dict({"x": 2}))) == [0, 1]


@pytest.mark.usefixtures("no_threads")
def test_settling_is_offered_after_as_many_matches_as_there_are_subscriptions() -> None:
    matcher = Matcher(background=False)
    many(matcher, 0)
    many(matcher, 20)
    told = [matcher.work() for _ in range(60) if matcher.match({"x": 5}) == {"5"}]
    assert [place for place, job in enumerate(told) if job is not None] == [39]
    told[39]()  # type: ignore[misc]
    assert matcher.statistics().segments == 1
    assert [matcher.work() for _ in range(60) if matcher.match({"x": 5}) == {"5"}] == [None] * 60


@pytest.mark.usefixtures("no_threads")
def test_what_was_removed_is_forgotten() -> None:
    matcher = Matcher(background=False)
    many(matcher, 0, 9_000)
    matcher.remove_many(map(str, range(5_000)))
    job = matcher.work()
    assert job is not None
    job()
    assert matcher.statistics().removed == 0
    assert matcher.match({"x": 8_999}) == {"8999"}
