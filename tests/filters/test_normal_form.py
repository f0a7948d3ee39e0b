"""Tests of the normal form: one tree per meaning, and the meaning of the written condition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.normal_form import MAX_CONJUNCTIONS, covering_conjunction, expand, normal, simplify
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or, Residual, holds
from tests.strategies import attributes, conditions, conjunctions, filters, is_readable, readable_conditions

parse = Filter.parse


@st.composite
def trees(draw: Any, depth: int = 3) -> Node:
    """A tree as lowering might make it: not in canonical form."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        text = draw(conditions(["a", "b"], 0, False).filter(is_readable))
        return parse(text).tree
    children = draw(st.lists(trees(depth - 1), max_size=3))
    return And(tuple(children)) if draw(st.booleans()) else Or(tuple(children))


class TestJerzakTable41:
    @pytest.mark.parametrize(
        ("written", "normal_form"),
        [
            ("x<5 AND x>2 AND y>3", "x > 2 AND x < 5 AND y > 3"),
            ("z=9 AND z<10 AND z>2", "z = 9"),
            ("x IS NOT NULL AND x<4", "x < 4"),
            ("x>5 AND x<3", "FALSE"),
            ("x>3 AND x>4 AND x<6 AND x>5", "x > 5 AND x < 6"),
            ("x>3 AND x<2", "FALSE"),
            ("x >= 5 AND x <= 5", "x = 5"),
            ("x > 3 AND x <> 2", "x > 3"),
        ],
    )
    def test_predicates_on_one_attribute_are_combined(self, written: str, normal_form: str) -> None:
        assert str(parse(written)) == normal_form
        assert parse(written) == parse(normal_form)

    @pytest.mark.parametrize(
        ("wanted", "axis", "outside", "inside"),
        [
            ("x<9 AND y>2", "x>5", "x<=5 AND y>2", "x>5 AND x<9 AND y>2"),
            ("x<9 AND y>2", "x>=5", "x<5 AND y>2", "x>=5 AND x<9 AND y>2"),
            ("x>1 AND z<7", "x<6", "x>=6 AND z<7", "x<6 AND x>1 AND z<7"),
            ("x<5 AND y<3", "x>1", "x<=1 AND y<3", "x>1 AND x<5 AND y<3"),
        ],
    )
    def test_a_filter_splits_along_an_axis_into_two_that_are_disjoint_and_make_it_whole(
        self, wanted: str, axis: str, outside: str, inside: str
    ) -> None:
        left, right = parse(wanted) & ~parse(axis), parse(wanted) & parse(axis)
        assert left == parse(outside)
        assert right == parse(inside)
        assert not left.overlaps(right)
        assert left | right == parse(wanted)


class TestTheCanonicalForm:
    @given(trees(), st.lists(attributes(["a", "b"]), min_size=1, max_size=6))
    def test_it_means_what_the_tree_meant(self, tree: Node, events: list[dict[str, Any]]) -> None:
        canonical, simple = normal(tree), simplify(tree)
        for event in events:
            assert holds(canonical, event) is holds(tree, event)
            assert holds(simple, event) is holds(tree, event)

    @given(trees())
    def test_making_it_again_changes_nothing(self, tree: Node) -> None:
        canonical = normal(tree)
        assert normal(canonical) == canonical
        assert simplify(simplify(tree)) == simplify(tree)

    @given(filters())
    def test_no_filter_changes_when_it_is_made_again(self, wanted: Filter) -> None:
        assert normal(wanted.tree) == wanted.tree

    @given(
        st.lists(readable_conditions(["a", "b"], 1), min_size=2, max_size=4),
        st.randoms(use_true_random=False),
    )
    def test_the_order_in_which_it_was_written_does_not_matter(self, parts: list[str], random: Any) -> None:
        mixed = random.sample(parts, len(parts))
        for word in (" AND ", " OR "):
            one = parse(word.join(f"({part})" for part in parts))
            two = parse(word.join(f"({part})" for part in mixed))
            assert one == two
            assert (hash(one), str(one)) == (hash(two), str(two))

    @given(conjunctions(["a", "b"]))
    def test_a_conjunction_has_one_leaf_per_attribute_in_order(self, wanted: Filter) -> None:
        children = wanted.tree.children if isinstance(wanted.tree, And) else [wanted.tree]
        if wanted not in (Filter.nothing, Filter.everything):
            names = [child.attribute for child in children if isinstance(child, Leaf)]
            assert names == sorted(set(names))
            assert not any(
                child.values.is_full or child.values.is_empty for child in children if isinstance(child, Leaf)
            )

    @given(filters())
    def test_no_node_is_inside_one_of_its_own_sort_or_alone_in_one(self, wanted: Filter) -> None:
        def check(node: Node, top: bool) -> None:
            if isinstance(node, And | Or):
                assert len(node.children) > 1 or (top and not node.children)
                assert not any(isinstance(child, type(node)) for child in node.children)
                for child in node.children:
                    check(child, False)

        check(wanted.tree, True)

    @pytest.mark.parametrize(
        ("one", "two"),
        [
            ("x > 3 AND x <= 5 AND x <> 4", "NOT (x <= 3 OR x = 4 OR x > 5)"),
            ("a = 1 AND (b = 1 OR c = 1)", "a = 1 AND b = 1 OR a = 1 AND c = 1"),
            ("a IN (1, 2) AND b = 1", "a = 1 AND b = 1 OR a = 2 AND b = 1"),
            ("a > 1 OR a <= 1", "a <> 1 OR a = 1"),
            ("a > 5 OR a > 3", "a > 3"),
            ("a = 1 OR (a = 1 AND b = 2)", "a = 1"),
            ("a = 1 AND (a = 1 OR b = 2)", "a = 1"),
            ("a = 1 AND (a = 2 OR b = 2)", "a = 1 AND b = 2"),
            ("a IS NULL OR a IS NOT NULL", "TRUE"),
            ("a IS NULL AND a > 1", "FALSE"),
            ("a LIKE 'ab'", "typeof(a) = 'string' AND a = 'ab'"),
            ("a LIKE 'b%' AND a LIKE '%b%'", "a LIKE 'b%'"),
            ("a LIKE 'bc%' OR a LIKE '%c%'", "a LIKE '%c%'"),
            ("a LIKE '%x%' AND NOT (a LIKE '%x%')", "FALSE"),
            ("a > b AND NOT (a > b)", "FALSE"),
            ("NOT (a > 1 AND b > 1)", "a <= 1 OR b <= 1"),
            ("(a > 1) IS TRUE", "a > 1"),
            ("a IS DISTINCT FROM 5", "NOT (a <=> 5)"),
            ("a > c AND a > b", "a > b   AND   a > c"),
            ("upper(a) = 'Y' OR upper(a) = 'X'", "upper(a)='X' OR upper(a)='Y'"),
            ("(upper(a) = 'Y' AND b = 1) OR a > c", "a > c OR (b = 1 AND upper(a) = 'Y')"),
        ],
    )
    def test_conditions_that_say_the_same_are_the_same(self, one: str, two: str) -> None:
        assert parse(one) == parse(two)
        assert hash(parse(one)) == hash(parse(two))
        assert str(parse(one)) == str(parse(two))

    def test_trivial_trees(self) -> None:
        assert normal(And(())) == EVERYTHING
        assert normal(Or(())) == NOTHING
        assert normal(And((Or(()), parse("a = 1").tree))) == NOTHING
        assert normal(Or((And(()), parse("a = 1").tree))) == EVERYTHING


class TestExpansion:
    @given(filters(["a", "b"]), st.integers(1, 20), st.lists(attributes(["a", "b"]), min_size=1, max_size=6))
    def test_conjunctions_together_match_the_same_or_one_matches_more(
        self, wanted: Filter, limit: int, events: list[dict[str, Any]]
    ) -> None:
        parts = wanted.conjunctions(limit)
        exact = expand(wanted.tree, limit) is not None
        assert len(parts) <= limit
        assert all(part.is_conjunction for part in parts)
        for event in events:
            some = any(part.matches_attributes(event) for part in parts)
            assert some or not wanted.matches_attributes(event)
            assert not exact or some is wanted.matches_attributes(event)

    @given(filters(["a", "b"]), st.lists(attributes(["a", "b"]), min_size=1, max_size=6))
    def test_the_covering_conjunction_covers(self, wanted: Filter, events: list[dict[str, Any]]) -> None:
        found = covering_conjunction(wanted.tree)
        for event in events:
            if wanted.matches_attributes(event):
                assert found is not None
                assert holds(found.node(), event)

    def test_a_conjunction_is_its_own_expansion(self) -> None:
        wanted = parse("a > 1 AND b LIKE '%x%' AND c > d")
        assert wanted.is_conjunction
        assert wanted.conjunctions(1) == [wanted]

    def test_nothing_has_no_conjunctions_and_everything_has_one(self) -> None:
        assert Filter.nothing.conjunctions() == []
        assert Filter.everything.conjunctions() == [Filter.everything]

    def test_a_rule_of_enormous_disjunctive_form_is_covered_by_one_conjunction(self) -> None:
        rule = parse("k = 1 AND " + " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(40)))
        (wider,) = rule.conjunctions(64)
        assert wider == parse("k = 1")
        assert wider.covers(rule)

    def test_a_small_tree_is_expanded_and_a_large_one_keeps_its_shape(self) -> None:
        small = parse(" AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(4)))
        large = parse(" AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(5)))
        assert isinstance(small.tree, Or)
        assert len(small.tree.children) == MAX_CONJUNCTIONS
        assert isinstance(large.tree, And)
        assert not any(isinstance(child, Residual) for child in large.tree.children)


def test_an_expansion_ends_where_nearly_all_alternatives_exclude_each_other() -> None:
    """At each of thousands of steps a thousand conjunctions would be joined with each alternative."""
    tree = Filter.parse(" AND ".join(f"(a = {n} OR b > {n})" for n in range(2_000))).tree
    assert expand(tree, 1_000) is None
    few = Filter.parse(" AND ".join(f"(a = {n} OR b > {n})" for n in range(20))).tree
    expanded = expand(few, 1_000)
    assert expanded is not None
    assert len(expanded) == 21
