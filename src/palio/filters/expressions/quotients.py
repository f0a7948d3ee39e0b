"""How many digits does a quotient of decimals keep?

In Spark the declared types say so: of decimal(p1,s1) / decimal(p2,s2), max(6, s1 + p2 + 1) digits after the point,
fewer where there are more than 38 in all, rounded half away from zero. Events have no declared types. A value of an
event has the scale it is written with, which is that of its column where it comes from one, and literals and casts
have the type they have in Spark; so `price / 3` keeps exactly the digits that Spark keeps. How long a divisor that
comes with an event could be is not known, and as many digits are kept as there is room for: `a / b > 0.3` then
means what it does in Spark, unless the two differ only beyond the last digit that Spark keeps.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple, TypeAlias

from palio.filters.expressions.values import MOST_DIGITS, WIDE, positive_zero, scale_of


class Digits(NamedTuple):
    """How an exact number is declared in Spark, at its widest: digits in all, and of them after the point."""

    precision: int
    scale: int
    is_decimal: bool


Declared: TypeAlias = tuple[Digits | None, Digits | None]
UNDECLARED: Final[Declared] = (None, None)
INTEGER: Final = Digits(20, 0, False)  # BIGINT, which is what integers of events are

_LEAST_SCALE: Final = 6
_DIVIDED_TO: Final = Decimal(1).scaleb(-MOST_DIGITS - 1)  # how far Spark divides before it rounds


def quotient(left: int | Decimal, right: int | Decimal, declared: Declared) -> Decimal | None:
    """left / right, where one is a decimal and the right is not zero; NULL where it does not fit."""
    mine = declared[0] or _digits(left)
    theirs = declared[1] or (INTEGER if isinstance(right, int) else Digits(MOST_DIGITS, scale_of(right), True))
    scale = kept_scale(needed_digits(mine, theirs))
    exact = WIDE.divide(Decimal(left), Decimal(right))
    rounded = exact.quantize(_DIVIDED_TO, ROUND_HALF_UP, WIDE).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE)
    if rounded and rounded.adjusted() + scale >= MOST_DIGITS:
        return None
    return positive_zero(rounded)


def _digits(value: int | Decimal) -> Digits:
    """What a value of an event may have been declared as: no shorter than it is."""
    if isinstance(value, int):
        return INTEGER
    scale = scale_of(value)
    return Digits(max(value.adjusted() + 1 + scale, scale, 1), scale, True)


def needed_digits(left: Digits, right: Digits) -> Digits:
    """The digits that Spark's type for a quotient would have, were there no limit."""
    scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
    return Digits(left.precision - left.scale + right.scale + scale, scale, True)


def kept_scale(digits: Digits) -> int:
    """How many digits after the point Spark keeps of a result: some must go when there are more than 38."""
    if digits.precision <= MOST_DIGITS:
        return digits.scale
    return max(MOST_DIGITS - (digits.precision - digits.scale), min(digits.scale, _LEAST_SCALE))
