"""Laws of routing trees, after any insertions and removals (Jerzak §4, as corrected)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet
from palio.routing.conjunctions import Conjunction
from palio.routing.forwarding.prefix.forwarding_tree import Tags, TreeExtractor
from palio.routing.forwarding.prefix.optimiser import wdiff
from palio.routing.forwarding.prefix.routing_tree import Node, RoutingTree, overlap_of, split_along
from palio.routing.forwarding.prefix.tree_index import TreeIndex
from palio.routing.forwarding.prefix.tree_version import TreeVersion, encode_tree
from tests.filters.set_strategies import plain_sets
from tests.routing.conjunction_oracle import admits
from tests.routing.forwarding.prefix.trees import (
    SOME,
    close_filters,
    conjunctions_of,
    events,
    filter_sets,
    index_of,
    nodes_of,
    satisfied,
    tree_of,
    walked,
    with_all_paths,
)

Sets = list[tuple[Conjunction, ...]]


def _tags(index: TreeIndex, wanted: Sequence[tuple[Conjunction, ...]]) -> Tags:
    """Each filter comes by an interface of its own."""
    tags = Tags(index)
    for interface, conjunctions in enumerate(wanted):
        tags.add(interface, conjunctions)
    return tags


def _admitting(wanted: Sets, event: dict[str, Any]) -> set[int]:
    return {interface for interface, conjunctions in enumerate(wanted) if admits(conjunctions, event)}


@given(plain_sets(), plain_sets(), plain_sets())
@SOME
def test_the_parts_of_a_split_are_disjoint_and_together_the_whole(
    one: ValueSet, axis: ValueSet, other: ValueSet
) -> None:
    assume(not one.is_empty)
    rest = (Leaf("b", other),)
    inside, outside = split_along((Leaf("a", one), *rest), Leaf("a", axis))
    parts = [part for part in (inside, outside) if part is not None]
    assert all(part[1:] == rest and not part[0].values.is_empty for part in parts)
    union = parts[0][0].values
    for part in parts[1:]:
        assert not union.overlaps(part[0].values)
        union = union.union(part[0].values) or union
    assert union == one
    assert inside is None or axis.covers(inside[0].values)
    assert outside is None or not axis.overlaps(outside[0].values)


@given(plain_sets(), plain_sets())
@SOME
def test_sets_meet_as_the_algebra_says(one: ValueSet, other: ValueSet) -> None:
    for left, right in ((one, other), (one, one), (one, one.intersect(other)), (one.complement(), other)):
        meeting = overlap_of(left, right)
        assert (meeting is not None) == left.overlaps(right)
        if meeting is not None:
            assert meeting == (left.covers(right), right.covers(left))


@given(filter_sets())
@SOME
def test_children_on_one_attribute_exclude_each_other_and_lie_within_their_parent(wanted: list[Filter]) -> None:
    for node in nodes_of(tree_of(conjunctions_of(wanted))):
        for siblings in node.groups.values():
            for one, other in combinations(siblings.nodes, 2):
                assert not one.condition.values.overlaps(other.condition.values)  # type: ignore[union-attr]
            for child in siblings.nodes:
                if node.condition is not None and node.condition.attribute == child.condition.attribute:  # type: ignore[union-attr]
                    assert node.condition.values.covers(child.condition.values)  # type: ignore[union-attr]
                    assert node.condition != child.condition


@given(filter_sets(), st.lists(events(), max_size=4))
@SOME
def test_events_go_where_something_admits_them(wanted: list[Filter], happened: list[dict[str, Any]]) -> None:
    """Nowhere else, unless an event has several values, which may satisfy several parts of a filter between them."""
    entered = conjunctions_of(wanted)
    index = index_of(tree_of(entered))
    tags = _tags(index, entered)
    for event, sent in zip(happened, tags.forward(TreeExtractor(index).extract(happened)), strict=True):
        assert sent is not None
        if any(isinstance(value, tuple) for value in event.values()):
            assert set(sent) >= _admitting(entered, event)
        else:
            assert set(sent) == _admitting(entered, event)


@given(filter_sets(), st.lists(close_filters(), max_size=4), st.lists(events(), max_size=4), st.integers(0, 4))
@SOME
def test_a_cut_tree_or_one_of_other_filters_sends_further_never_less_far(
    known: list[Filter], others: list[Filter], happened: list[dict[str, Any]], height: int
) -> None:
    wanted = conjunctions_of([*known, *others])
    index = with_all_paths(tree_of(conjunctions_of(known)))
    sent = _tags(index, wanted).forward(TreeExtractor(index, height).extract(happened))
    for event, interfaces in zip(happened, sent, strict=True):
        assert interfaces is not None
        assert set(interfaces) >= _admitting(wanted, event)


@given(filter_sets(), st.lists(events(), max_size=3), st.integers(0, 3))
@SOME
def test_extraction_and_forwarding_do_what_the_listings_do(
    wanted: list[Filter], happened: list[dict[str, Any]], height: int
) -> None:
    entered = conjunctions_of(wanted)
    tree = tree_of(entered)
    tags: dict[Node, set[int]] = {}
    for interface, conjunctions in enumerate(entered):
        for conjunction in conjunctions:
            for node in tree.ends()[conjunction]:
                tags.setdefault(node, set()).add(interface)
    index = with_all_paths(tree)
    found = TreeExtractor(index, height).extract(happened)
    for event, forwarding_tree, sent in zip(happened, found, _tags(index, entered).forward(found), strict=True):
        branches = satisfied(tree, event, height)
        nodes = {branch[:end] for branch in forwarding_tree.branches for end in range(1, len(branch) + 1)}
        assert nodes == branches
        assert len(forwarding_tree) == len(branches)
        assert sent is not None
        assert set(sent) == walked(tree, tags, branches, height)


@given(filter_sets(), st.lists(events(), max_size=3))
@SOME
def test_paths_that_lead_to_no_filter_are_left_out_where_nobody_can_have_tags_there(
    wanted: list[Filter], happened: list[dict[str, Any]]
) -> None:
    entered = conjunctions_of(wanted)
    tree = tree_of(entered)
    pruned, whole = index_of(tree), with_all_paths(tree)
    few, all_ = TreeExtractor(pruned).extract(happened), TreeExtractor(whole).extract(happened)
    assert _tags(pruned, entered).forward(few) == _tags(whole, entered).forward(all_)
    ends = {pruned.tree.branch(node) for node in range(len(pruned.tree)) if pruned.tree.final[node]}
    for short, long in zip(few, all_, strict=True):
        assert long.covers(short)
        assert set(short.branches) <= ends


@given(filter_sets(), st.lists(events(), max_size=3), st.integers(1, 3))
@SOME
def test_a_cut_forwarding_tree_is_the_beginning_of_the_whole_one(
    wanted: list[Filter], happened: list[dict[str, Any]], height: int
) -> None:
    index = with_all_paths(tree_of(conjunctions_of(wanted)))
    whole, cut = (TreeExtractor(index, each).extract(happened) for each in (0, height))
    for long, short in zip(whole, cut, strict=True):
        assert short.covers(long)
        assert set(short.branches) == {branch[:height] for branch in long.branches}


@given(filter_sets())
@SOME
def test_tagging_finds_the_nodes_at_which_inserting_ended(wanted: list[Filter]) -> None:
    entered = conjunctions_of(wanted)
    tree = tree_of(entered)
    numbers = {id(node): number for number, node in enumerate(nodes_of(tree))}
    index, remembering = index_of(tree), TreeIndex(TreeVersion.with_ends(tree, b"version"))
    for conjunction, ends in tree.ends().items():
        found = sorted(index.tag_nodes(conjunction))
        assert found == sorted(numbers[id(node)] for node in ends) == sorted(remembering.tag_nodes(conjunction))


@given(filter_sets(), st.lists(events(), max_size=3))
@SOME
def test_the_same_filters_in_the_same_order_make_the_same_tree(
    wanted: list[Filter], happened: list[dict[str, Any]]
) -> None:
    entered = conjunctions_of(wanted)
    one, other = index_of(tree_of(entered)), index_of(tree_of(entered))
    assert encode_tree(one.tree) == encode_tree(other.tree)
    found = TreeExtractor(one).extract(happened)
    assert found == TreeExtractor(other).extract(happened)
    assert _tags(other, entered).forward(found) == _tags(one, entered).forward(found)


@given(filter_sets(), filter_sets())
@SOME
def test_the_difference_of_trees_is_symmetric_and_none_only_between_equal_ones(
    first: list[Filter], second: list[Filter]
) -> None:
    one, other = (TreeVersion.of(tree_of(conjunctions_of(each)), b"") for each in (first, second))
    difference = wdiff(one, other)
    assert difference == wdiff(other, one)
    assert 0 <= difference <= 1
    assert (difference == 0) == (encode_tree(one) == encode_tree(other))
    assert wdiff(one, one) == 0


@given(filter_sets(), filter_sets(), st.data())
@SOME
def test_filters_that_leave_take_their_nodes_along(staying: list[Filter], leaving: list[Filter], data: Any) -> None:
    wanted = conjunctions_of([*staying, *leaving])
    order = data.draw(st.permutations(range(len(wanted))))
    tree = RoutingTree()
    for number in order:
        for conjunction in wanted[number]:
            tree.insert(conjunction)
    for number in range(len(staying), len(wanted)):
        for conjunction in wanted[number]:
            tree.remove(conjunction)
    kept = wanted[: len(staying)]
    index = index_of(tree)
    happened = [data.draw(events()) for _ in range(3)]
    tags = _tags(index, kept)
    for event, sent in zip(happened, tags.forward(TreeExtractor(index).extract(happened)), strict=True):
        assert sent is not None
        assert set(sent) >= _admitting(kept, event)
        if not any(isinstance(value, tuple) for value in event.values()):
            assert set(sent) == _admitting(kept, event)
    assert all(node.ends or node.groups for node in nodes_of(tree)[1:])
    for conjunctions in kept:
        for conjunction in conjunctions:
            tree.remove(conjunction)
    assert nodes_of(tree) == [tree.root]
    # Private: nothing else shows that conditions which no node uses are released.
    assert (tree._conditions, tree._uses) == ({}, {})
    assert tree.root.ends == 0


@given(filter_sets(), filter_sets(), st.lists(events(), max_size=3))
@SOME
def test_tags_that_leave_take_nobody_elses_along(
    staying: list[Filter], leaving: list[Filter], happened: list[dict[str, Any]]
) -> None:
    kept, gone = conjunctions_of(staying), conjunctions_of(leaving)
    index = index_of(tree_of([*kept, *gone]))
    tags = Tags(index)
    for conjunctions in [*kept, *gone]:
        tags.add(1, conjunctions)
    for conjunctions in gone:
        tags.remove(1, conjunctions)
    fresh = Tags(index)
    for conjunctions in kept:
        fresh.add(1, conjunctions)
    found = TreeExtractor(index).extract(happened)
    assert tags.forward(found) == fresh.forward(found)


def test_interfaces_may_be_more_than_a_word_has_bits() -> None:
    wanted = conjunctions_of(Filter.parse(f"x > {number}") for number in range(80))
    index = index_of(tree_of(wanted))
    tags = _tags(index, wanted)
    for height in (0, 7):
        found = TreeExtractor(index, height).extract([{"x": 70}, {"x": 0}, {"y": 1}])
        first, *others = tags.forward(found)
        assert first == tuple(range(70 if height == 0 else 80))
        assert others == [(), ()]


_PRINT_A_TREE = """
from palio.filters.filter import Filter
from palio.routing.conjunctions import to_conjunctions
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_version import encode_tree, tree_digest
from palio.routing.forwarding.prefix.tree_version import TreeVersion
tree = RoutingTree()
for number in range(30):
    where = f"a{number % 4} > {number} AND b{number % 3} <> 'x{number}' OR c IN ('{number}', 'y') AND d < {number}"
    for conjunction in to_conjunctions(Filter.parse(where), 8):
        tree.insert(conjunction)
print(tree_digest(encode_tree(TreeVersion.of(tree, b""))).hex())
"""


def test_trees_are_the_same_in_every_process() -> None:
    versions = {
        subprocess.run(
            [sys.executable, "-c", _PRINT_A_TREE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(versions) == 1
