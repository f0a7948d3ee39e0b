"""Intervals of sums and differences with a constant, for whole columns of constants.

Of `abs(price - 5.06) < 0.03` and ten thousand more that differ in 5.06, the difference must always be in (-0.03, 0.03),
and each condition is that set moved by its constant. `filters.shifted_sets` moves one set for one constant, in a few
hundred microseconds with all that leads to it; here the same arithmetic is done in arrays, for a few microseconds each.
A constant that might lose digits, cancel or overflow is left to the caller, as there.

Where a set has no end, the sum may overflow, and is NULL then: integers and decimals have an end after all, each kind
its own, a constant away from its last value.

Decimals are integers of a common scale. One of less than 2^53, divided by a power of ten, is rounded once, so that the
float of every constant is the one that the evaluator subtracts.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64
from palio.filters.kinds import Kind, float_at
from palio.filters.value_sets import ValueSet
from palio.matching.columnar.array_types import Flags, Floats, Int64s
from palio.matching.columnar.axes_builder import UNBOUNDED
from palio.matching.columnar.computed_attributes import of_kind
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.slot_order import EXACT_FLOATS, Cut, Region, float_orders

_Ends: TypeAlias = list[Cut | None]

_MAX_SCALE: Final = 15  # digits behind the point
_BEYOND_DECIMALS: Final[int] = 10**MAX_DECIMAL_DIGITS
_MAX_FLOAT: Final = 1e15  # bounds of the set, so that no sum overflows or is rounded to an integer
_MAX_STEPS: Final = 4  # from the rounded sum to the float where the bound is passed


def shifted_alternatives(
    builder: ConditionsBuilder, name: str, values: ValueSet, constants: Sequence[int | Decimal]
) -> list[list[list[int]] | None]:
    """For each constant: the numbers that are in a set once it is subtracted, as intervals of a computed attribute.

    They are alternatives of which a value meets one at most: one where all kinds of number have the same bounds, else
    one for each kind. None where `canonical_range` must tell.
    """
    shift = _Shift.of(values, constants) if _is_of_numbers(values) else None
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


def _is_of_numbers(values: ValueSet) -> bool:
    """Whether a set is of numbers alone, and as many intervals in all kinds."""
    if values.contains(None) or not values.parts[Kind.DATE].is_empty:  # days are shifted too
        return False
    decimals, floats, integers = (values.parts[kind] for kind in (Kind.DECIMAL, Kind.FLOAT, Kind.INTEGER))
    if decimals.inside is not floats.inside or len(decimals.cuts) != len(floats.cuts):
        return False
    begins = integers.inside or _begins_above_lowest(values)
    return begins is decimals.inside and (len(_integer_cuts(values)) - len(decimals.cuts)) % 2 == 0


def _begins_above_lowest(values: ValueSet) -> bool:
    """Whether the lowest integer is the only one that a set leaves out below: it has no absolute value."""
    part = values.parts[Kind.INTEGER]
    return not part.inside and part.cuts[:1] == (MIN_INT64 + 1,)


def _integer_cuts(values: ValueSet) -> tuple[int, ...]:
    """The cuts of a set among integers, but for one behind the lowest."""
    cuts: tuple[int, ...] = values.parts[Kind.INTEGER].cuts
    return cuts[1:] if _begins_above_lowest(values) else cuts


class _Shift:
    """A set moved by many constants: its cuts, by constant and cut, among decimals, integers and floats."""

    def __init__(self, values: ValueSet, scale: int, scaled: Int64s, good: Flags, is_whole: bool) -> None:
        self._scale = scale
        self._constants = scaled
        self._is_whole = is_whole
        one = 10**scale
        part = values.parts[Kind.DECIMAL]
        self._begins_below, self._ends_above = part.inside, part.inside is (len(part.cuts) % 2 == 0)
        cuts = values.parts[Kind.DECIMAL].cuts
        self._after = np.array([bool(after) for _, after in cuts])
        own = np.array([int(number * one) for number, _ in cuts], np.int64)
        self._scaled = scaled[:, None] + own
        # A decimal of 38 digits keeps them all where the difference has fewer digits before the point than itself.
        digits = np.array([0 if abs(number) < 1 else 10 ** len(str(abs(int(number)))) for number, _ in cuts], np.int64)
        keeps = (np.abs(self._scaled) // one >= digits) | (digits == 0)
        # What a comparison with a decimal means for integers.
        first = np.where(self._after, self._scaled // one + 1, -(-self._scaled // one))
        self._integers = scaled[:, None] // one + np.array(_integer_cuts(values)) if is_whole else first
        constants = scaled / one
        self._floats, is_near = _float_cuts(values.parts[Kind.FLOAT].cuts, constants)
        short = (np.abs(self._scaled) < EXACT_FLOATS).all(axis=1)
        self.good: Flags = good & short & keeps.all(axis=1) & is_near
        """The constants that nothing speaks against."""
        rounded = float_orders(self._scaled / one) + self._after
        agrees = (float_orders(self._floats) == rounded) & (self._integers == first)
        self.alike: Flags = agrees.all(axis=1) & (self._scaled[:, 1:] > self._scaled[:, :-1]).all(axis=1)
        # Where the sum of the first, or the last, numbers of a kind overflows.
        self._left_out = int(is_whole and _begins_above_lowest(values))  # of integers, below
        self.alike &= ~((self._begins_below & (scaled + self._left_out > 0)) | (self._ends_above & (scaled < 0)))
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
        wholes = _integer_cuts(values)
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
        places = self._scaled[rows] * 2 + after
        return self._intervals(builder, axis, numbers.reshape(after.shape), places, *self._decimal_ends(rows))

    def integers(self, builder: ConditionsBuilder, name: str, rows: Int64s) -> list[list[int]]:
        cuts = self._integers[rows]
        axis = builder.axis((name, None))
        before = np.zeros(cuts.size, np.bool_)
        numbers = builder.axes.cuts.add_integers(np.full(cuts.size, axis, np.int64), cuts.ravel(), before)
        return self._intervals(builder, axis, numbers.reshape(cuts.shape), cuts, *self._integer_ends(rows))

    def floats(self, builder: ConditionsBuilder, name: str, rows: Int64s) -> list[list[int]]:
        cuts = self._floats[rows]
        axis = builder.axis((name, None))
        numbers = builder.axes.cuts.add_floats(axis, cuts.ravel(), after=False)
        return self._intervals(builder, axis, numbers.reshape(cuts.shape), cuts, *self._no_ends(rows))

    def _integer_ends(self, rows: Int64s) -> tuple[_Ends, _Ends]:
        """The cuts below and above which the difference of an integer overflows; None where it does not."""
        if not self._is_whole:
            return self._no_ends(rows)  # the difference with a decimal is one
        constants = (self._constants[rows] // 10**self._scale).tolist()
        lowest = MIN_INT64 + self._left_out
        return (
            [(lowest + each, False) if lowest + each > MIN_INT64 else None for each in constants],
            [(MAX_INT64 + each, True) if each < 0 else None for each in constants],
        )

    def _decimal_ends(self, rows: Int64s) -> tuple[_Ends, _Ends]:
        """As `_integer_ends`: a decimal of 38 digits is an integer, and its difference is rounded to one, half up.

        All are cuts after a number, as `monotone_search` makes them: cuts before and after numbers of one float have no
        order that is right for all kinds.
        """
        constants, twice = self._constants[rows].tolist(), 2 * 10**self._scale
        lasts = [_BEYOND_DECIMALS - 1 - (twice // 2 + 2 * abs(each)) // twice for each in constants]
        return (
            [(Decimal(-last - 1), True) if each > 0 else None for each, last in zip(constants, lasts, strict=True)],
            [(Decimal(last), True) if each < 0 else None for each, last in zip(constants, lasts, strict=True)],
        )

    def _no_ends(self, rows: Int64s) -> tuple[_Ends, _Ends]:
        return [None] * len(rows), [None] * len(rows)

    def _intervals(
        self,
        builder: ConditionsBuilder,
        axis: int,
        numbers: Int64s,
        places: Int64s | Floats,
        lows: _Ends,
        highs: _Ends,
    ) -> list[list[int]]:
        """The handles of the intervals between every two cuts, row by row; those between equal cuts are empty."""
        cuts = [*zip(numbers.T, places.T, strict=True)]
        if self._begins_below:
            cuts.insert(0, (_end_numbers(builder, axis, lows), None))
        if self._ends_above:
            cuts.append((_end_numbers(builder, axis, highs), None))
        found: list[list[int]] = [[] for _ in lows]
        for (lower, low_place), (upper, high_place) in zip(cuts[::2], cuts[1::2], strict=True):
            is_wide = np.ones(len(lower), np.bool_)
            if low_place is not None and high_place is not None:
                is_wide = high_place > low_place
            made = builder.axes.add_between(axis, Region.NUMBER, lower[is_wide], upper[is_wide])
            for at, handle in zip(np.flatnonzero(is_wide).tolist(), made, strict=True):
                found[at].append(handle)
        return found


def _end_numbers(builder: ConditionsBuilder, axis: int, ends: _Ends) -> Int64s:
    cuts = builder.axes.cuts
    return np.array([UNBOUNDED if end is None else cuts.add(axis, Region.NUMBER, *end) for end in ends], np.int64)


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
