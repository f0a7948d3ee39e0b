"""The columnar index: how far every filter reaches, in columns that one kernel reads through.

A filter's extent becomes a row of numbers, two for each attribute, as the columnar matcher's conditions become codes;
and to be covered is to be at most as great in all of them (Shen §4.6.1). Columns are compared a thousand rows at a time
with as many at once as the processor can, which for tens of thousands of filters costs less than descending a tree,
and does not care how many dimensions there are. What the numbers admit is verified with the filters.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from palio.covering.indexes.kernels import BEFORE, BEYOND, find_in_columns
from palio.covering.interests import Floats, Interest, some_above

MOST_AXES: Final = 32  # attributes that have columns; others are left to the verification
_ROOM: Final = 64


class ColumnarIndex:
    """Costs a few nanoseconds for each filter, whatever is found; adding and removing cost some microseconds."""

    def __init__(self) -> None:
        self.interests: list[Interest] = []
        self.comparisons = 0
        self._row_of: dict[Interest, int] = {}
        self._known: dict[str, None] = {}  # all axes, in the order in which they came
        self._axes: tuple[str, ...] = ()
        self._columns: Floats = np.full((2, _ROOM), np.inf)
        self._found = np.empty(_ROOM, np.int64)

    def add(self, interest: Interest) -> None:
        if not interest.extent.keys() <= self._known.keys():
            self._known.update(dict.fromkeys(interest.extent))
            self._axes = tuple(self._known)[:MOST_AXES]
        row = len(self.interests)
        self._make_room(row + 1)
        self.interests.append(interest)
        self._row_of[interest] = row
        self._columns[: 2 * len(self._axes), row] = interest.corner(self._axes)

    def remove(self, interest: Interest) -> None:
        """The last row takes the place that falls vacant."""
        row = self._row_of.pop(interest)
        last = self.interests.pop()
        if last is not interest:
            self.interests[row] = last
            self._row_of[last] = row
            self._columns[:, row] = self._columns[:, len(self.interests)]
        self._columns[:, len(self.interests)] = np.inf

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        found: list[Interest] = []
        first = 0
        while first < len(self.interests) and len(found) < limit:
            rows, first = self._find(interest, BEYOND, first)
            found += some_above((self.interests[row] for row in rows), interest, limit - len(found))
        return found

    def covered(self, interest: Interest) -> list[Interest]:
        found: list[Interest] = []
        first = 0
        while first < len(self.interests):
            rows, first = self._find(interest, BEFORE, first)
            found += [self.interests[row] for row in rows if interest.is_above(self.interests[row])]
        return found

    def _find(self, interest: Interest, direction: int, first: int) -> tuple[list[int], int]:
        corner = interest.corner(self._axes)
        count, following = find_in_columns(self._columns, len(self.interests), corner, direction, first, self._found)
        self.comparisons += following - first
        return self._found[:count].tolist(), following

    def _make_room(self, rows: int) -> None:
        lines, room = self._columns.shape
        more_lines = max(lines, 2 * len(self._axes))
        more_room = 2 * room if rows > room else room
        if (more_lines, more_room) != (lines, room):
            columns = np.full((more_lines, more_room), np.inf)
            columns[:lines, :room] = self._columns
            self._columns = columns
