"""The steps of building postings, over flat arrays.

A row is one conjunction; `start`, `axis`, `low` and `high` hold its intervals, those on one axis side by side and
meaning either. Every row is filed under its *pivot*, the condition that fewest events are expected to meet, once in
every bucket of slots that the pivot touches. How many events meet a condition is not known here; how many
subscriptions share a value is, and people tend to ask for what happens.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.layout import (
    ESCAPE_PROGRAM,
    ESCAPE_RUN,
    ESCAPE_STAMP,
    ESCAPE_WIDE,
    ESCAPES,
    FALSE,
    GROUPED,
    LAST,
    MOST_FLAT,
    MOST_INLINE_AXIS,
    NO_AXIS,
    TRUE,
)
from palio.matching.columnar.native import compiled, inlined

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]
Levels = npt.NDArray[np.int8]
Plan = npt.NDArray[np.int32]
Shares = npt.NDArray[np.float64]

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

_MOST_COPIES: Final = 16  # buckets one interval may touch
_RANGE_PENALTY: Final = 2.0  # a range is filed several times, a point once
_BOOLEAN_SHARE: Final = 4  # a truth value is met by one event in so many, however few ask for it
_FEWEST_GROUPED: Final = 64
_ENTRIES_PER_GROUP: Final = 4


@compiled
def unite(
    start: Ints,
    axis: Numbers,
    low: Numbers,
    high: Numbers,
    new_start: Ints,
    new_axis: Numbers,
    new_low: Numbers,
    new_high: Numbers,
    never: Flags,
) -> int:
    """Sort and merge the intervals of each row on each axis, and leave out empty ones."""
    total = 0
    for row in range(len(start) - 1):
        new_start[row] = total
        index = start[row]
        while index < start[row + 1]:
            own = axis[index]
            first = total
            while index < start[row + 1] and axis[index] == own:
                if low[index] <= high[index]:
                    place = total
                    while place > first and new_low[place - 1] > low[index]:
                        new_low[place] = new_low[place - 1]
                        new_high[place] = new_high[place - 1]
                        place -= 1
                    new_axis[total] = own
                    new_low[place] = low[index]
                    new_high[place] = high[index]
                    total += 1
                index += 1
            if total == first:
                never[row] = True
                continue
            kept = first
            for place in range(first + 1, total):
                if new_low[place] <= new_high[kept] + 1:
                    new_high[kept] = max(new_high[kept], new_high[place])
                else:
                    kept += 1
                    new_low[kept] = new_low[place]
                    new_high[kept] = new_high[place]
            total = kept + 1
    new_start[len(start) - 1] = total
    return total


@compiled
def count_uses(axis: Numbers, low: Numbers, high: Numbers, offsets: Ints, points: Numbers, uses: Numbers) -> None:
    """How often each axis is asked of, and how often each single slot."""
    for index in range(len(axis)):
        uses[axis[index]] += 1
        if low[index] == high[index]:
            points[offsets[axis[index]] + low[index]] += 1


@inlined
def weight(
    axis: int,
    low: int,
    high: int,
    size: int,
    rows: int,
    shares: Shares,
    offsets: Ints,
    points: Numbers,
    uses: Numbers,
) -> float:
    """How many events are expected to meet an interval, in units of how many subscriptions ask."""
    if low != high:
        return _RANGE_PENALTY * float(uses[axis]) * (high - low + 1) / size
    shared = float(points[offsets[axis] + low])
    if size == 2:
        return float(max(shared, rows * shares[axis]))
    if low == FALSE or low == TRUE:
        return max(shared, rows / _BOOLEAN_SHARE)
    return shared


@inlined
def touched(low: Numbers, high: Numbers, first: int, last: int, shift: int) -> int:
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
def fitting_level(
    low: Numbers, high: Numbers, first: int, last: int, axis: int, level_shifts: Levels, level_counts: Levels
) -> int:
    """The finest level at which a union touches few buckets."""
    most = max(_MOST_COPIES, 2 * (last - first))
    coarsest = int(level_counts[axis]) - 1
    for level in range(coarsest):
        if touched(low, high, first, last, level_shifts[axis, level]) <= most:
            return level
    return coarsest


@inlined
def file_under(low: Numbers, first: int, last: int, shift: int, base: int, filed: Numbers) -> None:
    """Count the intervals of a union where they begin."""
    for index in range(first, last):
        filed[base + (low[index] >> shift)] += 1


@compiled
def plan_rows(
    start: Ints,
    axis: Numbers,
    low: Numbers,
    high: Numbers,
    never: Flags,
    access_start: Ints,
    access_axis: Numbers,
    access_low: Numbers,
    access_high: Numbers,
    sizes: Numbers,
    shares: Shares,
    level_shifts: Levels,
    level_counts: Levels,
    offsets: Ints,
    points: Numbers,
    uses: Numbers,
    plan: Plan,
    bases: Ints,
    filed: Numbers,
) -> int:
    """Choose where each row is filed and what is written beside it; return how many copies that makes at most.

    `filed` gets how many intervals begin in each bucket of each level, were they all used.
    """
    rows = len(start) - 1
    copies = 0
    for row in range(rows):
        plan[row, PLAN_SECOND] = -1
        plan[row, PLAN_FILED] = NEVER if never[row] else ALWAYS
        if never[row]:
            continue
        by_access = np.inf if access_start[row] == access_start[row + 1] else 0.0
        for index in range(access_start[row], access_start[row + 1]):
            own = access_axis[index]
            by_access += weight(
                own, access_low[index], access_high[index], sizes[own], rows, shares, offsets, points, uses
            )
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
            own = axis[first]
            mine = 0.0
            while last < start[row + 1] and axis[last] == own:
                mine += weight(own, low[last], high[last], sizes[own], rows, shares, offsets, points, uses)
                last += 1
            if low[first] == 0:
                continue
            if mine < best:
                if plan[row, PLAN_FILED] == BY_CONDITION and axis[plan[row, PLAN_PIVOT]] < MOST_INLINE_AXIS:
                    second = best
                    plan[row, PLAN_SECOND] = plan[row, PLAN_PIVOT]
                    plan[row, PLAN_SECOND_LAST] = plan[row, PLAN_PIVOT_LAST]
                best = mine
                plan[row, PLAN_FILED] = BY_CONDITION
                plan[row, PLAN_PIVOT] = first
                plan[row, PLAN_PIVOT_LAST] = last
            elif mine < second and own < MOST_INLINE_AXIS:
                second = mine
                plan[row, PLAN_SECOND] = first
                plan[row, PLAN_SECOND_LAST] = last
        if plan[row, PLAN_FILED] == BY_CONDITION:
            first = plan[row, PLAN_PIVOT]
            last = plan[row, PLAN_PIVOT_LAST]
            own = axis[first]
            if plan[row, PLAN_SECOND] < 0 and low[first] < high[last - 1] and own < MOST_INLINE_AXIS:
                # With nothing else to ask, the place beside the payload checks the pivot itself.
                plan[row, PLAN_SECOND] = first
                plan[row, PLAN_SECOND_LAST] = last
            level = fitting_level(low, high, first, last, own, level_shifts, level_counts)
            plan[row, PLAN_LEVEL] = level
            file_under(low, first, last, level_shifts[own, level], bases[own, level], filed)
            copies += touched(low, high, first, last, level_shifts[own, level])
        elif plan[row, PLAN_FILED] == BY_ACCESS:
            first = access_start[row]
            while first < access_start[row + 1]:
                own = access_axis[first]
                last = first
                while last < access_start[row + 1] and access_axis[last] == own:
                    last += 1
                level = fitting_level(access_low, access_high, first, last, own, level_shifts, level_counts)
                file_under(access_low, first, last, level_shifts[own, level], bases[own, level], filed)
                copies += touched(access_low, access_high, first, last, level_shifts[own, level])
                first = last
    return copies


@compiled
def inline_seconds(
    axis: Numbers, low: Numbers, high: Numbers, shifts: Levels, plan: Plan, inlines: Words, keys: Numbers
) -> None:
    """Second conditions as they are written in blocks, and the keys that sort rows into groups.

    A key is twice the axis, plus 1 where the condition is a point.
    """
    for row in range(len(plan)):
        inlines[row, 0] = NO_AXIS
        inlines[row, 1] = 1
        inlines[row, 2] = 1
        if plan[row, PLAN_SECOND] >= 0:
            first = plan[row, PLAN_SECOND]
            own = axis[first]
            # Of a union of several intervals the hull; its record has them all.
            inlines[row, 0] = own + 1
            inlines[row, 1] = (low[first] >> shifts[own]) + 1
            inlines[row, 2] = (high[plan[row, PLAN_SECOND_LAST] - 1] >> shifts[own]) + 1
        keys[row] = np.int32(inlines[row, 0]) * 2 + (inlines[row, 1] == inlines[row, 2])


@compiled
def sort_by(keys: Numbers, order: Numbers, result: Numbers, starts: Numbers) -> None:
    """Put numbers in the order of their keys, equal ones as they come; `starts` (zeros) gets where each key begins."""
    for index in range(len(order)):
        starts[keys[order[index]] + 1] += 1
    for key in range(len(starts) - 1):
        starts[key + 1] += starts[key]
    for index in range(len(order)):
        key = keys[order[index]]
        result[starts[key]] = order[index]
        starts[key] += 1
    for key in range(len(starts) - 1, 0, -1):
        starts[key] = starts[key - 1]
    starts[0] = 0


@inlined
def copy_union(
    low: Numbers,
    high: Numbers,
    first: int,
    last: int,
    size: int,
    shift: int,
    base: int,
    row: int,
    postings: Numbers,
    refs: Numbers,
    count: int,
) -> tuple[int, bool]:
    """File a row under every bucket a union touches, once; say whether one of them is not all inside."""
    edges = False
    previous = -1
    for index in range(first, last):
        begin = low[index] >> shift
        end = high[index] >> shift
        if begin == previous:
            begin += 1
        for bucket in range(begin, end + 1):
            inside = low[index] <= bucket << shift and high[index] >= min(size, (bucket + 1) << shift) - 1
            postings[count] = base + bucket
            refs[count] = row << 1 | (0 if inside else 1)
            edges = edges or not inside
            count += 1
        previous = end
    return count, edges


@compiled
def copy_rows(
    order: Numbers,
    axis: Numbers,
    low: Numbers,
    high: Numbers,
    access_axis: Numbers,
    access_low: Numbers,
    access_high: Numbers,
    sizes: Numbers,
    level_shifts: Levels,
    level_counts: Levels,
    takers: Levels,
    bases: Ints,
    plan: Plan,
    postings: Numbers,
    refs: Numbers,
    edged: Flags,
) -> int:
    """Write the posting of every copy of every row, and the row (times 2, plus 1 where the pivot must be checked)."""
    count = 0
    for place in range(len(order)):
        row = order[place]
        first = plan[row, PLAN_PIVOT]
        last = plan[row, PLAN_PIVOT_LAST]
        if plan[row, PLAN_FILED] == BY_CONDITION:
            own = axis[first]
            level = takers[own, plan[row, PLAN_LEVEL]]
            shift = level_shifts[own, level]
            count, edged[row] = copy_union(
                low, high, first, last, sizes[own], shift, bases[own, level], row, postings, refs, count
            )
        elif plan[row, PLAN_FILED] == BY_ACCESS:
            while first < last:
                own = access_axis[first]
                end = first
                while end < last and access_axis[end] == own:
                    end += 1
                level = fitting_level(access_low, access_high, first, end, own, level_shifts, level_counts)
                level = takers[own, level]
                shift = level_shifts[own, level]
                count, _ = copy_union(
                    access_low,
                    access_high,
                    first,
                    end,
                    sizes[own],
                    shift,
                    bases[own, level],
                    row,
                    postings,
                    refs,
                    count,
                )
                first = end
    return count


@inlined
def put_long(words: Words, place: int, value: int) -> None:
    words[place] = value & 0xFFFF
    words[place + 1] = (value >> 16) & 0xFFFF


@inlined
def put_union(
    axis: int,
    low: Numbers,
    high: Numbers,
    first: int,
    last: int,
    records: Words,
    place: int,
    runs: Numbers,
    run: int,
) -> tuple[int, int]:
    """Write a condition into a record; return where the next one goes, and the next free run."""
    if last - first == 1 and axis < ESCAPES and high[first] <= 0xFFFF:
        records[place] = axis
        records[place + 1] = low[first]
        records[place + 2] = high[first]
        return place + 3, run
    put_long(records, place + 1, axis)
    if last - first == 1:
        records[place] = ESCAPE_WIDE
        put_long(records, place + 3, low[first])
        put_long(records, place + 5, high[first])
        return place + 7, run
    records[place] = ESCAPE_RUN
    put_long(records, place + 3, run)
    put_long(records, place + 5, last - first)
    for index in range(first, last):
        runs[2 * run] = low[index]
        runs[2 * run + 1] = high[index]
        run += 1
    return place + 7, run


@inlined
def put_escape(records: Words, place: int, escape: int, operand: int) -> int:
    records[place] = escape
    put_long(records, place + 1, operand)
    return place + 3


@inlined
def is_inline(axis: Numbers, first: int, shifts: Levels, plan: Plan, row: int) -> bool:
    """Whether what stands beside the payload is the condition that begins at an interval, exactly."""
    second = plan[row, PLAN_SECOND]
    return bool(first == second and first + 1 == plan[row, PLAN_SECOND_LAST] and shifts[axis[first]] == 0)


@compiled
def write_records(
    order: Numbers,
    numbers: Numbers,
    start: Ints,
    axis: Numbers,
    low: Numbers,
    high: Numbers,
    program_start: Ints,
    shifts: Levels,
    edged: Flags,
    visits: Numbers,
    repeats: Numbers,
    plan: Plan,
    records: Words,
    runs: Numbers,
) -> tuple[int, int]:
    """Write the record of every row that needs one, in the order in which matching meets the rows.

    `visits` and `repeats` number the stamps of rows that several copies may find, and of numbers that several rows
    may report; -1 is none.
    """
    place = 0
    run = 0
    for position in range(len(order)):
        row = order[position]
        filed = plan[row, PLAN_FILED]
        if filed == NEVER:
            continue
        begin = place
        last_condition = -1
        first = plan[row, PLAN_PIVOT]
        if filed == BY_CONDITION and edged[row] and not is_inline(axis, first, shifts, plan, row):
            last_condition = place
            place, run = put_union(axis[first], low, high, first, plan[row, PLAN_PIVOT_LAST], records, place, runs, run)
        inner = place
        if filed == BY_ACCESS:
            last_condition = place
            place = put_escape(records, place, ESCAPE_STAMP, visits[row])
        last = start[row]
        while last < start[row + 1]:
            first = last
            own = axis[first]
            while last < start[row + 1] and axis[last] == own:
                last += 1
            pivotal = filed == BY_CONDITION and first == plan[row, PLAN_PIVOT]
            # Nothing stands beside a row that is checked always.
            if filed == ALWAYS or not (pivotal or is_inline(axis, first, shifts, plan, row)):
                last_condition = place
                place, run = put_union(own, low, high, first, last, records, place, runs, run)
        if program_start[row] < program_start[row + 1]:
            last_condition = place
            place = put_escape(records, place, ESCAPE_PROGRAM, program_start[row])
        if repeats[row] >= 0:
            last_condition = place
            place = put_escape(records, place, ESCAPE_STAMP, repeats[row])
        plan[row, PLAN_RECORD] = begin if last_condition >= 0 else -1
        plan[row, PLAN_INNER] = inner if last_condition >= inner else -1
        if last_condition >= 0:
            records[last_condition] |= LAST
            put_long(records, place, numbers[row])
            place += 2
    return place, run


@compiled
def measure(entries: Numbers, refs: Numbers, keys: Numbers, first: Numbers, starts: Numbers, groups: Numbers) -> int:
    """How large each posting's block is, and in how many groups (0: flat); return the largest posting's length."""
    place = 0
    largest = 0
    for posting in range(len(first) - 1):
        starts[posting] = place
        count = first[posting + 1] - first[posting]
        if count == 0:
            continue
        largest = max(largest, count)
        many = 0
        size = 0  # in words
        key = -1
        for index in range(first[posting], first[posting + 1]):
            now = keys[refs[entries[index]] >> 1]
            if now != key:
                key = now
                many += 1
                size += size & 1
            size += 3 if key & 1 else 4
        if count > MOST_FLAT or (count >= _FEWEST_GROUPED and count >= _ENTRIES_PER_GROUP * many):
            groups[posting] = many
            place += (4 + many + (many & 1) + 2 * (many + 1) + size + 1) >> 1
        else:
            place += (2 + 5 * count + 1) >> 1
    starts[len(first) - 1] = place
    return largest


@inlined
def put_entries(
    blocks: Words,
    place: int,
    first_run: int,
    last_run: int,
    begin: int,
    count: int,
    entries: Numbers,
    refs: Numbers,
    inlines: Words,
    plan: Plan,
    numbers: Numbers,
) -> int:
    """Write entries: runs of their second conditions (0: axis, 1: low, 2: high), then their payloads."""
    for index in range(count):
        ref = refs[entries[begin + index]]
        row = ref >> 1
        at = place + index
        for run in range(first_run, last_run):
            blocks[at] = inlines[row, run]
            at += count
        record = plan[row, PLAN_RECORD if ref & 1 and plan[row, PLAN_FILED] == BY_CONDITION else PLAN_INNER]
        put_long(blocks, at + index, numbers[row] if record < 0 else ~record)
    return place + (last_run - first_run + 2) * count


@compiled
def write_blocks(
    entries: Numbers,
    refs: Numbers,
    keys: Numbers,
    numbers: Numbers,
    first: Numbers,
    starts: Numbers,
    groups: Numbers,
    inlines: Words,
    plan: Plan,
    blocks: Words,
) -> None:
    """Write every posting's block."""
    for posting in range(len(first) - 1):
        begin = first[posting]
        end = first[posting + 1]
        if begin == end:
            continue
        block = 2 * starts[posting]
        many = groups[posting]
        if many == 0:
            blocks[block] = end - begin
            blocks[block + 1] = 0
            put_entries(blocks, block + 2, 0, 3, begin, end - begin, entries, refs, inlines, plan, numbers)
            continue
        blocks[block] = GROUPED
        blocks[block + 1] = many
        put_long(blocks, block + 2, end - begin)
        axes = block + 4
        places = axes + many + (many & 1)
        place = places + 2 * (many + 1)
        for group in range(many):
            key = keys[refs[entries[begin]] >> 1]
            last = begin
            while last < end and keys[refs[entries[last]] >> 1] == key:
                last += 1
            blocks[axes + group] = key >> 1
            place += place & 1
            put_long(blocks, places + 2 * group, (place - block) | (key & 1))
            runs = 2 if key & 1 else 3
            place = put_entries(blocks, place, 1, runs, begin, last - begin, entries, refs, inlines, plan, numbers)
            begin = last
        put_long(blocks, places + 2 * many, place + (place & 1) - block)
