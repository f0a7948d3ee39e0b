"""Events that came one by one, as columns.

The kernels read a column of one type twenty times as fast as Python looks at its values one after the other. Events
need not be alike though: an attribute may be a number in one and a string in the next, null or missing, or several
values. An attribute whose values are all of one kind becomes a column; the values of others are given one by one,
and so are those of attributes beyond the first few hundred, because a column has room for every event. An event with
several values for an attribute is one event for every choice of them, where those are few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime
from itertools import product
from math import prod
from typing import Any, Final

import pyarrow as pa

from palio.filters.tree import Attributes

MOST_COLUMNS: Final = 512
MOST_CHOICES: Final = 32
"""Choices of elements for which an event is laid out as so many events."""
_TYPES: Final[dict[type, pa.DataType]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
    date: pa.date32(),
    datetime: pa.timestamp("us", "UTC"),
}


class Transposed:
    """The values of some events by attribute, and then by row."""

    def __init__(self, events: Sequence[Attributes], wanted: Collection[str] | None) -> None:
        """Of the attributes that are wanted, or of all; several values are left out, and their rows remembered."""
        self.count = count = len(events)
        self.rows_of_arrays: list[int] = []
        self._dense: dict[str, list[Any]] = {}
        self._sparse: dict[str, list[tuple[int, Any]]] = {}
        self._nulls: dict[str, list[int]] = {}
        self._columns: dict[str, pa.Array | None] = {}
        dense, sparse = self._dense, self._sparse
        for row, attributes in enumerate(events):
            for name, value in attributes.items():
                values = dense.get(name)
                if values is None:
                    if wanted is not None and name not in wanted:
                        continue
                    if len(dense) < MOST_COLUMNS:
                        values = dense[name] = [None] * count
                if value.__class__ is tuple:
                    self.rows_of_arrays.append(row)
                elif values is None:
                    sparse.setdefault(name, []).append((row, value))
                elif value is None:
                    self._nulls.setdefault(name, []).append(row)
                else:
                    values[row] = value

    @property
    def names(self) -> list[str]:
        return [*self._dense, *self._sparse]

    def column(self, name: str) -> pa.Array | None:
        """The values of an attribute, null where it is null or missing; None where no column can hold them."""
        if name not in self._columns:
            self._columns[name] = _column(self._dense[name]) if name in self._dense else None
        return self._columns[name]

    def values(self, name: str) -> Iterator[tuple[int, Any]]:
        """The values of an attribute with their rows, in no promised order; none of those that lack it."""
        if name in self._sparse:
            yield from self._sparse[name]
            return
        yield from ((row, value) for row, value in enumerate(self._dense.get(name, ())) if value is not None)
        yield from ((row, None) for row in self._nulls.get(name, ()))


def _column(values: list[Any]) -> pa.Array | None:
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    data_type = _TYPES.get(kinds.pop())
    if kinds or data_type is None:
        return None
    try:
        return pa.array(values, data_type)
    except (pa.ArrowException, OverflowError, UnicodeError):  # a value of the kind that Arrow's type has no room for
        return None


def choices_of(event: Attributes, wanted: Collection[str]) -> list[dict[str, Any]] | None:
    """An event as one event per choice of elements of the arrays that are wanted; None where they are too many."""
    several = {name: value for name, value in event.items() if type(value) is tuple and name in wanted}
    if prod(map(len, several.values())) > MOST_CHOICES:
        return None
    scalars = {name: value for name, value in event.items() if name not in several}
    return [scalars | dict(zip(several, chosen, strict=True)) for chosen in product(*several.values())]
