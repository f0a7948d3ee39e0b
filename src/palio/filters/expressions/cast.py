"""CAST of values to SQL types, and coercion of function arguments.

The rules are Spark's in ANSI mode, found by running it. None means NULL, which stands here for everything Spark would
raise: text that is no number, a number that does not fit, a pair of kinds that cannot be cast. An OverflowError, for a
moment that no Python datetime can hold, also means NULL.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache, partial
from typing import TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64
from palio.filters.expressions import text_cast
from palio.filters.expressions.coercion import (
    WIDE,
    Value,
    ValueType,
    in_utc,
    local,
    low_64_bits,
    midnight,
    moment_at,
    positive_zero,
)
from palio.filters.kinds import timestamp_position

Convert: TypeAlias = Callable[[Value, str], Value]

_RANGES = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": MAX_INT64 + 1}
_DECIMAL_TYPE = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)\Z")


@dataclass(frozen=True, slots=True)
class Target:
    """A target type of CAST: the kind of the result, the kinds it accepts, and the conversion."""

    kind: ValueType
    sources: frozenset[ValueType]
    convert: Convert


def to_text(value: Value, zone: str) -> str | None:
    """Text of any value but an interval."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | Decimal | float | date | bytes):
        return text_cast.to_text(value, zone)
    return None


def to_boolean(value: Value, zone: str) -> bool | None:
    """TRUE for every number but zero, and for the words that mean it."""
    if isinstance(value, str):
        return text_cast.to_boolean(value)
    return bool(value) if isinstance(value, bool | int | Decimal | float) else None


def to_whole(value: Value, zone: str, bound: int = MAX_INT64 + 1) -> int | None:
    """An integer below `bound` and not below `-bound`; what is after the point is dropped."""
    whole: int | None
    if isinstance(value, str):
        whole = text_cast.to_integer(value)
    elif isinstance(value, float):
        return _whole_float(value, bound)
    elif isinstance(value, datetime):
        whole = timestamp_position(value) // 1_000_000
    elif isinstance(value, bool | int | Decimal):
        whole = int(value)
    else:
        return None
    return whole if whole is not None and -bound <= whole < bound else None


def _whole_float(value: float, bound: int) -> int | None:
    if not math.isfinite(value):
        return None
    # 2.0**63 is beyond the largest 64-bit integer, but rounds down to it in Java, which Spark lets pass.
    if bound > MAX_INT64 and value == 2.0**63:
        return MAX_INT64
    whole = int(value)
    return whole if -bound <= whole < bound else None


def to_double(value: Value, zone: str) -> float | None:
    """The nearest binary64; of a moment, its seconds since 1970."""
    if isinstance(value, str):
        return text_cast.to_double(value)
    if isinstance(value, bool | int | Decimal | float):
        return float(value)
    # Not the nearest double to the quotient: the microseconds are rounded first.
    return float(timestamp_position(value)) / 1e6 if isinstance(value, datetime) else None


def to_single(value: Value, zone: str) -> float | None:
    """The nearest binary32, as the binary64 of the same worth."""
    double = to_double(value, zone)
    if double is None:
        return None
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _nearest_single(Decimal(value))
    return as_single(double)


def as_single(double: float) -> float:
    """A double rounded to 32 bits; one that is too large is infinite."""
    try:
        return float(struct.unpack("f", struct.pack("f", double))[0])
    except OverflowError:
        return math.copysign(math.inf, double)


def _nearest_single(exact: Decimal) -> float:
    """An exact number rounded to 32 bits in one step: rounding to 64 bits first may land on a tie."""
    single = as_single(float(exact))
    if math.isinf(single) or float(exact) == exact:
        return single
    # The neighbours of a float are the floats of the next lower and higher bits.
    (bits,) = struct.unpack("i", struct.pack("f", single))
    near = [single, *(struct.unpack("f", struct.pack("i", bits + step))[0] for step in (-1, 1))]
    return float(min(near, key=lambda one: abs(Decimal(one) - exact)))


def to_decimal(value: Value, zone: str, digits: int, scale: int) -> Decimal | None:
    """A decimal of `digits` digits, `scale` of them after the point, rounded half away from zero."""
    exact: Decimal | None
    if isinstance(value, str):
        exact = text_cast.to_decimal(value)
    elif isinstance(value, float):
        exact = Decimal(repr(value)) if math.isfinite(value) else None
    elif isinstance(value, datetime):
        exact = Decimal(timestamp_position(value)).scaleb(-6, WIDE)
    elif isinstance(value, bool | int):
        exact = Decimal(int(value))
    else:
        exact = value if isinstance(value, Decimal) else None
    return None if exact is None else rescale(exact, digits, scale)


def rescale(exact: Decimal, digits: int, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal | None:
    """A decimal rounded to `scale` digits after the point; NULL if it needs more than `digits` in all."""
    # Too large for any decimal; quantize would raise beyond the precision of its context.
    if exact and exact.adjusted() > MAX_DECIMAL_DIGITS:
        return None
    rounded = exact.quantize(Decimal(1).scaleb(-scale), rounding, WIDE)
    if rounded and rounded.adjusted() + scale >= digits:
        return None
    return positive_zero(rounded)


def to_date(value: Value, zone: str) -> date | None:
    """A day; of a moment, the day it falls on in the zone."""
    if isinstance(value, str):
        return text_cast.to_date(value)
    if isinstance(value, datetime):
        return local(value, zone).date()
    return value if isinstance(value, date) else None


def to_moment(value: Value, zone: str) -> datetime | None:
    """A moment; a day begins at midnight in the zone, a number counts seconds since 1970."""
    if isinstance(value, str):
        return text_cast.to_timestamp(value, zone)
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, date):
        return midnight(value, zone)
    if isinstance(value, float):
        return moment_at(int(value * 1_000_000)) if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return moment_at(low_64_bits(int(WIDE.multiply(value, Decimal(1_000_000)))))
    return moment_at(value * 1_000_000) if isinstance(value, int) and not isinstance(value, bool) else None


def to_bytes(value: Value, zone: str) -> bytes | None:
    """The bytes of a text in UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


_CASTABLE = frozenset({bool, int, Decimal, float, str})
_CASTABLE_OR_TIMESTAMP = _CASTABLE | {datetime}
_TARGETS = {
    "boolean": Target(bool, _CASTABLE, to_boolean),
    "float": Target(float, _CASTABLE_OR_TIMESTAMP, to_single),
    "double": Target(float, _CASTABLE_OR_TIMESTAMP, to_double),
    "string": Target(str, _CASTABLE_OR_TIMESTAMP | {date, bytes}, to_text),
    "date": Target(date, frozenset({str, date, datetime}), to_date),
    "timestamp": Target(datetime, frozenset({int, Decimal, float, str, date, datetime}), to_moment),
    "binary": Target(bytes, frozenset({str, bytes}), to_bytes),
    **{name: Target(int, _CASTABLE_OR_TIMESTAMP, partial(to_whole, bound=bound)) for name, bound in _RANGES.items()},
}


@lru_cache(maxsize=256)
def target_of(name: str) -> Target:
    """The target type of `CAST(… AS name)`; a ValueError tells why there is none."""
    name = name.replace(" ", "").lower()
    if found := _TARGETS.get(name):
        return found
    decimal = _DECIMAL_TYPE.match(name)
    if decimal is None:
        known = ", ".join(sorted([*_TARGETS, "decimal(p,s)"]))
        raise ValueError(f"nothing can be cast to {name!r}; the types are {known}")
    digits, scale = int(decimal[1]), int(decimal[2])
    if not (1 <= digits <= MAX_DECIMAL_DIGITS and scale <= digits):
        raise ValueError(f"{name} is no type: a decimal has 1 to {MAX_DECIMAL_DIGITS} digits, some after the point")
    return Target(Decimal, _CASTABLE_OR_TIMESTAMP, partial(to_decimal, digits=digits, scale=scale))
