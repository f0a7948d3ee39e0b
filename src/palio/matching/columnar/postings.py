"""Postings of one segment: which subscriptions to look at for a value, and what else they require.

Every conjunction is filed once, under its *pivot*, the condition expected to be rarest. Its next rarest condition is
written beside it, so that most candidates are ruled out by reading memory in order (`layout` has the format).

A range is filed under every bucket of slots it touches. An axis has *levels* of buckets: single slots, then ever wider
buckets. A range goes to the finest level at which it touches few. Every level in use costs each event one more posting
to visit, so a level with little in it is given up: its ranges go to the next coarser one, where some events meet them
in vain.

What is written beside a copy is one interval. A comparison with a timestamp is one with dates, too: two ranges on one
axis, and the hull of both says nothing. Where such a union is all that a conjunction asks for, it is filed as a row for
each of its intervals: a value is in one of them at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from palio.matching.columnar import pivot_kernels, posting_kernels
from palio.matching.columnar.array_types import AnyArray, Flags, Floats, Int8s, Int32s, Int64s, Uint16s
from palio.matching.columnar.layout import (
    HAS_LEVEL,
    INDEX_ALWAYS,
    INDEX_ALWAYS_COUNT,
    INDEX_AXES,
    INDEX_BLOCK_BYTES,
    INDEX_BLOCKS,
    INDEX_FIELDS,
    INDEX_LARGEST,
    INDEX_LEVELS,
    INDEX_PATHS,
    INDEX_PROGRAMS,
    INDEX_RECORDS,
    INDEX_RUNS,
    INDEX_STARTS,
    MAX_NARROW_SLOT,
    PADDING,
    PLACE_SHIFT,
)
from palio.matching.columnar.native import address_of

_PADDING_WORDS: Final = PADDING // 2
_MAX_CONDITION_WORDS: Final = 7
_NUMBER_WORDS: Final = 2
_HIT_SHARE: Final = 1 / 64  # of events that hit a pattern, where nothing is known of it
_MAX_SPLIT_INTERVALS: Final = 8  # of a union that is filed as a row for each
_MIN_SPLIT_GAP: Final = 1 / 16  # of the hull of such a union


@dataclass(frozen=True)
class Conjunctions:
    """Subscriptions as flat arrays; `ids` are the numbers to report.

    Row r asks for the intervals start[r] to start[r + 1]: those on one axis are alternatives and lie side by side,
    different axes must all hold, and so must its program. Every event that matches meets one of its access
    intervals, if it has any; they are a hint where to file it.
    """

    ids: Int32s
    start: Int64s
    axis: Int32s
    lo: Int32s
    hi: Int32s
    access_start: Int64s | None = None
    access_axis: Int32s | None = None
    access_lo: Int32s | None = None
    access_hi: Int32s | None = None
    program_start: Int64s | None = None
    program: Int32s | None = None
    shares: Floats | None = None  # per axis of two slots: what share of events hits it at least

    def __len__(self) -> int:
        return len(self.ids)


_ADDRESSES: Final = {
    INDEX_STARTS: "starts",
    INDEX_BLOCKS: "blocks",
    INDEX_RECORDS: "records",
    INDEX_RUNS: "runs",
    INDEX_PROGRAMS: "programs",
    INDEX_ALWAYS: "always",
}


class Postings:
    """Immutable arrays, shown to the kernels as a table of addresses. They may be memory-mapped."""

    def __init__(self, arrays: Mapping[str, AnyArray]) -> None:
        self.arrays = dict(arrays)
        self._table = np.zeros(INDEX_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        self._paths, self._levels = _packed_levels(
            self.arrays["level_starts"].astype(np.int64), self.arrays["levels"], self.arrays["shifts"]
        )
        self._table[INDEX_PATHS], self._table[INDEX_LEVELS] = address_of(self._paths), address_of(self._levels)
        facts = self.arrays["facts"].tolist()
        self.axes, self.largest, self.most_groups, self.stamps, self.most_levels = facts
        self._table[INDEX_AXES] = self.axes
        self._table[INDEX_LARGEST] = self.largest
        self._table[INDEX_BLOCK_BYTES] = self.arrays["blocks"].nbytes
        self.always = len(self.arrays["always"])
        self._table[INDEX_ALWAYS_COUNT] = self.always
        self.address = address_of(self._table)
        self.is_always: Flags | None = None  # per row, where it was built rather than opened

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Postings:
        return cls(arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    @classmethod
    def build(cls, rows: Conjunctions, sizes: Int32s) -> Postings:
        """File every row. `sizes` is how many slots each axis has."""
        build = _Build(rows, np.ascontiguousarray(sizes, np.int32))
        postings = cls(build.arrays())
        postings.is_always = build.is_always[build.firsts]
        return postings


def _packed_levels(starts: Int64s, levels: Int64s, shifts: Int8s) -> tuple[Int64s, Int64s]:
    """What is read for each value of an event, in one number for its axis and one for each level of that."""
    paths = starts[:-1] << PLACE_SHIFT | np.where(np.diff(starts) > 0, HAS_LEVEL, 0) | shifts
    packed = levels[:, 1] << PLACE_SHIFT | HAS_LEVEL | levels[:, 0]
    packed[starts[1:][np.diff(starts) > 0] - 1] &= ~HAS_LEVEL
    return paths, packed


class _Build:
    """The steps from rows to arrays."""

    def __init__(self, rows: Conjunctions, sizes: Int32s) -> None:
        self.sizes = sizes
        merged, never = _merge_rows(rows.start, rows.axis, rows.lo, rows.hi)
        self.origins, start = _split_unions(rows, merged, never)  # of each row that is filed, the one it is a part of
        self.firsts = np.flatnonzero(np.diff(self.origins, prepend=-1))
        self.conditions = merged._replace(start=start)
        self.never = never[self.origins]
        self.count = len(self.origins)
        self.numbers = _own(rows.ids, np.int32)[self.origins]
        self.access = self._access_of(rows)
        self.shares = np.full(len(sizes), _HIT_SHARE) if rows.shares is None else _own(rows.shares, np.float64)
        self.program_start = _starts(rows.program_start, self.origins)
        self.program = np.zeros((0, 5), np.int32) if rows.program is None else _own(rows.program, np.int32)
        # A second condition has 16 bits, of which 0 means that the event lacks the axis.
        self.shifts = np.array([max(0, int(size).bit_length() - 16) for size in sizes.tolist()], np.int8)
        self.shifts[(sizes.astype(np.int64) >> self.shifts) + 1 > MAX_NARROW_SLOT] += 1

    def _access_of(self, rows: Conjunctions) -> pivot_kernels.IntervalRows:
        start = _starts(rows.access_start, self.origins)
        if rows.access_axis is None or rows.access_lo is None or rows.access_hi is None or start[-1] == 0:
            none = np.zeros(0, np.int32)
            return pivot_kernels.IntervalRows(np.zeros(self.count + 1, np.int64), none, none, none)
        row = np.repeat(np.arange(self.count), np.diff(start))
        order = np.lexsort((rows.access_lo, rows.access_axis, row))
        return _merge_rows(start, rows.access_axis[order], rows.access_lo[order], rows.access_hi[order])[0]

    def arrays(self) -> dict[str, AnyArray]:
        room = self._plan()
        order = self._order()
        copies = posting_kernels.Copies(
            np.empty(room, np.int32), np.empty(room, np.int32), np.zeros(self.count, np.bool_)
        )
        levels = pivot_kernels.AxisLevels(self.level_shifts, self.level_counts, self.buckets.bases)
        count = posting_kernels.copy_rows(
            order, self.conditions, self.access, self.sizes, levels, self.takers, self.plan, copies
        )
        by_posting = np.empty(count, np.int32)
        first = np.zeros(self.buckets.count + 1, np.int32)
        posting_kernels.counting_sort(copies.postings, np.arange(count, dtype=np.int32), by_posting, first)
        records, runs, stamps = self._records(copies.refs[by_posting] >> 1, copies.edged)
        entries = posting_kernels.Entries(by_posting, copies.refs, self.keys, first)
        starts, groups = np.zeros(self.buckets.count + 1, np.int32), np.zeros(self.buckets.count, np.int32)
        largest = posting_kernels.measure_blocks(entries, starts, groups)
        blocks = np.zeros(2 * int(starts[-1]) + _PADDING_WORDS, np.uint16)
        block_rows = posting_kernels.BlockRows(self.inlines, self.plan, self.numbers)
        posting_kernels.write_blocks(entries, starts, groups, block_rows, blocks)
        always = np.flatnonzero(self.is_always)
        records_of = self.plan[always, pivot_kernels.PLAN_RECORD]
        level_starts = np.zeros(len(self.sizes) + 1, np.int32)
        np.cumsum(np.count_nonzero(self.used, axis=1), out=level_starts[1:])
        most_levels = np.diff(level_starts).max(initial=0)
        return {
            "facts": np.array([len(self.sizes), largest, groups.max(initial=0), stamps, most_levels], np.int64),
            "level_starts": level_starts,
            "levels": np.stack([self.buckets.shifts, self.buckets.firsts], axis=1),
            "starts": starts,
            "blocks": blocks,
            "records": records,
            "runs": runs,
            "programs": self.program,
            "always": np.where(records_of < 0, self.numbers[always], ~records_of).astype(np.int32),
            "shifts": self.shifts,
        }

    def _plan(self) -> int:
        offsets = np.zeros(len(self.sizes) + 1, np.int64)
        np.cumsum(self.sizes, out=offsets[1:])
        points, uses = np.zeros(int(offsets[-1]), np.int32), np.zeros(len(self.sizes), np.int32)
        counted = pivot_kernels.AxisUses(self.sizes, self.shares, offsets, points, uses)
        pivot_kernels.count_uses(self.conditions, counted)
        pivot_kernels.count_uses(self.access, counted)
        self.level_shifts, self.level_counts = possible_levels(self.sizes)
        possible = Buckets(self.sizes, self.level_shifts, np.arange(MAX_LEVELS) < self.level_counts[:, None])
        filed = np.zeros(possible.count, np.int32)
        self.plan = np.zeros((self.count, pivot_kernels.PLAN_FIELDS), np.int32)
        levels = pivot_kernels.AxisLevels(self.level_shifts, self.level_counts, possible.bases)
        copies = pivot_kernels.plan_rows(self.conditions, self.never, self.access, counted, levels, self.plan, filed)
        self.takers, self.used = choose_levels(filed, possible, self.level_shifts, self.level_counts)
        self.buckets = Buckets(self.sizes, self.level_shifts, self.used)
        self.is_always = self.plan[:, pivot_kernels.PLAN_FILED] == pivot_kernels.ALWAYS
        return int(copies)

    def _order(self) -> Int32s:
        """Rows by the axis of their second condition, points apart, then by its low slot."""
        self.inlines, self.keys = np.empty((self.count, 3), np.uint16), np.empty(self.count, np.int32)
        posting_kernels.inline_second_conditions(self.conditions, self.shifts, self.plan, self.inlines, self.keys)
        low = self.inlines[:, 1].astype(np.int32)
        order, by_low = np.arange(self.count, dtype=np.int32), np.empty(self.count, np.int32)
        posting_kernels.counting_sort(low, order, by_low, np.zeros(int(low.max(initial=0)) + 2, np.int32))
        posting_kernels.counting_sort(self.keys, by_low, order, np.zeros(int(self.keys.max(initial=0)) + 2, np.int32))
        return order

    def _records(self, rows: Int32s, edged: Flags) -> tuple[Uint16s, Int32s, int]:
        """Records in the order in which matching meets their rows, so that those of one posting lie together."""
        visits, repeats, stamps = self._stamps()
        intervals = len(self.conditions.axis)
        records = np.empty((intervals + 3 * self.count) * _MAX_CONDITION_WORDS + _NUMBER_WORDS * self.count, np.uint16)
        runs = np.empty(2 * intervals + 2, np.int32)
        source = posting_kernels.RecordRows(self.numbers, self.program_start, edged, visits, repeats)
        words, used = posting_kernels.write_records(
            _first_met(rows, self.count), source, self.conditions, self.shifts, self.plan, records, runs
        )
        return records[:words].copy(), runs[: 2 * used].copy(), stamps

    def _stamps(self) -> tuple[Int32s, Int32s, int]:
        """Stamps for rows that several copies may find for one event, and for numbers that several rows report."""
        visits, repeats = np.full(self.count, -1, np.int32), np.full(self.count, -1, np.int32)
        by_access = np.flatnonzero(self.plan[:, pivot_kernels.PLAN_FILED] == pivot_kernels.BY_ACCESS)
        visits[by_access] = np.arange(len(by_access))
        own = self.numbers[self.firsts]  # the parts of a row never report its number both
        # Strictly ascending: no number is reported by two rows, and the stamps for that are spared.
        if bool(np.all(own[1:] > own[:-1])):
            return visits, repeats, len(by_access)
        numbers, inverse, uses = np.unique(own, return_inverse=True, return_counts=True)
        several = np.flatnonzero(uses > 1)
        stamp = np.full(len(numbers), -1, np.int32)
        stamp[several] = len(by_access) + np.arange(len(several))
        return visits, stamp[inverse][self.origins].astype(np.int32), len(by_access) + len(several)


def _own(values: AnyArray, kind: type) -> AnyArray:
    """An array of one layout, whatever was given: another one would be compiled for again."""
    return np.require(values, kind, ["C", "W"])


def _starts(values: Int64s | None, origins: Int64s) -> Int64s:
    """Where what belongs to each row begins, by row that is filed; nothing belongs to those that were split."""
    if values is None:
        return np.zeros(len(origins) + 1, np.int64)
    return _own(np.append(values[origins], values[-1]), np.int64)


def _split_unions(rows: Conjunctions, merged: pivot_kernels.IntervalRows, never: Flags) -> tuple[Int64s, Int64s]:
    """The row that each filed row is a part of, and where its intervals begin: unions of ranges far apart are split."""
    start, axis, low, high = merged
    counts = np.diff(start)
    is_split = (counts > 1) & (counts <= _MAX_SPLIT_INTERVALS) & ~never
    for others in (rows.program_start, rows.access_start):
        if others is not None:
            is_split &= np.diff(others) == 0
    which = np.flatnonzero(is_split)
    first, last = start[which], start[which + 1] - 1
    hull = high[last] - low[first] + 1
    covered = np.append(0, np.cumsum(high.astype(np.int64) - low + 1))
    asked = covered[last + 1] - covered[first]
    is_wide = (asked > counts[which]) & (hull - asked > _MIN_SPLIT_GAP * hull)
    # Slot 0 is a missing attribute, for which nothing is filed.
    is_split[which] = is_wide & (axis[first] == axis[last]) & (low[first] > 0)
    parts = np.where(is_split, counts, 1)
    origins = np.repeat(np.arange(len(counts)), parts)
    within = np.arange(len(origins)) - np.repeat(np.cumsum(parts) - parts, parts)
    return origins, np.append(start[origins] + within, start[-1])


def merge_intervals(
    start: Int64s, axis: Int32s, low: Int32s, high: Int32s
) -> tuple[Int64s, Int32s, Int32s, Int32s, Flags]:
    """Rows of intervals, those of each on one axis in order and disjoint; and which rows nothing can satisfy."""
    rows, never = _merge_rows(start, axis, low, high)
    return (*rows, never)


def _merge_rows(start: Int64s, axis: Int32s, low: Int32s, high: Int32s) -> tuple[pivot_kernels.IntervalRows, Flags]:
    rows = pivot_kernels.IntervalRows(_own(start, np.int64), *(_own(each, np.int32) for each in (axis, low, high)))
    merged = pivot_kernels.IntervalRows(
        np.empty_like(rows.start), np.empty_like(rows.axis), np.empty_like(rows.low), np.empty_like(rows.high)
    )
    never = np.zeros(len(start) - 1, np.bool_)
    total = pivot_kernels.merge_intervals(rows, merged, never)
    return pivot_kernels.IntervalRows(merged.start, merged.axis[:total], merged.low[:total], merged.high[:total]), never


def _first_met(rows: Int32s, count: int) -> Int32s:
    """Every row once, in the order in which it first occurs; then those that do not occur."""
    position = np.full(count, len(rows), np.int64)
    position[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return np.argsort(position, kind="stable").astype(np.int32)


MAX_LEVELS: Final = 12
_LEVEL_STEP_BITS: Final = 3  # neighbouring levels differ by a factor of 8
_FINEST_SHIFT: Final = 2  # but for the first, of single slots
_COARSEST_BITS: Final = 4  # of the buckets of the coarsest level
_MAX_IN_VAIN: Final = 256  # entries of one bucket: of ten thousand `price < 0 OR price > …`, the events just above 0
_VISIT_COST_ENTRIES: Final = 8.0  # entries that are read in the time of one more visit to a posting


def possible_levels(sizes: Int32s) -> tuple[Int8s, Int8s]:
    """How many bits of a slot each level of an axis leaves out, and how many levels it may have.

    None at level 0, then ever more, up to a few buckets for the whole axis.
    """
    coarsest = np.maximum(0, np.frexp(sizes - 1.0)[1] - _COARSEST_BITS)
    counts = np.where(coarsest < _FINEST_SHIFT, 1, 2 + (coarsest - _FINEST_SHIFT) // _LEVEL_STEP_BITS)
    level = np.arange(MAX_LEVELS)
    shifts = coarsest[:, None] - _LEVEL_STEP_BITS * (counts[:, None] - 1 - level)
    shifts[:, 0] = 0
    return np.clip(shifts, 0, 32).astype(np.int8), counts.astype(np.int8)


class Buckets:
    """The buckets of some levels of axes, numbered."""

    def __init__(self, sizes: Int32s, shifts: Int8s, levels: Flags) -> None:
        axes, those = np.nonzero(levels)
        self.shifts = shifts[axes, those].astype(np.int64)
        counts = ((sizes[axes] - 1) >> self.shifts) + 1
        self.firsts = np.cumsum(counts) - counts
        self.count = int(counts.sum())
        self.bases = np.zeros(levels.shape, np.int64)
        """The first bucket by axis and level."""
        self.bases[axes, those] = self.firsts


def choose_levels(filed: Int32s, buckets: Buckets, shifts: Int8s, counts: Int8s) -> tuple[Int8s, Flags]:
    """Which level takes what belongs to a level, itself or a coarser one; and which levels are in use then.

    `filed` is how many intervals begin in each bucket of all possible levels.
    """
    used = np.arange(MAX_LEVELS) < counts[:, None]
    takers = np.tile(np.arange(MAX_LEVELS, dtype=np.int8), (len(counts), 1))
    if not len(filed):
        return takers, used
    used[used] = np.add.reduceat(filed, buckets.firsts) > 0
    held = np.split(filed.astype(np.int64), buckets.firsts[1:])
    place_of = np.cumsum(counts, dtype=np.int64) - counts  # of an axis's first level among all
    for axis in np.flatnonzero(np.count_nonzero(used, axis=1) > 1).tolist():
        levels = np.flatnonzero(used[axis]).tolist()
        here = held[place_of[axis] + levels[0]]
        given_up: list[int] = []
        for finer, coarser in pairwise(levels):
            there = held[place_of[axis] + coarser]
            wider = _widened(here, int(shifts[axis, coarser] - shifts[axis, finer]))
            if here.max() > _MAX_IN_VAIN or _neighbours(wider) - _neighbours(here) > _VISIT_COST_ENTRIES:
                # Merged into the coarser level, intervals would share buckets with too many others, or so many of one
                # bucket be met by the events of those around it: this level stays.
                here, given_up = there, []
                continue
            here = wider + there
            given_up.append(finer)
            takers[axis, given_up] = coarser
            used[axis, finer] = False
    return takers, used


def _widened(filed: Int64s, bits: int) -> Int64s:
    """The contents of buckets that are wider by some bits."""
    wide = 1 << bits
    padded = np.zeros(-(-len(filed) // wide) * wide, np.int64)
    padded[: len(filed)] = filed
    found: Int64s = padded.reshape(-1, wide).sum(axis=1)
    return found


def _neighbours(filed: Int64s) -> float:
    """With how many others an interval shares its bucket: where many are, many events are expected, too."""
    return float(np.square(filed).sum() / filed.sum())
