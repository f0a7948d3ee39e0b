"""Transposition of events to columns.

The kernels read a column of one type twenty times as fast as Python looks at its values. Events need not be alike
though: an attribute may be a number in one and a string in the next, null or missing, or an array. An attribute whose
values are all of one kind becomes a column; the values of others are encoded one by one, and so are those of attributes
beyond the first few hundred, because a column has room for every event. Where many attributes are read, their values
are kept as cells (`event_cells`), which most attributes can be encoded from without becoming columns. An event with an
array is laid out as one event for every choice of its elements, where those are few; a search looks at all elements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.events.nested_content import GroupedAttributes
from palio.events.values import Scalar
from palio.filters.kinds import MISSING, Missing
from palio.filters.tree import Attributes
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.computed_attributes import ComputedAttribute
from palio.matching.columnar.event_cells import ARRAY, NULL, EventCells

MAX_COLUMNS: Final = 512
MAX_CHOICES: Final = 32
"""Choices of elements up to which an event is laid out, one event for each."""
MAX_LOOKED_UP: Final = 16  # attributes looked up in each event; for more, cells are made of all it has
_NO_SCALAR: Final = frozenset((tuple, type(None), Missing))
_TYPES: Final[dict[type, pa.DataType]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
    date: pa.date32(),
    datetime: pa.timestamp("us", "UTC"),
}


class TransposedEvents:
    """The values of events by attribute, then by row."""

    def __init__(
        self,
        events: Sequence[Attributes],
        wanted: Collection[str],
        searched: bool = False,
        whole: Sequence[Attributes] | None = None,
        cells: EventCells | None = None,
    ) -> None:
        """Of the attributes that are read, and of all others where events are searched; from cells that are made.

        Arrays are left out: `rows_of_arrays` has the rows with one that is read, `searched` the elements to search.
        Where events are choices of elements, `whole` has the events they are of, with their arrays.
        """
        self.count = len(events)
        self._events = events
        self._whole = events if whole is None else whole
        self.rows_of_arrays: list[int] = []
        self.searched: list[tuple[int, tuple[Scalar, ...]]] = []
        """Values that are searched beside those of attributes, with their rows."""
        self.cells: EventCells | None = None
        """All attributes, where more are read than are looked up one by one."""
        self._rows: dict[str, Sequence[int] | Int64s] = {}
        self._values: dict[str, list[Any]] = {}
        self._nulls: dict[str, list[int]] = {}
        self._columns: dict[str, pa.Array | None] = {}
        if searched or len(wanted) > MAX_LOOKED_UP:
            self.cells = cells or EventCells(events)  # type: ignore[arg-type]
            self._read(self.cells, wanted, searched)
        else:
            self._look_up(events, wanted)

    def _look_up(self, events: Sequence[Attributes], wanted: Collection[str]) -> None:
        """Look for some attributes in each event."""
        for name in sorted(wanted):
            values = [attributes.get(name, MISSING) for attributes in events]
            kinds = set(map(type, values))
            # The common case: every event has a scalar, and the list is the column.
            if kinds.isdisjoint(_NO_SCALAR):
                self._values[name], self._rows[name] = values, range(self.count)
                continue
            if tuple in kinds:
                # An empty array has no element to choose: the attribute is missing.
                several = [(row, value) for row, value in enumerate(values) if type(value) is tuple and value]
                self.searched += several
                self.rows_of_arrays += [row for row, _ in several]
            if type(None) in kinds:
                self._nulls[name] = [row for row, value in enumerate(values) if value is None]
            if kinds != {Missing}:
                rows = self._rows[name] = [row for row, value in enumerate(values) if type(value) not in _NO_SCALAR]
                self._values[name] = [values[row] for row in rows]

    def _read(self, cells: EventCells, wanted: Collection[str], searched: bool) -> None:
        """Find the arrays among the cells; the values of an attribute are gathered when they are asked for."""
        self._names = [name for name in cells.numbers if searched or name in wanted]
        places = np.flatnonzero(cells.kinds == ARRAY).tolist()
        for row, place in zip(cells.rows[places].tolist(), places, strict=True):
            value, name = cells.values[place], cells.names[place]
            if name in wanted or searched:
                self.searched.append((row, value))
            if value and name in wanted:
                self.rows_of_arrays.append(row)

    def _gather(self, name: str) -> None:
        """Take the values of one attribute from the cells."""
        if self.cells is None or name in self._values:
            return
        places = self.cells.places(name)
        kinds = self.cells.kinds[places]
        nulls = places[kinds == NULL]
        if len(nulls):
            self._nulls[name] = self.cells.rows[nulls].tolist()
        places = places[kinds != NULL] if len(nulls) else places
        places = places[self.cells.kinds[places] != ARRAY]
        self._rows[name] = self.cells.rows[places]
        self._values[name] = self.cells.values[places].tolist()

    @property
    def names(self) -> Collection[str]:
        return self._values.keys() if self.cells is None else self._names

    def column(self, name: str) -> pa.Array | None:
        """The values of an attribute, null where it is null or missing; None where no column can hold them."""
        if name not in self._columns:
            # Every attribute counts, also one that no column can hold.
            self._gather(name)
            room = len(self._columns) < MAX_COLUMNS
            self._columns[name] = _column(self._values[name], self._rows[name], self.count) if room else None
        return self._columns[name]

    def values(self, name: str) -> Iterator[tuple[int, Any]]:
        """The values of an attribute with their rows, in no promised order; none of those that lack it."""
        self._gather(name)
        rows = self._rows[name]
        yield from zip(rows if isinstance(rows, Sequence) else rows.tolist(), self._values[name], strict=True)
        yield from ((row, None) for row in self._nulls.get(name, ()))

    def arrays(self, name: str) -> Iterator[tuple[int, tuple[Scalar, ...]]]:
        """The whole arrays of an attribute, with their rows."""
        for row, event in enumerate(self._whole):
            value = event.get(name)
            if type(value) is tuple:
                yield row, value

    def compute(self, attribute: ComputedAttribute) -> list[Scalar]:
        """The values of a computed attribute, event by event."""
        found: list[Scalar] = []
        for event, whole in zip(self._events, self._whole, strict=True):
            arrays = {name: value for name, value in whole.items() if type(value) is tuple}
            scalars = {name: value for name, value in event.items() if type(value) is not tuple}
            found.append(attribute.value(scalars, arrays))  # type: ignore[arg-type]
        return found


def _column(values: list[Any], rows: Sequence[int] | Int64s, count: int) -> pa.Array | None:
    kinds = set(map(type, values))
    if not kinds:
        return pa.nulls(count)
    data_type = _TYPES.get(kinds.pop())
    if kinds or data_type is None:
        return None
    try:
        column = pa.array(values, data_type)
    except (pa.ArrowException, OverflowError, UnicodeError):  # a value of the kind that Arrow's type has no room for
        return None
    if len(values) == count:
        return column
    # `take` with a null index gives a null.
    places = np.full(count, -1, np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return column.take(pa.array(places, mask=places < 0))


def column_of(values: list[Any]) -> pa.Array | None:
    """Values, one for each row, as a column; None where no column can hold them."""
    rows = [row for row, value in enumerate(values) if value is not None]
    return _column([values[row] for row in rows], rows, len(values))


def choices_of(event: Attributes, wanted: Collection[str]) -> list[dict[str, Any]] | None:
    """An event as one event per choice of elements of the arrays that are read.

    None where they are too many, and where there are objects in arrays, whose values are not chosen each for itself.
    """
    if isinstance(event, GroupedAttributes):
        return None
    several = {name: value for name, value in event.items() if type(value) is tuple and value and name in wanted}
    if prod(map(len, several.values())) > MAX_CHOICES:
        return None
    scalars = {name: value for name, value in event.items() if type(value) is not tuple}
    return [scalars | dict(zip(several, chosen, strict=True)) for chosen in product(*several.values())]
