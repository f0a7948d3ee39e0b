"""Search index of a tree version: values become slots, and conditions become spans of slots.

The conditions on an attribute cut each kind of value into slots, so that every condition is a set of runs of slots. A
value is looked up once per event, however many nodes test it; from there on a tree is integers. The children of a node
on one attribute, a *group*, exclude each other; so a group is spans of slots that do not overlap, and the child for a
value is found by one binary search for the group and one in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from palio.filters.kinds import KINDS, MISSING, Kind, Position, Value, kind_of, position_of
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet
from palio.routing.conjunctions import Conjunction
from palio.routing.forwarding.prefix.routing_tree import Overlap, overlap_of, place_conjunction
from palio.routing.forwarding.prefix.tree_kernels import Numbers, SearchTable
from palio.routing.forwarding.prefix.tree_version import ROOT, TreeVersion


class Axis:
    """The slots of one attribute: all values between two neighbouring cuts share one."""

    __slots__ = ("_bases", "_cuts")

    def __init__(self, conditions: Iterable[ValueSet]) -> None:
        cuts: list[set[Position]] = [set() for _ in KINDS]
        for values in conditions:
            for kind, part in zip(KINDS, values.parts, strict=True):
                cuts[kind].update(part.cuts)
        self._cuts = [sorted(each) for each in cuts]
        self._bases: list[int] = []
        size = 0
        for each in self._cuts:
            self._bases.append(size)
            size += len(each) + 1

    def slot(self, value: Value) -> int:
        kind = kind_of(value)
        cuts = self._cuts[kind]
        return self._bases[kind] + (bisect_right(cuts, position_of(kind, value)) if cuts else 0)

    def runs(self, values: ValueSet) -> Iterator[tuple[int, int]]:
        """The runs of slots that a set touches, as (first, last); it fills them where its cuts are among the axis's."""
        for kind, part in zip(KINDS, values.parts, strict=True):
            cuts, base = self._cuts[kind], self._bases[kind]
            for low, high in part.spans():
                first = 0 if low is None else bisect_right(cuts, low)
                yield base + first, base + (len(cuts) if high is None else bisect_left(cuts, high))


_MAX_LINEAR_CHILDREN: Final = 8  # more children of a group are narrowed down by binary search first


class TreeIndex:
    """Finds the nodes of a tree version: by the values of an event, or by a conjunction.

    `table` is the `SearchTable` of the tree as a plain tuple, for the kernels.
    """

    def __init__(self, tree: TreeVersion) -> None:
        self.tree = tree
        names = sorted({leaf.attribute for leaf in tree.conditions})
        self._attributes = {name: number for number, name in enumerate(names)}
        by_name: dict[str, list[ValueSet]] = {name: [] for name in names}
        for leaf in tree.conditions:
            by_name[leaf.attribute].append(leaf.values)
        self._axes = [Axis(by_name[name]) for name in names]
        # Conditions that hold where their attribute is missing are tested even if the event does not name it.
        self._tested_when_missing = [
            name for name in names if any(not values.parts[Kind.MISSING].is_empty for values in by_name[name])
        ]
        attribute_of = np.array([self._attributes[leaf.attribute] for leaf in tree.conditions], np.int32)
        # Conditions are in the order of attributes: those of attribute a are from _first_condition[a] on.
        self._first_condition = np.searchsorted(attribute_of, np.arange(len(names) + 1)).astype(np.int32)
        self._table = self._search_table(attribute_of)
        self.table = tuple(self._table)

    def _search_table(self, attribute_of: Numbers) -> SearchTable:
        tree = self.tree
        runs = [list(self._axes[self._attributes[leaf.attribute]].runs(leaf.values)) for leaf in tree.conditions]
        run_starts = np.cumsum([0, *map(len, runs)])
        run_ends = np.array([end for each in runs for end in each], np.int32).reshape(-1, 2)

        below = tree.condition_of[1:]  # the condition of each node but the root
        attribute = attribute_of[below] if len(below) else below
        parents = tree.parents[1:]
        # A group begins where the parent or the attribute changes.
        is_first = np.ones(len(below), np.bool_)
        is_first[1:] = (np.diff(parents) != 0) | (np.diff(attribute) != 0)
        group = np.cumsum(is_first) - 1
        group_attribute = attribute[is_first].astype(np.int32)
        group_start = np.searchsorted(parents[is_first], np.arange(len(tree) + 1)).astype(np.int32)

        # One span for each run of each node's condition, sorted by group and first slot.
        counts = np.diff(run_starts)[below] if len(below) else np.zeros(0, np.int64)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = run_ends[np.repeat(run_starts[below], counts) + within]
        groups = np.repeat(group, counts)
        order = np.lexsort((chosen[:, 0], groups))
        return SearchTable(
            tree.children,
            tree.final,
            group_start,
            group_attribute,
            span_start=np.searchsorted(groups[order], np.arange(len(group_attribute) + 1)).astype(np.int32),
            span_first=np.ascontiguousarray(chosen[order, 0]),
            span_last=np.ascontiguousarray(chosen[order, 1]),
            span_child=np.repeat(np.arange(1, len(tree), dtype=np.int32), counts)[order],
        )

    def slots(self, said: Mapping[str, tuple[Value, ...]]) -> list[tuple[int, int]]:
        """The possible values of an event as (attribute, slot), ascending; untested attributes are left out."""
        attributes, axes = self._attributes, self._axes
        found = []
        for name, values in said.items():
            number = attributes.get(name)
            if number is not None:
                slot = axes[number].slot
                found += [(number, slot(value)) for value in values]
        for name in self._tested_when_missing:
            if name not in said:
                number = attributes[name]
                found.append((number, axes[number].slot(MISSING)))
        found.sort()
        return found

    def tag_nodes(self, conjunction: Conjunction) -> Sequence[int]:
        """The nodes at which a broker tags a conjunction: where its parts end.

        This is `insertR` (Jerzak §4.4.2). As printed it stops at a split, so that a filter which the tree itself split
        is tagged at the root; going on with both parts, it finds exactly the nodes at which insertion ends. It also
        stops where the tree has no node for a condition; here that condition is skipped and the following ones lead
        further down, so that fewer events go too far. A condition that equals the union of several children, as that
        of a merged filter does, leads to each of them: no new node will take them below it.
        """
        known = self.tree.ends.get(conjunction)
        if known is not None:
            return known
        found: list[int] = []
        pending = [(ROOT, conjunction)]
        while pending:
            start, wanted = pending.pop()
            for node, rest, covered in place_conjunction(wanted, start, self._overlaps):
                if not rest:
                    found.append(node)
                elif self._is_filled_by(covered, rest[0].values):
                    pending += [(child, rest[1:]) for child in covered]
                else:
                    pending.append((node, rest[1:]))
        return found

    def _is_filled_by(self, covered: Sequence[int], values: ValueSet) -> bool:
        """Whether nodes that lie within a set leave nothing of it uncovered."""
        if not covered:
            return False
        for child in covered:
            values = values.intersect(self._values(child).complement())
        return values.is_empty

    def _values(self, node: int) -> ValueSet:
        condition: Leaf = self.tree.conditions[self.tree.condition_of[node]]
        return condition.values

    def _overlaps(self, node: int, condition: Leaf) -> Iterator[tuple[int, ValueSet, Overlap]]:
        number = self._attributes.get(condition.attribute)
        if number is None:
            return
        tree = self.tree
        first, last = tree.children[node], tree.children[node + 1]
        asked = self._first_condition[number : number + 2]
        # Children are ordered by condition, and conditions by attribute: those on one attribute lie together.
        begin, end = (first + np.searchsorted(tree.condition_of[first:last], asked)).tolist()
        candidates: Iterable[int] = range(begin, end)
        if end - begin > _MAX_LINEAR_CHILDREN:
            candidates = self._touched_children(node, number, condition.values)
        for child in candidates:
            values = self._values(child)
            overlap = overlap_of(values, condition.values)
            if overlap is not None:
                yield child, values, overlap

    def _touched_children(self, node: int, number: int, values: ValueSet) -> Sequence[int]:
        """The children of a node on one attribute whose spans a set touches."""
        table = self._table
        start = table.group_start[node]
        group = start + np.searchsorted(table.group_attribute[start : table.group_start[node + 1]], number)
        begin, end = table.span_start[group], table.span_start[group + 1]
        firsts, lasts = table.span_first[begin:end], table.span_last[begin:end]
        found: set[int] = set()
        for first, last in self._axes[number].runs(values):
            low, high = np.searchsorted(lasts, first), np.searchsorted(firsts, last, "right")
            found.update(table.span_child[begin + low : begin + high].tolist())
        return sorted(found)


# Weak: an index goes with the last broker that has its version.
_indexes: WeakValueDictionary[bytes, TreeIndex] = WeakValueDictionary()


def shared_index(version: bytes, make: Callable[[], TreeVersion]) -> TreeIndex:
    """The index of a version, shared by all brokers of the process: a version identifies a tree completely."""
    index = _indexes.get(version)
    if index is None:
        index = _indexes[version] = TreeIndex(make())
    return index
