"""Datetime patterns such as `yyyy-MM-dd HH:mm`: formatting for date_format, parsing for to_date and to_timestamp.

The letters are Spark's, which are Java's, and so is the strictness of parsing: `MM` is two digits, `M` one or more;
`yyyy` is four; a text is read to its end; names of months and AM and PM are English, in any case. Adjacent numbers
(`yyyyMMdd`) share their digits as in Java: a number of variable length leaves to the fixed-length numbers after it the
digits they need. A field that is not in the pattern has its value of 1 January 1970, midnight.

Letters that Spark refuses are refused (the weeks of a year), and so are those whose texts depend on the version of Java
or on the locale: names of zones, eras.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias

from palio.filters.expressions.coercion import in_utc, moment_of, zone_named

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HALVES: Final = ("AM", "PM")
_MAX_NUMBER_DIGITS: Final = 19  # of a number of variable length
_MAX_PATTERN_LETTERS: Final = 1_000

_RANGES: Final = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "day of year": (1, 366),
    "hour": (0, 23),
    "clock hour": (1, 24),
    "half hour": (0, 11),
    "half clock hour": (1, 12),
    "half": (0, 1),
    "minute": (0, 59),
    "second": (0, 59),
    "micros": (0, 999_999),
    "offset": (-18 * 3600, 18 * 3600),
}
_HOURS: Final = frozenset({"hour", "clock hour", "half hour", "half clock hour"})

Fields: TypeAlias = dict[str, int]

# --- parts of a pattern --------------------------------------------------------------------------------------
#
# `write` gives the text of a part. `read` returns the position behind what it has read, or -1 where the text does not
# fit, and stores the values that it found in `fields`.


@dataclass(frozen=True, slots=True)
class _Text:
    """Literal text; letters in any case."""

    text: str

    def write(self, clock: datetime) -> str:
        return self.text

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at + len(self.text)
        return end if text[at:end].lower() == self.text.lower() else -1


@dataclass(slots=True)
class _Number:
    """A number of `least` to `most` digits; `reserved` digits after it belong to the adjacent numbers.

    Not frozen: `_share_digits` sets `reserved` once the whole pattern is known.
    """

    name: str
    least: int
    most: int
    value: Callable[[datetime], int]
    pads: bool = False  # exactly `least` digits; Java allows more after a sign, which no year of Python has
    century: bool = False
    reserved: int = 0

    @property
    def is_fixed(self) -> bool:
        return self.least == self.most

    def write(self, clock: datetime) -> str:
        value = self.value(clock)
        return f"{value % 100 if self.century else value:0{self.least}d}"

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at
        while end < len(text) and end - at < self.most + self.reserved and text[end] in "0123456789":
            end += 1
        # Take what the adjacent numbers leave, but never less than `least`: they then fail for lack of digits.
        end = at + max(self.least, end - at - self.reserved) if self.reserved else end
        digits = text[at:end]
        if (
            len(digits) < self.least
            or not (digits.isascii() and digits.isdecimal())
            or (self.pads and len(digits) > self.least)
        ):
            return -1
        value = int(digits) + (2000 if self.century else 0)  # as in Java, two digits are a year from 2000 to 2099
        return end if _keep(fields, self.name, value) else -1


@dataclass(frozen=True, slots=True)
class _Name:
    """One of several names."""

    name: str
    names: tuple[str, ...]
    first: int
    value: Callable[[datetime], int]

    def write(self, clock: datetime) -> str:
        return self.names[self.value(clock) - self.first]

    def read(self, text: str, at: int, fields: Fields) -> int:
        for number, name in enumerate(self.names, self.first):
            if text[at : at + len(name)].lower() == name.lower():
                return at + len(name) if _keep(fields, self.name, number) else -1
        return -1


@dataclass(frozen=True, slots=True)
class _Fraction:
    """The fraction of a second, `digits` long; one digit suffices when parsing."""

    digits: int

    def write(self, clock: datetime) -> str:
        return f"{clock.microsecond:06d}000"[: self.digits]

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at
        while end < len(text) and end - at < self.digits and text[end] in "0123456789":
            end += 1
        if end == at:
            return -1
        return end if _keep(fields, "micros", int(text[at:end].ljust(6, "0")[:6])) else -1


@dataclass(frozen=True, slots=True)
class _Offset:
    """The UTC offset: +HHmm, +HHMM, +HH:MM, +HHMMss or +HH:MM:ss; small letters where it is not zero."""

    form: str
    zero: str

    def write(self, clock: datetime) -> str:
        seconds = int((clock.utcoffset() or timedelta(0)) / timedelta(seconds=1))
        hours, minutes, rest = abs(seconds) // 3600, abs(seconds) // 60 % 60, abs(seconds) % 60
        if not (hours or minutes or (rest and "s" in self.form)):
            return self.zero
        colon = ":" if ":" in self.form else ""
        written = f"{'-' if seconds < 0 else '+'}{hours:02d}"
        if minutes or "M" in self.form:
            written += f"{colon}{minutes:02d}"
        return f"{written}{colon}{rest:02d}" if rest and "s" in self.form else written

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at + len(self.zero)
        if text[at:end].lower() == self.zero.lower():
            return end if _keep(fields, "offset", 0) else -1
        return self.read_distance(text, at, fields)

    def read_distance(self, text: str, at: int, fields: Fields) -> int:
        """Parse a signed offset."""
        sign = {"+": 1, "-": -1}.get(text[at : at + 1])
        if sign is None:
            return -1
        colon = ":" if ":" in self.form else ""
        hours, end = _two_digits(text, at + 1, "")
        minutes, after = _two_digits(text, end, colon)
        if hours is None or (minutes is None and "M" in self.form):
            return -1
        seconds = None
        if minutes is not None:
            end = after
            seconds, after = _two_digits(text, end, colon) if "s" in self.form else (None, end)
            end = after if seconds is not None else end
        total = sign * (hours * 3600 + (minutes or 0) * 60 + (seconds or 0))
        return end if _keep(fields, "offset", total) else -1


@dataclass(frozen=True, slots=True)
class _NamedOffset:
    """The UTC offset after the letters GMT: GMT, GMT+09:00."""

    offset: ClassVar[_Offset] = _Offset("+HH:MM:ss", "")

    def write(self, clock: datetime) -> str:
        return _GMT + self.offset.write(clock)

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at + len(_GMT)
        if text[at:end].upper() != _GMT:
            return -1
        if text[end : end + 1] in ("+", "-"):
            return self.offset.read_distance(text, end, fields)
        return end if _keep(fields, "offset", 0) else -1


_GMT: Final = "GMT"


def _two_digits(text: str, at: int, colon: str) -> tuple[int | None, int]:
    """A number below 60 behind a colon, and where it ends."""
    start = at + len(colon)
    digits = text[start : start + 2]
    if text[at:start] != colon or len(digits) < 2 or not (digits.isascii() and digits.isdecimal()) or int(digits) > 59:
        return None, at
    return int(digits), start + 2


@dataclass(slots=True)
class _Optional:
    """A section that may be absent when parsing."""

    parts: list[_Part] = field(default_factory=list)

    def write(self, clock: datetime) -> str:
        return "".join(part.write(clock) for part in self.parts)

    def read(self, text: str, at: int, fields: Fields) -> int:
        # On a copy: a section that fails half-way must leave no fields behind.
        attempted = dict(fields)
        end = _read(self.parts, text, at, attempted)
        if end < 0:
            return at
        fields.update(attempted)
        return end


_Part: TypeAlias = _Text | _Number | _Name | _Fraction | _Offset | _NamedOffset | _Optional


def _read(parts: Sequence[_Part], text: str, at: int, fields: Fields) -> int:
    for part in parts:
        at = part.read(text, at, fields)
        if at < 0:
            return -1
    return at


def _keep(fields: Fields, name: str, value: int) -> bool:
    """Store a parsed field; False where it is out of range or contradicts an earlier value of the field."""
    low, high = _RANGES[name]
    if not low <= value <= high or fields.get(name, value) != value:
        return False
    fields[name] = value
    return True


# --- patterns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimePattern:
    """A datetime pattern; `for_writing` and `for_reading` compile and check one."""

    parts: tuple[_Part, ...]

    def write(self, moment: datetime, zone: str) -> str:
        """The text of a moment in a zone."""
        clock = in_utc(moment).astimezone(zone_named(zone))
        return "".join(part.write(clock) for part in self.parts)

    def read(self, text: str, zone: str) -> datetime | None:
        """The moment that a text denotes, in a zone unless the text has its own; None where it does not match."""
        fields: Fields = {}
        if _read(self.parts, text, 0, fields) != len(text):
            return None
        hour = _hour(fields)
        day = _day(fields)
        if hour is None or day is None:
            return None
        clock = datetime(day.year, day.month, day.day, hour, fields.get("minute", 0), fields.get("second", 0))
        clock += timedelta(microseconds=fields.get("micros", 0))
        if "offset" in fields:
            place: tzinfo = timezone(timedelta(seconds=fields["offset"]))
            return clock.replace(tzinfo=place).astimezone(UTC)
        return moment_of(clock, zone)


def _day(fields: Fields) -> date | None:
    year = fields.get("year", 1970)
    if "day of year" in fields:
        day = date(year, 1, 1) + timedelta(days=fields["day of year"] - 1)
        return day if day.year == year else None
    try:
        return date(year, fields.get("month", 1), fields.get("day", 1))
    except ValueError:
        return None


def _hour(fields: Fields) -> int | None:
    # A 12-hour field without AM or PM is in the morning; a 24-hour field must agree with the half.
    half = fields.get("half")
    if "half hour" in fields or "half clock hour" in fields:
        return fields.get("half hour", fields.get("half clock hour", 0) % 12) + 12 * (half or 0)
    hour = fields.get("hour", fields.get("clock hour", 0) % 24)
    return hour if half is None or half == hour // 12 else None


# --- letters -------------------------------------------------------------------------------------------------


def _offset(count: int, zero: str) -> _Offset | None:
    forms = {1: "+HHmm", 2: "+HHMM", 3: "+HH:MM", 4: "+HHMMss", 5: "+HH:MM:ss"}
    return _Offset(forms[count], zero) if count in forms else None


def _universal_offset(count: int) -> _Offset | _NamedOffset | None:
    if count < 4:
        return _Offset("+HHMM", "+0000")
    return _NamedOffset() if count == 4 else _offset(5, "Z") if count == 5 else None


def _letters() -> dict[str, Callable[[int], _Part | None]]:
    """The field of a letter repeated `count` times; None where Spark has no such pattern."""

    def number(name: str, value: Callable[[datetime], int]) -> Callable[[int], _Part | None]:
        def made(count: int) -> _Part | None:
            return _Number(name, count, _MAX_NUMBER_DIGITS if count == 1 else 2, value) if count <= 2 else None

        return made

    def year(count: int) -> _Part | None:
        if count > 6:
            return None
        if count == 2:
            return _Number("year", 2, 2, lambda clock: clock.year, century=True)
        return _Number("year", count, _MAX_NUMBER_DIGITS, lambda clock: clock.year, pads=count >= 4)

    def month(count: int) -> _Part | None:
        if count <= 2:
            return number("month", lambda clock: clock.month)(count)
        names = {3: tuple(name[:3] for name in MONTHS), 4: MONTHS}.get(count)
        return None if names is None else _Name("month", names, 1, lambda clock: clock.month)

    def day_of_year(count: int) -> _Part | None:
        most = _MAX_NUMBER_DIGITS if count == 1 else 3
        return _Number("day of year", count, most, lambda clock: clock.timetuple().tm_yday) if count <= 3 else None

    def quarter(count: int) -> _Part | None:
        names = {
            1: tuple("1234"),
            2: ("01", "02", "03", "04"),
            3: ("Q1", "Q2", "Q3", "Q4"),
            4: ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter"),
        }.get(count)
        return None if names is None else _Name("quarter", names, 1, lambda clock: (clock.month + 2) // 3)

    def weekday(count: int) -> _Part | None:
        if count > 4:
            return None
        names = _DAYS if count == 4 else tuple(name[:3] for name in _DAYS)
        return _Name("weekday", names, 0, lambda clock: clock.weekday())

    def half(count: int) -> _Part | None:
        return _Name("half", _HALVES, 0, lambda clock: clock.hour // 12) if count == 1 else None

    def fraction(count: int) -> _Part | None:
        return _Fraction(count) if count <= 9 else None

    return {
        "y": year,
        "M": month,
        "L": month,
        "d": number("day", lambda clock: clock.day),
        "D": day_of_year,
        "Q": quarter,
        "q": quarter,
        "E": weekday,
        "a": half,
        "H": number("hour", lambda clock: clock.hour),
        "k": number("clock hour", lambda clock: clock.hour or 24),
        "K": number("half hour", lambda clock: clock.hour % 12),
        "h": number("half clock hour", lambda clock: clock.hour % 12 or 12),
        "m": number("minute", lambda clock: clock.minute),
        "s": number("second", lambda clock: clock.second),
        "S": fraction,
        "X": lambda count: _offset(count, "Z"),
        "x": lambda count: _offset(count, "+00" if count == 1 else "+0000" if count % 2 == 0 else "+00:00"),
        "Z": _universal_offset,
    }


_LETTERS: Final = _letters()
_NAMES: Final = ", ".join(_LETTERS)


# --- compiler ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def for_writing(text: str) -> TimePattern:
    """A pattern for formatting; a ValueError tells what is wrong with it."""
    return TimePattern(tuple(_parts(text)))


@lru_cache(maxsize=1024)
def for_reading(text: str) -> TimePattern:
    """A pattern for parsing; a ValueError tells what is wrong with it."""
    parts = tuple(_parts(text))
    named = [each.name for each in _flat(parts) if isinstance(each, _Number | _Name)]
    for letter, name in (("Q", "quarter"), ("E", "weekday")):
        if name in named:
            raise ValueError(f"{letter} is only for writing times, not for reading them")
    for name in named:
        if named.count(name) > 1:
            raise ValueError(f"the {name} stands twice in the pattern {text!r}")
    if len(_HOURS.intersection(named)) > 1:
        raise ValueError(f"the hour stands twice in the pattern {text!r}")
    if "half" in named and not _HOURS.intersection(named):
        raise ValueError("a says which half of the day an hour is in, and the pattern has no hour")
    if "day of year" in named and {"month", "day"}.intersection(named):
        raise ValueError("D is the day of the year, beside which no month or day may stand")
    _share_digits(parts)
    return TimePattern(parts)


def _flat(parts: Sequence[_Part]) -> Iterator[_Part]:
    for part in parts:
        if isinstance(part, _Optional):
            yield from _flat(part.parts)
        else:
            yield part


def _share_digits(parts: Sequence[_Part]) -> None:
    """Adjacent numbers: one of variable length reserves the digits of the fixed-length numbers after it."""
    first: _Number | None = None
    for part in parts:
        if isinstance(part, _Optional):
            _share_digits(part.parts)
        if isinstance(part, _Fraction) and part.digits == 1 and first is not None:
            first.reserved += 1
        elif not isinstance(part, _Number):
            first = None
        elif first is None:
            first = part
        elif part.is_fixed:
            first.reserved += part.most
        else:  # of two adjacent numbers of variable length, the first takes all digits
            first.reserved = 0
            first = part


def _parts(text: str) -> Iterator[_Part]:
    """The parts of a pattern, from left to right."""
    if len(text) > _MAX_PATTERN_LETTERS:
        raise ValueError(f"a pattern for times has at most {_MAX_PATTERN_LETTERS:,} characters")
    open_: list[list[_Part]] = [[]]
    at = 0
    while at < len(text):
        letter = text[at]
        end = at + 1
        if letter == "[":
            open_.append([])
        elif letter == "]":
            if len(open_) == 1:
                raise ValueError("there is no [ for this ] in the pattern")
            inside = _Optional(open_.pop())
            open_[-1].append(inside)
        elif letter == "'":
            quoted, end = _quoted(text, at)
            open_[-1].append(_Text(quoted))
        elif letter.isascii() and letter.isalpha():
            while end < len(text) and text[end] == letter:
                end += 1
            open_[-1].append(_field(letter, end - at))
        elif letter in "{}#":
            raise ValueError(f"{letter} has no meaning in a pattern for times; for the character, write '{letter}'")
        else:
            open_[-1].append(_Text(letter))
        at = end
    if len(open_) > 1:
        raise ValueError("a [ in the pattern is never closed")
    yield from open_[0]


def _quoted(text: str, at: int) -> tuple[str, int]:
    """A text in quotes, and where it ends; two quotes are one."""
    if text[at : at + 2] == "''":
        return "'", at + 2
    piece, at = "", at + 1
    while at < len(text):
        if text[at : at + 2] == "''":
            piece, at = piece + "'", at + 2
        elif text[at] == "'":
            return piece, at + 1
        else:
            piece, at = piece + text[at], at + 1
    raise ValueError("a ' in the pattern is never closed")


def _field(letter: str, count: int) -> _Part:
    made = _LETTERS.get(letter)
    if made is None:
        why = {
            **dict.fromkeys("VvzO", "the names of zones differ from machine to machine; write X or Z for the offset"),
            **dict.fromkeys("YwWuec", "Spark has no letters for weeks; weekofyear(x) and dayofweek(x) give them"),
            "G": "years here are those of our era",
        }.get(letter, f"the letters are {_NAMES}; text stands in quotes: 'T'")
        raise ValueError(f"{letter} is not among the letters for times: {why}")
    part = made(count)
    if part is None:
        raise ValueError(f"{letter * min(count, 12)} is no pattern of Spark's: the letter stands too often")
    return part
