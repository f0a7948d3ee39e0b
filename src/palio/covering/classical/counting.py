"""Counting index: a filter covers another when each of its ranges contains the other's, and ranges are counted.

The counting algorithm of matchers (Jerzak §2.5.5, Shen §3.4.3), asked about filters instead of events. Each distinct
range of an attribute is kept once, with all filters that have it. A search looks at the ranges of each attribute that
contain the wanted one, and counts a hit for each of their filters; those all of whose ranges were hit are verified.
Filters without any range are always verified.

A search costs a step for each range that begins on the right side, and one for each filter that shares an attribute and
is no candidate in the end, which is why columns do better; filters with few attributes of many leave most of them
alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from math import inf

from palio.covering.extents import IndexedFilter, Range, first_above


class _Axis:
    """The ranges of one attribute, ascending, and the filters of each."""

    __slots__ = ("filters", "ranges")

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.filters: dict[Range, dict[IndexedFilter, None]] = {}

    def add(self, extent: Range, filter: IndexedFilter) -> None:
        if extent not in self.filters:
            self.filters[extent] = {}
            insort(self.ranges, extent)
        self.filters[extent][filter] = None

    def remove(self, extent: Range, filter: IndexedFilter) -> None:
        del self.filters[extent][filter]
        if not self.filters[extent]:
            del self.filters[extent]
            del self.ranges[bisect_left(self.ranges, extent)]


class CountingIndex:
    """A covering index that counts the ranges of each filter; adding and removing cost a search for each range."""

    def __init__(self) -> None:
        self.comparisons = 0
        self._axes: dict[str, _Axis] = {}
        self._filters: dict[IndexedFilter, None] = {}
        self._unbounded: dict[IndexedFilter, None] = {}  # those without a range

    def add(self, filter: IndexedFilter) -> None:
        self._filters[filter] = None
        if not filter.extent:
            self._unbounded[filter] = None
        for name, extent in filter.extent.items():
            self._axes.setdefault(name, _Axis()).add(extent, filter)

    def remove(self, filter: IndexedFilter) -> None:
        del self._filters[filter]
        self._unbounded.pop(filter, None)
        for name, extent in filter.extent.items():
            axis = self._axes[name]
            axis.remove(extent, filter)
            if not axis.ranges:
                del self._axes[name]

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        return first_above(self._count_containing(filter), filter, limit)

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        return [each for each in self._count_contained(filter) if filter.is_above(each)]

    def _count_containing(self, filter: IndexedFilter) -> Iterator[IndexedFilter]:
        """The filters all of whose ranges contain those of one."""
        yield from self._unbounded
        hits: Counter[IndexedFilter] = Counter()
        for name, (low, high) in filter.extent.items():
            axis = self._axes.get(name)
            if axis is None:
                continue
            first = axis.ranges[: bisect_right(axis.ranges, (low, inf))]
            self.comparisons += len(first)
            for extent in first:
                if extent[1] >= high:
                    for each in axis.filters[extent]:
                        self.comparisons += 1
                        hits[each] += 1
                        if hits[each] == len(each.extent):
                            yield each

    def _count_contained(self, filter: IndexedFilter) -> Iterator[IndexedFilter]:
        """The filters whose ranges lie in all those of one."""
        if not filter.extent:
            yield from self._filters
            return
        hits: Counter[IndexedFilter] = Counter()
        for name, (low, high) in filter.extent.items():
            axis = self._axes.get(name)
            if axis is None:
                return
            last = axis.ranges[bisect_left(axis.ranges, (low, -inf)) :]
            self.comparisons += len(last)
            for extent in last:
                if extent[1] <= high:
                    for each in axis.filters[extent]:
                        self.comparisons += 1
                        hits[each] += 1
                        if hits[each] == len(filter.extent):
                            yield each
