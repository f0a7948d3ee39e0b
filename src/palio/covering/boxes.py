"""Covering among a million conjunctions, compared as boxes of integers without making a filter of any.

To the columnar index a conjunction is a *box*: on each axis it names, intervals of slots. The slots of an attribute are
cut wherever some condition is, hence one box covers another exactly when its intervals contain all of the other's. A
box that covers another matches the event at the other's upper corner, whose slots are the ends of its intervals; so the
index is searched for candidates, and boxes are compared as integers.

Widest boxes first. A box can only be covered by boxes that name no more attributes and, where they name the same, take
more slots; in that order every covering box stands before the ones it covers. Boxes are examined in batches, each eight
times as long as the one before: first against the maximal ones of earlier batches, which are few, then what is left of
a batch against itself. Thresholds on one attribute would otherwise all be candidates of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.covering.covering_kernels import Ints, Numbers, find_first_coverers
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.bulk_load import load_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.layout import MISSING
from palio.matching.columnar.postings import Conjunctions, Postings, merge_intervals
from palio.matching.columnar.search import Searcher
from palio.matching.subscription import Subscriptions

_FIRST_BATCH_BOXES: Final = 4_096
_BATCH_GROWTH: Final = 8
_SEARCH_BOXES: Final = 4_096  # whose candidates are in memory together
_SLOT_BITS: Final = 32


@dataclass(frozen=True)
class Boxes:
    """The subscriptions that are boxes, as rows ascending by number.

    Row r has the intervals from start[r] up to start[r + 1], each an axis, a low and a high slot.
    """

    axes: Axes
    numbers: Ints  # of the subscriptions
    start: Ints
    axis: Numbers
    low: Numbers
    high: Numbers

    @classmethod
    def read(cls, subscriptions: Subscriptions) -> Boxes:
        """Read subscriptions; disjunctions, patterns, expressions, residuals and what never matches are no boxes."""
        builder = ConditionsBuilder()
        load_texts(builder, range(len(subscriptions)), subscriptions)
        axes, rows = builder.finish()
        attributes, _ = builder.keys
        start, axis, low, high = _by_axis(rows)
        start, axis, low, high, never = merge_intervals(start, axis, low, high)
        row = np.repeat(np.arange(len(rows)), np.diff(start))
        # A row is a box only if it is its subscription's sole conjunction and slots alone decide it.
        chosen = ~never
        chosen &= np.bincount(rows.ids, minlength=len(subscriptions))[rows.ids] == 1
        chosen[row[axis >= len(attributes)]] = False  # the axis of a pattern
        # Nor on an axis whose slots do not distinguish all kinds of value; True stands for the axes of patterns.
        placed = np.array([axes.places_fractions(each) for each in range(len(attributes))], np.bool_)
        chosen[row[~np.append(placed, True)[np.minimum(axis, len(attributes))]]] = False
        unsure = builder.residual_numbers | builder.computed_numbers
        chosen &= ~np.isin(rows.ids, np.fromiter(unsure, np.int32))
        if rows.program_start is not None:
            chosen &= np.diff(rows.program_start) == 0
        order = np.flatnonzero(chosen)
        order = order[np.argsort(rows.ids[order])]
        return cls(axes, rows.ids[order].astype(np.int64), *_select_rows(start, axis, low, high, order))

    def covered_by(self) -> Ints:
        """For each row one that covers it, or -1; of equal rows the first stays."""
        found = np.full(len(self.numbers), -1, np.int64)
        order = self._widest_first()
        maximal = order[:0]
        first, size = 0, _FIRST_BATCH_BOXES
        while first < len(order):
            batch = np.sort(order[first : first + size])
            # What the maximal boxes so far cover need not be compared within its batch.
            if len(maximal):
                self._search(batch, maximal, found)
                batch = batch[found[batch] < 0]
            self._search(batch, batch, found)
            maximal = np.sort(np.concatenate([maximal, batch[found[batch] < 0]]))
            first, size = first + size, size * _BATCH_GROWTH
        return found

    def _widest_first(self) -> Ints:
        row = np.repeat(np.arange(len(self.numbers)), np.diff(self.start))
        slots = np.bincount(row, self.high.astype(np.float64) - self.low + 1, len(self.numbers))
        fresh = np.diff(row, prepend=-1) | np.diff(self.axis, prepend=-1) != 0
        attributes = np.bincount(row[fresh], minlength=len(self.numbers))
        return np.lexsort((-slots, attributes))

    def _search(self, rows: Ints, among: Ints, found: Ints) -> None:
        """Search for rows that cover some others, and write them to `found`."""
        index = Conjunctions(among.astype(np.int32), *_select_rows(self.start, self.axis, self.low, self.high, among))
        searcher = Searcher(self.axes, Postings.build(index, self.axes.sizes))
        for first in range(0, len(rows), _SEARCH_BOXES):
            some = rows[first : first + _SEARCH_BOXES]
            ends, candidates = searcher.match_codes(*self._corners(some))
            by = np.empty(len(some), np.int64)
            find_first_coverers(some, ends, candidates, self.start, self.axis, self.low, self.high, by)
            found[some] = by

    def _corners(self, rows: Ints) -> tuple[Ints, Ints]:
        """The events at the upper corners of rows, as codes; an attribute that must be missing has none."""
        start, axis, _, high = _select_rows(self.start, self.axis, self.low, self.high, rows)
        row = np.repeat(np.arange(len(rows)), np.diff(start))
        is_last = (np.diff(row, append=-1) != 0) | (np.diff(axis, append=-1) != 0)
        is_last &= high != MISSING
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.bincount(row[is_last], minlength=len(rows)), out=starts[1:])
        return starts, axis[is_last].astype(np.int64) << _SLOT_BITS | high[is_last]


def _by_axis(rows: Conjunctions) -> tuple[Ints, Numbers, Numbers, Numbers]:
    """The intervals of each row, ascending by axis."""
    row = np.repeat(np.arange(len(rows)), np.diff(rows.start))
    order = np.lexsort((rows.axis, row))
    return rows.start, rows.axis[order], rows.lo[order], rows.hi[order]


def _select_rows(
    start: Ints, axis: Numbers, low: Numbers, high: Numbers, rows: npt.NDArray[np.intp]
) -> tuple[Ints, Numbers, Numbers, Numbers]:
    """The intervals of some rows."""
    lengths = np.diff(start)[rows]
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    at = np.arange(starts[-1]) + np.repeat(start[rows] - starts[:-1], lengths)
    return starts, axis[at], low[at], high[at]
