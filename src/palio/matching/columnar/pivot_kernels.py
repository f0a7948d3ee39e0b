"""Kernels that choose the pivot of every row of intervals: the condition under which its posting is filed.

A row is one conjunction; its intervals on one axis are alternatives. The pivot is the condition that the fewest events
are expected to meet, the *second condition* the next rarest. How many events meet a condition is not known here. How
many subscriptions share a value is, and people tend to ask for what happens.

Many arrays travel as named tables (`IntervalRows`, `AxisUses`, …), which Numba takes apart without a cost.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from palio.matching.columnar.array_types import Flags, Floats, Int8s, Int32s, Int64s
from palio.matching.columnar.layout import FALSE, MAX_INLINE_AXIS, TRUE
from palio.matching.columnar.native import compiled_for_building, inlined

# Where a row is filed.
NEVER: Final = 0  # it cannot match
ALWAYS: Final = 1  # nowhere: it is checked for every event
BY_CONDITION: Final = 2
BY_ACCESS: Final = 3  # under all of its access conditions

# A row's plan.
PLAN_FILED: Final = 0
PLAN_PIVOT: Final = 1  # the intervals it is filed under: first to last of the conditions, or of the access conditions
PLAN_PIVOT_LAST: Final = 2
PLAN_LEVEL: Final = 3
PLAN_SECOND: Final = 4  # its second condition: intervals, or -1
PLAN_SECOND_LAST: Final = 5
PLAN_RECORD: Final = 6  # where its record begins, or -1 where it has none
PLAN_INNER: Final = 7  # the same for copies that need not check the pivot
PLAN_FIELDS: Final = 8

_MAX_COPIES: Final = 16  # buckets that one interval may touch
_RANGE_PENALTY: Final = 2.0  # a range is filed several times, a point once
_BOOLEAN_SHARE: Final = 4  # one event in four is expected to meet a truth value, however few ask for it
_MAX_SECOND_SHARE: Final = 0.75  # of an axis, beyond which a second condition rules out less than the pivot itself


class IntervalRows(NamedTuple):
    """Rows of intervals: those of row r are start[r] to start[r + 1], those on one axis side by side."""

    start: Int64s
    axis: Int32s
    low: Int32s
    high: Int32s


class AxisUses(NamedTuple):
    """How often conditions use each axis and each slot: the base of all selectivity estimates."""

    sizes: Int32s  # slots, by axis
    shares: Floats  # by axis of two slots: the least share of events that hit it
    offsets: Int64s  # where the slots of an axis begin in `points`
    points: Int32s  # conditions that are one slot, by slot
    uses: Int32s  # conditions, by axis


class AxisLevels(NamedTuple):
    """The levels of buckets of each axis."""

    shifts: Int8s  # by axis and level: the bits of a slot that its bucket leaves out
    counts: Int8s  # by axis: how many levels it may have
    bases: Int64s  # by axis and level: the first bucket


@inlined
def _sort_by_lower_end(low: Any, high: Any, first: int, end: int) -> None:
    """Shell's sort: few intervals are sorted by insertion, and thousands, as of an IN list, not in quadratic time."""
    gap = 1
    while 3 * gap + 1 < end - first:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(first + gap, end):
            this_low, this_high = low[index], high[index]
            place = index
            while place - gap >= first and low[place - gap] > this_low:
                low[place] = low[place - gap]
                high[place] = high[place - gap]
                place -= gap
            low[place] = this_low
            high[place] = this_high
        gap //= 3


@compiled_for_building
def merge_intervals(rows: IntervalRows, merged: IntervalRows, never: Flags) -> int:
    """Sort and merge the intervals of each row on each axis, and leave out empty ones; returns how many are left.

    `never` gets the rows that ask for what no value is.
    """
    start, axis, low, high = rows
    new_start, new_axis, new_low, new_high = merged
    total = 0
    for row in range(len(start) - 1):
        new_start[row] = total
        index = start[row]
        while index < start[row + 1]:
            this_axis = axis[index]
            first = total
            while index < start[row + 1] and axis[index] == this_axis:
                if low[index] <= high[index]:
                    new_axis[total] = this_axis
                    new_low[total] = low[index]
                    new_high[total] = high[index]
                    total += 1
                index += 1
            _sort_by_lower_end(new_low, new_high, first, total)
            if total == first:
                never[row] = True
                continue
            kept = first
            for place in range(first + 1, total):
                # Neighbours are joined as well: no slot lies between them.
                if new_low[place] <= new_high[kept] + 1:
                    new_high[kept] = max(new_high[kept], new_high[place])
                else:
                    kept += 1
                    new_low[kept] = new_low[place]
                    new_high[kept] = new_high[place]
            total = kept + 1
    new_start[len(start) - 1] = total
    return total


@compiled_for_building
def count_uses(rows: IntervalRows, counted: AxisUses) -> None:
    """Count the conditions on each axis, and on each single slot."""
    _, axis, low, high = rows
    offsets, points, uses = counted.offsets, counted.points, counted.uses
    for index in range(len(axis)):
        uses[axis[index]] += 1
        if low[index] == high[index]:
            points[offsets[axis[index]] + low[index]] += 1


@inlined
def expected_events(axis: int, low: int, high: int, rows: int, counted: AxisUses) -> float:
    """How many events are expected to meet an interval, in units of how many subscriptions ask."""
    size = counted.sizes[axis]
    if low != high:
        return float(_RANGE_PENALTY * counted.uses[axis] * (high - low + 1) / size)
    shared = float(counted.points[counted.offsets[axis] + low])
    if size == 2:
        return float(max(shared, rows * counted.shares[axis]))
    if low == FALSE or low == TRUE:
        return max(shared, rows / _BOOLEAN_SHARE)
    return shared


@inlined
def count_buckets(low: Int32s, high: Int32s, first: int, last: int, shift: int) -> int:
    """How many buckets a union of intervals touches."""
    count = 0
    previous = -1
    for index in range(first, last):
        begin = low[index] >> shift
        end = high[index] >> shift
        count += end - begin + (1 if begin != previous else 0)
        previous = end
    return count


@inlined
def finest_level(low: Int32s, high: Int32s, first: int, last: int, axis: int, levels: AxisLevels) -> int:
    """The finest level at which a union touches few buckets."""
    most = max(_MAX_COPIES, 2 * (last - first))
    coarsest = int(levels.counts[axis]) - 1
    for level in range(coarsest):
        if count_buckets(low, high, first, last, levels.shifts[axis, level]) <= most:
            return level
    return coarsest


@inlined
def count_filed(low: Int32s, first: int, last: int, shift: int, base: int, filed: Int32s) -> None:
    """Count the intervals of a union where they begin."""
    for index in range(first, last):
        filed[base + (low[index] >> shift)] += 1


@inlined
def hull_share(plan: Int32s, row: int, conditions: IntervalRows, counted: AxisUses) -> float:
    """The share of an axis that the second condition takes up where it is written: as one interval; 1 for none."""
    first = plan[row, PLAN_SECOND]
    if first < 0:
        return 1.0
    high = conditions.high[plan[row, PLAN_SECOND_LAST] - 1]
    return float((high - conditions.low[first] + 1) / counted.sizes[conditions.axis[first]])


@compiled_for_building
def plan_rows(
    conditions: IntervalRows,
    never: Flags,
    access: IntervalRows,
    counted: AxisUses,
    levels: AxisLevels,
    plan: Int32s,
    filed: Int32s,
) -> int:
    """Choose the pivot and the second condition of each row; returns an upper bound of the copies.

    `filed` gets the number of intervals that begin in each bucket, as if all levels were in use.
    """
    start, axis, low, high = conditions
    access_start, access_axis, access_low, access_high = access
    rows = len(start) - 1
    copies = 0
    for row in range(rows):
        plan[row, PLAN_SECOND] = -1
        plan[row, PLAN_FILED] = NEVER if never[row] else ALWAYS
        if never[row]:
            continue
        by_access = np.inf if access_start[row] == access_start[row + 1] else 0.0
        for index in range(access_start[row], access_start[row + 1]):
            this_axis = access_axis[index]
            by_access += expected_events(this_axis, access_low[index], access_high[index], rows, counted)
            # Slot 0 is a missing attribute. An event has no code for what it lacks, so nothing is found under it.
            if access_low[index] == 0:
                by_access = np.inf
        # The two rarest conditions, rarest first; an access set may be the first of them.
        best = by_access
        second = np.inf
        if by_access < np.inf:
            plan[row, PLAN_FILED] = BY_ACCESS
            plan[row, PLAN_PIVOT] = access_start[row]
            plan[row, PLAN_PIVOT_LAST] = access_start[row + 1]
        last = start[row]
        while last < start[row + 1]:
            first = last
            this_axis = axis[first]
            expected = 0.0
            while last < start[row + 1] and axis[last] == this_axis:
                expected += expected_events(this_axis, low[last], high[last], rows, counted)
                last += 1
            # As above: a condition that a missing attribute meets cannot be a pivot.
            if low[first] == 0:
                continue
            if expected < best:
                # The former pivot becomes the second condition, if its axis can be written beside a payload.
                if plan[row, PLAN_FILED] == BY_CONDITION and axis[plan[row, PLAN_PIVOT]] < MAX_INLINE_AXIS:
                    second = best
                    plan[row, PLAN_SECOND] = plan[row, PLAN_PIVOT]
                    plan[row, PLAN_SECOND_LAST] = plan[row, PLAN_PIVOT_LAST]
                best = expected
                plan[row, PLAN_FILED] = BY_CONDITION
                plan[row, PLAN_PIVOT] = first
                plan[row, PLAN_PIVOT_LAST] = last
            elif expected < second and this_axis < MAX_INLINE_AXIS:
                second = expected
                plan[row, PLAN_SECOND] = first
                plan[row, PLAN_SECOND_LAST] = last
        if plan[row, PLAN_FILED] == BY_CONDITION:
            first = plan[row, PLAN_PIVOT]
            last = plan[row, PLAN_PIVOT_LAST]
            this_axis = axis[first]
            if (
                low[first] < high[last - 1]
                and this_axis < MAX_INLINE_AXIS
                and hull_share(plan, row, conditions, counted) > _MAX_SECOND_SHARE
            ):
                # With nothing else worth asking, `city <> 'x'` say, the place beside the payload checks the pivot.
                plan[row, PLAN_SECOND] = first
                plan[row, PLAN_SECOND_LAST] = last
            level = finest_level(low, high, first, last, this_axis, levels)
            plan[row, PLAN_LEVEL] = level
            count_filed(low, first, last, levels.shifts[this_axis, level], levels.bases[this_axis, level], filed)
            copies += count_buckets(low, high, first, last, levels.shifts[this_axis, level])
        elif plan[row, PLAN_FILED] == BY_ACCESS:
            first = access_start[row]
            while first < access_start[row + 1]:
                this_axis = access_axis[first]
                last = first
                while last < access_start[row + 1] and access_axis[last] == this_axis:
                    last += 1
                level = finest_level(access_low, access_high, first, last, this_axis, levels)
                count_filed(
                    access_low, first, last, levels.shifts[this_axis, level], levels.bases[this_axis, level], filed
                )
                copies += count_buckets(access_low, access_high, first, last, levels.shifts[this_axis, level])
                first = last
    return copies
