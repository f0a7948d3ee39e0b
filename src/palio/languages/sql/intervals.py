"""Interval literals of SQL.

Spark has two kinds that cannot be mixed: whole months (`Months`) and microseconds (`Micros`). There are three
notations: numbers with units (`INTERVAL 1 DAY 2 HOURS`, `INTERVAL '1' DAY`), all of that in one text
(`INTERVAL '1 day 2 hours'`), and a text with a range of units (`INTERVAL '1 02:03' DAY TO MINUTE`).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from palio.events.values import MAX_INT64, MICROS_PER_DAY, MIN_INT64
from palio.filters.expressions.ast import Micros, Months
from palio.filters.expressions.text_cast import BLANKS
from palio.languages.grammar import InvalidLiteral

_SECOND: Final = 1_000_000
_MONTHS: Final = {"month": 1, "year": 12}
_MICROS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": _SECOND,
    "minute": 60 * _SECOND,
    "hour": 3_600 * _SECOND,
    "day": MICROS_PER_DAY,
    "week": 7 * MICROS_PER_DAY,
}
INTERVAL_UNITS: Final = frozenset(form for unit in (*_MONTHS, *_MICROS, "nanosecond") for form in (unit, f"{unit}s"))
_RANGE_UNITS: Final = ("year", "month", "day", "hour", "minute", "second")

_MAX_INT: Final = 2**31
_MAX_SHORT_DIGITS: Final = 6  # of weeks are in 64 bits

_PART = re.compile(
    r"\s*([+-]?)\s*([0-9]*)(\.[0-9]{0,9})?\s+(year|month|week|day|hour|minute|second|millisecond|microsecond)s?(?=\s|\Z)",
    re.IGNORECASE | re.ASCII,
)
_PREFIX = re.compile(r"\Ainterval(?=\s)", re.IGNORECASE)


class IntervalPart(NamedTuple):
    """A value with its unit, as in INTERVAL -'1' DAY: the sign before it and whether it is a text."""

    sign: str
    value: str
    is_text: bool
    unit: str


def parse_interval_parts(parts: list[IntervalPart]) -> Months | Micros:
    """The interval of values with their units, as in INTERVAL 1 DAY '2' HOURS."""
    if len(parts) == 1 and (short := _of_digits(parts[0])) is not None:
        return short
    written = []
    for sign, value, is_text, unit in parts:
        if any(map(str.isalpha, value)):
            raise InvalidLiteral(f"{value!r} is no number of units", "write the unit behind the text")
        if not is_text:
            value = sign + value
        elif sign == "-":
            value = value[1:] if value.startswith("-") else f"-{value}"
        written.append(f"{value} {unit}")
    return _sum(" ".join(written))


def _of_digits(part: IntervalPart) -> Months | Micros | None:
    """The interval of few digits and a unit, which most are; None for others."""
    sign, value, _, unit = part
    if len(value) > _MAX_SHORT_DIGITS or not (value.isascii() and value.isdigit()):
        return None
    count, name = -int(value) if sign == "-" else int(value), unit.removesuffix("s")
    if name in _MONTHS:
        return _bounded_months(count * _MONTHS[name])
    size = _MICROS.get(name)
    return None if size is None else Micros(count * size, size >= MICROS_PER_DAY)


def parse_interval_text(text: str) -> Months | Micros:
    """The interval of a text with values and units, as in INTERVAL '1 day 2 hours'."""
    text = text.strip(BLANKS)
    return _sum(_PREFIX.sub("", text))


def _sum(text: str) -> Months | Micros:
    at = 0
    months = micros = 0
    kinds: set[bool] = set()
    is_days = True
    while at < len(text) or not kinds:
        found = _PART.match(text, at)
        if not found or not (found[2] or (found[3] or "")[1:]):
            raise InvalidLiteral(f"{text!r} is no interval", "write it as INTERVAL '1' DAY or INTERVAL '1 day 2 hours'")
        sign, whole, fraction, unit = found.groups()
        unit = unit.lower()
        if fraction is not None and unit != "second":
            raise InvalidLiteral(f"only seconds may have a fraction, not {unit}s")
        # Twenty digits are beyond 64 bits already, and int() refuses texts of thousands.
        digits = whole.lstrip("0")[:20] or "0"
        if int(digits) > MAX_INT64:
            _bounded_micros(MAX_INT64 + 1)
        count = int(sign + digits)
        kinds.add(unit in _MONTHS)
        if unit in _MONTHS:
            months += count * _MONTHS[unit]
        else:
            part = int(f"{sign}{(fraction or '.')[1:].ljust(9, '0')[:6]}")
            micros += count * _MICROS[unit] + part
            is_days = is_days and _MICROS[unit] >= MICROS_PER_DAY
        at = found.end()
    if len(kinds) > 1:
        hint = "add two intervals one after the other: d + INTERVAL '1' MONTH + INTERVAL '1' DAY"
        raise InvalidLiteral("an interval has months and years, or units up to weeks, not both", hint)
    return _bounded_months(months) if kinds == {True} else _bounded_micros(micros, is_days)


_SIGN = r"([+|-])?"
_YEAR_MONTH = re.compile(rf"{_SIGN}([0-9]+)-([0-9]+)")
_PATTERNS: Final = {
    "day": r"([0-9]+)",
    "hour": r"([0-9]+)",
    "minute": r"([0-9]+)",
    "second": r"([0-9]+)(?:\.([0-9]{1,9}))?",
}
_LIMITS: Final = {"hour": 24, "minute": 60, "second": 60}


def parse_interval_range(part: IntervalPart, last: str) -> Months | Micros:
    """The interval of a text with a range of units, as in INTERVAL '1 02:03:04' DAY TO SECOND."""
    sign, text, is_text, first = part
    if not is_text or first not in _RANGE_UNITS or last not in _RANGE_UNITS:
        raise InvalidLiteral("an interval from one unit to another is a text", "write INTERVAL '1-6' YEAR TO MONTH")
    if sign == "-":
        text = f"+{text[1:]}" if text.startswith("-") else f"-{text}"
    if (first, last) == ("year", "month"):
        return _year_month(text)
    units = [
        unit for unit in _PATTERNS if _RANGE_UNITS.index(first) <= _RANGE_UNITS.index(unit) <= _RANGE_UNITS.index(last)
    ]
    if len(units) < 2 or units[0] != first:
        raise InvalidLiteral(f"there are no intervals from {first} to {last}", "such as DAY TO SECOND, YEAR TO MONTH")
    pattern = "".join(_PATTERNS[unit] + (" " if unit == "day" else ":") for unit in units)[:-1]
    found = re.fullmatch(_SIGN + pattern, text.strip(BLANKS))
    if not found:
        shape = "".join({"day": "d ", "hour": "h:", "minute": "m:", "second": "s:"}[unit] for unit in units)[:-1]
        raise InvalidLiteral(f"{text!r} is no interval from {first} to {last}", f"write it as '{shape}'")
    micros = 0
    for unit, digits in zip(units, found.groups()[1:], strict=False):
        value = int(digits.lstrip("0")[:25] or "0")
        if unit != first and (value >= _LIMITS[unit] or len(digits) > 2):
            raise InvalidLiteral(f"{digits} {unit}s are beyond {_LIMITS[unit] - 1}")
        micros += value * _MICROS[unit]
    if last == "second" and (fraction := found.groups()[-1]):
        micros += int(fraction.ljust(9, "0")[:6])
    return _bounded_micros(-micros if found[1] == "-" else micros)


def _year_month(text: str) -> Months:
    found = _YEAR_MONTH.fullmatch(text.strip(BLANKS))
    if not found:
        raise InvalidLiteral(f"{text!r} is no interval from year to month", "write it as '1-11'")
    months = int(found[3].lstrip("0")[:25] or "0")
    if months > 11:
        raise InvalidLiteral(f"{found[3]} months are beyond 11")
    months += 12 * int(found[2].lstrip("0")[:25] or "0")
    return _bounded_months(-months if found[1] == "-" else months)


def _bounded_months(months: int) -> Months:
    if not -_MAX_INT <= months < _MAX_INT:
        raise InvalidLiteral("an interval beyond the longest, 178956970 years and 7 months")
    return Months(months)


def _bounded_micros(micros: int, is_days: bool = False) -> Micros:
    if not MIN_INT64 <= micros <= MAX_INT64:
        raise InvalidLiteral("an interval beyond the longest, 106751991 days")
    return Micros(micros, is_days)
