"""Comparisons with numbers, dates and timestamps, for whole columns of literals.

Of `price BETWEEN 10.50 AND 12.25` and ten thousand more that differ in their literals, each literal is read into an
array, without a `Decimal` or a `date` of its own, and becomes one or two cuts of its attribute's axis. Cuts and
intervals then come as arrays, for about a microsecond each.

What a literal means is said by `filters.comparisons.equality_cuts`: there are values below it, values equal to it, and
values above. A number is compared with all kinds of number, a date and a timestamp with both kinds, a date as its
midnight. Only literals written in the usual way are read here (`2024-01-31 23:59:59`, decimals of at most fifteen
digits). Rows with others are left to the caller, and so are times in another zone than UTC, where a day may lack its
midnight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import numpy as np

from palio.events.values import MAX_INT64, MIN_INT64
from palio.languages.sql.template_parameters import DECIMAL, DOUBLE, INTEGER, STRING, Parameter
from palio.matching.columnar.array_types import Flags, Int64s
from palio.matching.columnar.axes_builder import UNBOUNDED
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.literal_columns import LiteralSpans
from palio.matching.columnar.slot_order import EXACT_FLOATS, CutConstants, Region, micros

_MAX_SCALE: Final = 15  # digits behind the point
_MAX_DECIMAL_LENGTH: Final = 17  # of a number below 2^53, with its point
_DAY_LENGTH: Final = 10  # 2024-01-31
_SECOND_LENGTH: Final = 19  # 2024-01-31 23:59:59
_FRACTION_DIGITS: Final = 6
_MICROS_PER_DAY: Final = 86_400_000_000
_FIRST_YEAR: Final = 2  # so that no cut is at an end of the calendar
_LAST_YEAR: Final = 9998


class LiteralCuts(Protocol):
    """The literals of one column, as places on an axis: below and above the values that equal each."""

    @property
    def regions(self) -> tuple[Region, ...]:
        """The kinds of value that they are compared with."""
        ...

    @property
    def good(self) -> Flags:
        """Which literals could be read."""
        ...

    def add_to(self, cuts: CutConstants, axis: int, region: Region, above: bool, which: Flags) -> Int64s:
        """The numbers of the cuts below, or above, some of the literals, all of them good."""
        ...


def literal_cuts(parameter: Parameter, spans: LiteralSpans, timezone: str) -> LiteralCuts | None:
    """The cuts of the literals of a parameter; None where literals of its kind have none here."""
    sign = -1 if parameter.before == "-" else 1
    if parameter.kind == INTEGER:
        return _IntegerCuts(sign * spans.integers())
    if parameter.kind == DECIMAL:
        return _DecimalCuts(spans, sign)
    if parameter.kind == DOUBLE:
        return _FloatCuts(spans, sign)
    if parameter.kind == STRING and timezone == "UTC":
        if parameter.before == "date":
            return _DateCuts(spans)
        if parameter.before in ("timestamp", "timestamp_ltz", "timestamp_ntz"):
            return _TimestampCuts.of(spans)
    return None


def value_cuts(values: Sequence[Any]) -> LiteralCuts | None:
    """The cuts of integers of 64 bits, or of moments within the calendar; None for other values."""
    kinds = set(map(type, values))
    if kinds == {int} and all(MIN_INT64 < each < MAX_INT64 for each in values):
        return _IntegerCuts(np.array(values, np.int64))
    if kinds == {datetime} and all(_FIRST_YEAR <= each.year <= _LAST_YEAR for each in values):
        return _TimestampCuts(np.array(list(map(micros, values)), np.int64))
    return None


def interval_columns(
    builder: ConditionsBuilder, name: str, bounds: Mapping[str, LiteralCuts], which: Flags
) -> list[Int64s]:
    """The handles of the intervals that some literals ask for: columns of which every literal has one each.

    `bounds` is a comparison by its operator, or one from below and one from above.
    """
    axis = builder.axis((name, None))
    found: list[Int64s] = []
    count = int(which.sum())
    for region in next(iter(bounds.values())).regions:

        def cut(literals: LiteralCuts, above: bool, region: Region = region) -> Int64s:
            return literals.add_to(builder.axes.cuts, axis, region, above, which)

        for lower, upper in _spans(bounds, cut):
            ends = [np.full(count, UNBOUNDED, np.int64) if end is None else end for end in (lower, upper)]
            made = builder.axes.add_between(axis, region, *ends)
            found.append(np.arange(made.start, made.stop, dtype=np.int64))
    return found


_Ends = tuple[Int64s | None, Int64s | None]


def _spans(bounds: Mapping[str, LiteralCuts], cut: Callable[[LiteralCuts, bool], Int64s]) -> list[_Ends]:
    """The ends of the intervals that comparisons mean; None is no end."""
    if "<>" in bounds:
        literals = bounds["<>"]
        return [(None, cut(literals, False)), (cut(literals, True), None)]
    low = high = None
    for operator, literals in bounds.items():
        if operator in ("=", ">", ">="):
            low = cut(literals, operator == ">")
        if operator in ("=", "<", "<="):
            high = cut(literals, operator != "<")
    return [(low, high)]


# --- numbers -----------------------------------------------------------------------------------------------


class _IntegerCuts:
    regions = (Region.NUMBER,)

    def __init__(self, values: Int64s) -> None:
        self._values = values
        self.good: Flags = np.ones(len(values), np.bool_)

    def add_to(self, cuts: CutConstants, axis: int, region: Region, above: bool, which: Flags) -> Int64s:
        values = self._values[which]
        return cuts.add_integers(np.full(len(values), axis, np.int64), values, np.full(len(values), above))


class _DecimalCuts:
    """Digits as an integer, and how many of them are behind the point."""

    regions = (Region.NUMBER,)

    def __init__(self, spans: LiteralSpans, sign: int) -> None:
        lengths = spans.ends - spans.starts
        is_short = lengths <= _MAX_DECIMAL_LENGTH
        texts = [text if short else b"0.0" for text, short in zip(spans.texts(), is_short.tolist(), strict=True)]
        points = np.array([text.index(b".") for text in texts], np.int64)
        self._scales = np.array([len(text) for text in texts], np.int64) - points - 1
        self._scaled = sign * np.array([int(text.replace(b".", b"")) for text in texts], np.int64)
        self.good: Flags = is_short & (self._scales <= _MAX_SCALE) & (np.abs(self._scaled) < EXACT_FLOATS)

    def add_to(self, cuts: CutConstants, axis: int, region: Region, above: bool, which: Flags) -> Int64s:
        scaled, scales = self._scaled[which], self._scales[which]
        numbers = np.empty(len(scaled), np.int64)
        for scale in np.unique(scales).tolist():
            own = scales == scale
            after = np.full(int(own.sum()), above)
            numbers[own] = cuts.add_decimals(axis, scaled[own], scale, after)
        return numbers


class _FloatCuts:
    regions = (Region.NUMBER,)

    def __init__(self, spans: LiteralSpans, sign: int) -> None:
        self._values = sign * np.array([float(text.rstrip(b"dD")) for text in spans.texts()], np.float64)
        self.good: Flags = np.abs(self._values) < EXACT_FLOATS

    def add_to(self, cuts: CutConstants, axis: int, region: Region, above: bool, which: Flags) -> Int64s:
        return cuts.add_floats(axis, self._values[which], above)


# --- dates and timestamps ----------------------------------------------------------------------------------


class _DateCuts:
    """Days since 1970."""

    regions = (Region.DATE, Region.TIMESTAMP)

    def __init__(self, spans: LiteralSpans) -> None:
        self._days, is_day = _read_days(spans)
        self.good: Flags = is_day & (_lengths(spans) == _DAY_LENGTH)

    def add_to(self, cuts: CutConstants, axis: int, region: Region, above: bool, which: Flags) -> Int64s:
        days = self._days[which]
        return cuts.add_instants(axis, region, (days if region == Region.DATE else days * _MICROS_PER_DAY) + above)


class _TimestampCuts:
    """Microseconds since 1970."""

    regions = (Region.DATE, Region.TIMESTAMP)

    def __init__(self, micros: Int64s, good: Flags | None = None) -> None:
        self._micros = micros
        self.good: Flags = np.ones(len(micros), np.bool_) if good is None else good

    @classmethod
    def of(cls, spans: LiteralSpans) -> _TimestampCuts:
        days, is_day = _read_days(spans)
        micros, is_time = _read_times(spans)
        return cls(days * _MICROS_PER_DAY + micros, is_day & is_time)

    def add_to(self, cuts: CutConstants, axis: int, region: Region, above: bool, which: Flags) -> Int64s:
        micros = self._micros[which]
        if region == Region.TIMESTAMP:
            return cuts.add_instants(axis, region, micros + above)
        # The days whose midnights are before the timestamp, or not after it.
        days = micros // _MICROS_PER_DAY + 1 if above else -(-micros // _MICROS_PER_DAY)
        return cuts.add_instants(axis, region, days)


def _lengths(spans: LiteralSpans) -> Int64s:
    """The lengths of texts without their quotes."""
    return (spans.ends - spans.starts - 2).astype(np.int64)


def _read_days(spans: LiteralSpans) -> tuple[Int64s, Flags]:
    """The days that texts begin with, as in 2024-01-31, and which do; others are 0."""
    letters = _letters(spans, 0, _DAY_LENGTH)
    years, is_year = _digits(letters[:, :4])
    months, is_month = _digits(letters[:, 5:7])
    days, is_day = _digits(letters[:, 8:])
    good = is_year & is_month & is_day & (letters[:, 4] == ord("-")) & (letters[:, 7] == ord("-"))
    good &= (years >= _FIRST_YEAR) & (years <= _LAST_YEAR) & (months >= 1) & (months <= 12) & (days >= 1)
    # NumPy counts months from 1970; the days of a month are those up to the next one.
    first = (12 * (years - 1970) + months - 1).astype("datetime64[M]")
    begins, ends = (each.astype("datetime64[D]").astype(np.int64) for each in (first, first + 1))
    good &= days <= ends - begins
    return np.where(good, begins + days - 1, 0), good


def _read_times(spans: LiteralSpans) -> tuple[Int64s, Flags]:
    """The microseconds of the day that texts say behind their date, and which say one, or nothing."""
    lengths = _lengths(spans)
    letters = _letters(spans, _DAY_LENGTH, _SECOND_LENGTH - _DAY_LENGTH)
    hours, is_hour = _digits(letters[:, 1:3])
    minutes, is_minute = _digits(letters[:, 4:6])
    seconds, is_second = _digits(letters[:, 7:9])
    good = is_hour & is_minute & is_second & (hours < 24) & (minutes < 60) & (seconds < 60)
    good &= ((letters[:, 0] == ord(" ")) | (letters[:, 0] == ord("T"))) & (lengths >= _SECOND_LENGTH)
    good &= (letters[:, 3] == ord(":")) & (letters[:, 6] == ord(":"))
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    fraction = _letters(spans, _SECOND_LENGTH, _FRACTION_DIGITS + 1)
    behind = lengths - _SECOND_LENGTH
    is_written = np.arange(1, _FRACTION_DIGITS + 1) < behind[:, None]
    parts, is_fraction = _digits(np.where(is_written, fraction[:, 1:], ord("0")))
    is_fraction &= (fraction[:, 0] == ord(".")) & (behind > 1) & (behind <= _FRACTION_DIGITS + 1)
    good &= (behind == 0) | is_fraction
    micros += np.where(behind > 0, parts, 0)
    is_midnight = lengths == _DAY_LENGTH
    return np.where(good, micros, 0), good | is_midnight


def _letters(spans: LiteralSpans, first: int, count: int) -> Int64s:
    """Some letters of texts, counted behind the quote; beyond the end of a text, what stands there."""
    at = np.minimum(spans.starts[:, None] + 1 + first + np.arange(count), len(spans.text) - 1)
    found: Int64s = spans.text[at].astype(np.int64)
    return found


def _digits(letters: Int64s) -> tuple[Int64s, Flags]:
    """The numbers that digits make, and where all letters are digits."""
    digits = letters - ord("0")
    good: Flags = np.logical_and.reduce((digits >= 0) & (digits <= 9), axis=1)
    return digits @ 10 ** np.arange(letters.shape[1])[::-1], good
