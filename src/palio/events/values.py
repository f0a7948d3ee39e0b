"""What values may an attribute have?

Nine kinds, each one exact Python type: None, bool, int of 64 bits, Decimal of at most 38 digits, float, str,
date, datetime in UTC, bytes. Everything else a caller may hold is turned into one of these where its
meaning is plain (an IntEnum, a NumPy scalar, a naive datetime, which is taken as UTC), and otherwise
refused by its type's name. Exact types, because code that reads events decides by type and must not meet a
subclass with ideas of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from types import NoneType
from typing import Any, TypeAlias

from palio.errors import EventError

Scalar: TypeAlias = bool | int | Decimal | float | str | date | datetime | bytes | None
Value: TypeAlias = Scalar | tuple[Scalar, ...]

SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**63 - 1
DIGITS = 38
_TOO_LARGE = 10**DIGITS

# These types have no value that is not allowed.
UNCHECKED: frozenset[type] = frozenset({bool, float, NoneType})

# Decimal arithmetic rounds to the caller's thread context unless told otherwise; here nothing may be rounded.
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
    raise EventError(f"an event cannot hold a value of type {type_name(value)}{_hint(value)}", path)


def check_text(text: str, path: str | None, what: str = "text") -> None:
    """Refuse text that has no UTF-8 form; comparing, storing or sending it would fail later, elsewhere."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        at, code = error.start, ord(text[error.start])
        raise EventError(f"{what} has a lone surrogate, U+{code:04X}, at character {at}", path) from None


def is_numpy(value: object) -> bool:
    """Whether this is a NumPy scalar or array; if it is, somebody has imported NumPy already."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray))


def from_numpy(value: Any, path: str) -> Any:
    """A NumPy scalar or array as Python values; its types that Python has no equal for are refused."""
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
    if SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return value
    if -_TOO_LARGE < value < _TOO_LARGE:
        return Decimal(value)
    # Not printed: turning a long integer into digits takes quadratic time.
    raise EventError(f"an integer of more than {DIGITS} digits", path)


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
    if not _fits(value):
        value = value.normalize(_EXACT)
        if value.is_zero():
            return Decimal(0)
        if not _fits(value):
            raise EventError(f"a decimal with more than {DIGITS} digits", path)
    # 1E+2 becomes 100, so that the scale of a decimal is never negative.
    return value.quantize(Decimal(1), context=_EXACT) if _exponent(value) > 0 else value


def _fits(value: Decimal) -> bool:
    """Whether some DECIMAL(38, s) with 0 <= s <= 38 holds exactly these digits."""
    exponent = _exponent(value)
    digits = len(value.as_tuple().digits)
    return exponent >= -DIGITS and digits <= DIGITS and digits + exponent <= DIGITS


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


# By exact type. NumPy's and other subclasses are found by their bases, below.
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

# For subclasses; a datetime is a date, so it is asked first.
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
    """A type as a message should name it: `uuid.UUID`, but `set` without its module."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _hint(value: object) -> str:
    """What to write instead, for the types people try."""
    if isinstance(value, set | frozenset):
        return "; give a list"
    if type(value).__name__ in ("UUID", "IPv4Address", "IPv6Address", "PosixPath", "WindowsPath", "time"):
        return "; give its str()"
    if type(value).__name__ == "timedelta":
        return "; give its total_seconds()"
    return ""
