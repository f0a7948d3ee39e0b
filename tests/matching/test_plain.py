"""What the short cut for plain conditions accepts, the parser accepts with the same meaning."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import palio
from palio.filters.filter import Filter
from palio.filters.tree import Leaf, leaves
from palio.matching.columnar import bulk
from palio.matching.matcher import Matcher
from palio.matching.plain import PlainCondition

names = st.sampled_from(["a", "b.c", "day", "_x1", "order.id", "Z"])
integers = st.integers(-(10**15) + 1, 10**15 - 1) | st.integers(-3, 3)
strings = st.sampled_from(["abc", "x y", "nan", "true", "t1", "10", "2024-01-01", "é", "A", "inf ", " b", ""])
comparisons = st.one_of(
    st.builds("{} {} {}".format, names, st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]), integers),
    st.builds("{} {} '{}'".format, names, st.sampled_from(["=", "<", ">="]), strings),
    st.builds("{} BETWEEN {} AND {}".format, names, integers, integers),
)
texts = st.lists(comparisons, min_size=1, max_size=4).map(" AND ".join)
values = st.one_of(
    integers,
    strings,
    st.floats(),
    st.booleans(),
    st.none(),
    st.decimals(-5, 5, places=1),
    st.lists(integers | strings, max_size=3),
)
events = st.dictionaries(st.sampled_from(["a", "day", "_x1", "Z"]), values).flatmap(
    lambda flat: st.fixed_dictionaries({"b": st.fixed_dictionaries({"c": values})}).map(lambda b: {**flat, **b})
)


@given(texts, st.lists(events, max_size=5))
def test_a_plain_condition_means_what_its_filter_means(text: str, some: list[dict[str, Any]]) -> None:
    plain = PlainCondition.read(text)
    if plain is None:
        return
    meant = Filter.parse(text)
    for event in some:
        assert plain.matches(palio.Event.read(event).attributes) is meant.matches(event)


@given(texts)
def test_its_values_are_those_of_its_filter(text: str) -> None:
    plain = PlainCondition.read(text)
    if plain is None:
        return
    values, meant = plain.values(), Filter.parse(text)
    if values is None:
        assert meant == Filter.nothing
    else:
        assert values == {leaf.attribute: leaf.values for leaf in leaves(meant.tree) if isinstance(leaf, Leaf)}
        assert meant.is_conjunction


@given(st.lists(texts, min_size=1, max_size=12), st.lists(events, max_size=5))
def test_reading_in_bulk_means_what_the_filters_mean(wheres: list[str], some: list[dict[str, Any]]) -> None:
    matcher = Matcher()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_FEW", 0)
        matcher.add_many([str(number) for number in range(len(wheres))], wheres)
    for event in some:
        expected = {str(n) for n, where in enumerate(wheres) if Filter.parse(where).matches(event)}
        assert matcher.match(event) == expected


@pytest.mark.parametrize(
    "text",
    ["a = 1", "a.b >= -5 AND c = 'abc'", "n BETWEEN 3 AND 9 AND m < 2", "s = 'x = 1 AND y = 2'"],
)
def test_common_conditions_take_the_short_cut(text: str) -> None:
    assert PlainCondition.read(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 OR b = 2",
        "a = 1 AND a = 2",
        "NOT a = 1",
        "a = '10'",
        "a = 'true'",
        "a = 'it''s'",
        r"a = 'b\n'",
        "a = 1 -- AND b = 2",
        "a = 1.5",
        "a = 1234567890123456",
        "a  = 1",
        "not = 1",
        "a = 1 AND",
        "a = 1\n",
        "",
    ],
)
def test_whatever_may_be_read_otherwise_goes_the_long_way(text: str) -> None:
    assert PlainCondition.read(text) is None


def test_decimals_and_nan_are_compared_as_sql_compares_them() -> None:
    plain = PlainCondition.read("x > 5")
    assert plain is not None
    assert plain.matches({"x": Decimal("5.1")})
    assert plain.matches({"x": float("nan")})
    assert not plain.matches({"x": True})
    assert not plain.matches({"x": "9"})
