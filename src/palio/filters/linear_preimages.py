"""Preimages of intervals under sums, differences and products with a constant, in closed form.

`price * 7 > 100` requires `price * 7` to be in an interval, and so `price`. `monotone_search` finds that interval with
some hundred evaluations of the expression; here it is computed, for a few microseconds, by what the evaluator does in
each kind of number: integers have 64 bits, decimals 38 digits and are rounded half away from zero, floats are rounded.

An interval is a pair (low, high) of *places*. Those of integers, days, microseconds and floats
(`kinds.float_position`) are integers, and the interval is low <= x < high. Decimals are dense but have at most 38
digits, so that each has a next one; their interval is low < x <= high, between two decimals or the ends. An end of a
kind is a place like any other: where a sum overflows it is NULL, and an interval that reaches up to the end of the sums
ends where these do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from math import inf, isfinite, nextafter
from typing import Any, Final, TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MICROS_PER_DAY
from palio.filters.expressions.ast import Micros
from palio.filters.expressions.coercion import FIRST_DAY, WIDE
from palio.filters.kinds import (
    FIRST_FLOAT,
    HIGHEST_CUT,
    LAST_FLOAT,
    LOWEST_CUT,
    Kind,
    float_at,
    float_position,
    timestamp_position,
)

Interval: TypeAlias = tuple[Any, Any]

# Decimals of 38 digits, as many of them behind the point as those before it leave: the adjacent ones are adjacent here.
_LATTICE: Final = Context(prec=MAX_DECIMAL_DIGITS, rounding=ROUND_FLOOR, Emin=-1, Emax=MAX_DECIMAL_DIGITS - 1, traps=[])
_HALF: Final = Decimal("0.5")
# Not by operators, which round to 28 digits.
_BEYOND: Final = Decimal(10**MAX_DECIMAL_DIGITS)
_LAST: Final = Decimal(10**MAX_DECIMAL_DIGITS - 1)
_LOWEST: Final = _LAST.copy_negate()
_FIRST_DECIMAL: Final = _BEYOND.copy_negate()  # low of an interval without a lower end
_INFINITY: Final = LAST_FLOAT - 1  # the place of infinity; that of NaN follows
_MAX_STEPS: Final = 4  # from the rounded inverse to the float where a bound is reached

ENDS: Final[dict[Kind, Interval]] = {
    **{kind: (LOWEST_CUT[kind], HIGHEST_CUT[kind]) for kind in (Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)},
    Kind.DECIMAL: (_FIRST_DECIMAL, _LAST),
}
"""The interval of all values of a kind."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one argument with a constant: `x + 5`, `5 - x`, `x + INTERVAL 5 MINUTES`; the constant may vary."""

    name: str
    is_first: bool = False
    """Whether the constant stands before the argument."""

    def kind_after(self, kind: Kind, constant: Any) -> Kind | None:
        """The kind of the values for arguments of a kind; None where no preimage of them is known here."""
        given = type(constant)
        match self.name, kind:
            case ("+" | "-" | "*", Kind.INTEGER | Kind.DECIMAL | Kind.FLOAT):
                if given not in (int, Decimal) or (self.name == "*" and not constant):
                    return None
                return Kind.DECIMAL if given is Decimal and kind is Kind.INTEGER else kind
            case ("neg" | "abs" | "positive", Kind.INTEGER | Kind.DECIMAL | Kind.FLOAT):
                return kind
            case ("+", Kind.DATE) if given is int:
                return kind
            case ("-" | "date_add" | "date_sub", Kind.DATE) if given is int and not self.is_first:
                return kind
            case ("datediff", Kind.DATE) if given is date:
                return Kind.INTEGER
            case ("+" | "-", Kind.DATE | Kind.TIMESTAMP) if given is Micros and (self.name == "+" or not self.is_first):
                return Kind.DATE if kind is Kind.DATE and constant.is_days else Kind.TIMESTAMP
        return None

    def preimage(self, kind: Kind, constant: Any) -> Callable[[Any, list[Interval]], list[Interval]]:
        """The arguments of a kind for which the value is in some intervals, given a constant like this one.

        Alike are constants that have the same `kind_after`.
        """
        within = _preimage(self, kind, constant)
        first, end = ENDS[kind]

        def preimage(constant: Any, intervals: list[Interval]) -> list[Interval]:
            found = []
            for low, high in intervals:
                for begin, stop in within(constant, low, high):
                    begin = begin if begin > first else first
                    stop = stop if stop < end else end
                    if begin < stop:
                        found.append((begin, stop))
            return found

        return preimage


def comparison(kind: Kind, operator: str) -> Callable[[Any], list[Interval] | None]:
    """The values of a kind that compare so with a constant, in UTC, by the constant; None where they do not compare."""
    first, end = ENDS[kind]
    around = _AROUND[kind]

    def intervals(constant: Any) -> list[Interval] | None:
        places = around(constant)
        if places is None:
            return None
        below, above = places
        below = first if below < first else end if below > end else below  # the constant may be beyond the kind
        above = first if above < first else end if above > end else above
        if operator == "<>":
            found = [(first, below), (above, end)]
        else:
            found = [
                (
                    below if operator in ("=", ">=") else above if operator == ">" else first,
                    above if operator in ("=", "<=") else below if operator == "<" else end,
                )
            ]
        return [each for each in found if each[0] < each[1]]

    return intervals


def intersect(some: list[Interval], others: list[Interval]) -> list[Interval]:
    """What is in both of two unions of intervals."""
    both = [(max(one[0], other[0]), min(one[1], other[1])) for one in some for other in others]
    return [each for each in both if each[0] < each[1]]


# --- the places below and above the values that equal a constant -----------------------------------------------


def _integers_around(constant: Any) -> Interval | None:
    if type(constant) is int:
        return constant, constant + 1
    if type(constant) is not Decimal:
        return None
    above = _floor(constant) + 1
    return above - (constant == above - 1), above


def _decimals_around(constant: Any) -> Interval | None:
    if type(constant) is not Decimal and type(constant) is not int:
        return None
    exact = Decimal(constant)
    return _before(exact), exact


def _floats_around(constant: Any) -> Interval | None:
    if type(constant) is not Decimal and type(constant) is not int:
        return None
    place = float_position(float(constant))
    return place, place + 1


def _moments_around(constant: Any) -> Interval | None:
    if type(constant) is datetime:
        micros = timestamp_position(constant)
    elif type(constant) is date:
        micros = (constant.toordinal() - FIRST_DAY) * MICROS_PER_DAY
    else:
        return None
    return micros, micros + 1


def _days_around(constant: Any) -> Interval | None:
    moments = _moments_around(constant)
    if moments is None:
        return None
    day, rest = divmod(moments[0], MICROS_PER_DAY)
    return FIRST_DAY + day + (rest > 0), FIRST_DAY + day + 1


_AROUND: Final[dict[Kind, Callable[[Any], Interval | None]]] = {
    Kind.INTEGER: _integers_around,
    Kind.DECIMAL: _decimals_around,
    Kind.FLOAT: _floats_around,
    Kind.DATE: _days_around,
    Kind.TIMESTAMP: _moments_around,
}

# --- integers, days and microseconds ---------------------------------------------------------------------------

_Within: TypeAlias = Callable[[Any, Any, Any], list[Interval]]  # of a constant, and the ends of an interval


def _preimage(function: Function, kind: Kind, constant: Any) -> _Within:
    name, is_first = function.name, function.is_first
    if name == "positive":
        return lambda constant, low, high: [(low, high)]
    if kind is Kind.DECIMAL:
        return _of_decimals(name, is_first)
    if kind is Kind.FLOAT:
        return _of_floats(name, is_first)
    if kind is Kind.INTEGER and type(constant) is Decimal:
        decimals = _of_decimals(name, is_first)
        return lambda constant, low, high: [_whole(*each) for each in decimals(constant, low, high)]
    if type(constant) is Micros:
        sign = 1 if name == "+" else -1
        if kind is Kind.TIMESTAMP:
            return lambda constant, low, high: [(low - sign * constant.micros, high - sign * constant.micros)]
        if constant.is_days:
            return lambda constant, low, high: _minus(sign * constant.micros // MICROS_PER_DAY, low, high)
        # A day is its midnight, which is in the interval or not.
        return lambda constant, low, high: [
            (_first_midnight(low - sign * constant.micros), _first_midnight(high - sign * constant.micros))
        ]
    if name == "datediff":
        of_days = _minus_from if is_first else _plus
        return lambda constant, low, high: of_days(constant.toordinal(), low, high)
    return _OF_INTEGERS["-x" if name == "-" and is_first else name]


def _minus(constant: int, low: int, high: int) -> list[Interval]:
    return [(low - constant, high - constant)]


def _plus(constant: int, low: int, high: int) -> list[Interval]:
    return [(low + constant, high + constant)]


def _minus_from(constant: int, low: int, high: int) -> list[Interval]:
    return [(constant - high + 1, constant - low + 1)]


def _divided(constant: int, low: int, high: int) -> list[Interval]:
    if constant > 0:
        return [(-(-low // constant), (high - 1) // constant + 1)]
    return [(-((high - 1) // -constant), low // constant + 1)]


def _opposite(constant: None, low: int, high: int) -> list[Interval]:
    return [(1 - high, 1 - low)]


def _of_this_size(constant: None, low: int, high: int) -> list[Interval]:
    low = max(low, 0)
    return [(low, high), (1 - high, 1 - low)] if low > 0 else [(1 - high, high)]


_OF_INTEGERS: Final[dict[str, _Within]] = {
    "+": _minus,
    "-": _plus,
    "-x": _minus_from,
    "*": _divided,
    "neg": _opposite,
    "abs": _of_this_size,
    "date_add": _minus,
    "date_sub": _plus,
}


def _first_midnight(micros: int) -> int:
    """The first day whose midnight is not before a moment."""
    return FIRST_DAY - (-micros // MICROS_PER_DAY)


def _whole(low: Decimal, high: Decimal) -> Interval:
    """The integers in an interval of decimals."""
    return _floor(low) + 1, _floor(high) + 1


def _floor(number: Decimal) -> int:
    whole = int(number)
    return whole if whole <= number else whole - 1


# --- decimals --------------------------------------------------------------------------------------------------


def _of_decimals(name: str, is_first: bool) -> _Within:
    if name == "neg":
        return lambda constant, low, high: [(_before(high.copy_negate()), _before(low.copy_negate()))]
    if name == "abs":
        return _decimals_of_this_size
    is_product, is_sum, is_from = name == "*", name == "+", name == "-" and is_first

    def preimage(given: Any, low: Decimal, high: Decimal) -> list[Interval]:
        constant = Decimal(given)
        is_decreasing = is_from or (is_product and constant < 0)
        ends = []
        for place in (low, high):
            # From half-way to the next decimal on, an exact result is rounded up, and below zero from behind that.
            half_way = WIDE.multiply(WIDE.add(place, _after(place)), _HALF)
            if is_product:
                found = _LATTICE.divide(half_way, constant)
                is_exact = found.is_finite() and WIDE.multiply(found, constant) == half_way
            else:
                wanted = WIDE.subtract(half_way, constant) if is_sum else WIDE.add(half_way, constant)
                wanted = WIDE.subtract(constant, half_way) if is_from else wanted
                found = _LATTICE.plus(wanted)
                is_exact = found == wanted
            if not found.is_finite():
                found = _FIRST_DECIMAL if found < 0 else _LAST
            elif is_exact and (half_way > 0) is not is_decreasing:
                found = _before(found)
            ends.append(found)
        return [(ends[1], ends[0]) if is_decreasing else (ends[0], ends[1])]

    return preimage


def _decimals_of_this_size(constant: None, low: Decimal, high: Decimal) -> list[Interval]:
    if low < 0:
        return [(_before(high.copy_negate()), high)]
    return [(low, high), (_before(high.copy_negate()), _before(low.copy_negate()))]


def _after(number: Decimal) -> Decimal:
    """The next decimal."""
    if number >= _LAST:
        return _BEYOND
    return _LOWEST if number == _FIRST_DECIMAL else _LATTICE.next_plus(number)


def _before(number: Decimal) -> Decimal:
    """The decimal before."""
    return _FIRST_DECIMAL if number <= _LOWEST else _LAST if number == _BEYOND else _LATTICE.next_minus(number)


# --- floats ----------------------------------------------------------------------------------------------------


def _of_floats(name: str, is_first: bool) -> _Within:
    if name == "neg":
        return lambda constant, low, high: _mirrored(low, high)
    if name == "abs":
        return _floats_of_this_size

    def preimage(given: Any, low: int, high: int) -> list[Interval]:
        constant = float(given)
        is_decreasing = constant < 0 if name == "*" else is_first and name == "-"
        function, inverse = _float_functions(name, is_decreasing, abs(constant) if name == "*" else constant)
        low, high = _first_float(function, inverse, low), _first_float(function, inverse, high)
        return _mirrored(low, high) if is_decreasing else [(low, high)]

    return preimage


_OfFloat: TypeAlias = Callable[[float], float]


def _float_functions(name: str, is_decreasing: bool, constant: float) -> tuple[_OfFloat, _OfFloat]:
    """An increasing function, of -x where the one that is meant decreases, and its inverse but for rounding."""
    if name == "*":
        return lambda x: x * constant, lambda y: y / constant
    if name == "+" or is_decreasing:
        return lambda x: constant + x, lambda y: y - constant
    return lambda x: x - constant, lambda y: y + constant


def _floats_of_this_size(constant: None, low: int, high: int) -> list[Interval]:
    low = max(low, 0)
    mirrored = [(each, end) for each, end in _mirrored(low, high) if each < LAST_FLOAT]
    return [(low, high), *mirrored] if low > 0 or not mirrored else [(mirrored[0][0], high)]


def _mirrored(low: int, high: int) -> list[Interval]:
    """The floats whose opposites are in an interval; NaN is its own."""
    mirrored = [(1 - min(high, LAST_FLOAT), 1 - low)] if low < LAST_FLOAT else []
    return [*mirrored, (LAST_FLOAT, LAST_FLOAT + 1)] if high > LAST_FLOAT else mirrored


def _first_float(function: _OfFloat, inverse: _OfFloat, place: int) -> int:
    """The first place where an increasing function reaches one."""
    if place <= FIRST_FLOAT or place >= LAST_FLOAT:
        return place
    bound = float_at(place)
    found = inverse(bound)
    if isfinite(found):
        for _ in range(_MAX_STEPS):
            before = nextafter(found, -inf)
            if not function(found) >= bound:
                found = nextafter(found, inf)
            elif function(before) >= bound and before != found:
                found = before
            else:
                return float_position(found)
    low, high = FIRST_FLOAT, _INFINITY  # of minus infinity it is minus infinity, and of infinity infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if function(float_at(middle)) >= bound else (middle, high)
    return high
