"""Kernels of covering: compare boxes of slots, and scan columns of points.

A box is a row of intervals by axis, those of one axis ascending and disjoint. A point has two coordinates for each
attribute, how far down and how far up its filter reaches; a filter that covers another dominates it, which is to be at
least as great in all coordinates.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.native import compiled, compiled_with_arrays

Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]


@compiled
def covers(wide: int, narrow: int, start: Ints, axis: Numbers, low: Numbers, high: Numbers) -> bool:
    """Whether one row contains another: on each of its own axes, every interval of the other lies within one."""
    # Both rows are sorted by axis and slot: one pass over the two, as in a merge.
    at, end = start[wide], start[wide + 1]
    other, other_end = start[narrow], start[narrow + 1]
    while at < end:
        own = axis[at]
        while other < other_end and axis[other] < own:
            other += 1
        # The narrow row has no condition on an axis that the wide one constrains.
        if other == other_end or axis[other] != own:
            return False
        while other < other_end and axis[other] == own:
            while at < end and axis[at] == own and high[at] < low[other]:
                at += 1
            if at == end or axis[at] != own or low[at] > low[other] or high[at] < high[other]:
                return False
            other += 1
        while at < end and axis[at] == own:
            at += 1
    return True


@compiled
def find_first_coverers(
    rows: Ints,
    ends: Ints,
    candidates: Numbers,
    start: Ints,
    axis: Numbers,
    low: Numbers,
    high: Numbers,
    found: Ints,
) -> None:
    """For each of some rows the first candidate that covers it, or -1; of equal rows the lowest covers the others."""
    at = 0
    for place in range(len(rows)):
        row = rows[place]
        found[place] = -1
        while at < ends[place]:
            other = candidates[at]
            at += 1
            if other == row or not covers(other, row, start, axis, low, high):
                continue
            # Equal rows cover each other: the lower number counts as the coverer, so that one of them stays.
            if other < row or not covers(row, other, start, axis, low, high):
                found[place] = other
                break
        at = ends[place]


BLOCK_POINTS = 1024  # tested together, coordinate by coordinate

DOMINATING, DOMINATED = 0, 1


@compiled_with_arrays
def find_in_columns(columns: Any, count: int, corner: Any, direction: int, first: int, found: Any) -> tuple[int, int]:
    """Write the rows of points that dominate a corner, or are dominated by it, from row `first` on.

    Stops when `found` is full; returns how many rows were written, and the row to go on from. `columns` has a line for
    each coordinate. A coordinate is compared for a whole block at once, without branches, and the next one is read only
    where some point of the block has passed so far.
    """
    passed = np.empty(BLOCK_POINTS, np.uint8)
    written = 0
    start = first
    while start < count:
        size = min(BLOCK_POINTS, count - start)
        passed[:size] = 1
        left = size
        for coordinate in range(corner.shape[0]):
            asked = corner[coordinate]
            values = columns[coordinate, start : start + size]
            left = 0
            if direction == DOMINATING:
                for row in range(size):
                    passed[row] &= np.uint8(values[row] >= asked)
                    left += int(passed[row])  # interpreted, a byte would overflow
            else:
                for row in range(size):
                    passed[row] &= np.uint8(values[row] <= asked)
                    left += int(passed[row])  # interpreted, a byte would overflow
            if left == 0:
                break
        if left > 0:
            for row in range(size):
                if passed[row]:
                    if written == found.shape[0]:
                        return written, start + row
                    found[written] = start + row
                    written += 1
        start += size
    return written, count
