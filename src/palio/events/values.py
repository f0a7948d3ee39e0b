"""Values of events: nine kinds of scalars, and the limits on an event's size.

A scalar has one exact Python type: None, bool, int of 64 bits, Decimal of at most 38 digits, float, str, date,
datetime in UTC, bytes. Any other value is converted to one of these where its meaning is clear (a member of an Enum, a
NumPy scalar, a naive datetime, which is taken as UTC), and otherwise rejected by the name of its type. Types are exact
because code that reads events dispatches on type and must not meet a subclass with behaviour of its own.

Input from outside is hostile until it is read, so `Limits` bounds every dimension in which an event can grow; limits
are checked while an event is read, not afterwards. The defaults are far above what brokers carry (Kafka stops at 1 MB,
SNS at 256 KB) and far below what hurts: the largest event within them costs some hundred megabytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final, TypeAlias

from palio.errors import EventError, InvalidArgument

Scalar: TypeAlias = bool | int | Decimal | float | str | date | datetime | bytes | None
Value: TypeAlias = Scalar | tuple[Scalar, ...]

MIN_INT64 = -(2**63)
MAX_INT64 = 2**63 - 1
MAX_DECIMAL_DIGITS = 38  # of a 128-bit decimal, as Spark and Arrow have
MICROS_PER_DAY = 86_400_000_000  # timestamps have microseconds
_DECIMAL_BOUND = 10**MAX_DECIMAL_DIGITS

# Types of which every value is allowed.
UNCHECKED: frozenset[type] = frozenset({bool, float, NoneType})

# Decimal arithmetic uses the context of the caller's thread unless one is given; here nothing may be rounded.
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def to_scalar(value: Any, path: str) -> Scalar:
    """The value as one of the nine kinds, or an EventError that names the path and the type."""
    convert = CONVERT.get(type(value))
    if convert is not None:
        return convert(value, path)
    for base, convert in _BASES:
        if isinstance(value, base):
            return convert(value, path)
    if is_numpy(value):
        return to_scalar(from_numpy(value, path), path)
    if isinstance(value, Enum):
        return to_scalar(value.value, path)
    if is_pandas_null(value):
        return None
    raise EventError(f"an event cannot hold a value of type {type_name(value)}{_hint(value)}", path)


def check_text(text: str, path: str | None, what: str = "text") -> None:
    """Refuse text that has no UTF-8 form; comparing, storing or sending it would fail later, elsewhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at, code = error.start, ord(text[error.start])
        raise EventError(f"{what} has a lone surrogate, U+{code:04X}, at character {at}", path) from None


def is_numpy(value: object) -> bool:
    """Whether this is a NumPy scalar or array; only if NumPy is imported already can it be one."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray))


def is_pandas_null(value: object) -> bool:
    """Whether this is `pandas.NA`."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and value is pandas.NA


def from_numpy(value: Any, path: str) -> Any:
    """A NumPy scalar or array as Python values; types without a Python equivalent are rejected."""
    numpy = sys.modules["numpy"]
    kind = value.dtype.kind
    if kind == "M" and value.dtype != "datetime64[D]":
        # `tolist` gives datetimes for microseconds, but bare integers for nanoseconds.
        value = value.astype("datetime64[us]")
    first, last = numpy.datetime64("0001-01-01"), numpy.datetime64("9999-12-31T23:59:59.999999")
    if kind == "M" and numpy.any((value < first) | (value > last)):
        # Where a datetime cannot reach, it would give bare integers again.
        raise EventError("a timestamp outside the years 1 to 9999", path)
    plain = value.tolist()
    if kind in "mcV" or is_numpy(plain):
        raise EventError(f"an event cannot hold a NumPy value of type {value.dtype}", path)
    return plain


def _unchecked(value: Scalar, path: str) -> Scalar:
    return value


def _integer(value: int, path: str) -> Scalar:
    value = int.__int__(value)
    if MIN_INT64 <= value <= MAX_INT64:
        return value
    if -_DECIMAL_BOUND < value < _DECIMAL_BOUND:
        return Decimal(value)
    # Not printed: turning a long integer into digits takes quadratic time.
    raise EventError(f"an integer of more than {MAX_DECIMAL_DIGITS} digits", path)


def _float(value: float, path: str) -> Scalar:
    return float.__float__(value)


def _text(value: str, path: str) -> Scalar:
    value = str.__str__(value)
    if not value.isascii():
        check_text(value, path)
    return value


def _decimal(value: Decimal, path: str) -> Scalar:
    value = Decimal(value)
    if not value.is_finite():
        raise EventError(f"a decimal must be a number, not {value}; use a float for NaN and infinities", path)
    if not fits_decimal(value):
        value = value.normalize(_EXACT)
        if value.is_zero():
            return Decimal(0)
        if not fits_decimal(value):
            raise EventError(f"a decimal with more than {MAX_DECIMAL_DIGITS} digits", path)
    # 1E+2 becomes 100, so that the scale of a decimal is never negative.
    return value.quantize(Decimal(1), context=_EXACT) if _exponent(value) > 0 else value


def fits_decimal(value: Decimal) -> bool:
    """Whether some DECIMAL(38, s) with 0 <= s <= 38 holds exactly these digits."""
    exponent = _exponent(value)
    digits = len(value.as_tuple().digits)
    return exponent >= -MAX_DECIMAL_DIGITS and digits <= MAX_DECIMAL_DIGITS and digits + exponent <= MAX_DECIMAL_DIGITS


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)  # a letter only where the value is not finite
    return exponent


def to_utc(value: datetime, path: str) -> datetime:
    """The same instant in UTC, as a plain datetime; one without a zone is taken as UTC."""
    try:
        if value.tzinfo is not None and value.tzinfo is not UTC:
            value = value.astimezone(UTC)
        if type(value) is not datetime:
            value = datetime.combine(date(value.year, value.month, value.day), value.time())
        return value if value.tzinfo is UTC else value.replace(tzinfo=UTC)
    except Exception as error:  # a time zone is code of the caller, and may raise anything
        raise EventError(f"a timestamp that cannot be expressed in UTC: {error}", path) from None


def _timestamp(value: datetime, path: str) -> Scalar:
    # pandas.NaT, "no time", is a datetime that does not equal itself.
    return None if value != value else to_utc(value, path)


def _date(value: date, path: str) -> Scalar:
    return value if type(value) is date else date(value.year, value.month, value.day)


def _bytes(value: bytes | bytearray | memoryview, path: str) -> Scalar:
    if type(value) is bytes:
        return value
    try:
        return memoryview(value).tobytes()
    except ValueError as error:
        raise EventError(f"bytes that cannot be read: {error}", path) from None


# By exact type. Subclasses, NumPy's among them, are found by their bases, below.
CONVERT: dict[type, Callable[[Any, str], Scalar]] = {
    NoneType: _unchecked,
    bool: _unchecked,
    float: _unchecked,
    int: _integer,
    str: _text,
    Decimal: _decimal,
    datetime: to_utc,
    date: _date,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
}

# For subclasses; datetime before date, because a datetime is a date.
_BASES: tuple[tuple[type, Callable[[Any, str], Scalar]], ...] = (
    (str, _text),
    (int, _integer),
    (float, _float),
    (Decimal, _decimal),
    (datetime, _timestamp),
    (date, _date),
    (bytes, _bytes),
    (bytearray, _bytes),
)


def type_name(value: object) -> str:
    """The name of a type for messages: `uuid.UUID`, but `set` without its module."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _hint(value: object) -> str:
    """A suggestion for types that people try."""
    if isinstance(value, set | frozenset):
        return "; give a list"
    if type(value).__name__ in ("UUID", "IPv4Address", "IPv6Address", "PosixPath", "WindowsPath", "time"):
        return "; give its str()"
    if type(value).__name__ == "timedelta":
        return "; give its total_seconds()"
    return ""


# Reading nested content takes two Python frames a level, of the thousand that it shares with its callers.
MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the size of an event; each is the largest value that is accepted."""

    json_bytes: int = 16 * 1024 * 1024
    """Bytes of JSON text of one event, in UTF-8."""
    depth: int = 100
    """Levels of objects and arrays; a flat event has one. Never more than 200."""
    attributes: int = 10_000
    """Attributes of one event."""
    name_length: int = 1_000
    """Characters of an attribute's whole name, `a.b.c`."""
    array_length: int = 100_000
    """Values of one attribute."""
    containers: int = 100_000
    """Objects and arrays inside one event, empty ones included."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise InvalidArgument(f"{field.name} must be a positive integer, not {value!r}")
        if self.depth > MAX_DEPTH:
            raise InvalidArgument(f"depth must be at most {MAX_DEPTH}, not {self.depth}")


DEFAULT_LIMITS = Limits()

XML_ATTRIBUTE: Final = "xml"
"""The attribute that holds the XML document of an event, where none is named."""


def check_limits(limits: Limits) -> Limits:
    if not isinstance(limits, Limits):
        raise InvalidArgument(f"limits are Limits(…), not {type_name(limits)}")
    return limits
