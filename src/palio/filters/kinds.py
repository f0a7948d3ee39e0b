"""Value kinds, and the total order of the values of each kind.

A value has one *kind*, and each kind has one total order (Jerzak §2.3.2 leaves both open). Integers, decimals and
floats are kept apart, because SQL compares each of them differently with a literal: an integer or decimal is
rounded to binary64 before it meets a float, and not before it meets an exact number. Being missing and being
null are kinds of their own, so that "is absent" is a set of values like any other.

Within a kind a value is represented by its *position*, a Python object whose `<` is the kind's order. A *cut* is
a boundary between two adjacent values, represented by the position of the first value above it. That makes
"greater than 5" and "at least 6" the same set of integers, and likewise for booleans, dates, timestamps, floats
and strings (the string after `s` is `s` + NUL). Only decimals are dense: there a cut is a pair (number, 0 or 1),
before or after the number, and a number's position is the cut before it.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final, TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64, Scalar

Position: TypeAlias = Any  # int | str | bytes | tuple[int | Fraction, int]: one type per kind


class Kind(IntEnum):
    """The kinds of value, in the order in which an index lays them out."""

    MISSING = 0
    NULL = 1
    BOOLEAN = 2
    INTEGER = 3
    DECIMAL = 4
    FLOAT = 5
    STRING = 6
    DATE = 7
    TIMESTAMP = 8
    BYTES = 9


KINDS: Final = tuple(Kind)  # iterating over an enumeration is several times slower
NUMBERS: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


class Missing:
    """The type of `MISSING`, which stands for an attribute that an event lacks."""

    _instance: Missing | None = None

    def __new__(cls) -> Missing:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "MISSING"

    # Copies and unpickled ones are the one instance too: it is compared by identity.
    def __reduce__(self) -> tuple[type[Missing], tuple[()]]:
        return Missing, ()

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()
Value: TypeAlias = Scalar | Missing

KIND_OF_TYPE: Final[dict[type, Kind]] = {
    Missing: Kind.MISSING,
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    Decimal: Kind.DECIMAL,
    float: Kind.FLOAT,
    str: Kind.STRING,
    date: Kind.DATE,
    datetime: Kind.TIMESTAMP,
    bytes: Kind.BYTES,
}


def kind_of(value: Value) -> Kind:
    """The kind of a value; values come from `palio.events`, which lets no other type in."""
    return KIND_OF_TYPE[type(value)]


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FLOAT_INFINITY: Final = 0x7FF0000000000000
LAST_FLOAT: Final = _FLOAT_INFINITY + 1  # of NaN
FIRST_FLOAT: Final = -_FLOAT_INFINITY


def float_position(value: float) -> int:
    """The position of a float: adjacent floats have adjacent integers; -0.0 is 0.0; NaN is the last."""
    if value != value:
        return LAST_FLOAT
    # Adding 0.0 makes 0.0 of -0.0. As integers, the bits of positive floats are in their order, and those of negative
    # floats, sign bit aside, in the reverse order.
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def float_at(position: int) -> float:
    """The float at a position: the inverse of `float_position`."""
    if position >= LAST_FLOAT:
        return float("nan")
    magnitude: float = struct.unpack("<d", struct.pack("<q", abs(position)))[0]
    return magnitude if position >= 0 else -magnitude


def exact_number(value: int | Decimal | Fraction) -> int | Fraction:
    """An exact number in the form that compares fastest: an int where it is integral, else a Fraction."""
    if isinstance(value, int):
        return value
    fraction = Fraction(value)
    return fraction.numerator if fraction.denominator == 1 else fraction


def integer_cut(cut: tuple[int | Fraction, int]) -> int:
    """The cut between integers that a cut between decimals makes: the first integer above it."""
    number, after = cut
    return floor(number) + 1 if after else ceil(number)


def timestamp_position(value: datetime) -> int:
    """Microseconds since 1970 in UTC; a datetime without a zone is taken as UTC."""
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - _EPOCH) // _MICROSECOND


def timestamp_at(position: int) -> datetime:
    """The instant at a position: the inverse of `timestamp_position`."""
    return _EPOCH + timedelta(microseconds=position)


def date_position(value: date) -> int:
    """Days, counted as `date.toordinal` does."""
    return value.toordinal()


def position_of(kind: Kind, value: Value) -> Position:
    """The position of a value in the order of its kind."""
    match kind:
        case Kind.DECIMAL:
            return (exact_number(value), 0)  # type: ignore[arg-type]
        case Kind.FLOAT:
            return float_position(value)  # type: ignore[arg-type]
        case Kind.INTEGER | Kind.STRING | Kind.BYTES:
            return value
        case Kind.BOOLEAN:
            return int(value)  # type: ignore[arg-type]
        case Kind.DATE:
            return date_position(value)  # type: ignore[arg-type]
        case Kind.TIMESTAMP:
            return timestamp_position(value)  # type: ignore[arg-type]
    return 0


def cut_after(kind: Kind, position: Position) -> Position:
    """The cut just above a value, given the position of the value (which is the cut just below it)."""
    match kind:
        case Kind.DECIMAL:
            return (position[0], 1)
        case Kind.STRING:
            return position + "\0"
        case Kind.BYTES:
            return position + b"\0"
    return position + 1


# The lowest cut of a kind lies below all its values, and a cut at or above the highest lies above them all.
LOWEST_CUT: Final[dict[Kind, Position]] = {
    Kind.MISSING: 0,
    Kind.NULL: 0,
    Kind.BOOLEAN: 0,
    Kind.INTEGER: MIN_INT64,
    Kind.DECIMAL: (1 - 10**MAX_DECIMAL_DIGITS, 0),
    Kind.FLOAT: FIRST_FLOAT,
    Kind.STRING: "",
    Kind.DATE: date.min.toordinal(),
    Kind.TIMESTAMP: timestamp_position(datetime.min.replace(tzinfo=UTC)),
    Kind.BYTES: b"",
}
HIGHEST_CUT: Final[dict[Kind, Position]] = {
    Kind.MISSING: 1,
    Kind.NULL: 1,
    Kind.BOOLEAN: 2,
    Kind.INTEGER: MAX_INT64 + 1,
    Kind.DECIMAL: (10**MAX_DECIMAL_DIGITS - 1, 1),
    Kind.FLOAT: LAST_FLOAT + 1,
    Kind.DATE: date.max.toordinal() + 1,
    Kind.TIMESTAMP: timestamp_position(datetime.max.replace(tzinfo=UTC)) + 1,
}


def rounding_cuts(value: float) -> tuple[Position, Position]:
    """The cuts around all exact numbers that round to a float (half to even), below and above.

    SQL rounds an integer or decimal to binary64 before it compares it with a float; so `x > 0.1D` holds for an exact
    `x` above every number that rounds to 0.1D.
    """
    place = float_position(value)
    even = place % 2 == 0  # the significand is even exactly when the position is
    return _between(place - 1, place, include_upper=even), _between(place, place + 1, include_upper=not even)


def _between(lower: int, upper: int, *, include_upper: bool) -> Position:
    """The cut half-way between two adjacent floats; the midpoint itself goes to the even one."""
    largest = _FLOAT_INFINITY - 1
    if upper > largest:  # half-way to the float that would follow the largest one, if there were no overflow
        step = Fraction(float_at(largest)) - Fraction(float_at(largest - 1))
        middle = Fraction(float_at(largest)) + step / 2
        return (exact_number(middle), 0)
    if lower < -largest:
        step = Fraction(float_at(largest)) - Fraction(float_at(largest - 1))
        return (exact_number(-Fraction(float_at(largest)) - step / 2), 1)
    middle = (Fraction(float_at(lower)) + Fraction(float_at(upper))) / 2
    return (exact_number(middle), 0 if include_upper else 1)
