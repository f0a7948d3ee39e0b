"""Which of a million conjunctions are covered, and by whom? Without making a filter of any.

To the columnar index a conjunction is a *box*: on each axis it names, intervals of slots. The slots of an attribute are
cut wherever some condition is, hence one box covers another exactly when its intervals have all of the other's. Who
could cover a box matches the event at its upper corner, whose slots are the ends of its intervals; so the index is
asked for candidates, and boxes are compared as integers.

Widest boxes first. One can only be covered by boxes that name no more attributes and, where they name the same, take
more slots; in that order of all boxes whoever covers a box stands before it. They are looked through in stretches, each
eight times as long as the one before: first against the maximal ones of what came before, which are few, then what is
left of a stretch against itself. Thresholds on one attribute would otherwise all be candidates of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.covering.box_kernels import Ints, Numbers, first_that_cover
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.bulk import add_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.layout import MISSING
from palio.matching.columnar.postings import Conjunctions, Postings, united
from palio.matching.columnar.search import Searcher
from palio.matching.subscription import Subscriptions

_FIRST_STRETCH: Final = 4_096
_GROWTH: Final = 8
_AT_ONCE: Final = 4_096  # boxes whose candidates are in memory together
_SLOT_BITS: Final = 32


@dataclass(frozen=True)
class Boxes:
    """The subscriptions that are boxes, as rows in the order of their numbers."""

    axes: Axes
    numbers: Ints  # of the subscriptions
    start: Ints
    axis: Numbers
    low: Numbers
    high: Numbers

    @classmethod
    def read(cls, subscriptions: Subscriptions) -> Boxes:
        """Those that are boxes; disjunctions, patterns, residual conditions and what never matches are none."""
        builder = ConditionsBuilder()
        add_texts(builder, range(len(subscriptions)), subscriptions)
        axes, rows = builder.finish()
        attributes, _ = builder.keys
        start, axis, low, high = _by_axis(rows)
        start, axis, low, high, never = united(start, axis, low, high)
        row = np.repeat(np.arange(len(rows)), np.diff(start))
        chosen = ~never
        chosen &= np.bincount(rows.ids, minlength=len(subscriptions))[rows.ids] == 1
        chosen[row[axis >= len(attributes)]] = False  # the axis of a question
        placed = np.array([axes.places_fractions(each) for each in range(len(attributes))], np.bool_)
        chosen[row[~np.append(placed, True)[np.minimum(axis, len(attributes))]]] = False  # slots do not tell all kinds
        chosen &= ~np.isin(rows.ids, np.fromiter(builder.unsure, np.int32))
        if rows.program_start is not None:
            chosen &= np.diff(rows.program_start) == 0
        order = np.flatnonzero(chosen)
        order = order[np.argsort(rows.ids[order])]
        return cls(axes, rows.ids[order].astype(np.int64), *_taken(start, axis, low, high, order))

    def covered_by(self) -> Ints:
        """For each row one that covers it, or -1; of rows that are equal the first stays."""
        found = np.full(len(self.numbers), -1, np.int64)
        order = self._widest_first()
        maximal = order[:0]
        first, size = 0, _FIRST_STRETCH
        while first < len(order):
            stretch = np.sort(order[first : first + size])
            if len(maximal):
                self._search(stretch, maximal, found)
                stretch = stretch[found[stretch] < 0]
            self._search(stretch, stretch, found)
            maximal = np.sort(np.concatenate([maximal, stretch[found[stretch] < 0]]))
            first, size = first + size, size * _GROWTH
        return found

    def _widest_first(self) -> Ints:
        row = np.repeat(np.arange(len(self.numbers)), np.diff(self.start))
        slots = np.bincount(row, self.high.astype(np.float64) - self.low + 1, len(self.numbers))
        fresh = np.diff(row, prepend=-1) | np.diff(self.axis, prepend=-1) != 0
        attributes = np.bincount(row[fresh], minlength=len(self.numbers))
        return np.lexsort((-slots, attributes))

    def _search(self, rows: Ints, among: Ints, found: Ints) -> None:
        """Find for some rows others that cover them."""
        index = Conjunctions(among.astype(np.int32), *_taken(self.start, self.axis, self.low, self.high, among))
        searcher = Searcher(self.axes, Postings.build(index, self.axes.sizes))
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            ends, candidates = searcher.match_codes(*self._corners(some))
            by = np.empty(len(some), np.int64)
            first_that_cover(some, ends, candidates, self.start, self.axis, self.low, self.high, by)
            found[some] = by

    def _corners(self, rows: Ints) -> tuple[Ints, Ints]:
        """The events at the upper corners of rows, as codes; what is to be missing has none."""
        start, axis, _, high = _taken(self.start, self.axis, self.low, self.high, rows)
        row = np.repeat(np.arange(len(rows)), np.diff(start))
        is_last = (np.diff(row, append=-1) != 0) | (np.diff(axis, append=-1) != 0)
        is_last &= high != MISSING
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.bincount(row[is_last], minlength=len(rows)), out=starts[1:])
        return starts, axis[is_last].astype(np.int64) << _SLOT_BITS | high[is_last]


def _by_axis(rows: Conjunctions) -> tuple[Ints, Numbers, Numbers, Numbers]:
    """The intervals of each row in the order of their axes."""
    row = np.repeat(np.arange(len(rows)), np.diff(rows.start))
    order = np.lexsort((rows.axis, row))
    return rows.start, rows.axis[order], rows.lo[order], rows.hi[order]


def _taken(
    start: Ints, axis: Numbers, low: Numbers, high: Numbers, rows: npt.NDArray[np.intp]
) -> tuple[Ints, Numbers, Numbers, Numbers]:
    """Some of the rows."""
    lengths = np.diff(start)[rows]
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    at = np.arange(starts[-1]) + np.repeat(start[rows] - starts[:-1], lengths)
    return starts, axis[at], low[at], high[at]
