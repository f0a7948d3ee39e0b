"""Tests of compiled filters: they answer as their trees do."""

from __future__ import annotations

from math import inf, nan, nextafter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.predicate_compiler import MultipleValues, cheapest_first, compile_tree
from palio.filters.sql_writer import to_sql
from palio.filters.tree import And, Leaf, holds
from palio.filters.value_sets import ValueSet
from tests.filters.set_strategies import intervals, plain_sets
from tests.strategies import OF_KIND, attributes, filters, scalar_attributes, values

FLOATS = [nan, inf, -inf, 0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1.0, 100.0]


def asked(values: ValueSet, value: Value) -> bool:
    return compile_tree(Leaf("a", values))({} if value is MISSING else {"a": value})


@given(plain_sets(), st.lists(values(), min_size=1, max_size=5))
def test_a_set_has_the_same_members(set: ValueSet, some: list[Value]) -> None:
    for value in some:
        assert asked(set, value) is set.contains(value)


@given(intervals(Kind.FLOAT), st.lists(OF_KIND[Kind.FLOAT], max_size=5))
def test_floats_are_ordered_as_their_kind_orders_them(part: Any, others: list[float]) -> None:
    set = ValueSet.of({Kind.FLOAT: part})
    for value in (*FLOATS, *others):
        for each in (value, nextafter(value, inf), nextafter(value, -inf)):
            assert asked(set, each) is set.contains(each)


@given(filters(arrays=False), st.lists(scalar_attributes(), min_size=1, max_size=5))
def test_a_tree_holds_for_the_same_events(wanted: Filter, events: list[dict[str, Any]]) -> None:
    test = compile_tree(wanted.tree)
    for event in events:
        assert test(event) is holds(wanted.tree, event)


@given(filters(), st.lists(attributes(), min_size=3, max_size=6))
def test_a_filter_answers_the_same_however_often_it_is_asked(wanted: Filter, events: list[dict[str, Any]]) -> None:
    for event in events:
        assert wanted.matches_attributes(event) is holds(wanted.tree, event)


def test_where_a_value_is_to_be_chosen_it_does_not_answer() -> None:
    for condition in ("a > 1", "b = 1 AND a > 1", "a + b > 1"):
        with pytest.raises(MultipleValues):
            compile_tree(Filter.parse(condition).tree)({"a": (1, 2), "b": 1})
    assert compile_tree(Filter.parse("a = 1 OR b > 1").tree)({"a": 1, "b": (1, 2)})
    assert not compile_tree(Filter.parse("a = 2 AND b > 1").tree)({"a": 1, "b": (1, 2)})


def test_where_choices_are_too_many_it_answers_the_same_however_often_it_is_asked() -> None:
    """An AND of more alternatives than are multiplied out, each of which holds before it comes to the arrays."""
    alternatives = (f"((first{at} = 1 AND second{at} = 1) OR x + y + z > {at})" for at in range(9))
    wanted = Filter.parse(" AND ".join(alternatives))
    event: dict[str, Any] = {f"{name}{at}": 1 for name in ("first", "second") for at in range(9)}
    several = tuple(range(30))
    too_many = event | {"x": several, "y": several, "z": several}
    assert [wanted.matches_attributes(too_many) for _ in range(3)] == [holds(wanted.tree, too_many)] * 3 == [False] * 3
    assert [wanted.matches_attributes(event | {"other": several}) for _ in range(3)] == [True] * 3


def test_the_cheapest_condition_is_evaluated_first_and_equalities_before_others() -> None:
    written = "length(concat(s, r)) > 3 AND a + b > 1 AND a = b AND x > 5 AND y = 1 AND z LIKE 'a%b'"
    tree = Filter.parse(written).tree
    assert isinstance(tree, And)
    present = {f"{name} IS NOT NULL" for name in "srab"}
    texts = [to_sql(each) for each in cheapest_first(tree.children)]
    assert [text for text in texts if text not in present] == [
        *("y = 1", "x > 5", "a = b", "z LIKE 'a%b'", "(a + b) > 1", "length(concat(s, r)) > 3"),
    ]
