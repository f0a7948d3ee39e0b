"""Tests of covering between conditions on expressions, by the thousand: found as pairs are, without comparing them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from palio.covering.corner_events import matching_event
from palio.covering.covering_index import AdaptiveIndex
from palio.covering.covering_search import find_redundant
from palio.covering.extents import IndexedFilter
from palio.filters.filter import Filter

COVERING = [
    ("lower(x) = 'a'", "lower(x) = 'a' AND y > 1"),
    ("lower(x) IN ('a', 'b')", "lower(x) = 'b'"),
    ("a + b > 3", "a + b > 5"),
    ("a + b > 3", "a + b = 5 AND k = 1"),
    ("a * 2 + b BETWEEN 1 AND 9", "a * 2 + b IN (2, 3)"),
    ("year(t) >= 2024", "year(t) = 2024 AND a < b"),
    ("NOT (a - b < 1)", "a - b > 2"),
    ("coalesce(a, b) <> 3", "coalesce(a, b) = 4"),
]
NOT_COVERING = [
    ("a + b > 5", "a + b > 3"),
    ("a + b > 3", "b + a > 5"),
    ("a + b > 3", "a - b > 5"),
    ("a + b IS NULL", "a + b = 3"),
    ("lower(x) = 'a'", "upper(x) = 'A'"),
]
SHAPES = {
    "lower": lambda n: f"lower(x) = 'v{n % 40}'" + ("" if n < 40 else " AND y > 1"),
    "sum": lambda n: f"a + b > {n % 30}" + ("" if n % 2 else f" AND k = {n}"),
    "year": lambda n: f"year(t) = {1990 + n}",
    "pairs": lambda n: f"a{n % 10} < b{n // 10}",
    "mixed": lambda n: (f"abs(x - {n}) < 3", f"x * y = {n}", f"length(s) > {n}", f"x > {n}")[n % 4],
}
UNRELATED = ("lower", "year", "pairs")  # hardly one covers another, so that hardly any must be compared


@pytest.mark.parametrize(("wide", "narrow"), COVERING)
def test_a_wider_set_of_a_computed_value_covers(wide: str, narrow: str) -> None:
    assert Filter.parse(wide).covers(Filter.parse(narrow))
    assert not Filter.parse(narrow).covers(Filter.parse(wide))


@pytest.mark.parametrize(("wide", "narrow"), NOT_COVERING)
def test_other_values_and_wider_sets_are_not_covered(wide: str, narrow: str) -> None:
    assert not Filter.parse(wide).covers(Filter.parse(narrow))


VALUES = (None, 0, 1, 2, 3, 5, -4, 2.5, 2**63 - 1, float("nan"), "7", True)


def test_what_is_covered_matches_nothing_else() -> None:
    texts = [text for pair in (*COVERING, *NOT_COVERING) for text in pair]
    filters = [Filter.parse(text) for text in texts if "lower" not in text and "year" not in text]
    events = [{"a": a, "b": b, "k": 1} for a, b in product(VALUES, VALUES)]
    matched = [{at for at, event in enumerate(events) if each.matches(event)} for each in filters]
    for (one, mine), (other, theirs) in product(zip(filters, matched, strict=True), repeat=2):
        if one.covers(other):
            assert mine >= theirs, (one, other)


@pytest.mark.parametrize("name", SHAPES)
def test_an_event_that_a_filter_matches_is_found(name: str) -> None:
    filters = [Filter.parse(SHAPES[name](n)) for n in range(100)]
    found = [(each, matching_event(each)) for each in filters]
    assert all(each.matches(event) for each, event in found if event is not None)
    assert sum(event is not None for _, event in found) > 70


class Counted:
    """Counts how often filters are compared with each other."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        covers = Filter.covers

        def counted(one: Filter, other: Filter) -> bool:
            self.count += 1
            return covers(one, other)

        patch.setattr(Filter, "covers", counted)


@pytest.mark.parametrize("name", SHAPES)
def test_redundant_ones_are_found_as_pairs_find_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = [Filter.parse(SHAPES[name](n)) for n in range(100)]
    redundant = {
        number
        for number, each in enumerate(filters)
        if any(
            other.covers(each) and (not each.covers(other) or at < number)
            for at, other in enumerate(filters)
            if at != number
        )
    }
    counted = Counted(monkeypatch)
    assert {each.number for each in find_redundant(filters, [0] * len(filters)).found} == redundant
    assert name not in UNRELATED or counted.count < len(filters) ** 2 / 20


@pytest.mark.parametrize("name", SHAPES)
def test_a_covering_index_compares_few_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = [IndexedFilter(Filter.parse(SHAPES[name](n)), n) for n in range(100)]
    expected: list[Any] = [
        {other.arrival for other in filters[: each.arrival] if other.is_above(each)} for each in filters
    ]
    counted = Counted(monkeypatch)
    index = AdaptiveIndex()
    found: list[Any] = []
    for each in filters:
        found.append({other.arrival for other in index.covering(each, len(filters))})
        index.add(each)
    assert found == expected
    assert name not in UNRELATED or counted.count < len(filters) ** 2 / 20
