"""Interval index: which of these intervals contain a value (the stabbing query of the counting matcher).

Most intervals of subscriptions are points, or have one end. Points are a dictionary. Intervals with one end are a
sorted list, of which a value takes a prefix or a suffix. The few with two ends are a centred interval tree
(Edelsbrunner), built at the first query and rebuilt when enough has changed. Rejected: sorted end points alone, which
find the intervals that start below a value and those that end above it, not both.

Adding and removing cost a binary search and a move of memory; a query costs a logarithm and what it finds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from palio.filters.kinds import Kind, Position, cut_after
from palio.filters.value_sets import Intervals

_MIN_CHANGES_TO_REBUILD: Final = 16  # of two-ended intervals

Bounded = tuple[Position, Position, int]  # from a cut, up to a cut, number


class IntervalIndex:
    """Sets of values of one kind by number; finds the numbers of those that contain a value."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._everywhere: dict[int, None] = {}
        self._points: dict[Position, dict[int, None]] = {}
        self._from: list[tuple[Position, int]] = []  # intervals without an upper end
        self._up_to: list[tuple[Position, int]] = []  # and without a lower one
        self._bounded = _Bounded()

    def add(self, number: int, part: Intervals) -> None:
        for low, high in part.spans():
            if low is None and high is None:
                self._everywhere[number] = None
            elif low is None:
                insort(self._up_to, (high, number))
            elif high is None:
                insort(self._from, (low, number))
            elif cut_after(self._kind, low) == high:
                self._points.setdefault(low, {})[number] = None
            else:
                self._bounded.add((low, high, number))

    def remove(self, number: int, part: Intervals) -> None:
        for low, high in part.spans():
            if low is None and high is None:
                del self._everywhere[number]
            elif low is None:
                del self._up_to[bisect_left(self._up_to, (high, number))]
            elif high is None:
                del self._from[bisect_left(self._from, (low, number))]
            elif cut_after(self._kind, low) == high:
                del self._points[low][number]
                if not self._points[low]:
                    del self._points[low]
            else:
                self._bounded.remove((low, high, number))

    def find(self, position: Position) -> Iterator[int]:
        """The numbers of all sets that contain the value at a position, none twice."""
        yield from self._everywhere
        yield from self._points.get(position, ())
        for _, number in self._from[: bisect_right(self._from, position, key=_cut)]:
            yield number
        for _, number in self._up_to[bisect_right(self._up_to, position, key=_cut) :]:
            yield number
        yield from self._bounded.find(position)


def _cut(entry: tuple[Position, int]) -> Position:
    return entry[0]


class _Bounded:
    """Intervals with two ends: a tree, and what has changed since it was made."""

    def __init__(self) -> None:
        self._intervals: dict[Bounded, None] = {}
        self._added: dict[Bounded, None] = {}
        self._removed: set[Bounded] = set()
        self._root: _Centre | None = None

    def add(self, interval: Bounded) -> None:
        self._intervals[interval] = None
        if interval in self._removed:
            self._removed.discard(interval)  # the tree still has it
        else:
            self._added[interval] = None

    def remove(self, interval: Bounded) -> None:
        del self._intervals[interval]
        if self._added.pop(interval, interval) is interval:
            self._removed.add(interval)

    def find(self, position: Position) -> Iterator[int]:
        if len(self._added) + len(self._removed) > _MIN_CHANGES_TO_REBUILD + len(self._intervals) // 8:
            self._root = _build(list(self._intervals))
            self._added, self._removed = {}, set()
        for low, high, number in self._added:
            if low <= position < high:
                yield number
        node = self._root
        while node is not None:
            for interval in node.around(position):
                if interval not in self._removed:
                    yield interval[2]
            node = node.below if position < node.place else node.above


@dataclass(frozen=True, slots=True)
class _Centre:
    """The intervals that contain a place, by their lower and by their upper ends; others lie to one side."""

    place: Position
    by_low: list[Bounded]
    by_high: list[Bounded]
    below: _Centre | None
    above: _Centre | None

    def around(self, position: Position) -> Iterable[Bounded]:
        if position < self.place:
            return self.by_low[: bisect_right(self.by_low, position, key=lambda interval: interval[0])]
        return self.by_high[bisect_right(self.by_high, position, key=lambda interval: interval[1]) :]


def _build(intervals: list[Bounded]) -> _Centre | None:
    if not intervals:
        return None
    lows = sorted(low for low, _, _ in intervals)
    place = lows[len(lows) // 2]
    around = [each for each in intervals if each[0] <= place < each[1]]
    return _Centre(
        place,
        sorted(around, key=lambda interval: interval[0]),
        sorted(around, key=lambda interval: interval[1]),
        _build([each for each in intervals if each[1] <= place]),
        _build([each for each in intervals if each[0] > place]),
    )
