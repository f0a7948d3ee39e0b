"""Cells of a batch of events: all their attributes side by side, each with its row, its name and its value.

Events that lack most attributes (30 of 400, say) are no table: a column for each attribute would be empty for the
most part, and making so many takes longer than matching. Cells are as many as there are values. Those of one kind,
whatever their attributes, lie in one Arrow array, and one call of a kernel encodes them all.

Everything that is done for every cell is done by functions written in C (`map`, `chain`, NumPy, Arrow): a loop in
Python takes as long for one step as these take for all of them.

Dicts of scalars, the commonest content, are attributes as they stand; `read_events` checks that for all of them at once
and makes no event of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from types import NoneType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import EventError
from palio.events import DEFAULT_LIMITS, Event
from palio.events.nested_content import are_paths
from palio.filters.tree import Attributes
from palio.matching.columnar.array_types import Bytes, Int32s, Int64s

OTHER: Final = 0  # of a rare type: Decimal, date, datetime, bytes
NULL: Final = 1
ARRAY: Final = 2
STRING: Final = 3
INTEGER: Final = 4
FLOAT: Final = 5
BOOLEAN: Final = 6

COLUMN_TYPES: Final = {STRING: pa.large_string(), INTEGER: pa.int64(), FLOAT: pa.float64(), BOOLEAN: pa.bool_()}
_MAX_CONVERTED_SHARE: Final = 1 / 4  # of all events; where more must be converted, the check of all is wasted


class _Kinds(dict[type, int]):
    def __missing__(self, kind: type) -> int:
        return OTHER


_KINDS: Final = _Kinds({NoneType: NULL, tuple: ARRAY, str: STRING, int: INTEGER, float: FLOAT, bool: BOOLEAN})


class _Numbers(dict[str, int]):
    """Names by the order in which they were first seen."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


class EventCells:
    """The attributes of events in order, row by row."""

    def __init__(self, events: Sequence[dict[str, Any]]) -> None:
        self.count = len(events)
        self.lengths: Int64s = np.fromiter(map(len, events), np.int64, len(events))
        self.names: list[str] = list(chain.from_iterable(events))
        self.values: npt.NDArray[np.object_] = np.fromiter(
            chain.from_iterable(map(dict.values, events)), object, len(self.names)
        )
        self.kinds: Bytes = np.frombuffer(bytes(map(_KINDS.__getitem__, map(type, self.values))), np.uint8)
        self._columns: dict[int, tuple[Int64s, pa.Array]] = {}

    @cached_property
    def rows(self) -> Int64s:
        """The row of every cell."""
        return np.repeat(np.arange(self.count, dtype=np.int64), self.lengths)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of every name, in the order in which they are first seen."""
        return self._numbered[0]

    @cached_property
    def name_numbers(self) -> Int32s:
        """The number of every cell's name."""
        return self._numbered[1]

    @cached_property
    def _numbered(self) -> tuple[dict[str, int], Int32s]:
        numbers = _Numbers()
        found = np.fromiter(map(numbers.__getitem__, self.names), np.int32, len(self.names))
        return numbers, found

    @cached_property
    def _order(self) -> tuple[Int64s, Int64s]:
        """The cells by name, and where those of each name begin."""
        found = self.name_numbers
        # Sixteen bits are sorted by digits, in a fraction of the time.
        narrow = found.astype(np.uint16) if len(self.numbers) <= 0xFFFF else found
        starts = np.zeros(len(self.numbers) + 1, np.int64)
        np.cumsum(np.bincount(found, minlength=len(self.numbers)), out=starts[1:])
        return np.argsort(narrow, kind="stable"), starts

    def places(self, name: str) -> Int64s:
        """The places of the cells of one attribute, by row."""
        number = self.numbers.get(name)
        if number is None:
            return np.empty(0, np.int64)
        order, starts = self._order
        return order[starts[number] : starts[number + 1]]

    def column(self, kind: int) -> tuple[Int64s, pa.Array]:
        """The values of all cells of one kind, with their places.

        `ValueError` or `OverflowError` where one is beyond what an event can hold: text without a form in UTF-8, or an
        integer of more than 64 bits.
        """
        if kind not in self._columns:
            places = np.flatnonzero(self.kinds == kind)
            values = self.values[places]
            # NumPy reads integers twice as fast as Arrow, which reads strings in one go.
            found = pa.array(values.astype(np.int64) if kind == INTEGER else values.tolist(), COLUMN_TYPES[kind])
            self._columns[kind] = places, found
        return self._columns[kind]

    def has_valid_values(self) -> bool:
        """Whether an event can hold all strings and integers as they are."""
        try:
            self.column(STRING)
            self.column(INTEGER)
        except (ValueError, OverflowError, pa.ArrowException):
            return False
        return True


def read_events(contents: Sequence[Any]) -> tuple[Sequence[Attributes], EventCells | None]:
    """The attributes of each event, as `Event.read` gives them; and their cells, where these were made."""
    if set(map(type, contents)) == {dict}:
        cells = EventCells(contents)
        if _are_attributes(cells):
            odd = np.unique(cells.rows[(cells.kinds == OTHER) | (cells.kinds == ARRAY)]).tolist()
            if len(odd) <= _MAX_CONVERTED_SHARE * cells.count:
                attributes = list(contents)
                for row in odd:
                    attributes[row] = Event.read(contents[row]).attributes
                cells = EventCells(attributes) if odd else cells
                if cells.has_valid_values():
                    return attributes, cells
    return [Event.read(each).attributes for each in contents], None


def _are_attributes(cells: EventCells) -> bool:
    """Whether all names are paths of attributes as they stand, and no event has too many."""
    if cells.lengths.max(initial=0) > DEFAULT_LIMITS.attributes:
        return False
    try:
        return are_paths(cells.numbers, DEFAULT_LIMITS)
    except EventError:  # which reading the events one by one reports, with its place
        return False
