"""Preimages of sets under monotone functions, found by bisection over all the values of a kind.

The values of a kind stand on a line of integers. Within each *piece* of the line the function is monotone, and NULL at
one end at most. The places where it passes a bound of the set are found by bisection with the function itself as the
judge, and the membership between two such places is that of the first value there: whatever rounding and overflow do,
the result is what the function says. A guess, where there is one, makes a search of 64 steps one of about five.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import floor, isfinite
from typing import Any, Final, TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64
from palio.filters.expressions.coercion import WIDE
from palio.filters.kinds import (
    FIRST_FLOAT,
    HIGHEST_CUT,
    LAST_FLOAT,
    LOWEST_CUT,
    Kind,
    Position,
    exact_number,
    float_at,
    float_position,
    integer_cut,
    kind_of,
    position_of,
    rounding_cuts,
    timestamp_at,
)
from palio.filters.value_sets import Intervals, ValueSet, span, union_all

# From a number to about the argument of which the function has it, given whether the argument is negative.
Inverse: TypeAlias = Callable[[Any, bool], Any]


def preimage_of_kind(
    kind: Kind, function: Callable[[Any], Any], values: ValueSet, inverse: Inverse | None = None
) -> Intervals:
    """The values of a kind for which a function, monotone in each piece, is in a set."""
    return _Search(kind, function, values, inverse).part()


def exact_numbers_rounding_into(floats: Intervals) -> dict[Kind, Intervals]:
    """The exact numbers that are in a set of floats once they are rounded."""
    spans = [tuple(_rounding_cut(each) for each in ends) for ends in floats.spans()]
    wholes = [tuple(None if each is None else integer_cut(each) for each in ends) for ends in spans]
    return {
        Kind.DECIMAL: union_all(span(Kind.DECIMAL, *ends) for ends in spans),
        Kind.INTEGER: union_all(span(Kind.INTEGER, *ends) for ends in wholes),
    }


def _rounding_cut(cut: int | None) -> Position | None:
    """The cut between exact numbers where rounding passes a cut between floats."""
    if cut is None:
        return None
    return HIGHEST_CUT[Kind.DECIMAL] if cut >= LAST_FLOAT else rounding_cuts(float_at(cut))[0]


# Adjacent decimals stand at adjacent places: with n digits before the point a decimal has at most 38 - n after it, so
# that there are 10^38 from zero to one, and then nine tenths as many for each further digit.
_BELOW_ONE: Final[int] = 10**MAX_DECIMAL_DIGITS
_PER_DIGIT: Final[int] = 9 * 10 ** (MAX_DECIMAL_DIGITS - 1)
_LAST_DECIMAL: Final[int] = _BELOW_ONE + MAX_DECIMAL_DIGITS * _PER_DIGIT - 1
_LAST_FINITE: Final = LAST_FLOAT - 2

# The pieces of each kind's line. A function is monotone within a piece, and NULL at one of its ends at most: numbers
# are split at zero, and what is no number is apart.
_PIECES: Final[dict[Kind, tuple[tuple[int, int], ...]]] = {
    Kind.INTEGER: ((MIN_INT64, -1), (0, MAX_INT64)),
    Kind.DECIMAL: ((-_LAST_DECIMAL, -1), (0, _LAST_DECIMAL)),
    Kind.FLOAT: (
        (FIRST_FLOAT, FIRST_FLOAT),
        (FIRST_FLOAT + 1, -1),
        (0, _LAST_FINITE),
        (_LAST_FINITE + 1, _LAST_FINITE + 1),
        (LAST_FLOAT, LAST_FLOAT),
    ),
    **{kind: ((LOWEST_CUT[kind], HIGHEST_CUT[kind] - 1),) for kind in (Kind.DATE, Kind.TIMESTAMP)},
}


@dataclass(frozen=True)
class _Search:
    """The search for the arguments of one kind for which a monotone function is in a set."""

    kind: Kind
    function: Callable[[Any], Any]
    values: ValueSet
    inverse: Inverse | None

    def part(self) -> Intervals:
        """The arguments, as intervals."""
        steps = [step for low, high in _PIECES[self.kind] for step in self._steps(low, high)]
        cuts = [self._cut(place, bound) for (_, before, _), (place, after, bound) in pairwise(steps) if before != after]
        return Intervals(steps[0][1], tuple(cuts))

    def _steps(self, low: int, high: int) -> list[tuple[int, bool, Position | None]]:
        """The places in a piece from which on the membership may be another, with it, and the bound reached there."""
        starts: dict[int, Position | None] = {low: None}
        first, last = self._at(low), self._at(high)
        if (first is None) is not (last is None):
            edge = self._edge(low, high)
            starts[edge] = None
            low, high = (edge, high) if first is None else (low, edge - 1)
            first, last = self._at(low), self._at(high)
        if first is not None:
            kind = kind_of(first)
            for bound in self.values.parts[kind].cuts:
                if (position_of(kind, first) < bound) is not (position_of(kind, last) < bound):
                    starts[self._crossing(kind, bound, low, high)] = bound if kind is Kind.DECIMAL else None
        return [(place, self.values.contains(self._at(place)), starts[place]) for place in sorted(starts)]

    def _edge(self, low: int, high: int) -> int:
        """The first place where the function is NULL, or is no longer: it overflows at one of the ends."""
        first, last = self._at(low), self._at(high)
        kind = kind_of(last if first is None else first)
        guesses = [self._guess(kind, end[kind], low < 0) for end in (LOWEST_CUT, HIGHEST_CUT)]
        guess = next((each for each in guesses if each is not None and low < each < high), None)
        return self._first(lambda value: (value is None) is (first is None), low, high, guess)

    def _crossing(self, kind: Kind, bound: Position, low: int, high: int) -> int:
        """The first place whose value is on the other side of a bound than the one at `low`."""
        is_below = position_of(kind, self._at(low)) < bound
        guess = self._guess(kind, bound, low < 0)
        return self._first(lambda value: (position_of(kind, value) < bound) is is_below, low, high, guess)

    def _first(self, is_before: Callable[[Any], bool], low: int, high: int, guess: int | None) -> int:
        """The first place after `low` whose value is not before; the one at `high` is not."""
        if guess is not None and low < guess < high:
            step = 1
            if is_before(self._at(guess)):
                low = guess
                while low + step < high and is_before(self._at(low + step)):
                    low, step = low + step, 2 * step
                high = min(high, low + step)
            else:
                high = guess
                while high - step > low and not is_before(self._at(high - step)):
                    high, step = high - step, 2 * step
                low = max(low, high - step)
        while high - low > 1:
            middle = (low + high) // 2
            if is_before(self._at(middle)):
                low = middle
            else:
                high = middle
        return high

    def _guess(self, kind: Kind, bound: Position, is_negative: bool) -> int | None:
        """About where the function reaches a bound."""
        number = _number_at(kind, bound)
        if number is None or self.inverse is None:
            return None
        near = self.inverse(number, is_negative)
        match self.kind:
            case Kind.INTEGER | Kind.TIMESTAMP:
                return floor(near)  # type: ignore[no-any-return]
            case Kind.DECIMAL:
                return _decimal_place(near)
            case Kind.FLOAT:
                try:
                    return float_position(float(near))
                except OverflowError:
                    return None
        return None

    def _at(self, place: int) -> Any:
        return self.function(_value_at(self.kind, place))

    def _cut(self, place: int, bound: Position | None) -> Position:
        """The cut below a place; of the many between two decimals the bound itself, or one at the shorter number."""
        if self.kind is not Kind.DECIMAL:
            return place
        below, above = (exact_number(_decimal_at(each)) for each in (place - 1, place))
        if bound is not None and below < bound[0] < above:
            return bound  # half-way between two floats
        return (below, 1) if len(str(below)) <= len(str(above)) else (above, 0)


def _number_at(kind: Kind, bound: Position) -> int | Fraction | None:
    """The number at a cut, of a timestamp its microseconds; None for one among other values."""
    match kind:
        case Kind.INTEGER | Kind.TIMESTAMP:
            return bound  # type: ignore[no-any-return]
        case Kind.DECIMAL:
            return bound[0]  # type: ignore[no-any-return]
        case Kind.FLOAT if isfinite(number := float_at(bound)):
            return Fraction(number)
    return None


def _value_at(kind: Kind, place: int) -> Any:
    match kind:
        case Kind.DECIMAL:
            return _decimal_at(place)
        case Kind.FLOAT:
            return float_at(place)
        case Kind.DATE:
            return date.fromordinal(place)
        case Kind.TIMESTAMP:
            return timestamp_at(place)
    return place


def _decimal_at(place: int) -> Decimal:
    """The decimal at a place, with all the digits after the point that it may have."""
    digits, count = 0, abs(place)
    if count >= _BELOW_ONE:
        digits, count = divmod(count - _BELOW_ONE, _PER_DIGIT)
        digits, count = digits + 1, count + _BELOW_ONE // 10
    return WIDE.scaleb(Decimal(count if place >= 0 else -count), digits - MAX_DECIMAL_DIGITS)


def _decimal_place(number: int | Fraction) -> int:
    """About where a number stands among the decimals."""
    size = abs(Fraction(number))
    whole: int = floor(size)
    digits = len(str(whole)) if whole else 0
    if digits > MAX_DECIMAL_DIGITS:
        return _LAST_DECIMAL if number > 0 else -_LAST_DECIMAL
    place: int = floor(size * 10 ** (MAX_DECIMAL_DIGITS - digits))
    if digits:
        place += _BELOW_ONE - _BELOW_ONE // 10 + (digits - 1) * _PER_DIGIT
    return place if number >= 0 else -place
