"""Is `~f` SQL's NOT: TRUE and FALSE exchanged, NULL left alone?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.negation import complement, negation
from palio.filters.tree import holds
from tests.strategies import attributes, filters, readable_conditions, scalar_attributes

parse = Filter.parse


@given(filters())
def test_twice_is_not_at_all(f: Filter) -> None:
    assert ~~f == f
    assert ~~~f == ~f


@given(readable_conditions(), readable_conditions(), st.lists(attributes(), min_size=1, max_size=6))
def test_it_goes_through_and_and_or_as_de_morgan_says(one: str, two: str, events: list[dict[str, Any]]) -> None:
    f, g = parse(one), parse(two)
    assert ~(f & g) == (~f | ~g)
    assert ~(f | g) == (~f & ~g)
    assert ~f == parse(f"NOT ({one})")
    for event in events:
        assert (~(f & g)).matches_attributes(event) is parse(f"NOT (({one}) AND ({two}))").matches_attributes(event)


@given(filters(), st.lists(attributes(), min_size=1, max_size=6))
def test_no_choice_of_values_matches_a_filter_and_its_not(f: Filter, events: list[dict[str, Any]]) -> None:
    both = f & ~f
    assert not any(both.matches_attributes(event) for event in events)


@given(filters(arrays=False), st.lists(scalar_attributes(), min_size=1, max_size=6))
def test_no_scalar_event_matches_both(f: Filter, events: list[dict[str, Any]]) -> None:
    for event in events:
        assert not (f.matches_attributes(event) and (~f).matches_attributes(event))


@given(filters(), st.lists(attributes(), min_size=1, max_size=6))
def test_the_not_that_is_read_off_a_tree_excludes_the_tree(f: Filter, events: list[dict[str, Any]]) -> None:
    """For a filter that nobody wrote, such as a merged one, NOT is made of its conditions."""
    fails = Filter(negation(f.tree), f.tree)
    for event in events:
        assert not (f & fails).matches_attributes(event)


@given(filters(["a"], depth=1), filters(["a"], depth=1))
def test_filters_nobody_wrote_can_be_negated_too(f: Filter, g: Filter) -> None:
    for made in (f.merge(g), *f.conjunctions()):
        assert ~~made == made
        assert not any(holds((made & ~made).tree, {"a": value}) for value in (None, 0, 1, 1.5, "a", "ab", True))


@pytest.mark.parametrize(
    ("condition", "negated"),
    [
        ("x > 5", "x <= 5"),
        ("x = 5", "x <> 5"),
        ("x IS NULL", "x IS NOT NULL"),
        ("x IN (1, 2)", "x NOT IN (1, 2)"),
        ("x BETWEEN 1 AND 2", "x < 1 OR x > 2"),
        ("x LIKE 'a%'", "x NOT LIKE 'a%'"),
        ("x LIKE '%a%'", "x NOT LIKE '%a%'"),
        ("x", "NOT x"),
        ("x <=> 5", "x IS DISTINCT FROM 5"),
        ("x > y", "NOT (x > y)"),
        ("x > 5 AND y < 3", "x <= 5 OR y >= 3"),
        ("TRUE", "FALSE"),
        ("NULL", "NULL"),
    ],
)
def test_examples(condition: str, negated: str) -> None:
    assert ~parse(condition) == parse(negated)
    assert parse(condition) == ~parse(negated)


def test_it_is_not_the_complement() -> None:
    wanted = parse("x > 5")
    either = wanted | ~wanted
    assert either != Filter.everything
    assert not either.matches({})
    assert not either.matches({"x": "text"})
    assert ~Filter.everything == Filter.nothing
    assert ~Filter.nothing == Filter.everything


@given(filters(["a", "b"], arrays=False), st.lists(scalar_attributes(["a", "b"]), min_size=1, max_size=5))
def test_the_complement_is_whatever_a_tree_does_not_match(wanted: Filter, events: list[dict[str, Any]]) -> None:
    other = Filter(complement(wanted.tree), wanted.tree)
    for event in events:
        assert other.matches_attributes(event) is not wanted.matches_attributes(event)
    assert Filter.parse(str(other)) == other


@given(filters(["a", "b"], arrays=False), st.lists(scalar_attributes(["a", "b"]), min_size=1, max_size=5))
def test_the_complement_of_the_complement_is_the_tree(wanted: Filter, events: list[dict[str, Any]]) -> None:
    again = complement(complement(wanted.tree))
    for event in events:
        assert holds(again, event) is wanted.matches_attributes(event)
