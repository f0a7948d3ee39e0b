"""A matcher without a background says what is worth doing, and starts no thread."""

from __future__ import annotations

import threading

import pytest

from palio import Event
from palio.matching.matcher import Matcher


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise AssertionError(f"{thread.name} was started")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def many(matcher: Matcher, first: int, count: int = 20) -> None:
    ids = range(first, first + count)
    matcher.add_many(map(str, ids), (f"x = {each}" for each in ids))


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


def test_what_was_removed_is_forgotten() -> None:
    matcher = Matcher(background=False)
    many(matcher, 0, 9_000)
    matcher.remove_many(map(str, range(5_000)))
    job = matcher.work()
    assert job is not None
    job()
    assert matcher.statistics().removed == 0
    assert matcher.match({"x": 8_999}) == {"8999"}
