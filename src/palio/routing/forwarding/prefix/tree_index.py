"""A tree's conditions as runs of slots, laid out for searching: by node, attribute and slot.

The children of a node on one attribute are a *group*; they exclude each other, so a group is runs of slots that do not
overlap, in order, each with its child. Finding the child for a value is one binary search for the group and one in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.tree import Leaf
from palio.filters.values import ValueSet
from palio.routing.conjunctive import Conjunction
from palio.routing.forwarding.prefix.axes import Axis
from palio.routing.forwarding.prefix.placing import Meeting, met, place
from palio.routing.forwarding.prefix.tree_version import ROOT, TreeVersion

Numbers = npt.NDArray[np.int32]
_FEW: Final = 8  # children that are compared one by one


class TreeIndex:
    """What a tree version is searched by."""

    def __init__(self, tree: TreeVersion) -> None:
        self.tree = tree
        names = sorted({leaf.attribute for leaf in tree.conditions})
        self._attributes = {name: number for number, name in enumerate(names)}
        by_name: dict[str, list[ValueSet]] = {name: [] for name in names}
        for leaf in tree.conditions:
            by_name[leaf.attribute].append(leaf.values)
        self._axes = [Axis(by_name[name]) for name in names]
        self._wanted_missing = [
            name for name in names if any(not values.parts[Kind.MISSING].is_empty for values in by_name[name])
        ]
        self._lay_out(np.array([self._attributes[leaf.attribute] for leaf in tree.conditions], np.int32))

    def _lay_out(self, attribute_of: Numbers) -> None:
        tree = self.tree
        self._first_condition = np.searchsorted(attribute_of, np.arange(len(self._axes) + 1)).astype(np.int32)
        runs = [list(self._axes[self._attributes[leaf.attribute]].runs(leaf.values)) for leaf in tree.conditions]
        run_starts = np.cumsum([0, *map(len, runs)])
        run_ends = np.array([end for each in runs for end in each], np.int32).reshape(-1, 2)

        below = tree.condition_of[1:]  # a row for each node but the root
        attribute = attribute_of[below] if len(below) else below
        parents = tree.parents[1:]
        is_first = np.ones(len(below), np.bool_)
        is_first[1:] = (np.diff(parents) != 0) | (np.diff(attribute) != 0)
        group = np.cumsum(is_first) - 1
        self.group_attribute = attribute[is_first].astype(np.int32)
        self.group_start = np.searchsorted(parents[is_first], np.arange(len(tree) + 1)).astype(np.int32)

        counts = np.diff(run_starts)[below] if len(below) else np.zeros(0, np.int64)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = run_ends[np.repeat(run_starts[below], counts) + within]
        groups = np.repeat(group, counts)
        order = np.lexsort((chosen[:, 0], groups))
        self.span_start = np.searchsorted(groups[order], np.arange(len(self.group_attribute) + 1)).astype(np.int32)
        self.span_first = np.ascontiguousarray(chosen[order, 0])
        self.span_last = np.ascontiguousarray(chosen[order, 1])
        self.span_child = np.repeat(np.arange(1, len(tree), dtype=np.int32), counts)[order]

    def slots(self, said: Mapping[str, tuple[Value, ...]]) -> list[tuple[int, int]]:
        """What an event may say, as attributes and slots in order; what no condition asks for is left out."""
        attributes, axes = self._attributes, self._axes
        found = []
        for name, values in said.items():
            number = attributes.get(name)
            if number is not None:
                slot = axes[number].slot
                found += [(number, slot(value)) for value in values]
        for name in self._wanted_missing:
            if name not in said:
                number = attributes[name]
                found.append((number, axes[number].slot(MISSING)))
        found.sort()
        return found

    def reached(self, conjunction: Conjunction) -> Sequence[int]:
        """The nodes at which a broker tags a conjunction: where its parts end.

        This is `insertR` (Jerzak §4.4.2). As printed it stops at a split, and then a filter that the tree itself
        split is tagged at the root. Going on with both parts, it finds just the nodes at which inserting ends. It also
        stops where the tree has no node for a condition; here that condition is left out, and those that follow lead
        further down, so that fewer events go too far. A condition that is just what several children are together, as
        that of a merger is, leads to each of them: no new node will take them below it.
        """
        known = self.tree.ends.get(conjunction)
        if known is not None:
            return known
        found: list[int] = []
        waiting = [(ROOT, conjunction)]
        while waiting:
            start, wanted = waiting.pop()
            for node, rest, covered in place(wanted, start, self._meetings):
                if not rest:
                    found.append(node)
                elif self._fill(covered, rest[0].values):
                    waiting += [(child, rest[1:]) for child in covered]
                else:
                    waiting.append((node, rest[1:]))
        return found

    def _fill(self, covered: Sequence[int], values: ValueSet) -> bool:
        """Whether some nodes that lie within a set leave nothing of it."""
        if not covered:
            return False
        for child in covered:
            values = values.intersect(self._values(child).complement())
        return values.is_empty

    def _values(self, node: int) -> ValueSet:
        condition: Leaf = self.tree.conditions[self.tree.condition_of[node]]
        return condition.values

    def _meetings(self, node: int, condition: Leaf) -> Iterator[tuple[int, ValueSet, Meeting]]:
        number = self._attributes.get(condition.attribute)
        if number is None:
            return
        tree = self.tree
        first, last = tree.children[node], tree.children[node + 1]
        asked = self._first_condition[number : number + 2]
        begin, end = (first + np.searchsorted(tree.condition_of[first:last], asked)).tolist()
        candidates: Iterable[int] = range(begin, end)
        if end - begin > _FEW:
            candidates = self._near(node, number, condition.values)
        for child in candidates:
            values = self._values(child)
            meeting = met(values, condition.values)
            if meeting is not None:
                yield child, values, meeting

    def _near(self, node: int, number: int, values: ValueSet) -> Sequence[int]:
        """The children on an attribute that have slots which a set touches."""
        start = self.group_start[node]
        group = start + np.searchsorted(self.group_attribute[start : self.group_start[node + 1]], number)
        begin, end = self.span_start[group], self.span_start[group + 1]
        firsts, lasts = self.span_first[begin:end], self.span_last[begin:end]
        found: set[int] = set()
        for first, last in self._axes[number].runs(values):
            low, high = np.searchsorted(lasts, first), np.searchsorted(firsts, last, "right")
            found.update(self.span_child[begin + low : begin + high].tolist())
        return sorted(found)
