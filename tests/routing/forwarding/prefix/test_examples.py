"""The worked examples of Jerzak §4: splitting (Table 4.2), insertion, matching, tagging (Figures 4.2 to 4.5)."""

from __future__ import annotations

import pytest

from palio.filters.filter import Filter
from palio.routing.conjunctions import Conjunction, to_conjunctions
from palio.routing.forwarding.prefix.forwarding_tree import ForwardingTree, Tags, TreeExtractor
from palio.routing.forwarding.prefix.optimiser import wdiff
from palio.routing.forwarding.prefix.routing_tree import RoutingTree, split_along
from palio.routing.forwarding.prefix.tree_index import TreeIndex
from palio.routing.forwarding.prefix.tree_version import TreeVersion

EXAMPLE = ("x > 5 AND y < 3", "x < 9 AND y > 2 AND z > 1", "y > 4")
EVENT = {"x": 6, "y": 5, "z": 2}


def _conjunction(condition: str) -> Conjunction:
    (only,) = to_conjunctions(Filter.parse(condition), 64)
    return only


def _tree(*conditions: str) -> RoutingTree:
    tree = RoutingTree()
    for condition in conditions:
        tree.insert(_conjunction(condition))
    return tree


def _version(*conditions: str) -> TreeVersion:
    return TreeVersion.of(_tree(*conditions), b"version")


def _drawn(tree: TreeVersion) -> dict[tuple[int, ...], str]:
    """The condition of each node, by the places that lead to it."""
    return {tree.branch(node): _text(tree.path(node)[-1:]) for node in range(1, len(tree))}


def _text(conjunction: Conjunction) -> str:
    return " AND ".join(str(Filter.of_tree(leaf, leaf)) for leaf in conjunction)


@pytest.mark.parametrize(
    ("condition", "axis", "outside", "inside"),
    [
        ("x < 9 AND y > 2", "x > 5", "x <= 5 AND y > 2", "x > 5 AND x < 9 AND y > 2"),
        ("x < 9 AND y > 2", "x >= 5", "x < 5 AND y > 2", "x >= 5 AND x < 9 AND y > 2"),
        ("x > 1 AND z < 7", "x < 6", "x >= 6 AND z < 7", "x > 1 AND x < 6 AND z < 7"),
        ("x < 5 AND y < 3", "x > 1", "x <= 1 AND y < 3", "x > 1 AND x < 5 AND y < 3"),
        ("x > 1 AND x < 4", "x > 0", None, "x > 1 AND x < 4"),
        ("x > 1 AND x < 4", "x > 5", "x > 1 AND x < 4", None),
        ("name LIKE 'a%'", "name LIKE 'ab%'", "name LIKE 'a%' AND name NOT LIKE 'ab%'", "name LIKE 'ab%'"),
        ("x IS NULL", "x IS NOT NULL", "x IS NULL", None),
    ],
)
def test_a_filter_is_split_along_a_condition(
    condition: str, axis: str, outside: str | None, inside: str | None
) -> None:
    (along,) = _conjunction(axis)
    parts = split_along(_conjunction(condition), along)
    assert parts == tuple(None if each is None else _conjunction(each) for each in (inside, outside))


def test_filters_make_the_tree_of_the_example() -> None:
    assert _drawn(_version(*EXAMPLE)) == {
        (0,): "x > 5",
        (0, 0): "x > 5 AND x < 9",
        (0, 0, 0): "y > 2",
        (0, 0, 0, 0): "z > 1",
        (0, 1): "y < 3",
        (1,): "x <= 5",
        (1, 0): "y > 2",
        (1, 0, 0): "z > 1",
        (2,): "y > 4",
    }


def _tags(index: TreeIndex, *conditions: str) -> Tags:
    tags = Tags(index)
    for interface, condition in enumerate(conditions, 1):
        tags.add(interface, [_conjunction(condition)])
    return tags


def test_an_event_is_matched_once_and_then_sent_along_its_branches() -> None:
    index = TreeIndex(_version(*EXAMPLE))
    (found,) = TreeExtractor(index).extract([EVENT])
    assert found.branches == ((0, 0, 0, 0), (2,))
    assert _tags(index, *EXAMPLE).forward([found]) == [(2, 3)]


def test_cut_at_a_height_it_goes_to_all_below() -> None:
    index = TreeIndex(_version(*EXAMPLE))
    (found,) = TreeExtractor(index, height=1).extract([EVENT])
    assert found.branches == ((0,), (2,))
    assert _tags(index, *EXAMPLE).forward([found]) == [(1, 2, 3)]


@pytest.mark.parametrize(
    ("condition", "paths"),
    [
        ("x > 5 AND y < 7", {("x > 5",)}),
        # As printed it stops above y > 2, where there is no node for x < 7.
        ("x < 7 AND y > 4", {("x > 5", "x > 5 AND x < 9", "y > 2"), ("x <= 5", "y > 2")}),
        ("y > 8 AND z < 6", {("y > 4",)}),
        ("a = 1 AND x < 3 AND y > 3", {("x <= 5", "y > 2")}),
        ("z > 7", {()}),
        ("TRUE", {()}),
    ],
)
def test_a_filter_the_tree_does_not_know_is_tagged_as_far_down_as_any_of_its_conditions_leads(
    condition: str, paths: set[tuple[str, ...]]
) -> None:
    version = _version(*EXAMPLE)
    reached = TreeIndex(version).tag_nodes(_conjunction(condition))
    assert {tuple(_text((leaf,)) for leaf in version.path(node)) for node in reached} == paths


@pytest.mark.parametrize(
    ("merger", "paths"),
    [
        ("x IN (1, 3)", {("x = 1",), ("x = 3",)}),
        ("x IN (1, 3) AND y = 2", {("x = 1", "y = 2"), ("x = 3",)}),
        ("x IN (1, 3, 5)", {()}),  # nobody wanted 5 when the tree was made
    ],
)
def test_a_merger_is_tagged_at_the_nodes_that_it_was_made_of(merger: str, paths: set[tuple[str, ...]]) -> None:
    version = _version("x = 1 AND y = 2", "x = 3 AND z = 4")
    reached = TreeIndex(version).tag_nodes(_conjunction(merger))
    assert {tuple(_text((leaf,)) for leaf in version.path(node)) for node in reached} == paths


def test_the_tree_depends_on_the_order_of_filters() -> None:
    assert _drawn(_version("x > 3", "x < 6")) == {(0,): "x > 3", (1,): "x <= 3", (0, 0): "x > 3 AND x < 6"}
    assert _drawn(_version("x < 6", "x > 3")) == {(0,): "x >= 6", (1,): "x < 6", (1, 0): "x > 3 AND x < 6"}


def test_every_child_that_a_new_condition_covers_goes_below_it() -> None:
    assert _drawn(_version("x = 5", "x = 7", "x > 3")) == {(0,): "x > 3", (0, 0): "x = 5", (0, 1): "x = 7"}


def test_nodes_near_the_root_weigh_most() -> None:
    assert wdiff(_version("a = 1"), _version("a = 1", "b = 1")) == pytest.approx(1 / 3)
    assert wdiff(_version("a = 1"), _version("a = 1 AND b = 1")) == pytest.approx(0.2)
    assert wdiff(_version("a = 1"), _version("a = 1")) == 0
    assert wdiff(_version(), _version("a = 1")) == 1
    assert wdiff(_version(), _version()) == 0


def test_a_younger_sibling_moves_the_places_of_older_ones() -> None:
    """So an event stamped with the youngest node it refers to would be lost; the version of the tree is not."""
    older, younger = _version("x > 5"), _version("x > 5", "a > 0")
    (before,) = TreeExtractor(TreeIndex(older)).extract([{"x": 6}])
    (after,) = TreeExtractor(TreeIndex(younger)).extract([{"x": 6}])
    assert (before.branches, after.branches) == (((0,),), ((1,),))
    assert _tags(TreeIndex(younger), "x > 5").forward([after]) == [(1,)]
    assert _tags(TreeIndex(older), "x > 5").forward([after]) == [None]


def test_forwarding_trees_tell_coverage_without_content() -> None:
    longer, shorter = ForwardingTree.of([(0, 0, 1, 0)]), ForwardingTree.of([(0, 0, 1)])
    assert longer.covers(shorter)
    assert not shorter.covers(longer)


def test_conditions_on_any_kind_of_value_are_split() -> None:
    assert list(_drawn(_version("b", "b IS NOT NULL")).values()) == ["b IS NOT NULL", "b"]
    assert list(_drawn(_version("t < 'm'", "t IS NULL OR t > 'k'")).values()) == [
        "t < 'm'",
        "t IS NULL OR t >= 'm'",
        "t > 'k' AND t < 'm'",
    ]
    assert list(_drawn(_version("s LIKE 'a%'", "s > 'ab'")).values()) == [
        "s LIKE 'a%'",
        "s >= 'b'",
        "s > 'ab' AND s < 'b'",
    ]
