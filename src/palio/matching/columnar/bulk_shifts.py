"""Intervals of sums and differences with a constant, for whole columns of constants.

Of `abs(price - 5.06) < 0.03` and ten thousand more that differ in 5.06, the difference must always be in (-0.03, 0.03),
and each condition is that set moved by its constant. `filters.shifted_sets` moves one set for one constant, in a few
hundred microseconds with all that leads to it; here the same arithmetic is done in arrays, for a few microseconds each.
A constant that might lose digits, cancel or overflow is left to the caller, as there.

Decimals are integers of a common scale. One of less than 2^53, divided by a power of ten, is rounded once, so that the
float of every constant is the one that the evaluator subtracts.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np

from palio.filters.kinds import NUMBERS, Kind, float_at
from palio.filters.value_sets import ValueSet
from palio.matching.columnar.array_types import Flags, Floats, Int64s
from palio.matching.columnar.computed_attributes import of_kind
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.slot_order import EXACT_FLOATS, Region, float_orders

_MAX_SCALE: Final = 15  # digits behind the point
_MAX_FLOAT: Final = 1e15  # bounds of the set, so that no sum overflows or is rounded to an integer
_MAX_STEPS: Final = 4  # from the rounded sum to the float where the bound is passed


def shifted_alternatives(
    builder: ConditionsBuilder, name: str, values: ValueSet, constants: Sequence[int | Decimal]
) -> list[list[list[int]] | None]:
    """For each constant: the numbers that are in a set once it is subtracted, as intervals of a computed attribute.

    They are alternatives of which a value meets one at most: one where all kinds of number have the same bounds, else
    one for each kind. None where `canonical_range` must tell.
    """
    shift = _Shift.of(values, constants) if _is_bounded(values) else None
    if shift is None:
        return [None] * len(constants)
    found: list[list[list[int]] | None] = [None] * len(constants)
    same = np.flatnonzero(shift.good & shift.alike)
    if len(same):
        for at, handles in zip(same.tolist(), shift.decimals(builder, name, same), strict=True):
            found[at] = [handles]
    other = np.flatnonzero(shift.good & ~shift.alike)
    if len(other):
        by_kind = (
            shift.integers(builder, of_kind(name, Kind.INTEGER), other),
            shift.decimals(builder, of_kind(name, Kind.DECIMAL), other),
            shift.floats(builder, of_kind(name, Kind.FLOAT), other),
        )
        for at, *alternatives in zip(other.tolist(), *by_kind, strict=True):
            found[at] = [handles for handles in alternatives if handles]
    return found


def _is_bounded(values: ValueSet) -> bool:
    """Whether a set is of numbers, in intervals that end: beyond any other the difference may overflow, and be NULL."""
    if values.contains(None) or not values.parts[Kind.DATE].is_empty:  # days are shifted too
        return False
    parts = [values.parts[kind] for kind in NUMBERS]
    if any(part.inside or len(part.cuts) % 2 for part in parts):
        return False
    return len(values.parts[Kind.DECIMAL].cuts) == len(values.parts[Kind.FLOAT].cuts)


class _Shift:
    """A set moved by many constants: its cuts, by constant and cut, among decimals, integers and floats."""

    def __init__(self, values: ValueSet, scale: int, scaled: Int64s, good: Flags, is_whole: bool) -> None:
        self._scale = scale
        one = 10**scale
        cuts = values.parts[Kind.DECIMAL].cuts
        self._after = np.array([bool(after) for _, after in cuts])
        own = np.array([int(number * one) for number, _ in cuts], np.int64)
        self._scaled = scaled[:, None] + own
        # A decimal of 38 digits keeps them all where the difference has fewer digits before the point than itself.
        digits = np.array([0 if abs(number) < 1 else 10 ** len(str(abs(int(number)))) for number, _ in cuts], np.int64)
        keeps = (np.abs(self._scaled) // one >= digits) | (digits == 0)
        # What a comparison with a decimal means for integers.
        first = np.where(self._after, self._scaled // one + 1, -(-self._scaled // one))
        self._integers = scaled[:, None] // one + np.array(values.parts[Kind.INTEGER].cuts) if is_whole else first
        constants = scaled / one
        self._floats, is_near = _float_cuts(values.parts[Kind.FLOAT].cuts, constants)
        short = (np.abs(self._scaled) < EXACT_FLOATS).all(axis=1)
        self.good: Flags = good & short & keeps.all(axis=1) & is_near
        """The constants that nothing speaks against."""
        rounded = float_orders(self._scaled / one) + self._after
        agrees = (float_orders(self._floats) == rounded) & (self._integers == first)
        self.alike: Flags = agrees.all(axis=1) & (self._scaled[:, 1:] > self._scaled[:, :-1]).all(axis=1)
        """Those of which comparisons with decimals say the bounds of integers and floats, too."""

    @classmethod
    def of(cls, values: ValueSet, constants: Sequence[int | Decimal]) -> _Shift | None:
        """The shift of a set whose cuts are short numbers; None for others."""
        cuts: tuple[Any, ...] = values.parts[Kind.DECIMAL].cuts
        floats = [float_at(cut) for cut in values.parts[Kind.FLOAT].cuts]
        if not cuts or not all(abs(each) < _MAX_FLOAT for each in floats):
            return None
        own = [_digits_behind_point(Decimal(number.numerator) / number.denominator) for number, _ in cuts]
        if any(
            (Fraction(10) ** digits * number).denominator > 1 for digits, (number, _) in zip(own, cuts, strict=True)
        ):
            return None  # half-way between two floats
        is_whole = all(type(each) is int for each in constants)
        wholes = values.parts[Kind.INTEGER].cuts
        scales = [0] if is_whole else [_digits_behind_point(each) for each in constants]
        scale = max(*own, *(each for each in scales if each <= _MAX_SCALE), 0)
        if scale > _MAX_SCALE or not all(abs(number) * 10**scale < EXACT_FLOATS for number, _ in cuts):
            return None
        if is_whole and (len(wholes) != len(cuts) or not all(abs(each) < EXACT_FLOATS for each in wholes)):
            return None
        one = 10**scale
        scaled = [int(each * one) if abs(each) * one < EXACT_FLOATS else None for each in constants]
        good = np.array([each is not None for each in scaled]) & (np.array(scales) <= scale)
        return cls(values, scale, np.array([each or 0 for each in scaled], np.int64), good, is_whole)

    def decimals(self, builder: ConditionsBuilder, name: str, rows: Int64s) -> list[list[int]]:
        """The intervals of some rows on the axis of an attribute, by cuts at decimals."""
        after = np.broadcast_to(self._after, self._scaled[rows].shape)
        axis = builder.axis((name, None))
        numbers = builder.axes.cuts.add_decimals(axis, self._scaled[rows].ravel(), self._scale, after.ravel())
        return _intervals(builder, axis, numbers.reshape(after.shape), self._scaled[rows] * 2 + after)

    def integers(self, builder: ConditionsBuilder, name: str, rows: Int64s) -> list[list[int]]:
        cuts = self._integers[rows]
        axis = builder.axis((name, None))
        before = np.zeros(cuts.size, np.bool_)
        numbers = builder.axes.cuts.add_integers(np.full(cuts.size, axis, np.int64), cuts.ravel(), before)
        return _intervals(builder, axis, numbers.reshape(cuts.shape), cuts)

    def floats(self, builder: ConditionsBuilder, name: str, rows: Int64s) -> list[list[int]]:
        cuts = self._floats[rows]
        axis = builder.axis((name, None))
        numbers = builder.axes.cuts.add_floats(axis, cuts.ravel(), after=False)
        return _intervals(builder, axis, numbers.reshape(cuts.shape), cuts)


def _intervals(builder: ConditionsBuilder, axis: int, numbers: Int64s, places: Int64s | Floats) -> list[list[int]]:
    """The handles of the intervals between every two cuts, row by row; those between equal cuts are empty."""
    is_wide = places[:, 1::2] > places[:, ::2]
    lower, upper = numbers[:, ::2][is_wide], numbers[:, 1::2][is_wide]
    made = builder.axes.add_between(axis, Region.NUMBER, lower, upper)
    handles = iter(made)
    return [[next(handles) for _ in range(count)] for count in is_wide.sum(axis=1).tolist()]


def _float_cuts(cuts: Sequence[int], constants: Floats) -> tuple[Floats, Flags]:
    """The first floats whose difference with each constant is above each cut, and where these were found."""
    bounds = np.array([float_at(cut) for cut in cuts])
    places = float_orders(bounds)
    constants = constants[:, None]
    found = bounds + constants
    for _ in range(_MAX_STEPS):
        is_below = float_orders(found - constants) < places
        is_above = float_orders(np.nextafter(found, -np.inf) - constants) >= places
        moved = np.where(is_below, np.nextafter(found, np.inf), np.where(is_above, np.nextafter(found, -np.inf), found))
        if (moved == found).all():
            break
        found = moved
    is_found = (float_orders(found - constants) >= places) & (
        float_orders(np.nextafter(found, -np.inf) - constants) < places
    )
    is_near: Flags = np.logical_and.reduce(is_found, axis=1)
    return found + 0.0, is_near


def _digits_behind_point(number: int | Decimal) -> int:
    return 0 if isinstance(number, int) else max(0, -int(number.as_tuple().exponent))
