"""Placement of keys in buckets of bounded load.

Neighbouring cells share a bucket until it has its share of subscriptions or of events, so that a range needs few
buckets. A cell that exceeds a bucket's share by itself is split into a grid of buckets: its subscriptions are divided
over the rows, its events over the columns; each subscription is copied to every column of its row and each event to
every row of its column, so that any pair still meets in exactly one bucket. Subscriptions without a key are replicated
to every bucket, or, where they are too many, placed in such a grid.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from palio.peers.histograms import Run, merge_runs
from palio.peers.rendezvous_mappings import Arc

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

_SPLIT_FACTOR: Final = 1.5  # times a bucket's share, above which a cell is split
_REPLICATION_SHARE: Final = 0.1  # of a bucket's share; so few subscriptions are replicated to every bucket


@dataclass(frozen=True)
class EventCells:
    """Cells of one axis for the events of a batch; rows ascending."""

    axis: int
    rows: Int64s
    cells: Int64s


@dataclass(frozen=True)
class AxisLoad:
    """Expected load of an axis: arcs of subscriptions that begin and end in each cell, and events there."""

    starts: Floats
    ends: Floats
    events: Floats

    @property
    def crowds(self) -> Floats:
        """The number of arcs over each cell."""
        # Arcs that began up to a cell, without those that ended before it.
        return np.asarray(np.cumsum(self.starts) - np.cumsum(self.ends) + self.ends)


@dataclass(frozen=True)
class BucketGrids:
    """For each cell of an axis its grid of buckets: `rows` × `columns` of them from `first` on, cells in order."""

    first: Int32s
    rows: Int32s
    columns: Int32s

    def of_arc(self, first: int, last: int, salt: int) -> Iterator[tuple[int, int]]:
        """The buckets of a subscription over a range of cells, as ranges; `salt` selects its row in a grid."""
        buckets, rows, columns, divided = self._lists
        start = first
        for cell in divided[bisect_left(divided, first) : bisect_right(divided, last)]:
            if start < cell:
                yield buckets[start], buckets[cell - 1]
            row = buckets[cell] + salt % rows[cell] * columns[cell]
            yield row, row + columns[cell] - 1
            start = cell + 1
        if start <= last:
            yield buckets[start], buckets[last]

    @cached_property
    def _lists(self) -> tuple[list[int], list[int], list[int], list[int]]:
        divided = np.flatnonzero((self.rows > 1) | (self.columns > 1))
        return self.first.tolist(), self.rows.tolist(), self.columns.tolist(), divided.tolist()


@dataclass(frozen=True)
class Placement:
    """Buckets of keys; `everywhere` is the axis whose subscriptions are in all buckets, or -1."""

    buckets: int
    axes: tuple[BucketGrids, ...]
    everywhere: int = -1

    def of_subscription(self, arcs: Sequence[Arc], id: str) -> list[Run]:
        """The buckets of a subscription: disjoint ascending ranges."""
        if any(arc.axis == self.everywhere for arc in arcs):
            return [(0, self.buckets - 1)]
        # A stable hash: Python's own differs between the processes of a cluster.
        own = crc32(id.encode("utf-8", "surrogatepass"))
        found = [each for arc in arcs for each in self.axes[arc.axis].of_arc(arc.first, arc.last, own)]
        return found if len(found) == 1 else merge_runs(found)

    def of_events(self, keyed: Sequence[EventCells], count: int, *, all_somewhere: bool) -> tuple[Int64s, Int32s]:
        """Rows and buckets of `count` events, each pair once, ordered by row.

        `all_somewhere` sends events without a key to some bucket, too.
        """
        rows: list[Int64s] = []
        buckets: list[Int64s] = []
        for each in keyed:
            if each.axis == self.everywhere:
                continue
            grids = self.axes[each.axis]
            width, height = grids.columns[each.cells], grids.rows[each.cells]
            # Round-robin by row: a task that is run again decides alike.
            first: Int64s = grids.first[each.cells] + each.rows % width
            if len(height) and height.max() > 1:
                repeated = np.repeat(np.arange(len(height)), height)
                down = np.arange(len(repeated)) - np.repeat(np.cumsum(height) - height, height)
                rows.append(each.rows[repeated])
                buckets.append(first[repeated] + down * width[repeated])
            else:
                rows.append(each.rows)
                buckets.append(first)
        if all_somewhere or self.everywhere >= 0:
            # Events without a key meet the subscriptions that are in every bucket, or are reported without a match.
            without = np.setdiff1d(np.arange(count), np.concatenate([np.empty(0, np.int64), *rows]))
            rows.append(without)
            buckets.append(without % self.buckets)
        pairs = np.concatenate(
            [np.empty(0, np.int64), *(r * self.buckets + b for r, b in zip(rows, buckets, strict=True))]
        )
        # An event may reach a bucket over several axes.
        pairs = np.unique(pairs)
        return pairs // self.buckets, (pairs % self.buckets).astype(np.int32)


def place_cells(
    loads: Sequence[AxisLoad], most_subscriptions: float, most_events: float, everywhere: int = -1, most_grid: int = 64
) -> Placement:
    """Place cells in buckets of bounded load; a bucket exceeds the bound only where a single cell does."""
    filling = _BucketFiller(most_subscriptions, most_events, most_grid)
    in_all = -1
    axes = []
    for axis, load in enumerate(loads):
        if axis == everywhere and load.starts.sum() <= _REPLICATION_SHARE * most_subscriptions:
            in_all = axis
            axes.append(BucketGrids(*(np.zeros(len(load.starts), np.int32) for _ in range(3))))
        else:
            axes.append(filling.axis(load))
    return Placement(max(1, filling.buckets), tuple(axes), in_all)


class _BucketFiller:
    """Fills buckets one after the other."""

    def __init__(self, most_subscriptions: float, most_events: float, most_grid: int) -> None:
        self.buckets = 0
        self._most = (max(1.0, most_subscriptions), max(1e-12, most_events))
        self._most_grid = most_grid
        self._before = (0.0, 0.0)  # subscriptions and events in the open bucket from earlier axes
        self._open = False

    def axis(self, load: AxisLoad) -> BucketGrids:
        cells = len(load.starts)
        first, rows, columns = (np.ones(cells, np.int32) for _ in range(3))
        started = np.cumsum(load.starts).tolist()
        ended = (np.cumsum(load.ends) - load.ends).tolist()  # before each cell
        events = [0.0, *np.cumsum(load.events).tolist()]
        most_subscriptions, most_events = self._most
        crowds, at = load.crowds.tolist(), load.events.tolist()
        start = 0  # the first cell of this axis in the open bucket
        for cell in range(cells):
            if crowds[cell] > _SPLIT_FACTOR * most_subscriptions or at[cell] > _SPLIT_FACTOR * most_events:
                self._close()
                start = cell + 1
                first[cell] = self.buckets
                rows[cell], columns[cell] = self._grid(crowds[cell], at[cell])
                self.buckets += int(rows[cell] * columns[cell])
                continue
            # Arcs that began up to this cell and did not end before the bucket's first cell.
            has, comes = started[cell] - ended[start], events[cell + 1] - events[start]
            before, came = self._before
            if self._open and (before + has > most_subscriptions or came + comes > most_events):
                self._close()
                start = cell
            if not self._open:
                self.buckets += 1
                self._open = True
            first[cell] = self.buckets - 1
        if start < cells and self._open:
            before, came = self._before
            self._before = (before + started[-1] - ended[start], came + events[-1] - events[start])
        return BucketGrids(first, rows, columns)

    def _close(self) -> None:
        self._before, self._open = (0.0, 0.0), False

    def _grid(self, subscriptions: float, events: float) -> tuple[int, int]:
        """As many rows as memory requires; columns, which only distribute work, within bounds."""
        rows = max(1, ceil(subscriptions / self._most[0]))
        columns = ceil(events / self._most[1])
        return rows, max(1, min(columns, self._most_grid // rows))
