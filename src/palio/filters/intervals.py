"""A set of values of one kind, as the cuts at which membership changes.

Walking up the kind's order, one is either inside or outside the set; `inside` says which at the bottom, and each
cut flips it. One sorted tuple of cuts therefore *is* the set, in a form that two equal sets share, and every
operation is one merge of two sorted tuples. The alternative, a list of (low, high, open, closed) records, needs
a case for every combination of ends, and several spellings of one set.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import and_, or_

from palio.filters.kinds import HIGHEST_CUT, LOWEST_CUT, Kind, Position, cut_after


@dataclass(frozen=True, slots=True)
class Intervals:
    """A union of disjoint intervals and points of one kind."""

    inside: bool
    cuts: tuple[Position, ...] = ()

    def contains(self, position: Position) -> bool:
        """Whether the value at this position is in the set."""
        return bool(bisect_right(self.cuts, position) & 1) ^ self.inside

    @property
    def is_empty(self) -> bool:
        return not self.inside and not self.cuts

    @property
    def is_full(self) -> bool:
        return self.inside and not self.cuts

    def complement(self) -> Intervals:
        return Intervals(not self.inside, self.cuts)

    def intersect(self, other: Intervals) -> Intervals:
        if self.is_full or other.is_empty or self == other:
            return other
        if other.is_full or self.is_empty:
            return self
        if len(self.cuts) + self.inside <= 2 and len(other.cuts) + other.inside <= 2:
            return _common(self, other)
        return _combine(self, other, and_)

    def union(self, other: Intervals) -> Intervals:
        if self.is_empty or other.is_full or self == other:
            return other
        if other.is_empty or self.is_full:
            return self
        return _combine(self, other, or_)

    def covers(self, other: Intervals) -> bool:
        """Whether every value of the other set is in this one."""
        return other.is_empty or self.is_full or self.intersect(other) == other

    def overlaps(self, other: Intervals) -> bool:
        """Whether some value is in both sets."""
        return not self.intersect(other).is_empty

    @property
    def _ends(self) -> tuple[Position | None, Position | None]:
        """The cuts of a set that is one interval and has an end; None where it has no end."""
        if self.inside:
            return None, self.cuts[0]
        return self.cuts[0], self.cuts[1] if len(self.cuts) == 2 else None

    def spans(self) -> Iterator[tuple[Position | None, Position | None]]:
        """The intervals in order, as (cut below, cut above); None where the kind's order has no end."""
        ends: list[Position | None] = [None, *self.cuts] if self.inside else list(self.cuts)
        if len(ends) % 2:
            ends.append(None)
        yield from zip(ends[::2], ends[1::2], strict=True)


EMPTY = Intervals(False)
FULL = Intervals(True)


def span(kind: Kind, low: Position | None, high: Position | None) -> Intervals:
    """All values between two cuts; None is no bound."""
    if low is not None and kind in LOWEST_CUT and low <= LOWEST_CUT[kind]:
        low = None
    if high is not None and kind in HIGHEST_CUT and high >= HIGHEST_CUT[kind]:
        high = None
    if low is not None and kind in HIGHEST_CUT and low >= HIGHEST_CUT[kind]:
        return EMPTY
    if high is not None and (kind in LOWEST_CUT and high <= LOWEST_CUT[kind]):
        return EMPTY
    if low is None:
        return FULL if high is None else Intervals(True, (high,))
    if high is None:
        return Intervals(False, (low,))
    return Intervals(False, (low, high)) if low < high else EMPTY


def point(kind: Kind, position: Position) -> Intervals:
    """The set of one value."""
    return span(kind, position, cut_after(kind, position))


def union_all(sets: Iterable[Intervals]) -> Intervals:
    """The union of many sets, in one sort instead of a merge each: an IN list may have a hundred thousand values."""
    items = [each for each in sets if each.inside or each.cuts]
    if len(items) < 2:
        return items[0] if items else EMPTY
    depth = sum(each.inside for each in items)
    inside = depth > 0
    steps: list[tuple[Position, int]] = []
    for each in items:
        step = -1 if each.inside else 1
        for cut in each.cuts:
            steps.append((cut, step))
            step = -step
    steps.sort(key=lambda pair: pair[0])
    cuts: list[Position] = []
    state = inside
    index = 0
    while index < len(steps):
        cut = steps[index][0]
        while index < len(steps) and steps[index][0] == cut:
            depth += steps[index][1]
            index += 1
        if (depth > 0) != state:
            cuts.append(cut)
            state = not state
    return Intervals(inside, tuple(cuts))


def _common(left: Intervals, right: Intervals) -> Intervals:
    """What two intervals have in common: most sets are one interval, and then two comparisons will do."""
    low, high = left._ends
    other_low, other_high = right._ends
    if low is None or (other_low is not None and other_low > low):
        low = other_low
    if high is None or (other_high is not None and other_high < high):
        high = other_high
    if low is None:
        return Intervals(True, (high,))
    if high is None:
        return Intervals(False, (low,))
    return Intervals(False, (low, high)) if low < high else EMPTY


def _combine(left: Intervals, right: Intervals, keep: Callable[[bool, bool], bool]) -> Intervals:
    in_left, in_right = left.inside, right.inside
    inside = state = keep(in_left, in_right)
    cuts: list[Position] = []
    first, second = left.cuts, right.cuts
    i = j = 0
    while i < len(first) or j < len(second):
        from_left = j == len(second) or (i < len(first) and first[i] < second[j])
        cut = first[i] if from_left else second[j]
        if i < len(first) and first[i] == cut:
            in_left = not in_left
            i += 1
        if j < len(second) and second[j] == cut:
            in_right = not in_right
            j += 1
        if keep(in_left, in_right) != state:
            state = not state
            cuts.append(cut)
    return Intervals(inside, tuple(cuts))
