"""Prefix routing tree: the conditions of many filters as one tree, which filters enter and leave.

A node is one condition, a path from the root the conjunction of its conditions, paths side by side are a disjunction.
Children of one node on one attribute exclude each other, so that a value leads to at most one of them (Jerzak §4.2.2).
The tree holds conditions alone. Interfaces are each broker's own matter (`Tags`), which is why one node of the network
can build the tree for all.

A conjunction is led down condition by condition. Where a child overlaps it in part, it is split along that child: the
part inside goes on below the child, the part outside stays beside it. The two parts are disjoint, and together the
conjunction (Jerzak §4.2.2, Table 4.2).

Deviations from the source. As printed, the axis of a split may come after other conditions of its attribute, and then
splitting never ends; a part may be empty; and "intersects" includes "covers". Here a condition is one set of values per
attribute, so the part inside an axis is smaller than the axis and goes straight below it, empty parts are dropped, and
only partial overlap splits. Insertion as printed moves one covered child below a new node where there may be several.
Removal is not described; here a tree remembers the nodes at which a conjunction ends, which keep their place relative
to those above them, whatever is inserted later. A conjunction that leaves is taken off these, and what then leads
nowhere is pruned.

Insertion costs the nodes on the way, and in each the children that overlap; a tree of nested conditions is as deep as
there are conditions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from palio.filters.kinds import KINDS, LOWEST_CUT, Kind, Position
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet
from palio.routing.conjunctions import Conjunction

N = TypeVar("N")


class Overlap(NamedTuple):
    """How a set relates to another that it overlaps; both flags are set where they are equal."""

    covers: bool
    is_covered: bool


_OVERLAPS: Final = {(wide, narrow): Overlap(wide, narrow) for wide in (False, True) for narrow in (False, True)}


def overlap_of(own: ValueSet, other: ValueSet) -> Overlap | None:
    """How two sets without patterns overlap; None where they are disjoint. One pass, ended early at partial overlap."""
    covers = is_covered = True
    overlaps = False
    for mine, theirs in zip(own.parts, other.parts, strict=True):
        # Often one shared object, such as that of a kind without values.
        if mine is theirs:
            overlaps = overlaps or not mine.is_empty
            continue
        shared = mine.intersect(theirs)
        overlaps = overlaps or not shared.is_empty
        covers = covers and shared == theirs
        is_covered = is_covered and shared == mine
        if overlaps and not covers and not is_covered:
            break
    return _OVERLAPS[covers, is_covered] if overlaps else None


def split_along(conjunction: Conjunction, axis: Leaf) -> tuple[Conjunction | None, Conjunction | None]:
    """The parts of a conjunction inside and outside an axis, a condition on its first attribute; None where empty."""
    (attribute, values), rest = (conjunction[0].attribute, conjunction[0].values), conjunction[1:]
    inside, outside = values.intersect(axis.values), values.intersect(axis.values.complement())
    return (
        None if inside.is_empty else (Leaf(attribute, inside), *rest),
        None if outside.is_empty else (Leaf(attribute, outside), *rest),
    )


def place_conjunction(
    conjunction: Conjunction, root: N, overlaps: Callable[[N, Leaf], Iterable[tuple[N, ValueSet, Overlap]]]
) -> Iterator[tuple[N, Conjunction, list[N]]]:
    """The nodes to which the parts of a conjunction lead: what insertion, tagging and lookup have in common.

    With each node comes what is left of its part, nothing where it ends at the node; then the children of the node
    that the next condition covers. `overlaps` gives the children of a node that overlap a condition, with their values
    and how they overlap it; the children exclude each other.
    """
    parts = [(root, conjunction)]
    while parts:
        node, rest = parts.pop()
        if not rest:
            yield node, rest, []
            continue
        covered: list[tuple[N, ValueSet]] = []
        for child, values, overlap in overlaps(node, rest[0]):
            if overlap.covers:
                parts.append((child, rest[1:] if overlap.is_covered else rest))
                break
            if overlap.is_covered:
                # Not followed: the rest must become a node above this child, if it is not split further.
                covered.append((child, values))
                continue
            inside, outside = split_along(rest, Leaf(rest[0].attribute, values))
            assert inside is not None  # they overlap
            parts.append((child, inside))
            if outside is None:
                break
            rest = outside
        else:
            # Splits may have shrunk the rest to exactly the condition of a child that it covered before.
            same = next((child for child, values in covered if values == rest[0].values), None)
            if same is not None:
                parts.append((same, rest[1:]))
            else:
                yield node, rest, [child for child, _ in covered]


_MAX_LINEAR_SIBLINGS: Final = 8  # more siblings are narrowed down by binary search first


class Node:
    """One condition below others; the root has none."""

    __slots__ = ("condition", "ends", "groups", "order", "parent")

    def __init__(self, condition: Leaf | None, order: tuple[Any, ...], parent: Node | None) -> None:
        self.condition = condition
        self.order = order
        self.parent = parent
        self.groups: dict[str, Siblings] = {}
        self.ends = 0  # how many conjunctions end here

    @property
    def children(self) -> list[Node]:
        """Ordered by attribute and values, which is the same in every process."""
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
    """The children of a node on one attribute, which exclude each other, ordered by their values."""

    __slots__ = ("_spans", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        # Intervals by kind, sorted by lower end; made when there are too many siblings for a linear search.
        self._spans: dict[Kind, list[tuple[Position, Node]]] | None = None

    def add(self, node: Node) -> None:
        insort(self.nodes, node, key=_order)
        if self._spans is not None:
            for kind, span in _spans(node):
                insort(self._spans.setdefault(kind, []), span, key=_low)

    def remove(self, node: Node) -> None:
        # Siblings exclude each other, so that no two have one sort key.
        del self.nodes[bisect_left(self.nodes, node.order, key=_order)]
        if self._spans is not None:
            for kind, span in _spans(node):
                del self._spans[kind][bisect_left(self._spans[kind], span[0], key=_low)]

    def overlapping(self, values: ValueSet) -> Iterator[tuple[Node, ValueSet, Overlap]]:
        """The siblings that overlap a set, in their order, with their own values and how they overlap it."""
        for node in self.nodes if len(self.nodes) <= _MAX_LINEAR_SIBLINGS else self._touched(values):
            own = node.condition.values  # type: ignore[union-attr]
            overlap = overlap_of(own, values)
            if overlap is not None:
                yield node, own, overlap

    def _touched(self, values: ValueSet) -> list[Node]:
        """The siblings that an interval of the set touches, found by their lower ends."""
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
                # One before: spans are disjoint, so that only the last one that begins at or below `low` can reach it.
                first = 0 if low is None else max(0, bisect_right(spans, low, key=_low) - 1)
                last = len(spans) if high is None else bisect_left(spans, high, key=_low)
                found.update((id(node), node) for _, node in spans[first:last])
        return sorted(found.values(), key=_order)


class RoutingTree:
    """Conjunctions as a tree of conditions; each may be inserted any number of times.

    `visits` counts the nodes that insertions compared.
    """

    def __init__(self) -> None:
        self.visits = 0
        self.root = Node(None, (), None)
        self._ends: dict[Conjunction, tuple[int, list[Node]]] = {}
        self._conditions: dict[Leaf, tuple[Leaf, tuple[Any, ...]]] = {}  # each kept once, with its sort key
        self._uses: dict[int, int] = {}  # nodes by id of their condition

    def __len__(self) -> int:
        """The number of distinct conjunctions."""
        return len(self._ends)

    def insert(self, conjunction: Conjunction) -> None:
        count, ends = self._ends.get(conjunction, (0, None))
        if ends is None:
            # The list is complete before nodes are added: insertion changes what the search walks over.
            ends = [self._extend(*found) for found in list(place_conjunction(conjunction, self.root, self._overlaps))]
        self._ends[conjunction] = count + 1, ends
        for node in ends:
            node.ends += 1

    def remove(self, conjunction: Conjunction) -> None:
        """Remove a conjunction that was inserted; nodes that lead nowhere any more are pruned."""
        count, ends = self._ends[conjunction]
        if count > 1:
            self._ends[conjunction] = count - 1, ends
        else:
            del self._ends[conjunction]
        # A node may end several parts of one conjunction; each is counted.
        for node in ends:
            node.ends -= 1
            self._prune(node)

    def ends(self) -> dict[Conjunction, list[Node]]:
        """The nodes at which the parts of each conjunction end."""
        return {conjunction: ends for conjunction, (_, ends) in self._ends.items()}

    def _overlaps(self, node: Node, condition: Leaf) -> Iterator[tuple[Node, ValueSet, Overlap]]:
        siblings = node.groups.get(condition.attribute)
        for overlap in () if siblings is None else siblings.overlapping(condition.values):
            self.visits += 1
            yield overlap

    def _extend(self, node: Node, rest: Conjunction, covered: list[Node]) -> Node:
        """Append a path of new nodes for the rest of a conjunction; the first takes the covered children below it."""
        for condition in rest:
            known = self._conditions.get(condition)
            if known is None:
                known = self._conditions[condition] = condition, _sort_key(condition)
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


def _sort_key(condition: Leaf) -> tuple[Any, ...]:
    """Sort key of a condition: attribute, then values. Any order will do that is the same in every process."""
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
