"""Extents: a covering filter has at least the extent of the covered one; the order of filters is a strict order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from palio.covering.extents import IndexedFilter, extent_contains, extent_of
from palio.filters.filter import Filter
from tests.covering.graph_suite import any_filters, stands_above
from tests.strategies import filters


@given(filters(), filters())
def test_who_covers_reaches_at_least_as_far(one: Filter, other: Filter) -> None:
    for wide, narrow in ((one, other), (one | other, one), (one, one & other), (one, one)):
        if Filter.nothing not in (wide, narrow) and wide.covers(narrow):
            assert extent_contains(extent_of(wide), extent_of(narrow))


@given(any_filters(), any_filters())
@settings(max_examples=300)
def test_interests_are_in_the_order_of_their_filters(one: Filter, other: Filter) -> None:
    if Filter.nothing in (one, other):
        return
    assert IndexedFilter(one, 1).is_above(IndexedFilter(other, 2)) == stands_above(one, other)


@pytest.mark.parametrize(
    ("wide", "narrow", "reaches"),
    [
        ("x > 1", "x > 2 AND y = 3", True),
        ("x > 1", "y > 2", False),
        ("x > 1", "x = 'a'", False),
        ("x IN ('a', 'c')", "x = 'b'", True),  # the hull alone does not tell
        ("x LIKE '%a%'", "x LIKE 'ab%'", True),
        ("x LIKE '%a%'", "y LIKE 'ab%'", False),
        ("x < y", "z > 1", True),
        ("x BETWEEN 1 AND 2 OR x BETWEEN 8 AND 9", "x = 5", True),
        ("x BETWEEN 1 AND 2 OR x BETWEEN 8 AND 9", "x = 10", False),
        ("x BETWEEN 1 AND 2 OR y > 9", "z = 10", True),
        ("d >= DATE '2024-01-01'", "d = DATE '2023-12-31'", False),
        ("x IS NULL", "x = 1", False),
        ("x IS NOT NULL", "x = 1", True),
    ],
)
def test_how_far_filters_reach(wide: str, narrow: str, reaches: bool) -> None:
    assert extent_contains(extent_of(Filter.parse(wide)), extent_of(Filter.parse(narrow))) is reaches
