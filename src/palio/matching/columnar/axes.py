"""Axes: the slot of a value, which is all that the index sees of it.

An attribute is an *axis*: slot 0 is missing, 1 null, 2 false, 3 true, then come the numbers, strings, dates,
timestamps and bytes, each kind with one slot more than its constants make cuts. `axes_builder` makes axes, the kernels
encode whole Arrow columns with them; here one Python value is encoded at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import ROUND_FLOOR, Decimal
from math import inf
from typing import Any, Final

import numpy as np

from palio.events.values import MAX_INT64, MIN_INT64
from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.array_types import AnyArray, Int64s
from palio.matching.columnar.layout import (
    AXES_CUT_KINDS,
    AXES_FIELDS,
    AXES_FLOAT_CUTS,
    AXES_HINTS,
    AXES_INSTANT_CUTS,
    AXES_INTEGER_CUTS,
    AXES_ROWS,
    AXES_TABLES,
    AXES_TEXT,
    AXES_TEXT_STARTS,
    AXIS_AMBIGUOUS,
    AXIS_BYTES,
    AXIS_DATES,
    AXIS_FLOAT_PLACE,
    AXIS_HIGHEST_ASKED,
    AXIS_INTEGER_COUNT,
    AXIS_LOWEST_ASKED,
    AXIS_NULLS,
    AXIS_NUMBERS,
    AXIS_SIZE,
    AXIS_STRINGS,
    AXIS_TIMESTAMPS,
    CUT_AFTER_INTEGER,
    CUT_BEFORE_DECIMAL,
    CUT_BEFORE_INTEGER,
    CUT_BY_FLOAT,
    FALSE,
    NULL,
    TRUE,
    VIRTUAL_SIZE,
)
from palio.matching.columnar.native import address_of
from palio.matching.columnar.slot_order import (
    days,
    float_at,
    float_order,
    micros,
    nearest_float,
    text_bytes,
)

_MAX_SHORT_INTEGER: Final = 2**52  # below, there is a float between any two integers
_MAX_CACHED_VALUES: Final = 4096  # per axis, for single events
SHORT_DIGITS: Final = 15
"""Digits of which no two decimals are one float."""


_ADDRESSES: Final = {
    AXES_ROWS: "rows",
    AXES_INTEGER_CUTS: "integer_cuts",
    AXES_FLOAT_CUTS: "float_cuts",
    AXES_CUT_KINDS: "cut_kinds",
    AXES_INSTANT_CUTS: "instant_cuts",
    AXES_HINTS: "hints",
    AXES_TEXT: "text",
    AXES_TEXT_STARTS: "text_starts",
    AXES_TABLES: "tables",
}


class Axes:
    """Finds the slots of values. Never changed once made; its arrays may be memory-mapped."""

    def __init__(self, arrays: Mapping[str, AnyArray]) -> None:
        self.arrays = dict(arrays)
        self._rows: Int64s = self.arrays["rows"]
        self._table = np.zeros(AXES_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        self.address = address_of(self._table)
        self._rounding_safely: dict[int, bool] = {}
        # Virtual axes have no row: their size is all there is to know.
        behind = np.full(int(self.arrays["behind"][0]), VIRTUAL_SIZE, np.int32)
        self.sizes = np.concatenate([self._rows[:, AXIS_SIZE].astype(np.int32), behind])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    def tells_null(self, axis: int) -> bool:
        """Whether some condition on an axis tells null from missing."""
        return bool(self._rows[axis, AXIS_NULLS])

    def places_fractions(self, axis: int) -> bool:
        """Whether floats and decimals find their slot for certain: not where two exact constants round to one float."""
        return not self._rows[axis, AXIS_AMBIGUOUS]

    def rounds_safely(self, axis: int) -> bool:
        """Whether a decimal of at most `SHORT_DIGITS` digits has the slot of the float that it is rounded to.

        It has where all constants that are compared exactly have as few digits: they are different floats where they
        are different numbers.
        """
        known = self._rounding_safely.get(axis)
        if known is None:
            known = self._rounding_safely[axis] = self.places_fractions(axis) and self._has_short_constants(axis)
        return known

    def _has_short_constants(self, axis: int) -> bool:
        _, start, count = self._rows[axis, AXIS_NUMBERS : AXIS_NUMBERS + 3].tolist()
        kinds = self.arrays["cut_kinds"][start : start + count]
        is_whole = (kinds == CUT_BEFORE_INTEGER) | (kinds == CUT_AFTER_INTEGER)
        wholes = self.arrays["integer_cuts"][start : start + count][is_whole]
        if len(wholes) and not -(10**SHORT_DIGITS) < int(wholes.min()) <= int(wholes.max()) < 10**SHORT_DIGITS:
            return False
        first, last = np.searchsorted(self.arrays["decimal_cuts"], (start, start + count)).tolist()
        places = self.arrays["decimal_starts"][first : last + 1]
        text = self.arrays["decimal_text"]
        # Most are shorter with their point than the digits may be.
        return all(
            len(Decimal(text[places[at] : places[at + 1]].tobytes().decode()).as_tuple().digits) <= SHORT_DIGITS
            for at in np.flatnonzero(np.diff(places) > SHORT_DIGITS).tolist()
        )

    def asked_slots(self, axis: int) -> tuple[int, int]:
        """The first and the last slot that some condition on an axis asks for."""
        return int(self._rows[axis, AXIS_LOWEST_ASKED]), int(self._rows[axis, AXIS_HIGHEST_ASKED])

    def asked_values(self, axis: int, kind: type) -> tuple[Any, Any] | None:
        """Bounds of the integers, floats or booleans that conditions on an axis ask for; None where there are none.

        Those of floats may be a little wider, and say nothing of NaN.
        """
        row = self._rows[axis]
        low, high = self.asked_slots(axis)
        if kind is bool:
            low, high = max(low, FALSE), min(high, TRUE)
            return (low == TRUE, high == TRUE) if low <= high else None
        first, start, count = row[AXIS_NUMBERS : AXIS_NUMBERS + 3].tolist()
        # A slot is how many cuts are not above a value: it is at least `low` above the cut before that slot.
        below, above = low - first - 1, high - first
        if above < 0 or below >= count:
            return None
        if kind is int:
            cuts = self.arrays["integer_cuts"][start : start + int(row[AXIS_INTEGER_COUNT])]
            if below >= len(cuts):
                return None
            least = MIN_INT64 if below < 0 else int(cuts[below])
            greatest = MAX_INT64 if above >= len(cuts) else int(cuts[above]) - 1
            return (least, greatest) if greatest >= MIN_INT64 else None  # a cut at the least integer has none below
        place = int(row[AXIS_FLOAT_PLACE])
        if place < 0:
            cuts = self.arrays["integer_cuts"][start : start + count]
            # A cut after an integer is kept as the next one.
            return -inf if below < 0 else float(cuts[below]) - 1, inf if above >= count else float(cuts[above])
        orders = self.arrays["float_cuts"][place : place + count]
        return (
            -inf if below < 0 else float_at(int(orders[below])),
            inf if above >= count else float_at(int(orders[above])),
        )

    def code(self, axis: int, value: Any) -> int | None:
        """An axis and the slot of a value on it, as one integer; None where the value says nothing."""
        if value is None:
            return axis << 32 | NULL if self._rows[axis, AXIS_NULLS] else None
        return axis << 32 | self.slot(axis, value)

    def slot(self, axis: int, value: Any) -> int:
        """The slot of a value that is not null."""
        find = _SLOTS.get(type(value))
        if find is None:
            raise TypeError(f"an event cannot hold a {type(value).__name__}")
        return find(self, axis, value)

    def coder(self, axis: int) -> Callable[[Any], int]:
        """`code` for one axis, remembering what it has seen; -1 where a value says nothing."""
        known: dict[Any, int] = {}
        null = axis << 32 | NULL if self._rows[axis, AXIS_NULLS] else -1

        def code(value: Any) -> int:
            kind = value.__class__
            # By exact class: True and 1.0 would be found as 1.
            if kind is str or kind is int:
                found = known.get(value)
                if found is None:
                    if len(known) >= _MAX_CACHED_VALUES:
                        known.clear()
                    found = known[value] = axis << 32 | self.slot(axis, value)
                return found
            return null if value is None else axis << 32 | self.slot(axis, value)

        return code

    def _integer(self, axis: int, value: int) -> int:
        if MIN_INT64 <= value <= MAX_INT64:
            return int(kernels.whole_slot(self.address, axis, AXIS_NUMBERS, value))
        return self._decimal(axis, Decimal(value))

    def _float(self, axis: int, value: float) -> int:
        return int(kernels.float_slot(self.address, axis, value))

    def _text(self, axis: int, value: str | bytes) -> int:
        text = array("B", text_bytes(value))
        which = AXIS_STRINGS if isinstance(value, str) else AXIS_BYTES
        return int(kernels.text_slot(self.address, axis, which, *text.buffer_info()))

    def _boolean(self, axis: int, value: bool) -> int:
        return TRUE if value else FALSE

    def _date(self, axis: int, value: date) -> int:
        return int(kernels.whole_slot(self.address, axis, AXIS_DATES, days(value)))

    def _timestamp(self, axis: int, value: datetime) -> int:
        return int(kernels.whole_slot(self.address, axis, AXIS_TIMESTAMPS, micros(value)))

    def _decimal(self, axis: int, value: Decimal) -> int:
        """Count the cuts that are not above a decimal: by floats, but where floats cannot tell, exactly."""
        if value == value.to_integral_value() and MIN_INT64 <= value <= MAX_INT64:
            return self._integer(axis, int(value))
        first, start, count = self._rows[axis, AXIS_NUMBERS : AXIS_NUMBERS + 3].tolist()
        floats = int(self._rows[axis, AXIS_FLOAT_PLACE])
        if floats < 0:
            return self._float_between_integers(axis, value)
        orders = self.arrays["float_cuts"][floats : floats + count]
        order = float_order(nearest_float(value))
        # Rounding moves a decimal to a neighbouring float at most: only cuts at this place and the next are uncertain.
        low = int(np.searchsorted(orders, order, "left"))
        high = int(np.searchsorted(orders, order + 1, "right"))
        unsure = sum(self._not_above(index, start, floats, order, value) for index in range(low, high))
        return int(first) + low + unsure

    def _float_between_integers(self, axis: int, value: Decimal) -> int:
        """All constants are short integers, and so any float between the same two integers stands for a decimal."""
        if not -_MAX_SHORT_INTEGER < value < _MAX_SHORT_INTEGER:
            return self._float(axis, nearest_float(value))
        return self._float(axis, value.to_integral_value(ROUND_FLOOR).__float__() + 0.5)

    def _not_above(self, index: int, start: int, floats: int, order: int, value: Decimal) -> bool:
        kind = int(self.arrays["cut_kinds"][start + index])
        if kind == CUT_BY_FLOAT:
            return int(self.arrays["float_cuts"][floats + index]) <= order
        if kind in (CUT_BEFORE_INTEGER, CUT_AFTER_INTEGER):
            constant = Decimal(int(self.arrays["integer_cuts"][start + index]) - (kind == CUT_AFTER_INTEGER))
        else:
            place = int(np.searchsorted(self.arrays["decimal_cuts"], start + index))
            begin, end = self.arrays["decimal_starts"][place : place + 2].tolist()
            constant = Decimal(self.arrays["decimal_text"][begin:end].tobytes().decode())
        return constant < value or (constant == value and kind in (CUT_BEFORE_INTEGER, CUT_BEFORE_DECIMAL))


_SLOTS: Final[dict[type, Callable[[Axes, int, Any], int]]] = {
    bool: Axes._boolean,
    int: Axes._integer,
    float: Axes._float,
    Decimal: Axes._decimal,
    str: Axes._text,
    bytes: Axes._text,
    date: Axes._date,
    datetime: Axes._timestamp,
}
