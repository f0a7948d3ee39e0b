"""Residual conditions: their filters are parsed once, not for every candidate, and the filter cache is bounded."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from palio.filters.filter import Filter
from palio.matching import catalogue
from palio.matching.catalogue import Catalogue
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.matching.suite import ids_by_row


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The conditions that are read from now on."""
    texts: list[Any] = []
    parse = Filter.parse

    def parsed(condition: Any, *given: Any, **options: Any) -> Filter:
        texts.append(condition)
        return parse(condition, *given, **options)

    monkeypatch.setattr(Filter, "parse", parsed)
    return texts


def computed(count: int) -> Matcher:
    matcher = Matcher()
    matcher.add_many([str(n) for n in range(count)], [f"k = {n % 5} AND a > b + {n}" for n in range(count)])
    return matcher


def expected(count: int, events: list[dict[str, int]]) -> list[set[str]]:
    return [{str(n) for n in range(count) if e["k"] == n % 5 and e["a"] > e["b"] + n} for e in events]


def test_a_condition_is_read_once_for_all_events(read: list[Any]) -> None:
    matcher = computed(40)
    events = [{"k": n % 5, "a": 3 * n, "b": n} for n in range(30)]
    read.clear()
    for _ in range(3):
        assert ids_by_row(matcher.match_batch(pa.Table.from_pylist(events)), 30) == expected(40, events)
        assert [matcher.match(event) for event in events] == expected(40, events)
    assert len(read) == 40


def test_what_replaces_it_is_asked_instead() -> None:
    matcher = computed(10)
    assert matcher.match({"k": 0, "a": 9, "b": 0}) == {"0", "5"}
    matcher.replace("0", "k = 0 AND a < b")
    assert matcher.match({"k": 0, "a": 9, "b": 0}) == {"5"}
    assert matcher.match({"k": 0, "a": 9, "b": 10}) == {"0"}
    matcher.remove_many([str(n) for n in range(1, 10)])
    matcher.merge()
    matcher.add("1", "k = 0 AND a > b")
    matcher.merge()
    assert matcher.match({"k": 0, "a": 9, "b": 0}) == {"1"}
    assert matcher.match({"k": 0, "a": 9, "b": 10}) == {"0"}


def test_the_oldest_are_forgotten_when_there_are_too_many(read: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_CACHED_TEXT_CHARS", 400)
    matcher = computed(60)
    events = [{"k": n % 5, "a": 3 * n, "b": n} for n in range(30)]
    assert ids_by_row(matcher.match_batch(pa.Table.from_pylist(events)), 30) == expected(60, events)
    # The bound of the filter cache has no public figure.
    kept = matcher._catalogue._filters
    assert 0 < len(kept._filters) <= 400 // 32
    assert kept._text == sum(length for _, length in kept._filters.values()) <= 400


def test_one_that_is_too_long_to_be_remembered_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_CACHED_TEXT_CHARS", 10)
    one = Catalogue()
    one.append(Subscription("a", "x > y + 1"))
    assert one.filter(0).matches({"x": 3, "y": 1})
    # What was forgotten shows only in the cache itself.
    assert not one._filters._filters


def test_only_columns_that_are_asked_are_read() -> None:
    matcher = computed(5)
    table = pa.table({"k": [0, 0], "a": [5, 1], "b": [1, 5], "t": pa.array([1, 2], pa.time32("s"))})
    assert ids_by_row(matcher.match_batch(table), 2) == [{"0"}, set()]
    few = pa.table({"k": [0] + [9] * 99, "a": [5] * 100, "b": [1] * 100, "t": pa.array([1] * 100, pa.time32("s"))})
    assert ids_by_row(matcher.match_batch(few), 100) == [{"0"}] + [set()] * 99


def test_a_filter_that_is_asked_again_and_again_takes_at_most_two_hundred_times_what_its_text_counts_for() -> None:
    def asked(first: int) -> tuple[catalogue.FilterCache, list[Filter]]:
        kept = catalogue.FilterCache()
        filters = [
            kept.load(n, Subscription(str(n), f"k = {n % 5} AND a > b + {n}")) for n in range(first, first + 500)
        ]
        for _ in range(3):
            for each in filters:
                each.matches_attributes({"k": 1, "a": 1, "b": 2})
        return kept, filters

    asked(0)  # what all share is there from now on
    for thread in threading.enumerate():  # the matchers of other tests settle, in memory that counts too
        if thread.name == "palio-merge":
            thread.join()
    tracemalloc.start()
    try:
        kept, filters = asked(500)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(filters) == 500
    # The size of the cache has no public figure.
    assert taken < 200 * kept._text
