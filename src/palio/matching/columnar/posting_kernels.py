"""Kernels that write postings: the copies, blocks and records of rows whose pivots are chosen.

A row is filed once in every bucket of slots that its pivot touches (`pivot_kernels` chooses it). Its second condition
is written beside each copy, its other conditions into a record (`layout` has the format).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from palio.matching.columnar.array_types import Flags, Int8s, Int32s, Int64s, Uint16s
from palio.matching.columnar.layout import (
    ESCAPE_PROGRAM,
    ESCAPE_RUN,
    ESCAPE_STAMP,
    ESCAPE_WIDE,
    ESCAPES,
    GROUPED,
    LAST,
    MAX_FLAT_ENTRIES,
    NO_AXIS,
)
from palio.matching.columnar.native import compiled_for_building, inlined
from palio.matching.columnar.pivot_kernels import (
    ALWAYS,
    BY_ACCESS,
    BY_CONDITION,
    NEVER,
    PLAN_FILED,
    PLAN_INNER,
    PLAN_LEVEL,
    PLAN_PIVOT,
    PLAN_PIVOT_LAST,
    PLAN_RECORD,
    PLAN_SECOND,
    PLAN_SECOND_LAST,
    AxisLevels,
    IntervalRows,
    finest_level,
)

_MIN_GROUPED_ENTRIES: Final = 64
_ENTRIES_PER_GROUP: Final = 4


class Copies(NamedTuple):
    """The copies of rows in postings, one for every bucket that a pivot touches."""

    postings: Int32s
    refs: Int32s  # the row, times 2, plus 1 where the pivot must be checked
    edged: Flags  # by row: whether a copy must check the pivot


class Entries(NamedTuple):
    """The copies in the order of their postings."""

    copies: Int32s  # indices into `refs`
    refs: Int32s  # as those of `Copies`
    keys: Int32s  # by row: the key that sorts it into a group
    first: Int32s  # by posting: its first entry


class BlockRows(NamedTuple):
    """What blocks are written from, by row: its second condition, its plan, and the number to report."""

    inlines: Uint16s  # axis, low, high
    plan: Int32s
    numbers: Int32s


class RecordRows(NamedTuple):
    """What records are written from, by row."""

    numbers: Int32s
    program_start: Int64s
    edged: Flags
    visits: Int32s  # the stamp of a row that several copies may find, or -1
    repeats: Int32s  # the stamp of a number that several rows may report, or -1


@compiled_for_building
def inline_second_conditions(rows: IntervalRows, shifts: Int8s, plan: Int32s, inlines: Uint16s, keys: Int32s) -> None:
    """Second conditions as they are written in blocks, and the keys that sort rows into groups.

    A key is twice the axis, plus 1 where the condition is a point.
    """
    _, axis, low, high = rows
    for row in range(len(plan)):
        inlines[row, 0] = NO_AXIS
        inlines[row, 1] = 1
        inlines[row, 2] = 1
        if plan[row, PLAN_SECOND] >= 0:
            first = plan[row, PLAN_SECOND]
            this_axis = axis[first]
            # Of a union of several intervals the hull; its record has them all.
            inlines[row, 0] = this_axis + 1
            inlines[row, 1] = (low[first] >> shifts[this_axis]) + 1
            inlines[row, 2] = (high[plan[row, PLAN_SECOND_LAST] - 1] >> shifts[this_axis]) + 1
        keys[row] = np.int32(inlines[row, 0]) * 2 + (inlines[row, 1] == inlines[row, 2])


@compiled_for_building
def counting_sort(keys: Int32s, order: Int32s, result: Int32s, starts: Int32s) -> None:
    """Put numbers in the order of their keys, equal ones as they come; `starts` (zeros) gets where each key begins."""
    for index in range(len(order)):
        starts[keys[order[index]] + 1] += 1
    for key in range(len(starts) - 1):
        starts[key + 1] += starts[key]
    for index in range(len(order)):
        key = keys[order[index]]
        result[starts[key]] = order[index]
        starts[key] += 1
    # Placing moved each start to the next key's; move them back by one.
    for key in range(len(starts) - 1, 0, -1):
        starts[key] = starts[key - 1]
    starts[0] = 0


@inlined
def copy_union(
    low: Int32s,
    high: Int32s,
    first: int,
    last: int,
    size: int,
    shift: int,
    base: int,
    row: int,
    copies: Copies,
    count: int,
) -> tuple[int, bool]:
    """File a row once under every bucket that a union touches; returns the new count, and whether a bucket is not all
    inside the union."""
    edges = False
    previous = -1
    for index in range(first, last):
        begin = low[index] >> shift
        end = high[index] >> shift
        # Two intervals of the union touch this bucket; one copy finds the row, and checks the pivot.
        if begin == previous:
            begin += 1
        for bucket in range(begin, end + 1):
            inside = low[index] <= bucket << shift and high[index] >= min(size, (bucket + 1) << shift) - 1
            copies.postings[count] = base + bucket
            copies.refs[count] = row << 1 | (0 if inside else 1)
            edges = edges or not inside
            count += 1
        previous = end
    return count, edges


@compiled_for_building
def copy_rows(
    order: Int32s,
    conditions: IntervalRows,
    access: IntervalRows,
    sizes: Int32s,
    levels: AxisLevels,
    takers: Int8s,
    plan: Int32s,
    copies: Copies,
) -> int:
    """Write the copies of every row, in a given order of rows; returns how many there are."""
    _, axis, low, high = conditions
    _, access_axis, access_low, access_high = access
    count = 0
    for place in range(len(order)):
        row = order[place]
        first = plan[row, PLAN_PIVOT]
        last = plan[row, PLAN_PIVOT_LAST]
        if plan[row, PLAN_FILED] == BY_CONDITION:
            this_axis = axis[first]
            level = takers[this_axis, plan[row, PLAN_LEVEL]]
            shift = levels.shifts[this_axis, level]
            count, copies.edged[row] = copy_union(
                low, high, first, last, sizes[this_axis], shift, levels.bases[this_axis, level], row, copies, count
            )
        elif plan[row, PLAN_FILED] == BY_ACCESS:
            while first < last:
                this_axis = access_axis[first]
                end = first
                while end < last and access_axis[end] == this_axis:
                    end += 1
                level = finest_level(access_low, access_high, first, end, this_axis, levels)
                level = takers[this_axis, level]
                shift = levels.shifts[this_axis, level]
                count, _has_edges = copy_union(
                    access_low,
                    access_high,
                    first,
                    end,
                    sizes[this_axis],
                    shift,
                    levels.bases[this_axis, level],
                    row,
                    copies,
                    count,
                )
                first = end
    return count


@inlined
def put_long(words: Uint16s, place: int, value: int) -> None:
    words[place] = value & 0xFFFF
    words[place + 1] = (value >> 16) & 0xFFFF


@inlined
def put_union(
    axis: int,
    low: Int32s,
    high: Int32s,
    first: int,
    last: int,
    records: Uint16s,
    place: int,
    runs: Int32s,
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
def put_escape(records: Uint16s, place: int, escape: int, operand: int) -> int:
    records[place] = escape
    put_long(records, place + 1, operand)
    return place + 3


@inlined
def is_inline(axis: Int32s, first: int, shifts: Int8s, plan: Int32s, row: int) -> bool:
    """Whether what stands beside the payload is the condition that begins at an interval, exactly."""
    second = plan[row, PLAN_SECOND]
    return bool(first == second and first + 1 == plan[row, PLAN_SECOND_LAST] and shifts[axis[first]] == 0)


@compiled_for_building
def write_records(
    order: Int32s,
    source: RecordRows,
    conditions: IntervalRows,
    shifts: Int8s,
    plan: Int32s,
    records: Uint16s,
    runs: Int32s,
) -> tuple[int, int]:
    """Write the record of every row that needs one, in the order in which matching meets the rows.

    Returns how many words of `records` and how many of `runs` are used.
    """
    start, axis, low, high = conditions
    program_start = source.program_start
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
        if filed == BY_CONDITION and source.edged[row] and not is_inline(axis, first, shifts, plan, row):
            last_condition = place
            place, run = put_union(axis[first], low, high, first, plan[row, PLAN_PIVOT_LAST], records, place, runs, run)
        # Copies in buckets that lie within the pivot begin here: they need not check it.
        inner = place
        if filed == BY_ACCESS:
            last_condition = place
            place = put_escape(records, place, ESCAPE_STAMP, source.visits[row])
        last = start[row]
        while last < start[row + 1]:
            first = last
            this_axis = axis[first]
            while last < start[row + 1] and axis[last] == this_axis:
                last += 1
            pivotal = filed == BY_CONDITION and first == plan[row, PLAN_PIVOT]
            # Nothing stands beside a row that is checked always.
            if filed == ALWAYS or not (pivotal or is_inline(axis, first, shifts, plan, row)):
                last_condition = place
                place, run = put_union(this_axis, low, high, first, last, records, place, runs, run)
        if program_start[row] < program_start[row + 1]:
            last_condition = place
            place = put_escape(records, place, ESCAPE_PROGRAM, program_start[row])
        # Last, because a stamp is set by checking it: only a row that matches may set this one.
        if source.repeats[row] >= 0:
            last_condition = place
            place = put_escape(records, place, ESCAPE_STAMP, source.repeats[row])
        plan[row, PLAN_RECORD] = begin if last_condition >= 0 else -1
        plan[row, PLAN_INNER] = inner if last_condition >= inner else -1
        if last_condition >= 0:
            records[last_condition] |= LAST
            put_long(records, place, source.numbers[row])
            place += 2
    return place, run


@compiled_for_building
def measure_blocks(entries: Entries, starts: Int32s, groups: Int32s) -> int:
    """Measure each posting's block and count its groups (0: flat); returns the entries of the largest posting."""
    copies, refs, keys, first = entries
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
            now = keys[refs[copies[index]] >> 1]
            if now != key:
                key = now
                many += 1
                size += size & 1
            size += 3 if key & 1 else 4
        if count > MAX_FLAT_ENTRIES or (count >= _MIN_GROUPED_ENTRIES and count >= _ENTRIES_PER_GROUP * many):
            groups[posting] = many
            # Head, axes of the groups (padded), places of the groups and of the end, entries; in units of two words.
            place += (4 + many + (many & 1) + 2 * (many + 1) + size + 1) >> 1
        else:
            place += (2 + 5 * count + 1) >> 1
    starts[len(first) - 1] = place
    return largest


@inlined
def put_entries(
    blocks: Uint16s,
    place: int,
    first_run: int,
    last_run: int,
    begin: int,
    count: int,
    entries: Entries,
    source: BlockRows,
) -> int:
    """Write entries: runs of their second conditions (0: axis, 1: low, 2: high), then their payloads."""
    plan = source.plan
    for index in range(count):
        ref = entries.refs[entries.copies[begin + index]]
        row = ref >> 1
        at = place + index
        for run in range(first_run, last_run):
            blocks[at] = source.inlines[row, run]
            at += count
        record = plan[row, PLAN_RECORD if ref & 1 and plan[row, PLAN_FILED] == BY_CONDITION else PLAN_INNER]
        put_long(blocks, at + index, source.numbers[row] if record < 0 else ~record)
    return place + (last_run - first_run + 2) * count


@compiled_for_building
def write_blocks(entries: Entries, starts: Int32s, groups: Int32s, source: BlockRows, blocks: Uint16s) -> None:
    """Write every posting's block."""
    copies, refs, keys, first = entries
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
            put_entries(blocks, block + 2, 0, 3, begin, end - begin, entries, source)
            continue
        blocks[block] = GROUPED
        blocks[block + 1] = many
        put_long(blocks, block + 2, end - begin)
        axes = block + 4
        places = axes + many + (many & 1)
        place = places + 2 * (many + 1)
        for group in range(many):
            key = keys[refs[copies[begin]] >> 1]
            last = begin
            while last < end and keys[refs[copies[last]] >> 1] == key:
                last += 1
            blocks[axes + group] = key >> 1
            # Groups begin at even places, which leaves the lowest bit for points or ranges.
            place += place & 1
            put_long(blocks, places + 2 * group, (place - block) | (key & 1))
            runs = 2 if key & 1 else 3
            place = put_entries(blocks, place, 1, runs, begin, last - begin, entries, source)
            begin = last
        put_long(blocks, places + 2 * many, place + (place & 1) - block)
