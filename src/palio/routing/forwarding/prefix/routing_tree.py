"""The conditions of many filters as one tree, which filters enter and leave.

A node is one condition, a path from the root the conjunction of its conditions; children of one node on one attribute
exclude each other, so that a value leads to at most one of them (Jerzak §4.2.2). The tree knows conditions alone. Who
wants what, each broker keeps for itself (`tags`), which is why one node of the network can make the tree for all.

As printed, inserting moves one covered child below a new node where there may be several, and how a filter leaves is
not said. Here a tree remembers the nodes at which a conjunction ends; they stay where they are, relative to those
above them, whatever comes later. A conjunction that leaves is taken off these, and what then leads nowhere is pruned.

Inserting costs the nodes on the way, and in each the children that overlap; a tree of nested conditions is as deep as
there are conditions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Final

from palio.filters.kinds import KINDS, LOWEST_CUT, Kind, Position
from palio.filters.tree import Leaf
from palio.filters.values import ValueSet
from palio.routing.conjunctive import Conjunction
from palio.routing.forwarding.prefix.placing import Meeting, met, place

_FEW: Final = 8  # siblings that are compared one by one


class Node:
    """One condition, below others; the root has none."""

    __slots__ = ("condition", "ends", "groups", "order", "parent")

    def __init__(self, condition: Leaf | None, order: tuple[Any, ...], parent: Node | None) -> None:
        self.condition = condition
        self.order = order
        self.parent = parent
        self.groups: dict[str, Siblings] = {}
        self.ends = 0  # how many conjunctions end here

    @property
    def children(self) -> list[Node]:
        """In the order of attributes and values, which is the same in every process."""
        return [node for name in sorted(self.groups) for node in self.groups[name].nodes]

    def attach(self, child: Node) -> None:
        assert child.condition is not None
        self.groups.setdefault(child.condition.attribute, Siblings()).add(child)
        child.parent = self

    def detach(self, child: Node) -> None:
        assert child.condition is not None
        siblings = self.groups[child.condition.attribute]
        siblings.remove(child)
        if not siblings.nodes:
            del self.groups[child.condition.attribute]


class Siblings:
    """The children of a node on one attribute: they exclude each other, so a value has at most one."""

    __slots__ = ("_spans", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._spans: dict[Kind, list[tuple[Position, Node]]] | None = None

    def add(self, node: Node) -> None:
        insort(self.nodes, node, key=_order)
        if self._spans is not None:
            for kind, span in _spans(node):
                insort(self._spans.setdefault(kind, []), span, key=_low)

    def remove(self, node: Node) -> None:
        del self.nodes[bisect_left(self.nodes, node.order, key=_order)]
        if self._spans is not None:
            for kind, span in _spans(node):
                del self._spans[kind][bisect_left(self._spans[kind], span[0], key=_low)]

    def meeting(self, values: ValueSet) -> Iterator[tuple[Node, ValueSet, Meeting]]:
        """Those that overlap a set, in their order, with their own values and how they meet it."""
        for node in self.nodes if len(self.nodes) <= _FEW else self._near(values):
            own = node.condition.values  # type: ignore[union-attr]
            meeting = met(own, values)
            if meeting is not None:
                yield node, own, meeting

    def _near(self, values: ValueSet) -> list[Node]:
        """Those that an interval of the set touches, found by their lower ends."""
        if self._spans is None:
            self._spans = {}
            for node in self.nodes:
                for kind, span in _spans(node):
                    self._spans.setdefault(kind, []).append(span)
            for spans in self._spans.values():
                spans.sort(key=_low)
        found: dict[int, Node] = {}
        for kind, spans in self._spans.items():
            for low, high in values.parts[kind].spans():
                first = 0 if low is None else max(0, bisect_right(spans, low, key=_low) - 1)
                last = len(spans) if high is None else bisect_left(spans, high, key=_low)
                found.update((id(node), node) for _, node in spans[first:last])
        return sorted(found.values(), key=_order)


class RoutingTree:
    """Conjunctions as a tree of conditions; each may be inserted any number of times.

    `visits` counts the nodes that inserting met.
    """

    def __init__(self) -> None:
        self.visits = 0
        self.root = Node(None, (), None)
        self._ends: dict[Conjunction, tuple[int, list[Node]]] = {}
        self._conditions: dict[Leaf, tuple[Leaf, tuple[Any, ...]]] = {}  # kept once, with the place in their order
        self._uses: dict[int, int] = {}  # how many nodes have each of these

    def __len__(self) -> int:
        """How many different conjunctions it holds."""
        return len(self._ends)

    def insert(self, conjunction: Conjunction) -> None:
        count, ends = self._ends.get(conjunction, (0, None))
        if ends is None:
            ends = [self._grown(*found) for found in list(place(conjunction, self.root, self._meetings))]
        self._ends[conjunction] = count + 1, ends
        for node in ends:
            node.ends += 1

    def remove(self, conjunction: Conjunction) -> None:
        """Take away a conjunction that was inserted; its nodes go with the last that needs them."""
        count, ends = self._ends[conjunction]
        if count > 1:
            self._ends[conjunction] = count - 1, ends
        else:
            del self._ends[conjunction]
        for node in ends:
            node.ends -= 1
            self._prune(node)

    def ends(self) -> dict[Conjunction, list[Node]]:
        """The nodes at which the parts of each conjunction end."""
        return {conjunction: ends for conjunction, (_, ends) in self._ends.items()}

    def _meetings(self, node: Node, condition: Leaf) -> Iterator[tuple[Node, ValueSet, Meeting]]:
        siblings = node.groups.get(condition.attribute)
        for meeting in () if siblings is None else siblings.meeting(condition.values):
            self.visits += 1
            yield meeting

    def _grown(self, node: Node, rest: Conjunction, covered: list[Node]) -> Node:
        """A path of new nodes for what is left of a conjunction; the first takes the covered children below it."""
        for condition in rest:
            known = self._conditions.get(condition)
            if known is None:
                known = self._conditions[condition] = condition, _order_of(condition)
            self._uses[id(known[0])] = self._uses.get(id(known[0]), 0) + 1
            child = Node(*known, node)
            for each in covered:
                node.detach(each)
                child.attach(each)
            node.attach(child)
            node, covered = child, []
        return node

    def _prune(self, node: Node) -> None:
        while node.parent is not None and not node.ends and not node.groups:
            assert node.condition is not None  # it is not the root
            node.parent.detach(node)
            left = self._uses[id(node.condition)] - 1
            if left:
                self._uses[id(node.condition)] = left
            else:
                del self._uses[id(node.condition)], self._conditions[node.condition]
            node = node.parent


def _order_of(condition: Leaf) -> tuple[Any, ...]:
    """The order of conditions: by attribute, then by where the values begin. It needs only to be one for all."""
    return condition.attribute, tuple((part.inside, part.cuts) for part in condition.values.parts)


def _spans(node: Node) -> Iterator[tuple[Kind, tuple[Position, Node]]]:
    assert node.condition is not None
    for kind in KINDS:
        for low, _ in node.condition.values.parts[kind].spans():
            yield kind, (LOWEST_CUT[kind] if low is None else low, node)


def _low(span: tuple[Position, Node]) -> Position:
    return span[0]


def _order(node: Node) -> tuple[Any, ...]:
    return node.order
