"""Search of a segment's postings: one event, or a batch of them, gives the numbers of the candidates.

A `Searcher` may be used by many threads at once: what a search writes lies in scratch memory that each borrows from a
pool, and the kernels release the GIL.
"""

from __future__ import annotations

from array import array
from typing import Final, TypeAlias

import numpy as np

from palio.matching.columnar import encoding_kernels, match_kernels, pattern_cache_kernels
from palio.matching.columnar.array_types import Bytes, Int32s, Int64s
from palio.matching.columnar.arrow_columns import BoundColumns
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.expression_program import BLOCK_ROWS, BoundProgram
from palio.matching.columnar.layout import (
    MAX_TAGGED,
    NO_AXIS,
    WORK_ENDS,
    WORK_EXACT,
    WORK_EXACT_SLOTS,
    WORK_FIELDS,
    WORK_FOUND,
    WORK_HIT_TAGS,
    WORK_HITS,
    WORK_NARROW,
    WORK_NARROW_MASK,
    WORK_OUT,
    WORK_OUT_ROOM,
    WORK_PENDING,
    WORK_PENDING_ROOM,
    WORK_PLACES,
    WORK_QUEUE,
    WORK_QUEUE_ROOM,
    WORK_STAMPS,
    WORK_TABLES,
    WORK_TAGS,
    WORK_TODO,
    WORK_TODO_ROOM,
    WORK_TOMBSTONE_BITS,
    WORK_TOMBSTONES,
)
from palio.matching.columnar.native import SMALL_TABLE_SLOTS, WORD_LANES, address_of
from palio.matching.columnar.pattern_cache import BatchEntries
from palio.matching.columnar.postings import Postings

Extras: TypeAlias = tuple[Int64s, Int64s]

_SLACK: Final = 64  # room that the kernels may need beyond what they fill
_MIN_PENDING_ROOM: Final = 4096
_MIN_QUEUE_ROOM: Final = 1024
_MIN_NUMBERS_ROOM: Final = 4096
_USUAL_CODES: Final = 64
_GROUPED_ROWS: Final = 32  # whose candidates are checked together; a power of two
_FIRST_GUESS: Final = 4.0  # numbers per row, before anything is known


def row_numbers(ends: Int64s, base: int = 0) -> Int64s:
    """The row of every number that a batch gave, counted from `base`."""
    count = int(ends[-1]) if len(ends) else 0
    rows = np.empty(count + WORD_LANES, np.int64)
    match_kernels.write_rows(address_of(ends), base, len(ends), address_of(rows))
    return rows[:count]


class Searcher:
    """Matches events against the postings of one segment, whose axes encode them."""

    def __init__(self, axes: Axes, postings: Postings) -> None:
        self.axes = axes
        self.postings = postings
        self.tombstones: Bytes | None = None
        """A bitmap of the numbers never to report. To bury more, set another one: it may be in use."""
        self._levels = max(1, postings.most_levels)
        self._pool: list[_Scratch] = []
        self._per_row = _FIRST_GUESS

    def match_one(self, codes: list[int]) -> list[int]:
        """The numbers of the subscriptions that match one event, given as codes."""
        scratch = self._borrow()
        if len(codes) > _USUAL_CODES:
            scratch.fit_codes(len(codes) * self._levels)
        packed = array("q", codes)
        address, length = packed.buffer_info()
        facts = scratch.facts
        facts[WORK_FOUND] = 0
        while match_kernels.match_rows(self.postings.address, scratch.address, address, 0, length, 0, 0, 1) == 0:
            # No row was finished: the numbers did not fit. The kernel has written nothing that counts.
            scratch.allocate_numbers(4 * len(scratch.numbers))
        found = facts[WORK_FOUND]
        result: list[int] = scratch.numbers[:found].tolist() if found else []
        self._pool.append(scratch)
        return result

    def match_codes(self, starts: Int64s, codes: Int64s) -> tuple[Int64s, Int32s]:
        """Match events given as runs of codes: where each row's numbers end, and the numbers."""
        starts, codes = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(codes, np.int64)
        count = len(starts) - 1
        batch = _Batch(self, count, int(np.diff(starts).max(initial=0)))
        batch.match(address_of(codes), address_of(starts), 0, 0, 0, count)
        return batch.finish()

    def match_columns(
        self,
        columns: BoundColumns,
        extras: Extras | None = None,
        entries: BatchEntries | None = None,
        program: BoundProgram | None = None,
    ) -> tuple[Int64s, Int32s]:
        """Match the rows of a batch, with further words for some of them, and what is known of their strings.

        A program adds the codes of its expressions.
        """
        others = columns.count + (0 if entries is None else entries.most_words)
        extra = (0, 0)
        if extras is not None:
            kept = [np.ascontiguousarray(each, np.int64) for each in extras]
            extra = (address_of(kept[0]), address_of(kept[1]))
            others += int(np.diff(kept[0]).max(initial=0))
        stride = others + (0 if program is None else program.room)
        batch = _Batch(self, columns.rows, stride)
        codes = np.empty(BLOCK_ROWS * stride, np.int64)
        lengths = np.empty(BLOCK_ROWS, np.int32)
        target = (address_of(codes), stride, address_of(lengths))
        # A block at a time: its codes stay in the fast caches until they are matched.
        for first in range(0, columns.rows, BLOCK_ROWS):
            many = min(BLOCK_ROWS, columns.rows - first)
            lengths.fill(0)
            # First of all, because its codes are more than there is room for where it says so.
            while program is not None and program.add_codes(first, many, *target) > stride - others:
                stride = others + program.room
                batch.make_room(stride)
                codes = np.empty(BLOCK_ROWS * stride, np.int64)
                target = (address_of(codes), stride, address_of(lengths))
                lengths.fill(0)
            encoding_kernels.encode_columns(self.axes.address, columns.address, columns.count, first, many, *target)
            if entries is not None:
                pattern_cache_kernels.add_cached_words(entries.address, entries.count, first, many, *target)
            if extras is not None:
                pattern_cache_kernels.add_words(*extra, first, many, *target)
            batch.match(target[0], 0, stride, target[2], first, many)
        return batch.finish()

    def _borrow(self) -> _Scratch:
        try:
            # Pop and append of a list are atomic: threads share the pool without a lock.
            scratch = self._pool.pop()
        except IndexError:
            scratch = _Scratch(self.postings)
        if scratch.tombstones is not self.tombstones:
            scratch.set_tombstones(self.tombstones)
        return scratch


class _Scratch:
    """What one search writes. An event's slots are set and cleared again one by one, never reset as a whole."""

    def __init__(self, postings: Postings) -> None:
        self.table = np.zeros(WORK_FIELDS, np.int64)
        self.address = address_of(self.table)
        # One item of a memoryview is read and written faster than one of an array.
        self.facts: memoryview[int] = self.table.data.cast("B").cast("q")
        slots = max(SMALL_TABLE_SLOTS, 1 << postings.axes.bit_length())
        self.narrow = np.zeros((2, slots), np.uint16)
        # The slot of NO_AXIS: entries without a second condition are written as 1 to 1 on it, and always pass.
        self.narrow[:, NO_AXIS] = 1
        # A stamp says that one row was here before, so that rows with stamps are checked one by one.
        are_grouped = slots == SMALL_TABLE_SLOTS and not postings.stamps
        self.exact = np.zeros((_GROUPED_ROWS if are_grouped else 2, slots), np.int32)
        self.places = np.empty(len(self.exact), np.int64)
        self.tags, self.hits, self.hit_tags = (np.empty(MAX_TAGGED + _SLACK, np.int32) for _ in range(3))
        self.pending = np.empty(max(_MIN_PENDING_ROOM, postings.largest) + _SLACK, np.int32)
        self.stamps = np.zeros(postings.stamps, np.int64)
        self.queue = np.empty(3 * max(_MIN_QUEUE_ROOM, postings.most_groups), np.int64)
        self.todo = np.empty(0, np.int64)
        self.ends = np.zeros(1, np.int64)
        self.tombstones: Bytes | None = None
        for at, values in (
            (WORK_NARROW, self.narrow),
            (WORK_EXACT, self.exact),
            (WORK_PENDING, self.pending),
            (WORK_STAMPS, self.stamps),
            (WORK_QUEUE, self.queue),
            (WORK_TAGS, self.tags),
            (WORK_HITS, self.hits),
            (WORK_HIT_TAGS, self.hit_tags),
            (WORK_PLACES, self.places),
        ):
            self.table[at] = address_of(values)
        self.table[WORK_TABLES], self.table[WORK_EXACT_SLOTS] = self.exact.shape
        self.table[WORK_NARROW_MASK] = slots - 1
        self.table[WORK_PENDING_ROOM] = len(self.pending)
        self.table[WORK_QUEUE_ROOM] = len(self.queue) // 3
        self.fit_codes(_USUAL_CODES * max(1, postings.most_levels))
        self.allocate_numbers(max(_MIN_NUMBERS_ROOM, postings.largest + _SLACK))

    def fit_codes(self, blocks: int) -> None:
        """Make room for an event that visits this many blocks."""
        if 2 * blocks > len(self.todo):
            self.todo = np.empty(2 * blocks, np.int64)
            self.table[WORK_TODO] = address_of(self.todo)
            self.table[WORK_TODO_ROOM] = blocks

    def allocate_numbers(self, room: int) -> None:
        """Allocate the memory that single events write their numbers into."""
        self.numbers = np.empty(room, np.int32)
        self.write_to(self.numbers, self.ends)

    def write_to(self, numbers: Int32s, ends: Int64s) -> None:
        self.facts[WORK_OUT] = address_of(numbers)
        self.facts[WORK_OUT_ROOM] = len(numbers)
        self.facts[WORK_ENDS] = address_of(ends)

    def set_tombstones(self, tombstones: Bytes | None) -> None:
        self.tombstones = tombstones
        self.facts[WORK_TOMBSTONES] = 0 if tombstones is None else address_of(tombstones)
        self.facts[WORK_TOMBSTONE_BITS] = 0 if tombstones is None else 8 * len(tombstones)


class _Batch:
    """The numbers found so far for a batch, in memory that grows as they come."""

    def __init__(self, searcher: Searcher, count: int, longest: int) -> None:
        self._searcher = searcher
        self._scratch = searcher._borrow()
        self.make_room(longest)
        self._scratch.facts[WORK_FOUND] = 0
        self._count = count
        self._ends = np.empty(count, np.int64)
        expected = int(1.25 * count * searcher._per_row)
        self._numbers = np.empty(expected + searcher.postings.largest + _MIN_NUMBERS_ROOM, np.int32)
        self._scratch.write_to(self._numbers, self._ends)
        self._ends_address = address_of(self._ends)

    def make_room(self, longest: int) -> None:
        """Make room for events of so many codes."""
        self._scratch.fit_codes(longest * self._searcher._levels)

    def match(self, codes: int, starts: int, stride: int, lengths: int, first: int, count: int) -> None:
        """Match a block of rows; the block's first row is row `first` of the batch."""
        scratch = self._scratch
        scratch.facts[WORK_ENDS] = self._ends_address + self._ends.itemsize * first
        row = 0
        while row < count:
            row = match_kernels.match_rows(
                self._searcher.postings.address, scratch.address, codes, starts, stride, lengths, row, count
            )
            if row < count:
                self._grow(first + row)

    def _grow(self, done: int) -> None:
        found = self._scratch.facts[WORK_FOUND]
        expected = int(1.25 * self._count * found / done) if done else 0
        larger = np.empty(max(2 * len(self._numbers), expected), np.int32)
        larger[:found] = self._numbers[:found]
        self._numbers = larger
        self._scratch.facts[WORK_OUT] = address_of(larger)
        self._scratch.facts[WORK_OUT_ROOM] = len(larger)

    def finish(self) -> tuple[Int64s, Int32s]:
        """Where each row's numbers end, and the numbers."""
        searcher, scratch = self._searcher, self._scratch
        found = scratch.facts[WORK_FOUND]
        # The scratch goes back to the pool, and must not write into what the caller gets.
        scratch.write_to(scratch.numbers, scratch.ends)
        searcher._pool.append(scratch)
        if self._count:
            searcher._per_row = found / self._count
        numbers = self._numbers[:found]
        # A slice would keep all of the room alive; it is copied where more than half would be wasted.
        return self._ends, numbers if 2 * found >= len(self._numbers) else numbers.copy()
