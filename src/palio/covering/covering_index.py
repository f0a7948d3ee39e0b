"""Covering index: finds the filters that cover a given one, and those that it covers (Shen §4.1.2).

`AdaptiveIndex` is the default of relation graphs. It starts as a `LinearIndex` and becomes a `ColumnarIndex`: most
brokers have few filters for most neighbours, and arrays would only cost them memory; from some dozens on they pay.
`classical` has three more indexes behind the same protocol: counting, a k-d tree and space-filling curves.

In the columnar index a filter's extent is a row of numbers, two for each attribute, and to be covered is to be at most
as great in all of them (Shen §4.6.1). One kernel compares a thousand rows at a time in vectors, which for tens of
thousands of filters costs less than descending a tree, and does not depend on the number of dimensions. What the
numbers admit is verified with the filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np

from palio.covering.covering_kernels import DOMINATED, DOMINATING, find_in_columns
from palio.covering.extents import Floats, IndexedFilter, first_above
from palio.covering.xpath_index import XPathIndex, pattern_of


class CoveringIndex(Protocol):
    """Holds filters; finds those above and below one, which need not be in it.

    Every filter found truly is above, or below. An exact index finds all there are; an approximate one may miss some,
    which costs a filter forwarded in vain and nothing else.
    """

    def add(self, filter: IndexedFilter) -> None:
        """Add a filter that is not in the index."""

    def remove(self, filter: IndexedFilter) -> None:
        """Remove a filter that is in the index."""

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        """Filters above one, `limit` of them where there are as many (cov_l in the source)."""
        ...

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        """All filters below one."""
        ...

    @property
    def comparisons(self) -> int:
        """The filters, or groups of them, that all searches have examined."""
        ...


class LinearIndex:
    """Compares one filter after the other, the oldest first; adding and removing cost nothing."""

    def __init__(self) -> None:
        self.filters: dict[IndexedFilter, None] = {}
        self.comparisons = 0

    def add(self, filter: IndexedFilter) -> None:
        self.filters[filter] = None

    def remove(self, filter: IndexedFilter) -> None:
        del self.filters[filter]

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        return first_above(self._scan(), filter, limit)

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        return [each for each in self._scan() if filter.is_above(each)]

    def _scan(self) -> Iterator[IndexedFilter]:
        for each in self.filters:
            self.comparisons += 1
            yield each


MAX_COLUMN_AXES: Final = 32  # attributes with columns; others are left to the verification
_INITIAL_ROWS: Final = 64


class ColumnarIndex:
    """A search costs a few nanoseconds for each filter; adding and removing cost some microseconds."""

    def __init__(self) -> None:
        self.filters: list[IndexedFilter] = []
        self.comparisons = 0
        self._row_of: dict[IndexedFilter, int] = {}
        self._all_axes: dict[str, None] = {}  # in the order in which they came
        self._axes: tuple[str, ...] = ()
        self._columns: Floats = np.full((2, _INITIAL_ROWS), np.inf)
        self._found = np.empty(_INITIAL_ROWS, np.int64)

    def add(self, filter: IndexedFilter) -> None:
        # The first axes to come keep their columns, so that rows already written stay valid.
        if not filter.extent.keys() <= self._all_axes.keys():
            self._all_axes.update(dict.fromkeys(filter.extent))
            self._axes = tuple(self._all_axes)[:MAX_COLUMN_AXES]
        row = len(self.filters)
        self._make_room(row + 1)
        self.filters.append(filter)
        self._row_of[filter] = row
        self._columns[: 2 * len(self._axes), row] = filter.corner(self._axes)

    def remove(self, filter: IndexedFilter) -> None:
        """The last row moves to the place that falls vacant."""
        row = self._row_of.pop(filter)
        last = self.filters.pop()
        if last is not filter:
            self.filters[row] = last
            self._row_of[last] = row
            self._columns[:, row] = self._columns[:, len(self.filters)]
        self._columns[:, len(self.filters)] = np.inf

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        # The kernel stops when its 64 places for rows are full: a search for one parent seldom needs more.
        found: list[IndexedFilter] = []
        first = 0
        while first < len(self.filters) and len(found) < limit:
            rows, first = self._find(filter, DOMINATING, first)
            found += first_above((self.filters[row] for row in rows), filter, limit - len(found))
        return found

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        found: list[IndexedFilter] = []
        first = 0
        while first < len(self.filters):
            rows, first = self._find(filter, DOMINATED, first)
            found += [self.filters[row] for row in rows if filter.is_above(self.filters[row])]
        return found

    def _find(self, filter: IndexedFilter, direction: int, first: int) -> tuple[list[int], int]:
        corner = filter.corner(self._axes)
        count, following = find_in_columns(self._columns, len(self.filters), corner, direction, first, self._found)
        self.comparisons += following - first
        return self._found[:count].tolist(), following

    def _make_room(self, rows: int) -> None:
        lines, room = self._columns.shape
        more_lines = max(lines, 2 * len(self._axes))
        more_room = 2 * room if rows > room else room
        if (more_lines, more_room) != (lines, room):
            columns = np.full((more_lines, more_room), np.inf)
            columns[:lines, :room] = self._columns
            self._columns = columns


_MAX_LINEAR_FILTERS: Final = 64


class AdaptiveIndex:
    """A linear index that becomes a columnar one when it has grown, and stays so; beside it one for filters that ask
    for one XPath, once there is any."""

    def __init__(self) -> None:
        self._linear: LinearIndex | None = LinearIndex()
        self._inner: CoveringIndex = self._linear
        self._patterns: CoveringIndex | None = None
        self._earlier = 0

    @property
    def comparisons(self) -> int:
        return self._earlier + self._inner.comparisons + (0 if self._patterns is None else self._patterns.comparisons)

    def add(self, filter: IndexedFilter) -> None:
        if pattern_of(filter.filter) is not None:
            if self._patterns is None:
                self._patterns = XPathIndex()
            self._patterns.add(filter)
            return
        if self._linear is not None and len(self._linear.filters) == _MAX_LINEAR_FILTERS:
            self._grow(self._linear)
        self._inner.add(filter)

    def remove(self, filter: IndexedFilter) -> None:
        self._index_of(filter).remove(filter)

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        found = self._inner.covering(filter, limit)
        if self._patterns is not None and len(found) < limit:
            found += self._patterns.covering(filter, limit - len(found))
        return found

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        found = self._inner.covered(filter)
        return found if self._patterns is None else found + self._patterns.covered(filter)

    def _index_of(self, filter: IndexedFilter) -> CoveringIndex:
        has_pattern = self._patterns is not None and pattern_of(filter.filter) is not None
        return self._patterns if has_pattern and self._patterns is not None else self._inner

    def _grow(self, linear: LinearIndex) -> None:
        self._earlier = linear.comparisons
        self._linear, self._inner = None, ColumnarIndex()
        for each in linear.filters:
            self._inner.add(each)
