"""K-d tree index: filters are points, and those that cover one dominate it in every coordinate (Shen §4.5.2).

A filter with the ranges [l1, r1] … [lk, rk] is the point (-l1, r1, …, -lk, rk). Trees are immutable: new points are
kept apart until they are enough for a tree, which takes in all trees that are no larger (the logarithmic method of
Bentley and Saxe); removed ones are skipped, until they are half of a tree. A node keeps the greatest and the least
coordinates of its points, so that whole branches are pruned. What the points admit is verified with the filters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from palio.covering.classical.kdtree_kernels import LEAF_POINTS, build_tree, find_in_tree
from palio.covering.covering_index import ColumnarIndex
from palio.covering.covering_kernels import DOMINATED, DOMINATING
from palio.covering.extents import IndexedFilter, first_above

MAX_TREE_AXES: Final = 8  # attributes in a tree, those that most of its filters constrain
_UNBOUNDED_AXIS: Final = ""  # for filters without any range
_INITIAL_RESULTS: Final = 64
_RESULT_GROWTH: Final = 8


class _KdTree:
    """An immutable tree of points, some of which may have been removed since."""

    def __init__(self, filters: list[IndexedFilter]) -> None:
        uses = Counter(axis for each in filters for axis in each.extent)
        # In the order of names, so that trees of the same axes ask for the same corner.
        self._axes = tuple(sorted(axis for axis, _ in uses.most_common(MAX_TREE_AXES))) or (_UNBOUNDED_AXIS,)
        points = np.array([each.corner(self._axes) for each in filters])
        leaves = 1
        while leaves * LEAF_POINTS < len(filters):
            leaves *= 2
        order = np.arange(len(filters))
        self._starts, self._ends = np.zeros((2, 2 * leaves - 1), np.int64)
        self._bounds = np.empty((2, 2 * leaves - 1, points.shape[1]))
        build_tree(points, order, self._starts, self._ends, self._bounds)
        self._points = points[order]
        self._is_live = np.ones(len(filters), np.bool_)
        self._filters = [filters[row] for row in order]
        self.rows = {each: row for row, each in enumerate(self._filters)}

    def remove(self, filter: IndexedFilter) -> None:
        self._is_live[self.rows.pop(filter)] = False

    @property
    def is_half_removed(self) -> bool:
        return 2 * len(self.rows) <= len(self._filters)

    def find(self, filter: IndexedFilter, direction: int, room: int) -> tuple[list[IndexedFilter], int]:
        """At most `room` filters that dominate one or are dominated by it, and how many steps that took."""
        corner = filter.corner(self._axes)
        found = np.empty(room, np.int64)
        count, examined = find_in_tree(
            self._points, self._is_live, self._starts, self._ends, self._bounds,
            corner if direction == DOMINATING else -corner, direction, found,
        )  # fmt: skip
        return [self._filters[row] for row in found[:count].tolist()], examined


class KdTreeIndex:
    """A covering index for filters that are mostly ranges of few attributes; insertion costs log² n, amortised."""

    recent = 256  # points in columns, before they become a tree

    def __init__(self) -> None:
        self._recent = ColumnarIndex()
        self._trees: list[_KdTree] = []  # the largest first
        self._tree_of: dict[IndexedFilter, _KdTree] = {}
        self._examined = 0

    @property
    def comparisons(self) -> int:
        return self._examined + self._recent.comparisons

    def add(self, filter: IndexedFilter) -> None:
        self._recent.add(filter)
        if len(self._recent.filters) == self.recent:
            self._examined += self._recent.comparisons
            self._build_tree(self._recent.filters)
            self._recent = ColumnarIndex()

    def remove(self, filter: IndexedFilter) -> None:
        tree = self._tree_of.pop(filter, None)
        if tree is None:
            self._recent.remove(filter)
            return
        tree.remove(filter)
        if tree.is_half_removed:
            self._trees.remove(tree)
            self._build_tree(list(tree.rows))

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        found = self._recent.covering(filter, limit)
        for tree in self._trees:
            if len(found) == limit:
                break
            found += first_above(self._candidates(tree, filter, DOMINATING, limit), filter, limit - len(found))
        return found

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        found = self._recent.covered(filter)
        for tree in self._trees:
            candidates = self._candidates(tree, filter, DOMINATED, _INITIAL_RESULTS)
            found += [each for each in candidates if filter.is_above(each)]
        return found

    def _candidates(self, tree: _KdTree, filter: IndexedFilter, direction: int, room: int) -> Iterator[IndexedFilter]:
        """What a tree finds, few at first: a search for one filter mostly ends with the first."""
        seen = 0
        while True:
            found, examined = tree.find(filter, direction, room)
            self._examined += examined
            yield from found[seen:]
            if len(found) < room:
                return
            seen, room = room, _RESULT_GROWTH * room

    def _build_tree(self, filters: list[IndexedFilter]) -> None:
        """Build a tree of some points, and of all trees that are no larger."""
        while self._trees and len(self._trees[-1].rows) <= len(filters):
            filters = [*self._trees.pop().rows, *filters]
        if filters:
            tree = _KdTree(filters)
            self._trees.append(tree)
            self._trees.sort(key=lambda each: -len(each.rows))
            self._tree_of.update(dict.fromkeys(filters, tree))
