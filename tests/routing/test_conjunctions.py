"""Conjunctions of filters, exact and wider."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import Leaf, Residual, leaves
from palio.routing.conjunctions import TRUE, to_conjunctions
from tests.nested_events import NAMES, nested_events
from tests.routing.conjunction_oracle import admits
from tests.strategies import attributes, filters, scalar_attributes

LIMITS = st.sampled_from([1, 2, 4, 64])


def _texts(condition: str, limit: int = 64) -> list[str]:
    """The conjunctions of a condition, as conditions."""
    return [
        " AND ".join(str(Filter.of_tree(leaf, leaf)) for leaf in each) or "TRUE"
        for each in to_conjunctions(Filter.parse(condition), limit)
    ]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("y < 2 AND x > 5", ["x > 5 AND y < 2"]),
        ("x > 5 OR y < 2", ["x > 5", "y < 2"]),
        ("TRUE", ["TRUE"]),
        ("FALSE", []),
        ("x > y AND z = 1", ["x IS NOT NULL AND y IS NOT NULL AND z = 1"]),
        ("coalesce(x, y) = 1", ["TRUE"]),
        ("coalesce(x, y) = 1 AND z = 1", ["z = 1"]),
        ("coalesce(x, y) = 1 OR z = 1", ["TRUE"]),
        ("name LIKE '%b%' AND z = 1", ["name LIKE '%' AND z = 1"]),
        ("(x = 1 AND name LIKE '%b%') OR (x = 1 AND name = 'a')", ["name LIKE '%' AND x = 1"]),
        ("(x = 1 AND coalesce(u, v) = 3) OR (x = 1 AND y = 2)", ["x = 1"]),
        ("x IS NULL", ["x IS NULL"]),
    ],
)
def test_a_filter_enters_as_its_conjunctions(condition: str, expected: list[str]) -> None:
    assert _texts(condition) == expected


def test_a_filter_of_too_many_conjunctions_enters_as_one_that_covers_them() -> None:
    assert _texts("(x = 1 AND y = 1) OR (x = 2 AND y = 2)", limit=1) == ["x IN (1, 2) AND y IN (1, 2)"]


@given(filters(), attributes(), LIMITS)
@settings(max_examples=300)
def test_every_event_that_a_filter_matches_is_admitted(wanted: Filter, event: dict[str, Any], limit: int) -> None:
    if wanted.matches_attributes(event):
        assert admits(to_conjunctions(wanted, limit), event)


@given(filters(NAMES), nested_events(), LIMITS)
def test_so_is_every_event_with_objects_in_arrays(wanted: Filter, content: dict[str, Any], limit: int) -> None:
    event = Event.from_dict(content).attributes
    if wanted.matches_attributes(event):
        assert admits(to_conjunctions(wanted, limit), event)


@given(filters(), scalar_attributes())
def test_nothing_else_is_where_nothing_was_widened(wanted: Filter, event: dict[str, Any]) -> None:
    conditions = list(leaves(wanted.tree))
    assume(len(wanted.conjunctions(64)) <= 16)
    assume(not any(isinstance(each, Residual) or each.values.tests for each in conditions))
    assert admits(to_conjunctions(wanted, 64), event) == wanted.matches_attributes(event)


@given(filters(), LIMITS)
def test_conjunctions_are_few_and_hold_sets_that_can_be_enumerated(wanted: Filter, limit: int) -> None:
    found = to_conjunctions(wanted, limit)
    assert len(found) <= max(limit, 1)
    assert TRUE not in found or found == (TRUE,)
    for each in found:
        assert [leaf.attribute for leaf in each] == sorted({leaf.attribute for leaf in each})
        assert all(
            isinstance(leaf, Leaf)
            and leaf.values.is_enumerable
            and not leaf.values.is_empty
            and not leaf.values.is_full
            for leaf in each
        )


@given(filters(), LIMITS)
def test_equal_filters_enter_alike(wanted: Filter, limit: int) -> None:
    again = Filter.parse(str(wanted), timezone=wanted.timezone)
    assume(again == wanted)
    assert to_conjunctions(again, limit) == to_conjunctions(wanted, limit)
