"""A routing tree that never changes any more: what brokers agree on, and what a forwarding tree refers to.

Nodes are numbered level by level, so that the children of a node follow each other and "its third child" is a sum.
Children stand in the order of their conditions. All that a broker does for an event runs over arrays of integers.

A forwarding tree names children by their places, so it means something only to who has the same tree. Events are
therefore stamped with the version of the whole tree. As printed, an event is stamped with the youngest node that it
refers to, and others look at no younger ones; a younger sibling moves the places of older ones all the same, and an
event is lost between two brokers that have the same tree (Jerzak §4.4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.filters.tree import Leaf
from palio.routing.conjunctive import Conjunction
from palio.routing.forwarding.prefix.routing_tree import Node, RoutingTree

Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
ROOT: Final = 0


class TreeVersion:
    """The conditions of a tree, in order; of each node its condition, and where its children begin.

    `final` says at which nodes a broker's tags may be; a path to no such node need not be told. Where brokers map their
    filters onto a tree that somebody else made, that is all of them. `ends` are the nodes at which conjunctions are
    known to end, for who builds the tree and tags the same ones.
    """

    def __init__(
        self,
        version: bytes,
        conditions: tuple[Leaf, ...],
        condition_of: Numbers,
        children: Numbers,
        final: Flags | None = None,
        ends: Mapping[Conjunction, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.version = version
        self.conditions = conditions
        self.condition_of = condition_of  # of the root, -1
        self.children = children  # those of node n are children[n] up to children[n + 1]
        self.final = np.ones(len(condition_of), np.bool_) if final is None else final
        self.ends = ends

    @classmethod
    def of(cls, tree: RoutingTree, version: bytes) -> TreeVersion:
        """What a tree is now. Tags are where its conjunctions end."""
        nodes, children = _by_level(tree)
        ordered = sorted({id(node.condition): node for node in nodes[1:]}.values(), key=lambda node: node.order)
        number = {id(node.condition): place for place, node in enumerate(ordered)}
        return cls(
            version,
            tuple(node.condition for node in ordered if node.condition is not None),
            np.array([-1, *(number[id(node.condition)] for node in nodes[1:])], np.int32),
            np.array(children, np.int32),
            np.array([node.ends > 0 for node in nodes], np.bool_),
        )

    @classmethod
    def built(cls, tree: RoutingTree, version: bytes) -> TreeVersion:
        """What a tree is now, for who tags the conjunctions that it was built from."""
        made = cls.of(tree, version)
        number = {id(node): place for place, node in enumerate(_by_level(tree)[0])}
        made.ends = {conjunction: [number[id(node)] for node in ends] for conjunction, ends in tree.ends().items()}
        return made

    def __len__(self) -> int:
        """The number of nodes, the root among them."""
        return len(self.condition_of)

    @cached_property
    def parents(self) -> Numbers:
        """Of each node the one above it; of the root, -1."""
        counts = np.diff(self.children)
        return np.concatenate((np.array([-1], np.int32), np.repeat(np.arange(len(self), dtype=np.int32), counts)))

    @cached_property
    def heights(self) -> Numbers:
        """Of each node how far it is from the root."""
        found = np.zeros(len(self), np.int32)
        first, last, height = 0, 1, 0
        while first < last:  # a level after the other
            found[first:last] = height
            first, last, height = last, int(self.children[last]), height + 1
        return found

    def path(self, node: int) -> tuple[Leaf, ...]:
        """The conditions from the root to a node."""
        found = []
        while node != ROOT:
            found.append(self.conditions[self.condition_of[node]])
            node = int(self.parents[node])
        return tuple(reversed(found))

    def branch(self, node: int) -> tuple[int, ...]:
        """The places of the children that lead from the root to a node."""
        found = []
        while node != ROOT:
            above = int(self.parents[node])
            found.append(node - int(self.children[above]))
            node = above
        return tuple(reversed(found))


def _by_level(tree: RoutingTree) -> tuple[list[Node], list[int]]:
    """The nodes of a tree, and for each where its children begin among them."""
    nodes, children = [tree.root], [1]
    for node in nodes:  # which grows meanwhile
        nodes.extend(node.children)
        children.append(len(nodes))
    return nodes, children
