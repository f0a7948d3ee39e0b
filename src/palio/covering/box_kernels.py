"""Comparing boxes: rows of intervals by axis, those of one axis in order and apart."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.native import compiled

Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]


@compiled
def covers(wide: int, narrow: int, start: Ints, axis: Numbers, low: Numbers, high: Numbers) -> bool:
    """Whether one row has all of another: on each of its own axes, every interval of the other lies within one."""
    at, end = start[wide], start[wide + 1]
    other, other_end = start[narrow], start[narrow + 1]
    while at < end:
        own = axis[at]
        while other < other_end and axis[other] < own:
            other += 1
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
def first_that_cover(
    rows: Ints,
    ends: Ints,
    candidates: Numbers,
    start: Ints,
    axis: Numbers,
    low: Numbers,
    high: Numbers,
    found: Ints,
) -> None:
    """For each of some rows the first of its candidates that covers it; of rows that are equal, a lower one."""
    at = 0
    for place in range(len(rows)):
        row = rows[place]
        found[place] = -1
        while at < ends[place]:
            other = candidates[at]
            at += 1
            if other == row or not covers(other, row, start, axis, low, high):
                continue
            if other < row or not covers(row, other, start, axis, low, high):
                found[place] = other
                break
        at = ends[place]
