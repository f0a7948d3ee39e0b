"""Type coercion: the kinds of values in expressions, and the widening of one kind to another.

A value's kind is its Python type. Events carry no schema, so every operator inspects its operands; `widest` is Spark's
rule (ANSI) for the one kind to which several are brought before they are compared or chosen among. Integers are
Spark's BIGINT, and a decimal's scale is the one it is written with. Times, zones and 64-bit arithmetic share their
helpers here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from functools import lru_cache
from typing import TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64, Scalar
from palio.filters.expressions import text_cast
from palio.filters.expressions.ast import Micros, Months

Value: TypeAlias = Scalar | Months | Micros | tuple[Scalar, ...]
Scalars: TypeAlias = Mapping[str, Scalar]  # the attributes of an event that have one value
Arrays: TypeAlias = Mapping[str, tuple[Scalar, ...]]  # those that have several
ValueType: TypeAlias = type  # by which expressions dispatch; an index knows kinds of value by `kinds.Kind`

# For results before rounding, and for remainders, whose intermediate results are longer than the result.
WIDE = Context(prec=800, rounding=ROUND_HALF_UP, traps=[InvalidOperation, DivisionByZero, Overflow])

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY = date(1970, 1, 1).toordinal()

NUMBERS: frozenset[ValueType] = frozenset({int, Decimal, float})
INTERVALS: frozenset[ValueType] = frozenset({Months, Micros})

KIND_NAMES: dict[ValueType, str] = {
    bool: "boolean",
    int: "integer",
    Decimal: "decimal",
    float: "double",
    str: "string",
    date: "date",
    datetime: "timestamp",
    bytes: "binary",
    Months: "year-month interval",
    Micros: "day-time interval",
    tuple: "array",
}


def bounded(value: int) -> int | None:
    """An integer of 64 bits; NULL on overflow."""
    return value if MIN_INT64 <= value <= MAX_INT64 else None


def low_64_bits(value: int) -> int:
    """An integer wrapped to 64 bits, where Spark lets an overflow pass."""
    return (value - MIN_INT64) % 2**64 + MIN_INT64


def positive_zero(value: Decimal) -> Decimal:
    """A decimal without the sign of a zero, which Java's decimals do not have."""
    return value if value else value.copy_abs()


def fitted(exact: Decimal) -> Decimal | None:
    """A decimal of at most 38 digits, rounded half away from zero; NULL where it is too large."""
    whole = max(exact.adjusted() + 1, 0) if exact else 0
    if whole > MAX_DECIMAL_DIGITS:
        return None
    scale = MAX_DECIMAL_DIGITS - whole
    if scale_of(exact) > scale:
        exact = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, WIDE)
        if exact.adjusted() >= whole and whole == MAX_DECIMAL_DIGITS:
            return None  # rounding carried into a 39th digit
    return positive_zero(exact)


def scale_of(value: Decimal) -> int:
    """The number of digits after the point."""
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


def zone_named(name: str) -> tzinfo:
    """The zone an expression is computed in."""
    zone = text_cast.zone_of(name)
    if zone is None:
        raise ValueError(f"there is no time zone {name!r}")
    return zone


def in_utc(moment: datetime) -> datetime:
    """A moment that knows its zone; one that does not is taken as UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def local(moment: datetime, zone: str) -> datetime:
    """A moment as the clocks of the zone show it, without the zone."""
    moment = in_utc(moment)
    if zone != "UTC" or moment.tzinfo is not UTC:
        moment = moment.astimezone(zone_named(zone))
    return moment.replace(tzinfo=None)


def moment_of(clock: datetime, zone: str, origin: datetime | None = None) -> datetime:
    """The moment of a local time: over a gap of the clocks forward, in an overlap the first of the two.

    Of a local time that was computed from a moment, `origin`, the second of the two is meant where its offset from UTC
    is that of the origin: 01:30 minus no months is the same 01:30.
    """
    place = zone_named(zone)
    if place is UTC:
        return clock.replace(tzinfo=UTC)
    # fold=0 is Java's choice: the offset before the change of the clocks, in a gap and in an overlap.
    aware = clock.replace(tzinfo=place, fold=0)
    if origin is not None:
        second, offset = aware.replace(fold=1), in_utc(origin).astimezone(place).utcoffset()
        if second.utcoffset() == offset != aware.utcoffset() and not _is_gap(aware):
            aware = second
    return aware.astimezone(UTC)


def _is_gap(aware: datetime) -> bool:
    """Whether the clocks skip a local time: the offset before the change is then the lesser."""
    before, after = aware.replace(fold=0).utcoffset(), aware.replace(fold=1).utcoffset()
    return before is not None and after is not None and before < after


def midnight(day: date, zone: str) -> datetime:
    """The first moment of a day in the zone."""
    clock = datetime(day.year, day.month, day.day)
    place = zone_named(zone)
    aware = clock.replace(tzinfo=place)
    if place is UTC or not _is_gap(aware):
        return moment_of(clock, zone)
    # The day begins when the clocks change. Where they skip from 23:30 to 00:30, that is half an hour before the moment
    # that midnight would have been, so it is searched for.
    early, late = ((aware.replace(fold=fold) - EPOCH) // timedelta(seconds=1) for fold in (1, 0))
    offset = _offset_at(late, place)
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (early, middle) if _offset_at(middle, place) == offset else (middle, late)
    return EPOCH + timedelta(seconds=late)


def _offset_at(seconds: int, place: tzinfo) -> timedelta | None:
    return (EPOCH + timedelta(seconds=seconds)).astimezone(place).utcoffset()


def moment_at(micros: int) -> datetime | None:
    """The moment a number of microseconds after 1970; NULL outside the range of a Python datetime."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def day_at(number: int) -> date | None:
    """The day a number of days after 1 January 1970; NULL outside the range of a Python date."""
    try:
        return date.fromordinal(FIRST_DAY + number)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def widest(kinds: frozenset[ValueType]) -> ValueType | None:
    """The kind all of these are brought to before they are compared or chosen among; None if there is none.

    Text gives way to any other kind but never meets a decimal: Spark takes both as doubles.
    """
    others = kinds - {str}
    if not others:
        return str if kinds else None
    if len(others) == 1:
        (only,) = others
    elif others <= NUMBERS:
        only = float if float in others else Decimal
    elif others == {date, datetime}:
        only = datetime
    else:
        return None
    if str in kinds:
        if only in INTERVALS or only is tuple:
            return None
        if only is Decimal:
            return float
    return only


def widen(value: Value, kind: ValueType, zone: str) -> Value:
    """A value brought to the kind that `widest` found for it; NULL where Spark would raise."""
    if type(value) is kind or value is None:
        return value
    if type(value) is str:
        return coerce_text(value, kind, zone)
    if kind is float and isinstance(value, int | Decimal):
        return float(value)
    if kind is Decimal and isinstance(value, int):
        return Decimal(value)
    if kind is datetime and isinstance(value, date):
        try:
            return midnight(value, zone)
        except OverflowError:
            return None
    return None


def coerce_text(text: str, kind: ValueType, zone: str) -> Value:
    """A string literal as a value of the kind it is compared with; NULL where Spark would raise."""
    if kind is int:
        return text_cast.to_integer(text)
    if kind is float or kind is Decimal:
        return text_cast.to_double(text)
    if kind is bool:
        return text_cast.to_boolean(text)
    if kind is datetime:
        return text_cast.to_timestamp(text, zone)
    if kind is date:
        return text_cast.to_date(text)
    return text if kind is str else None  # NULL for bytes too, else one string literal would denote values of two kinds


def kinds_of(values: Iterable[Value]) -> frozenset[ValueType]:
    """The kinds of those that are not NULL."""
    return frozenset(type(value) for value in values if value is not None)
