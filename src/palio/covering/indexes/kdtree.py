"""The k-d tree index: filters are points, those that cover one lie beyond it in every coordinate (Shen §4.5.2).

A filter with the ranges [l1, r1] … [lk, rk] is the point (-l1, r1, …, -lk, rk). Trees are made once and not changed:
new points are kept apart until they are enough for a tree, which takes in all trees that are no larger (Bentley and
Saxe); removed ones are passed over, until they are half of a tree. A node keeps the greatest and the least coordinates
of its points, so that whole branches are left out. What the points admit is verified with the filters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from palio.covering.indexes.columnar import ColumnarIndex
from palio.covering.indexes.kernels import BEFORE, BEYOND, LEAF, build_tree, find_in_tree
from palio.covering.interests import Interest, some_above

MOST_AXES: Final = 8  # attributes in a tree, those that most of its filters constrain
_NO_AXIS: Final = ""  # along which everything reaches everywhere
_ROOM: Final = 64
_MORE: Final = 8  # times as many are asked for, where so many were not enough


class _Tree:
    """Points that were there when it was made, some of them no more."""

    def __init__(self, interests: list[Interest]) -> None:
        uses = Counter(axis for each in interests for axis in each.extent)
        # In the order of names, so that trees of the same axes ask for the same corner.
        self._axes = tuple(sorted(axis for axis, _ in uses.most_common(MOST_AXES))) or (_NO_AXIS,)
        points = np.array([each.corner(self._axes) for each in interests])
        leaves = 1
        while leaves * LEAF < len(interests):
            leaves *= 2
        order = np.arange(len(interests))
        self._starts, self._ends = np.zeros((2, 2 * leaves - 1), np.int64)
        self._bounds = np.empty((2, 2 * leaves - 1, points.shape[1]))
        build_tree(points, order, self._starts, self._ends, self._bounds)
        self._points = points[order]
        self._alive = np.ones(len(interests), np.bool_)
        self._interests = [interests[row] for row in order]
        self.rows = {each: row for row, each in enumerate(self._interests)}

    def remove(self, interest: Interest) -> None:
        self._alive[self.rows.pop(interest)] = False

    @property
    def is_half_gone(self) -> bool:
        return 2 * len(self.rows) <= len(self._interests)

    def find(self, interest: Interest, direction: int, room: int) -> tuple[list[Interest], int]:
        """At most so many interests whose points lie beyond or before one, and how much was looked at."""
        corner = interest.corner(self._axes)
        found = np.empty(room, np.int64)
        count, looks = find_in_tree(
            self._points, self._alive, self._starts, self._ends, self._bounds,
            corner if direction == BEYOND else -corner, direction, found,
        )  # fmt: skip
        return [self._interests[row] for row in found[:count].tolist()], looks


class KdTreeIndex:
    """For filters that are mostly ranges of few attributes; an insertion costs log² n, amortised."""

    recent = 256  # points that are read through, before they become a tree

    def __init__(self) -> None:
        self._recent = ColumnarIndex()
        self._trees: list[_Tree] = []  # the largest first
        self._home: dict[Interest, _Tree] = {}
        self._looks = 0

    @property
    def comparisons(self) -> int:
        return self._looks + self._recent.comparisons

    def add(self, interest: Interest) -> None:
        self._recent.add(interest)
        if len(self._recent.interests) == self.recent:
            self._looks += self._recent.comparisons
            self._plant(self._recent.interests)
            self._recent = ColumnarIndex()

    def remove(self, interest: Interest) -> None:
        tree = self._home.pop(interest, None)
        if tree is None:
            self._recent.remove(interest)
            return
        tree.remove(interest)
        if tree.is_half_gone:
            self._trees.remove(tree)
            self._plant(list(tree.rows))

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        found = self._recent.covering(interest, limit)
        for tree in self._trees:
            if len(found) == limit:
                break
            found += some_above(self._candidates(tree, interest, BEYOND, limit), interest, limit - len(found))
        return found

    def covered(self, interest: Interest) -> list[Interest]:
        found = self._recent.covered(interest)
        for tree in self._trees:
            candidates = self._candidates(tree, interest, BEFORE, _ROOM)
            found += [each for each in candidates if interest.is_above(each)]
        return found

    def _candidates(self, tree: _Tree, interest: Interest, direction: int, room: int) -> Iterator[Interest]:
        """What a tree finds, a few at first: who is asked for one is mostly content with the first."""
        seen = 0
        while True:
            found, looks = tree.find(interest, direction, room)
            self._looks += looks
            yield from found[seen:]
            if len(found) < room:
                return
            seen, room = room, _MORE * room

    def _plant(self, interests: list[Interest]) -> None:
        """Make a tree of some points, and of all trees that are no larger."""
        while self._trees and len(self._trees[-1].rows) <= len(interests):
            interests = [*self._trees.pop().rows, *interests]
        if interests:
            tree = _Tree(interests)
            self._trees.append(tree)
            self._trees.sort(key=lambda each: -len(each.rows))
            self._home.update(dict.fromkeys(interests, tree))
