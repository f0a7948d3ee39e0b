"""The immutable index of one segment: which subscriptions to look at for a value, and what else they ask.

Every conjunction is filed once, under the condition expected to be rarest, and its next rarest condition is written
beside it, so that most candidates are ruled out by reading memory in order (`layout` says how it lies). A range is
filed under every bucket of slots it touches, at a coarseness that keeps the buckets few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar import posting_kernels as kernels
from palio.matching.columnar.layout import (
    INDEX_ALWAYS,
    INDEX_ALWAYS_COUNT,
    INDEX_AXES,
    INDEX_BLOCKS,
    INDEX_FIELDS,
    INDEX_LARGEST,
    INDEX_LEVEL_STARTS,
    INDEX_LEVELS,
    INDEX_PROGRAMS,
    INDEX_RECORDS,
    INDEX_RUNS,
    INDEX_SHIFTS,
    INDEX_STARTS,
    MOST_NARROW,
    PADDING,
)
from palio.matching.columnar.levels import MOST_LEVELS, Buckets, possible_levels, takers_of

Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

_PADDING_WORDS: Final = PADDING // 2
_LONGEST_CONDITION: Final = 7  # words
_NUMBER_WORDS: Final = 2
_HIT_SHARE: Final = 1 / 64  # of events that hit a pattern, where nothing is known of it


@dataclass(frozen=True)
class Conjunctions:
    """Subscriptions as flat arrays; `ids` are the numbers to report.

    Row r asks for the intervals start[r] to start[r + 1]: those on one axis are alternatives and lie side by side,
    different axes must all hold, and so must its program. Every event that matches meets one of its access
    intervals, if it has any; they are a hint where to file it.
    """

    ids: Numbers
    start: Ints
    axis: Numbers
    lo: Numbers
    hi: Numbers
    access_start: Ints | None = None
    access_axis: Numbers | None = None
    access_lo: Numbers | None = None
    access_hi: Numbers | None = None
    program_start: Ints | None = None
    program: npt.NDArray[np.int32] | None = None
    shares: npt.NDArray[np.float64] | None = None  # per axis of two slots: what share of events hits it at least

    def __len__(self) -> int:
        return len(self.ids)


_ADDRESSES: Final = {
    INDEX_LEVEL_STARTS: "level_starts",
    INDEX_LEVELS: "levels",
    INDEX_STARTS: "starts",
    INDEX_BLOCKS: "blocks",
    INDEX_RECORDS: "records",
    INDEX_RUNS: "runs",
    INDEX_PROGRAMS: "programs",
    INDEX_ALWAYS: "always",
    INDEX_SHIFTS: "shifts",
}


class Postings:
    """Reads as a table of addresses for the kernels. Never changed once made; its arrays may be memory-mapped."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.arrays = dict(arrays)
        self._table = np.zeros(INDEX_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = self.arrays[name].__array_interface__["data"][0]
        facts = self.arrays["facts"].tolist()
        self.axes, self.largest, self.most_groups, self.stamps, self.most_levels = facts
        self._table[INDEX_AXES] = self.axes
        self._table[INDEX_LARGEST] = self.largest
        self.always = len(self.arrays["always"])
        self._table[INDEX_ALWAYS_COUNT] = self.always
        self.address = int(self._table.__array_interface__["data"][0])
        self.is_always: Flags | None = None  # per row, where it was built rather than opened

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Postings:
        return cls(arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    @classmethod
    def build(cls, rows: Conjunctions, sizes: Numbers) -> Postings:
        """File every row. `sizes` is how many slots each axis has."""
        build = _Build(rows, np.ascontiguousarray(sizes, np.int32))
        postings = cls(build.arrays())
        postings.is_always = build.is_always
        return postings


class _Build:
    """The steps from rows to arrays."""

    def __init__(self, rows: Conjunctions, sizes: Numbers) -> None:
        self.count = len(rows)
        self.sizes = sizes
        self.numbers = _own(rows.ids, np.int32)
        self.start, self.axis, self.low, self.high, self.never = united(rows.start, rows.axis, rows.lo, rows.hi)
        self._take_access(rows)
        self.shares = np.full(len(sizes), _HIT_SHARE) if rows.shares is None else _own(rows.shares, np.float64)
        self.program_start = _starts(rows.program_start, self.count)
        self.program = np.zeros((0, 5), np.int32) if rows.program is None else _own(rows.program, np.int32)
        # A second condition has 16 bits, of which 0 means that the event lacks the axis.
        self.shifts = np.array([max(0, int(size).bit_length() - 16) for size in sizes.tolist()], np.int8)
        self.shifts[(sizes.astype(np.int64) >> self.shifts) + 1 > MOST_NARROW] += 1

    def _take_access(self, rows: Conjunctions) -> None:
        start = _starts(rows.access_start, self.count)
        if rows.access_axis is None or rows.access_lo is None or rows.access_hi is None or start[-1] == 0:
            none = np.zeros(0, np.int32)
            self.access_start, self.access_axis = np.zeros(self.count + 1, np.int64), none
            self.access_low, self.access_high = none, none
            return
        row = np.repeat(np.arange(self.count), np.diff(start))
        order = np.lexsort((rows.access_lo, rows.access_axis, row))
        found = united(start, rows.access_axis[order], rows.access_lo[order], rows.access_hi[order])
        self.access_start, self.access_axis, self.access_low, self.access_high, _ = found

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        copies = self._plan()
        order = self._order()
        postings, refs = np.empty(copies, np.int32), np.empty(copies, np.int32)
        edged = np.zeros(self.count, np.bool_)
        copies = kernels.copy_rows(
            order, self.axis, self.low, self.high, self.access_axis, self.access_low, self.access_high, self.sizes,
            self.level_shifts, self.level_counts, self.takers, self.buckets.bases, self.plan, postings, refs, edged,
        )  # fmt: skip
        entries = np.empty(copies, np.int32)
        first = np.zeros(self.buckets.count + 1, np.int32)
        kernels.sort_by(postings, np.arange(copies, dtype=np.int32), entries, first)
        records, runs, stamps = self._records(entries, refs, edged)
        starts, groups = np.zeros(self.buckets.count + 1, np.int32), np.zeros(self.buckets.count, np.int32)
        largest = kernels.measure(entries, refs, self.keys, first, starts, groups)
        blocks = np.zeros(2 * int(starts[-1]) + _PADDING_WORDS, np.uint16)
        kernels.write_blocks(
            entries, refs, self.keys, self.numbers, first, starts, groups, self.inlines, self.plan, blocks
        )
        always = np.flatnonzero(self.is_always)
        records_of = self.plan[always, kernels.PLAN_RECORD]
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
        kernels.count_uses(self.axis, self.low, self.high, offsets, points, uses)
        kernels.count_uses(self.access_axis, self.access_low, self.access_high, offsets, points, uses)
        self.level_shifts, self.level_counts = possible_levels(self.sizes)
        possible = Buckets(self.sizes, self.level_shifts, np.arange(MOST_LEVELS) < self.level_counts[:, None])
        filed = np.zeros(possible.count, np.int32)
        self.plan = np.zeros((self.count, kernels.PLAN_FIELDS), np.int32)
        copies = kernels.plan_rows(
            self.start, self.axis, self.low, self.high, self.never, self.access_start, self.access_axis,
            self.access_low, self.access_high, self.sizes, self.shares, self.level_shifts, self.level_counts, offsets,
            points, uses, self.plan, possible.bases, filed,
        )  # fmt: skip
        self.takers, self.used = takers_of(filed, possible, self.level_shifts, self.level_counts)
        self.buckets = Buckets(self.sizes, self.level_shifts, self.used)
        self.is_always = self.plan[:, kernels.PLAN_FILED] == kernels.ALWAYS
        return int(copies)

    def _order(self) -> Numbers:
        """Rows by the axis of their second condition, points apart, then by its low slot."""
        self.inlines, self.keys = np.empty((self.count, 3), np.uint16), np.empty(self.count, np.int32)
        kernels.inline_seconds(self.axis, self.low, self.high, self.shifts, self.plan, self.inlines, self.keys)
        low = self.inlines[:, 1].astype(np.int32)
        order, by_low = np.arange(self.count, dtype=np.int32), np.empty(self.count, np.int32)
        kernels.sort_by(low, order, by_low, np.zeros(int(low.max(initial=0)) + 2, np.int32))
        kernels.sort_by(self.keys, by_low, order, np.zeros(int(self.keys.max(initial=0)) + 2, np.int32))
        return order

    def _records(self, entries: Numbers, refs: Numbers, edged: Flags) -> tuple[npt.NDArray[np.uint16], Numbers, int]:
        """Records in the order in which matching meets them, so that those of one posting lie together."""
        visits, repeats, stamps = self._stamps()
        order = _first_met(refs[entries] >> 1, self.count)
        conditions = len(self.axis) + 3 * self.count
        records = np.empty(conditions * _LONGEST_CONDITION + _NUMBER_WORDS * self.count, np.uint16)
        runs = np.empty(2 * len(self.axis) + 2, np.int32)
        words, used = kernels.write_records(
            order, self.numbers, self.start, self.axis, self.low, self.high, self.program_start, self.shifts, edged,
            visits, repeats, self.plan, records, runs,
        )  # fmt: skip
        return records[:words].copy(), runs[: 2 * used].copy(), stamps

    def _stamps(self) -> tuple[Numbers, Numbers, int]:
        """Stamps for rows that several copies may find for one event, and for numbers that several rows report."""
        visits, repeats = np.full(self.count, -1, np.int32), np.full(self.count, -1, np.int32)
        by_access = np.flatnonzero(self.plan[:, kernels.PLAN_FILED] == kernels.BY_ACCESS)
        visits[by_access] = np.arange(len(by_access))
        if bool(np.all(self.numbers[1:] > self.numbers[:-1])):
            return visits, repeats, len(by_access)
        numbers, inverse, uses = np.unique(self.numbers, return_inverse=True, return_counts=True)
        several = np.flatnonzero(uses > 1)
        stamp = np.full(len(numbers), -1, np.int32)
        stamp[several] = len(by_access) + np.arange(len(several))
        return visits, stamp[inverse].astype(np.int32), len(by_access) + len(several)


def _own(values: npt.NDArray[Any], kind: type) -> npt.NDArray[Any]:
    """An array of one layout, whatever was given: another one would be compiled for again."""
    return np.require(values, kind, ["C", "W"])


def _starts(values: Ints | None, count: int) -> Ints:
    return np.zeros(count + 1, np.int64) if values is None else _own(values, np.int64)


def united(start: Ints, axis: Numbers, low: Numbers, high: Numbers) -> tuple[Ints, Numbers, Numbers, Numbers, Flags]:
    """Rows of intervals, those of each on one axis in order and apart; and which rows ask for what is never there."""
    start = _own(start, np.int64)
    axis, low, high = (_own(each, np.int32) for each in (axis, low, high))
    new_start = np.empty_like(start)
    new_axis, new_low, new_high = (np.empty_like(each) for each in (axis, low, high))
    never = np.zeros(len(start) - 1, np.bool_)
    total = kernels.unite(start, axis, low, high, new_start, new_axis, new_low, new_high, never)
    return new_start, new_axis[:total], new_low[:total], new_high[:total], never


def _first_met(rows: Numbers, count: int) -> Numbers:
    """Every row once, in the order in which it first occurs; then those that do not occur."""
    position = np.full(count, len(rows), np.int64)
    position[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    return np.argsort(position, kind="stable").astype(np.int32)
