"""Tests of array semantics on trees: an event matches exactly when some choice of elements does."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.tree import Leaf, Residual, holds, leaves, names_of
from tests.strategies import attributes, choices, filters

parse = Filter.parse


@given(filters(arrays=False), st.lists(attributes(), min_size=1, max_size=5))
def test_some_choice_of_elements_must_match(wanted: Filter, events: list[dict[str, Any]]) -> None:
    for event in events:
        assert wanted.matches_attributes(event) is any(map(wanted.matches_attributes, choices(event)))


@pytest.mark.parametrize(
    ("condition", "event", "matched"),
    [
        ("x > 5", {"x": [1, 9]}, True),
        ("x > 5 AND x < 8", {"x": [1, 9]}, False),
        ("x > 5 AND x < 8", {"x": [1, 6]}, True),
        ("NOT (x > 5)", {"x": [1, 9]}, True),
        ("NOT (x > 5)", {"x": [8, 9]}, False),
        ("x <> 5", {"x": [5, 6]}, True),
        ("x = 1 AND (x = 2 OR y = 3)", {"x": [1, 2], "y": 3}, True),
        ("x = 1 AND (x = 2 OR y = 3)", {"x": [1, 2], "y": 4}, False),
        ("x = y", {"x": [1, 2], "y": [2, 3]}, True),
        ("x = y AND x = 1", {"x": [1, 2], "y": [2, 3]}, False),
        ("x + y = 5 AND x + y = 4", {"x": [1, 2], "y": [3]}, False),
        ("x + y = 5 AND x - y = -1", {"x": [1, 2], "y": [3]}, True),
        ("x IS NULL", {"x": [1, None]}, True),
        ("x IS NULL", {"x": []}, True),
        ("array_contains(x, 2) AND x = 1", {"x": [1, 2]}, True),
        ("size(x) = 2 AND x = 1", {"x": [1, 2]}, True),
        ("size(x) = 2", {"x": 1}, False),
        ("a.b = 1 AND a.c = 2", {"a": [{"b": 1, "c": 1}, {"b": 2, "c": 2}]}, False),
        ("a.b = 1 AND a.c = 2", {"a": [{"b": 1, "c": 1}, {"b": 1, "c": 2}]}, True),
    ],
)
def test_examples(condition: str, event: dict[str, Any], matched: bool) -> None:
    assert parse(condition).matches(event) is matched


def test_conditions_know_what_they_read() -> None:
    wanted = parse("a > 1 AND b + c > 2 AND size(d) = 2")
    assert wanted.attributes == frozenset("abcd")
    residuals = [each for each in leaves(wanted.tree) if isinstance(each, Residual)]
    assert {names_of(each) for each in residuals} == {frozenset("bc"), frozenset("d")}
    assert {each.scalar_attributes for each in residuals} == {frozenset("bc"), frozenset()}
    assert [each.attribute for each in leaves(wanted.tree) if isinstance(each, Leaf)] == ["a", "b", "c"]


def test_a_residual_is_the_same_in_another_process_even_after_use() -> None:
    tree = parse("a > b").tree
    assert holds(tree, {"a": 2, "b": 1})
    copy = pickle.loads(pickle.dumps(tree))
    assert copy == tree
    assert holds(copy, {"a": 2, "b": 1})
