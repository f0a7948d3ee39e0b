"""Tests of the filter algebra: `~f` is SQL's NOT, and a merged filter covers both operands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.algebra import complement, negation
from palio.filters.filter import Filter
from palio.filters.tree import holds
from tests.strategies import attributes, conjunctions, filters, readable_conditions, scalar_attributes

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
    fails = Filter.of_tree(negation(f.tree), f.tree)
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
    other = Filter.of_tree(complement(wanted.tree), wanted.tree)
    for event in events:
        assert other.matches_attributes(event) is not wanted.matches_attributes(event)
    assert Filter.parse(str(other)) == other


@given(filters(["a", "b"], arrays=False), st.lists(scalar_attributes(["a", "b"]), min_size=1, max_size=5))
def test_the_complement_of_the_complement_is_the_tree(wanted: Filter, events: list[dict[str, Any]]) -> None:
    again = complement(complement(wanted.tree))
    for event in events:
        assert holds(again, event) is wanted.matches_attributes(event)


class TestPerfectMerging:
    @given(filters(), filters(), st.lists(attributes(), min_size=1, max_size=6))
    def test_it_matches_exactly_what_either_does(self, f: Filter, g: Filter, events: list[dict[str, Any]]) -> None:
        merged = f.merge_perfect(g)
        if merged is not None:
            for event in events:
                assert merged.matches_attributes(event) is (f.matches_attributes(event) or g.matches_attributes(event))

    @given(conjunctions(["a", "b"]), conjunctions(["a", "b"]))
    def test_filters_that_differ_in_one_attribute_merge(self, f: Filter, g: Filter) -> None:
        merged = (f & parse("c = 1")).merge_perfect(f & parse("c = 2"))
        assert merged == f & parse("c IN (1, 2)")
        if f.covers(g):
            assert f.merge_perfect(g) == g.merge_perfect(f) == f

    @given(filters(), filters())
    def test_it_does_not_matter_which_comes_first(self, f: Filter, g: Filter) -> None:
        one, two = f.merge_perfect(g), g.merge_perfect(f)
        assert (one is None) is (two is None)
        assert one is None or two is None or (one.covers(two) and two.covers(one))

    @pytest.mark.parametrize(
        ("one", "two", "merged"),
        [
            ("x > 1 AND x < 5", "x > 3 AND x < 8", "x > 1 AND x < 8"),
            ("x <= 5", "x > 5", "x <> 0 OR x = 0"),
            ("x <> 5", "x = 5", "x <> 0 OR x = 0"),
            ("x > 1 AND y = 2", "x > 3 AND y = 2", "x > 1 AND y = 2"),
            ("x = 1", "x = 1", "x = 1"),
            ("x IS NULL", "x IS NOT NULL", "TRUE"),
            ("FALSE", "x = 1", "x = 1"),
            ("TRUE", "x = 1", "TRUE"),
            ("x = 1 AND y = 1", "x = 2 AND y = 2", None),
            ("x = 1", "y = 1", None),
            ("x LIKE '%a%'", "x LIKE '%b%'", None),
            ("x LIKE '%a%'", "x LIKE '%ab%'", "x LIKE '%a%'"),
            ("x = 1 OR y = 1", "x = 1", "x = 1 OR y = 1"),
        ],
    )
    def test_examples(self, one: str, two: str, merged: str | None) -> None:
        found = parse(one).merge_perfect(parse(two))
        assert found == (None if merged is None else parse(merged))


class TestMerging:
    @given(
        filters(),
        filters(),
        st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        st.lists(attributes(), min_size=1, max_size=6),
    )
    def test_it_matches_at_least_what_either_does(
        self, f: Filter, g: Filter, slack: float, events: list[dict[str, Any]]
    ) -> None:
        merged = f.merge(g, slack)
        for event in events:
            if f.matches_attributes(event) or g.matches_attributes(event):
                assert merged.matches_attributes(event)

    @given(conjunctions(["a", "b"]), conjunctions(["a", "b"]))
    def test_it_covers_both_and_is_perfect_where_that_can_be(self, f: Filter, g: Filter) -> None:
        merged = f.merge(g)
        assert merged.covers(f)
        assert merged.covers(g)
        assert merged.is_conjunction
        perfect = f.merge_perfect(g)
        assert perfect is None or merged == perfect

    @given(conjunctions(["a", "b"]), conjunctions(["a", "b"]), st.sampled_from([0.1, 0.5, 1.0]))
    def test_more_slack_is_wider(self, f: Filter, g: Filter, slack: float) -> None:
        assert f.merge(g, slack).covers(f.merge(g))

    def test_slack_closes_small_gaps_and_leaves_large_ones(self) -> None:
        one, two = parse("x > 1 AND x < 3"), parse("x > 5 AND x < 8")
        assert one.merge(two) == parse("x > 1 AND x < 3 OR x > 5 AND x < 8")
        assert one.merge(two, slack=0.3) == parse("x > 1 AND x < 8")
        assert one.merge(two, slack=0.2) == one.merge(two)

    def test_gaps_between_dates_timestamps_and_floats_are_closed_too(self) -> None:
        dates = parse("d BETWEEN DATE'2024-01-01' AND DATE'2024-01-10'").merge(
            parse("d BETWEEN DATE'2024-01-12' AND DATE'2024-01-31'"), slack=0.1
        )
        assert dates == parse("d BETWEEN DATE'2024-01-01' AND DATE'2024-01-31'")
        floats = parse("x < 1D").merge(parse("x > CAST('Infinity' AS DOUBLE)"), slack=0.5)
        assert floats.covers(parse("x < 1D"))

    def test_attributes_that_only_one_filter_names_are_dropped(self) -> None:
        assert parse("x = 1 AND y = 1").merge(parse("x = 2 AND z = 1")) == parse("x IN (1, 2)")
        assert parse("x = 1").merge(parse("y = 1")) == Filter.everything
        assert Filter.nothing.merge(Filter.nothing) == Filter.nothing

    def test_conditions_that_no_index_holds_are_kept_where_both_have_them(self) -> None:
        merged = parse("a > b AND x = 1 AND y = 1").merge(parse("a > b AND x = 2 AND y = 2"))
        assert merged == parse("a > b AND x IN (1, 2) AND y IN (1, 2)")
