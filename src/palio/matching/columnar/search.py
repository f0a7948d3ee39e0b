"""Asking the index: one event, or a batch of them, gives the numbers of the subscriptions that match.

A `Searcher` may be used by many threads at once: what a search needs to write lies in scratch memory that each
borrows from a pool, and the kernels release the GIL.
"""

from __future__ import annotations

from array import array
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar import encoding_kernels, kernels
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.columns import BoundColumns
from palio.matching.columnar.layout import (
    WORK_EXACT,
    WORK_FIELDS,
    WORK_FOUND,
    WORK_NARROW,
    WORK_NARROW_MASK,
    WORK_OUT,
    WORK_OUT_ROOM,
    WORK_PENDING,
    WORK_PENDING_ROOM,
    WORK_QUEUE,
    WORK_QUEUE_ROOM,
    WORK_STAMPS,
    WORK_TODO,
    WORK_TODO_ROOM,
)
from palio.matching.columnar.postings import Postings

Ints: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
Extras: TypeAlias = tuple[Ints, Ints]

_BLOCK_ROWS: Final = 512  # rows encoded at a time: their codes stay in the fast caches until they are matched
_SLACK: Final = 64
_FEWEST_PENDING: Final = 4096
_FEWEST_QUEUED: Final = 1024
_FEWEST_OUT: Final = 4096
_FIRST_GUESS: Final = 4  # numbers per row, before anything is known


def rows(ends: Ints, base: int = 0) -> Ints:
    """The row of every number that a batch gave, counted from `base`."""
    return np.repeat(np.arange(base, base + len(ends), dtype=np.int64), np.diff(ends, prepend=0))


class _Scratch:
    """What one search writes. The slots of the event being matched are set and cleared again, never reset as a whole."""

    __slots__ = ("address", "exact", "narrow", "out", "pending", "queue", "stamps", "table", "todo")

    def __init__(self, postings: Postings) -> None:
        self.table = np.zeros(WORK_FIELDS, np.int64)
        self.address = _address(self.table)
        self.narrow = np.zeros(max(2, 1 << postings.axes.bit_length()), np.uint16)
        self.narrow[0] = 1
        self.exact = np.zeros(postings.axes, np.int32)
        self.pending = np.empty(max(_FEWEST_PENDING, postings.largest) + _SLACK, np.int32)
        self.stamps = np.zeros(postings.stamps, np.int64)
        self.todo = np.empty(0, np.int64)
        self.queue = np.empty(3 * max(_FEWEST_QUEUED, postings.most_groups), np.int64)
        self.table[[WORK_NARROW, WORK_EXACT, WORK_PENDING, WORK_STAMPS, WORK_QUEUE]] = [
            _address(each) for each in (self.narrow, self.exact, self.pending, self.stamps, self.queue)
        ]
        self.table[WORK_QUEUE_ROOM] = len(self.queue) // 3
        self.table[WORK_NARROW_MASK] = len(self.narrow) - 1
        self.table[WORK_PENDING_ROOM] = len(self.pending)
        self.fit_codes(64 * max(1, postings.most_levels))
        self.fit_out(max(_FEWEST_OUT, postings.largest + _SLACK))

    def fit_codes(self, blocks: int) -> None:
        """Make room for an event that visits so many blocks."""
        if 2 * blocks > len(self.todo):
            self.todo = np.empty(2 * blocks, np.int64)
            self.table[WORK_TODO] = _address(self.todo)
            self.table[WORK_TODO_ROOM] = blocks

    def fit_out(self, room: int) -> None:
        """Make room for so many numbers of a single event."""
        self.out = np.empty(room, np.int32)
        self.table[WORK_OUT] = _address(self.out)
        self.table[WORK_OUT_ROOM] = room


class Searcher:
    """Matches events against the postings of one segment, whose axes encode them."""

    def __init__(self, axes: Axes, postings: Postings) -> None:
        self.axes = axes
        self.postings = postings
        self._index = postings.address
        self._levels = max(1, postings.most_levels)
        self._pool: list[_Scratch] = []
        self._dead: npt.NDArray[np.uint8] | None = None
        self._grave = (0, 0)
        self._per_row = float(_FIRST_GUESS)

    @property
    def dead(self) -> npt.NDArray[np.uint8] | None:
        """A bitmap of the numbers never to report. To bury more, set another one."""
        return self._dead

    @dead.setter
    def dead(self, bitmap: npt.NDArray[np.uint8] | None) -> None:
        if bitmap is not None:
            bitmap = np.ascontiguousarray(bitmap, np.uint8)
        # A search that is under way holds on to the bitmap it began with.
        self._dead, self._grave = bitmap, (0, 0) if bitmap is None else (_address(bitmap), 8 * len(bitmap))

    def match_one(self, codes: list[int]) -> list[int]:
        """The numbers of the subscriptions that match one event, given as codes."""
        try:
            scratch = self._pool.pop()
        except IndexError:
            scratch = _Scratch(self.postings)
        dead = self._dead  # noqa: F841  kept alive while the kernel reads it
        grave, bits = self._grave
        if len(codes) > 64:
            scratch.fit_codes(len(codes) * self._levels)
        packed = array("q", codes)  # kept alive while the kernel reads it
        address, length = packed.buffer_info()
        found = kernels.match_event(self._index, scratch.address, address, length, grave, bits)
        while found < 0:
            scratch.fit_out(4 * len(scratch.out))
            found = kernels.match_event(self._index, scratch.address, address, length, grave, bits)
        result: list[int] = scratch.out[:found].tolist() if found else []
        self._pool.append(scratch)
        return result

    def match_codes(self, starts: Ints, codes: Ints) -> tuple[Ints, Numbers]:
        """Match events given as runs of codes: where each row's numbers end, and the numbers."""
        starts, codes = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(codes, np.int64)
        count = len(starts) - 1
        longest = int(np.diff(starts).max(initial=0))
        batch = _Batch(self, count, longest)
        batch.match(_address(codes), _address(starts), 0, 0, 0, count)
        return batch.finish()

    def match_columns(self, columns: BoundColumns, extras: Extras | None = None) -> tuple[Ints, Numbers]:
        """Match the rows of a batch, with further codes for some of them."""
        count = columns.rows
        stride = columns.count
        if extras is not None:
            extras = np.ascontiguousarray(extras[0], np.int64), np.ascontiguousarray(extras[1], np.int64)
            stride += int(np.diff(extras[0]).max(initial=0))
        batch = _Batch(self, count, stride)
        codes = np.empty(_BLOCK_ROWS * stride, np.int64)
        lengths = np.empty(_BLOCK_ROWS, np.int32)
        for first in range(0, count, _BLOCK_ROWS):
            many = min(_BLOCK_ROWS, count - first)
            lengths.fill(0)
            encoding_kernels.encode_columns(
                self.axes.address, columns.address, columns.count, first, many, _address(codes), stride,
                _address(lengths),
            )  # fmt: skip
            if extras is not None:
                encoding_kernels.add_codes(
                    _address(extras[0]), _address(extras[1]), first, many, _address(codes), stride, _address(lengths)
                )
            batch.match(_address(codes), 0, stride, _address(lengths), first, many)
        return batch.finish()


class _Batch:
    """The numbers found so far for a batch, in memory that grows as they come."""

    def __init__(self, searcher: Searcher, count: int, longest: int) -> None:
        self._searcher = searcher
        self._dead = searcher._dead  # kept alive while the kernel reads it
        self._grave = searcher._grave
        try:
            self._scratch = searcher._pool.pop()
        except IndexError:
            self._scratch = _Scratch(searcher.postings)
        self._scratch.fit_codes(longest * searcher._levels)
        self._ends = np.empty(count, np.int64)
        self._count = count
        self._found = 0
        self._out = np.empty(int(1.25 * count * searcher._per_row) + searcher.postings.largest + 1024, np.int32)

    def match(self, codes: int, starts: int, stride: int, lengths: int, first: int, count: int) -> None:
        """Match a block of rows; the block's first row is row `first` of the batch."""
        scratch = self._scratch
        ends = _address(self._ends) + 8 * first
        row = 0
        while row < count:
            out = self._out
            stopped = kernels.match_rows(
                self._searcher._index, scratch.address, codes, starts, stride, lengths, row, count, _address(out),
                len(out), self._found, ends, *self._grave,
            )  # fmt: skip
            self._found = int(scratch.table[WORK_FOUND])
            if stopped < count:
                self._grow(first + stopped)
            row = stopped

    def _grow(self, done: int) -> None:
        expected = int(1.25 * self._count * self._found / done) if done else 0
        larger = np.empty(max(2 * len(self._out), expected), np.int32)
        larger[: self._found] = self._out[: self._found]
        self._out = larger

    def finish(self) -> tuple[Ints, Numbers]:
        searcher = self._searcher
        searcher._pool.append(self._scratch)
        if self._count:
            searcher._per_row = self._found / self._count
        found = self._out[: self._found]
        return self._ends, found if 2 * self._found >= len(self._out) else found.copy()


def _address(values: npt.NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])
