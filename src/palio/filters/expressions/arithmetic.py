"""Arithmetic of expressions: + - * / % DIV, unary minus, bitwise operators, and sums of times and intervals.

Integers have 64 bits; an overflow is NULL. A decimal with an integer or a decimal is exact in 38 digits, rounded half
away from zero where it needs more, and NULL where 38 digits do not hold it; with a double, both are doubles. A quotient
of integers is a double. Division by zero is NULL. A string beside a number is read as a number. An implementation
reports NULL by returning None or by raising an ArithmeticError.

**Decimal division.** In Spark the declared types decide how many digits a quotient keeps: decimal(p1,s1) /
decimal(p2,s2) keeps max(6, s1 + p2 + 1) digits after the point, fewer where the total exceeds 38, rounded half away
from zero. Events have no declared types. A value of an event has the scale it is written with, which is the scale of
its column where it comes from one; literals and casts have their Spark type. So `price / 3` keeps exactly the digits
that Spark keeps. The precision of a divisor that comes with an event is unknown, and as many digits are kept as fit:
`a / b > 0.3` then means what it does in Spark, unless the two sides differ only beyond the last digit that Spark
keeps.
"""

from __future__ import annotations

import calendar
import math
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MICROS_PER_DAY, MIN_INT64
from palio.filters.expressions import text_cast
from palio.filters.expressions.ast import Micros, Months
from palio.filters.expressions.coercion import (
    FIRST_DAY,
    INTERVALS,
    NUMBERS,
    WIDE,
    Value,
    bounded,
    day_at,
    fitted,
    in_utc,
    local,
    low_64_bits,
    midnight,
    moment_of,
    positive_zero,
    scale_of,
)

_TIMES: Final = frozenset({date, datetime})


class Digits(NamedTuple):
    """Precision and scale of an exact number, as its Spark type declares them, at their widest."""

    precision: int
    scale: int
    is_decimal: bool


Declared: TypeAlias = tuple[Digits | None, Digits | None]
UNDECLARED: Final[Declared] = (None, None)
INTEGER: Final = Digits(20, 0, False)  # BIGINT, the type of integers in events

_MINIMUM_SCALE: Final = 6  # Spark never cuts the scale of a decimal result below this
# Spark divides to 39 digits after the point and then rounds to the scale of the type: two roundings.
_DIVISION_QUANTUM: Final = Decimal(1).scaleb(-MAX_DECIMAL_DIGITS - 1)


def add(zone: str, left: Any, right: Any) -> Value:
    """left + right: numbers, a day and a number of days, a moment or day and an interval, two intervals."""
    if type(left) is int and type(right) is int:  # the common case first
        return bounded(left + right)
    if (pair := _numbers(left, right)) is not None:
        return _add_numbers(*pair)
    return _shift(left, right, zone) if type(left) in _TIMES else _shift(right, left, zone)


def subtract(zone: str, left: Any, right: Any) -> Value:
    """left - right: as `add`, and the interval between two moments or days."""
    if type(left) is int and type(right) is int:
        return bounded(left - right)
    if (pair := _numbers(left, right)) is not None:
        return _subtract_numbers(*pair)
    if type(left) in _TIMES or type(right) in _TIMES:
        return _subtract_times(left, right, zone)
    if type(left) in INTERVALS and type(left) is type(right):
        return _shift(left, negate(right), zone)
    return None


def multiply(left: Any, right: Any) -> Value:
    """left * right: numbers, or a multiple of an interval."""
    if type(left) is int and type(right) is int:
        return bounded(left * right)
    if (pair := _numbers(left, right)) is not None:
        left, right = pair
        if type(left) is float:
            return float(left * right)
        if type(left) is int:
            return bounded(left * right)
        return fitted(WIDE.multiply(left, right))
    if type(right) in INTERVALS:
        left, right = right, left
    return _scale_interval(left, right, divide_by=False)


def divide(left: Any, right: Any, declared: Declared = UNDECLARED) -> Value:
    """left / right: of decimals a decimal, of other numbers a double; an interval by a number is an interval."""
    if (pair := _numbers(left, right)) is not None:
        if not pair[1]:
            return None
        # The operands as they were: an integer has another precision than the decimal it was widened to.
        if type(pair[0]) is Decimal:
            return divide_decimals(left, right, declared)
        return float(pair[0]) / float(pair[1])
    return _scale_interval(left, right, divide_by=True)


def remainder(left: Any, right: Any) -> Value:
    """left % right, with the sign of the left."""
    pair = _numbers(left, right)
    if pair is None or not pair[1]:
        return None
    left, right = pair
    if isinstance(left, int):
        rest = abs(left) % abs(int(right))
        return rest if left >= 0 else -rest
    if isinstance(left, float):
        return math.fmod(left, right) if math.isfinite(left) else math.nan
    return positive_zero(WIDE.remainder(left, right))


def positive_remainder(left: Any, right: Any) -> Value:
    """pmod: the remainder, brought above zero where the divisor is."""
    rest: Any = remainder(left, right)
    if rest is None or not rest < 0:
        return rest  # type: ignore[no-any-return]
    _, divisor = _numbers(left, right) or (left, right)
    if isinstance(rest, int):
        return remainder(low_64_bits(rest + int(divisor)), divisor)  # Spark lets this sum overflow
    return remainder(_add_numbers(rest, divisor), divisor)


def whole_quotient(left: Any, right: Any) -> Value:
    """left DIV right: the integer part of the quotient of exact numbers or of two intervals."""
    if type(left) is Micros and type(right) is Micros:
        left, right = left.micros, right.micros
    elif type(left) is Months and type(right) is Months:
        left, right = left.months, right.months
    pair = _numbers(left, right)
    if pair is None or type(pair[0]) is float or not pair[1]:
        return None
    left, right = pair
    if type(left) is int:
        quotient = abs(left) // abs(right)
        return bounded(quotient if (left < 0) == (right < 0) else -quotient)
    return low_64_bits(int(WIDE.divide_int(left, right)))


def unary_plus(value: Any) -> Value:
    """+value."""
    return value  # type: ignore[no-any-return]


def shift_left(value: int, places: int) -> int:
    """value << places modulo 64, as in Java; bits shifted out of 64 are lost."""
    return low_64_bits(value << places % 64)


def shift_right(value: int, places: int) -> int:
    """value >> places modulo 64, as in Java; the sign is extended."""
    return value >> places % 64


def negate(value: Any) -> Value:
    """-value."""
    match value:
        case bool():
            return None
        case int():
            return bounded(-value)
        case float():
            return -value
        case Decimal():
            return positive_zero(value.copy_negate())
        case str():
            double = text_cast.to_double(value)
            return None if double is None else -double
        case Months(months):
            return Months(-months)
        case Micros(micros, is_days):
            return Micros(-micros, is_days)
    return None


def bit_and(left: Any, right: Any) -> Value:
    """left & right, of integers."""
    pair = _integers(left, right)
    return pair and pair[0] & pair[1]  # None, or the result: a pair is never false


def bit_or(left: Any, right: Any) -> Value:
    """left | right, of integers."""
    pair = _integers(left, right)
    return pair and pair[0] | pair[1]


def bit_xor(left: Any, right: Any) -> Value:
    """left ^ right, of integers."""
    pair = _integers(left, right)
    return pair and pair[0] ^ pair[1]


def bit_not(value: Any) -> Value:
    """~value, of an integer."""
    return ~value if type(value) is int else None


def add_months(day: date, months: int) -> date | None:
    """The day of this number in a later month, or the last day of that month where it is shorter."""
    count = day.year * 12 + day.month - 1 + months
    year, month = divmod(count, 12)
    if not 1 <= year <= 9999:
        return None
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _numbers(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Two numbers of one kind, a string beside a number read as one; None for operands of other kinds."""
    # Exact types: a bool is an int to isinstance, and no number here. A string that is no number becomes None, whose
    # type is in no set below.
    kind, other = type(left), type(right)
    if kind is str and other in NUMBERS:
        left = text_cast.to_integer(left) if other is int else text_cast.to_double(left)
        kind = type(left)
    elif other is str and kind in NUMBERS:
        right = text_cast.to_integer(right) if kind is int else text_cast.to_double(right)
        other = type(right)
    if kind is other:
        return (left, right) if kind in NUMBERS else None
    if kind not in NUMBERS or other not in NUMBERS:
        return None
    if kind is float or other is float:
        return float(left), float(right)
    return Decimal(left), Decimal(right)


def _integers(left: Any, right: Any) -> tuple[int, int] | None:
    pair = _numbers(left, right)
    return pair if pair is not None and type(pair[0]) is int else None


def _add_numbers(left: Any, right: Any) -> Value:
    if type(left) is float:
        return float(left + right)
    return bounded(left + right) if type(left) is int else fitted(WIDE.add(left, right))


def _subtract_numbers(left: Any, right: Any) -> Value:
    if type(left) is float:
        return float(left - right)
    return bounded(left - right) if type(left) is int else fitted(WIDE.subtract(left, right))


def _shift(start: Any, by: Any, zone: str) -> Value:
    """A day, a moment or an interval moved by days, months or time."""
    match start, by:
        case datetime(), Months(months):
            return _shift_months(start, months, zone)
        case datetime(), Micros(micros):
            return _shift_time(start, micros, zone)
        case date(), int() if type(start) is date and type(by) is int:  # a datetime is a date, and a bool an int
            return day_at(start.toordinal() - FIRST_DAY + by)
        case date(), Months(months):
            return add_months(start, months)
        case date(), Micros(micros, is_days):
            if is_days:
                return start + timedelta(days=micros // MICROS_PER_DAY)
            return _shift_time(midnight(start, zone), micros, zone)
        case Months(), Months():
            return _months(start.months + by.months)
        case Micros(), Micros():
            return _micros(start.micros + by.micros, start.is_days and by.is_days)
    return None


def _months(months: int) -> Months | None:
    return Months(months) if -(2**31) <= months < 2**31 else None


def _micros(micros: int, is_days: bool = False) -> Micros | None:
    return Micros(micros, is_days) if MIN_INT64 <= micros <= MAX_INT64 else None


def _shift_months(start: datetime, months: int, zone: str) -> datetime | None:
    clock = local(start, zone)
    day = add_months(clock.date(), months)
    return None if day is None else moment_of(datetime.combine(day, clock.time()), zone, start)


def _shift_time(start: datetime, micros: int, zone: str) -> datetime:
    """Whole days are added on the calendar of the zone, the rest on the clock, as in Spark."""
    days = int(math.copysign(1, micros)) * (abs(micros) // MICROS_PER_DAY)
    moved = in_utc(start)
    if days:
        moved = moment_of(local(start, zone) + timedelta(days=days), zone, start)
    return moved + timedelta(microseconds=micros - days * MICROS_PER_DAY)


def _subtract_times(left: Any, right: Any, zone: str) -> Value:
    """The interval between two times, or a time moved back; a string beside a time is read as one."""
    if type(left) is str or type(right) is str:
        left, right = _read_time(left, type(right), zone), _read_time(right, type(left), zone)
    kind, other = type(left), type(right)
    if kind is date and other is date:
        return Micros((left - right).days * MICROS_PER_DAY)
    if kind in _TIMES and other in _TIMES:
        return _between(left, right, zone)
    if kind in _TIMES and (other is int or other in INTERVALS):
        back = negate(right)
        return None if back is None else _shift(left, back, zone)
    return None


def _read_time(value: Any, beside: type, zone: str) -> Any:
    if type(value) is not str:
        return value
    return text_cast.to_date(value) if beside is date else text_cast.to_timestamp(value, zone)


def _between(left: date, right: date, zone: str) -> Micros:
    """The difference between two local times: a day counts 24 hours even where the clocks changed."""
    ends = [local(end if isinstance(end, datetime) else midnight(end, zone), zone) for end in (left, right)]
    return Micros((ends[0] - ends[1]) // timedelta(microseconds=1))


def _scale_interval(interval: Any, number: Any, *, divide_by: bool) -> Value:
    """An interval multiplied or divided by a number, rounded half away from zero to months or microseconds."""
    if type(interval) not in INTERVALS or type(number) not in NUMBERS or (divide_by and not number):
        return None
    size = interval.months if type(interval) is Months else interval.micros
    if type(number) is float:
        product = size / number if divide_by else size * number
        if not math.isfinite(product):
            return None
        # round() rounds halves to even; Spark rounds them away from zero.
        scaled = math.floor(abs(product) + 0.5) * (1 if product >= 0 else -1)
    else:
        exact = (WIDE.divide if divide_by else WIDE.multiply)(Decimal(size), Decimal(number))
        scaled = int(exact.to_integral_value(ROUND_HALF_UP))
    return _months(scaled) if type(interval) is Months else _micros(scaled)


def divide_decimals(left: int | Decimal, right: int | Decimal, declared: Declared) -> Decimal | None:
    """left / right, where one is a decimal and the right is not zero; NULL where it does not fit."""
    mine = declared[0] or _narrowest_type(left)
    theirs = declared[1] or (INTEGER if isinstance(right, int) else Digits(MAX_DECIMAL_DIGITS, scale_of(right), True))
    scale = kept_scale(quotient_digits(mine, theirs))
    exact = WIDE.divide(Decimal(left), Decimal(right))
    rounded = exact.quantize(_DIVISION_QUANTUM, ROUND_HALF_UP, WIDE).quantize(
        Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE
    )
    if rounded and rounded.adjusted() + scale >= MAX_DECIMAL_DIGITS:
        return None
    return positive_zero(rounded)


def _narrowest_type(value: int | Decimal) -> Digits:
    """The narrowest type that a value of an event may have been declared with."""
    if isinstance(value, int):
        return INTEGER
    scale = scale_of(value)
    return Digits(max(value.adjusted() + 1 + scale, scale, 1), scale, True)


def quotient_digits(left: Digits, right: Digits) -> Digits:
    """Precision and scale of Spark's type for a quotient, before the limit of 38 digits is applied."""
    scale = max(_MINIMUM_SCALE, left.scale + right.precision + 1)
    return Digits(left.precision - left.scale + right.scale + scale, scale, True)


def kept_scale(digits: Digits) -> int:
    """The scale that Spark keeps: where the precision exceeds 38 digits, the scale gives way first."""
    if digits.precision <= MAX_DECIMAL_DIGITS:
        return digits.scale
    return max(MAX_DECIMAL_DIGITS - (digits.precision - digits.scale), min(digits.scale, _MINIMUM_SCALE))
