"""Random overlapping conjunctions, and the source's algorithms over plain nodes as an oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import Attributes
from palio.routing.conjunctions import Conjunction, possible_values, to_conjunctions
from palio.routing.forwarding.prefix.routing_tree import Node, RoutingTree
from palio.routing.forwarding.prefix.tree_index import TreeIndex
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from tests.strategies import attributes, filters

LIMIT = 8
SOME = settings(max_examples=settings().max_examples // 3)  # a tree costs more than most examples do
NAMES = ("x", "y", "z")
_operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_conditions = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(NAMES), _operators, st.integers(-3, 3)),
    st.builds("{} {} {}".format, st.sampled_from(NAMES), _operators, st.integers(-3, 3)),
    st.builds("{} BETWEEN {} AND {}".format, st.sampled_from(NAMES), st.integers(-3, 0), st.integers(0, 3)),
    st.builds("{} IS {}NULL".format, st.sampled_from(NAMES), st.sampled_from(["", "NOT "])),
)


def close_filters() -> st.SearchStrategy[Filter]:
    """A conjunction over few attributes and constants, as others are too."""
    return st.lists(_conditions, min_size=1, max_size=4).map(lambda parts: Filter.parse(" AND ".join(parts)))


def close_events() -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.integers(-4, 4) | st.sampled_from([-0.5, 1.5])
    several = st.lists(numbers, min_size=1, max_size=3).map(tuple)
    return st.dictionaries(st.sampled_from(NAMES), st.one_of(numbers, numbers, several, st.none()))


def filter_sets() -> st.SearchStrategy[list[Filter]]:
    """Filters that meet, or filters of every kind."""
    return st.lists(close_filters(), max_size=8) | st.lists(filters(depth=1), max_size=5)


def events() -> st.SearchStrategy[dict[str, Any]]:
    return close_events() | attributes()


def conjunctions_of(wanted: Iterable[Filter]) -> list[tuple[Conjunction, ...]]:
    return [to_conjunctions(each, LIMIT) for each in wanted]


def tree_of(entered: Iterable[Iterable[Conjunction]]) -> RoutingTree:
    tree = RoutingTree()
    for conjunctions in entered:
        for conjunction in conjunctions:
            tree.insert(conjunction)
    return tree


def index_of(tree: RoutingTree) -> TreeIndex:
    return TreeIndex(TreeVersion.of(tree, b"version"))


def with_all_paths(tree: RoutingTree) -> TreeIndex:
    """As other brokers have it, who may tag any node."""
    version = TreeVersion.of(tree, b"version")
    return TreeIndex(TreeVersion(b"version", version.conditions, version.condition_of, version.children))


def nodes_of(tree: RoutingTree) -> list[Node]:
    nodes = [tree.root]
    for node in nodes:
        nodes.extend(node.children)
    return nodes


def satisfied(tree: RoutingTree, event: Attributes, height: int = 0) -> set[tuple[int, ...]]:
    """The branches an event satisfies, to all nodes: every child is tried, as in the source's listing."""
    said = possible_values(event)
    found: set[tuple[int, ...]] = set()

    def match(node: Node, branch: tuple[int, ...]) -> None:
        if height and len(branch) == height:
            return
        for place, child in enumerate(node.children):
            assert child.condition is not None
            values = said.get(child.condition.attribute, (MISSING,))
            if any(map(child.condition.values.contains, values)):
                found.add((*branch, place))
                match(child, (*branch, place))

    match(tree.root, ())
    return found


def walked(
    tree: RoutingTree, tags: Mapping[Node, set[int]], branches: Iterable[tuple[int, ...]], height: int = 0
) -> set[int]:
    """The tags along branches, the root's among them; at the height those of everything below."""
    out = set(tags.get(tree.root, ()))
    for branch in branches:
        node = tree.root
        for depth, place in enumerate(branch, 1):
            node = node.children[place]
            below = [node]
            if depth == height:
                for each in below:
                    below.extend(each.children)
            for each in below:
                out |= tags.get(each, set())
    return out


def text(conjunction: Conjunction) -> str:
    return " AND ".join(f"({Filter.of_tree(leaf, leaf)})" for leaf in conjunction)
