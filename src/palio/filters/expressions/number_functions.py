"""Numeric functions: rounding, roots, powers and logarithms.

Arguments are numbers already and never NULL. Logarithms, powers and exponentials come from the C library of the
machine, where Spark has Java's own; the last digit of a double may differ between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import partial
from typing import Final

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64
from palio.filters.expressions import text_cast
from palio.filters.expressions.cast import rescale, to_decimal
from palio.filters.expressions.coercion import WIDE, Value, bounded, positive_zero, scale_of

_LN_2: Final = math.log(2)


def absolute(number: int | Decimal | float) -> Value:
    if isinstance(number, int):
        return bounded(abs(number))
    return number.copy_abs() if isinstance(number, Decimal) else abs(number)


def signum(number: float) -> float:
    """-1, 0 or 1, as a double; NaN and the two zeros are themselves."""
    return number if number != number or number == 0 else math.copysign(1.0, number)


def _whole(number: int | Decimal | float | str, rounding: str, round_float: Callable[[float], int]) -> Value:
    if isinstance(number, str):
        double = text_cast.to_double(number)
        return None if double is None else _whole(double, rounding, round_float)
    if isinstance(number, int):
        return number
    if isinstance(number, Decimal):
        return positive_zero(number.to_integral_value(rounding, WIDE))
    if not math.isfinite(number):
        return 0 if math.isnan(number) else None  # as Java casts a NaN to an integer
    return bounded(round_float(number))


def ceil(number: int | Decimal | float | str, scale: int | None = None) -> Value:
    if scale is not None:
        return _to_scale(number, scale, ROUND_CEILING)
    return _whole(number, ROUND_CEILING, math.ceil)


def floor(number: int | Decimal | float | str, scale: int | None = None) -> Value:
    if scale is not None:
        return _to_scale(number, scale, ROUND_FLOOR)
    return _whole(number, ROUND_FLOOR, math.floor)


def _to_scale(number: int | Decimal | float | str, scale: int, rounding: str) -> Decimal | None:
    """A decimal of at most `scale` digits after the point.

    Before that, a double becomes a decimal of 30 digits, 15 of them after the point, and a text one of 38 and 18.
    """
    exact: Decimal | None
    match number:
        case Decimal():
            exact = number
        case float():
            exact = to_decimal(number, "UTC", 30, 15)
        case str():
            exact = to_decimal(number, "UTC", 38, 18)
        case _:
            exact = Decimal(number)
    if exact is None:
        return None
    if scale >= scale_of(exact):
        return exact
    if scale < -MAX_DECIMAL_DIGITS:
        return None if exact else Decimal(0)
    return rescale(exact.quantize(Decimal(1).scaleb(-scale), rounding, WIDE), MAX_DECIMAL_DIGITS, max(scale, 0))


def _round(number: int | Decimal | float, scale: int = 0, *, rounding: str) -> Value:
    """A number with `scale` digits after the point, or, if that is negative, zeros before it."""
    if isinstance(number, float):
        # A double has fewer than 400 digits on either side of the point.
        if not math.isfinite(number) or scale > 400:
            return number + 0.0  # -0.0 becomes 0.0: Java rounds by way of a decimal
        if scale < -400:
            return 0.0
        exact = Decimal(repr(number))
        if scale_of(exact) <= scale:
            return number + 0.0
        return float(exact.quantize(Decimal(1).scaleb(-scale), rounding, WIDE)) + 0.0
    if isinstance(number, int):
        if scale >= 0:
            return number
        if scale < -20:
            return 0
        return bounded(int(Decimal(number).quantize(Decimal(1).scaleb(-scale), rounding, WIDE)))
    if scale >= scale_of(number):
        return number
    if scale < -MAX_DECIMAL_DIGITS:
        return Decimal(0)
    kept = number.quantize(Decimal(1).scaleb(-scale), rounding, WIDE)
    return rescale(kept, MAX_DECIMAL_DIGITS, max(scale, 0))


round_half_up = partial(_round, rounding=ROUND_HALF_UP)
round_half_even = partial(_round, rounding=ROUND_HALF_EVEN)


def bit_count(number: int) -> int:
    """How many bits of an integer of 64 bits are set; of a truth value, 1 or 0."""
    return (number % 2**64).bit_count()


def getbit(number: int, position: int) -> int | None:
    return number >> position & 1 if 0 <= position < 64 else None


def width_bucket(number: float, low: float, high: float, count: int) -> int | None:
    """The number of the bucket of a histogram; 0 before the first one, count + 1 behind the last."""
    if count <= 0 or count == MAX_INT64 or low == high or number != number:
        return None
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    if low > high:
        number, low, high = -number, -low, -high
    if number < low:
        return 0
    return count + 1 if number >= high else int(count * (number - low) / (high - low)) + 1


def sqrt(number: float) -> float:
    return math.sqrt(number) if not number < 0 else math.nan


def cbrt(number: float) -> float:
    """The cube root, exact for cubes, which the C library does not guarantee."""
    from fractions import Fraction

    root = math.cbrt(number)
    if not math.isfinite(root) or root == 0:
        return root
    exact = Fraction(number)
    near = (root, math.nextafter(root, 0.0), math.nextafter(root, math.copysign(math.inf, root)))
    return min(near, key=lambda one: abs(Fraction(one) ** 3 - exact))


def power(base: float, exponent: float) -> float:
    """Java's power, which is NaN for an exponent NaN and for 1 to an infinity, where C has 1."""
    if exponent != exponent or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base == 0:
            odd = exponent % 2 == 1
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan


def exp(number: float) -> float:
    try:
        return math.exp(number)
    except OverflowError:
        return math.inf


def expm1(number: float) -> float:
    try:
        return math.expm1(number)
    except OverflowError:
        return math.inf


def ln(number: float) -> float | None:
    return math.log(number) if not number <= 0 else None


def log1p(number: float) -> float | None:
    return math.log1p(number) if not number <= -1 else None


def log10(number: float) -> float | None:
    return math.log10(number) if not number <= 0 else None


def log2(number: float) -> float | None:
    return math.log(number) / _LN_2 if not number <= 0 else None


def log(first: float, second: float | None = None) -> float | None:
    """log(x) is the natural logarithm, log(base, x) the one to a base."""
    if second is None:
        return ln(first)
    if first <= 0 or second <= 0:
        return None
    over, under = math.log(second), math.log(first)
    if under:
        return over / under
    return math.nan if over != over or not over else math.copysign(math.inf, over)


def isnan(number: float | None) -> bool:
    return number is not None and number != number


def nanvl(number: float | None, otherwise: float | None) -> float | None:
    """A number, or another one in place of NaN."""
    return otherwise if number is not None and number != number else number
