"""Dates and times in vectors: fields, truncation, differences, and conversion between days and moments.

A date is a number of days and a timestamp a number of microseconds since 1970 in UTC. What depends on the clock goes
through `zone_offsets`. A result outside the years 1 to 9999 is NULL, as in `filters.expressions.date_functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.events.values import MICROS_PER_DAY
from palio.filters.expressions.ast import Call
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vectors import (
    FIRST_DAYS,
    FIRST_MICROS,
    LAST_DAYS,
    LAST_MICROS,
    Vector,
    both,
    without,
)
from palio.matching.columnar.zone_offsets import first_moments, from_clock, to_clock

_SECOND: Final = 1_000_000
_UNITS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": _SECOND,
    "minute": 60 * _SECOND,
    "hour": 3_600 * _SECOND,
    "day": MICROS_PER_DAY,
    "week": 7 * MICROS_PER_DAY,
}


# Arguments as days, moments and clocks


def as_day(compiler: VectorCompiler, part: Part) -> Part:
    """Dates, or the days that moments fall on in the zone; NULL for other kinds than times and text."""
    if part.kind is str:
        return compiler.read_text(part, date)
    if part.kind is datetime:
        return compiler.strict(
            "day", date, lambda clock: Vector(clock.values // MICROS_PER_DAY, clock.valid), as_clock(compiler, part)
        )
    return part if part.kind is date else compiler.null


def as_moment(compiler: VectorCompiler, part: Part) -> Part:
    """Moments, or the first of days in the zone; NULL for other kinds than times and text."""
    if part.kind is str:
        return compiler.read_text(part, datetime)
    if part.kind is date:
        zone = compiler.timezone
        return compiler.strict("midnight", datetime, lambda days: _midnights(days.values, days.valid, zone), part)
    return part if part.kind is datetime else compiler.null


def as_clock(compiler: VectorCompiler, part: Part) -> Part:
    """What the clocks of the zone show, in microseconds, at midnight for dates; NULL beyond the years of Python."""
    if part.kind is date:
        return compiler.strict("start", int, lambda days: Vector(days.values * MICROS_PER_DAY, days.valid), part)
    zone = compiler.timezone
    return compiler.strict("clock", int, lambda vector: _clocks(vector, zone), part)


def _clocks(moments: Vector, zone: str) -> Vector:
    clock = to_clock(np.atleast_1d(moments.values), zone).reshape(np.shape(moments.values))
    return within_years(clock, moments.valid)


def _midnights(days: Any, valid: Any, zone: str) -> Vector:
    clock = np.clip(np.atleast_1d(days), FIRST_DAYS, LAST_DAYS) * MICROS_PER_DAY
    moments = first_moments(clock, zone).reshape(np.shape(days))
    return within_years(moments, valid)


def within_years(micros: Any, valid: Any) -> Vector:
    """Moments or clocks, NULL beyond the years 1 and 9999."""
    return Vector(micros.clip(FIRST_MICROS, LAST_MICROS), _within(valid, micros, FIRST_MICROS, LAST_MICROS))


def _within(valid: Any, values: Any, first: int, last: int) -> Any:
    return without(valid, (values < first) | (values > last))


# Days moved


def _shift_days(sign: int) -> Callable[[Vector, Vector], Vector]:
    def compute(days: Vector, by: Vector) -> Vector:
        # Beyond this, which no two days are apart, the sum could overflow.
        near = np.clip(by.values, FIRST_DAYS - LAST_DAYS - 1, LAST_DAYS - FIRST_DAYS + 1)
        moved = days.values + sign * near
        return Vector(moved, without(both(days.valid, by.valid), (moved < FIRST_DAYS) | (moved > LAST_DAYS)))

    return compute


later_days: Final = _shift_days(1)
earlier_days: Final = _shift_days(-1)


# Fields


def _arrow_days(days: Any) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def _day_field(field: Callable[[pa.Array], pa.Array]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        return compiler.strict(
            call.function,
            int,
            lambda days: Vector(np.asarray(field(_arrow_days(days.values))).astype(np.int64), days.valid),
            as_day(compiler, parts[0]),
        )

    return form


def _of_days(kind: type, compute: Callable[[Any], Any]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        return compiler.strict(
            call.function, kind, lambda days: Vector(compute(days.values), days.valid), as_day(compiler, parts[0])
        )

    return form


def _clock_field(unit: int, count: int) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        return compiler.strict(
            call.function,
            int,
            lambda clock: Vector(clock.values // unit % count, clock.valid),
            as_clock(compiler, as_moment(compiler, parts[0])),
        )

    return form


def _months(days: Any) -> Any:
    """Months since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_days(months: Any) -> Any:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


_FIRST_DAYS: Final[dict[str, Callable[[Any], Any]]] = {
    "year": lambda days: _first_days(_months(days) // 12 * 12),
    "quarter": lambda days: _first_days(_months(days) // 3 * 3),
    "month": lambda days: _first_days(_months(days)),
    "week": lambda days: days - (days + 3) % 7,  # 1 January 1970 was a Thursday
    "day": lambda days: days,
}
_UNIT_NAMES: Final = {
    **{name: name for name in _FIRST_DAYS if name != "day"},
    **dict.fromkeys(("yyyy", "yy"), "year"),
    **dict.fromkeys(("mm", "mon"), "month"),
}


def _trunc(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    if parts[1].text is None:
        return None
    first = _FIRST_DAYS.get(_UNIT_NAMES.get(parts[1].text.lower(), ""))
    if first is None:
        return compiler.null
    return compiler.strict(("trunc", parts[1].text), date, _first_of(first), as_day(compiler, parts[0]))


def _first_of(first: Callable[[Any], Any]) -> Callable[[Vector], Vector]:
    def compute(days: Vector) -> Vector:
        start = first(days.values)
        return Vector(start, _within(days.valid, start, FIRST_DAYS, LAST_DAYS))

    return compute


def _date_trunc(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    if parts[0].text is None:
        return None
    unit, zone = parts[0].text.lower(), compiler.timezone
    moment = as_moment(compiler, parts[1])
    size = MICROS_PER_DAY if unit == "dd" else _UNITS.get(unit)
    first = _FIRST_DAYS.get(_UNIT_NAMES.get(unit, ""))
    if first is not None:
        find = _first_of(first)
    elif size is None:
        return compiler.null

    def compute(moments: Vector, clock: Vector) -> Vector:
        if first is None:
            start = Vector(clock.values - clock.values % size, clock.valid)
        else:
            days = find(Vector(clock.values // MICROS_PER_DAY, clock.valid))
            start = Vector(np.clip(days.values, FIRST_DAYS, LAST_DAYS) * MICROS_PER_DAY, days.valid)
        # Of two hours with one name on the night clocks go back, each begins where it does: the offset is kept.
        shown, offsets = np.atleast_1d(start.values), np.atleast_1d(clock.values - moments.values)
        return within_years(from_clock(shown, zone, offsets).reshape(np.shape(start.values)), start.valid)

    return compiler.strict(("date_trunc", unit), datetime, compute, moment, as_clock(compiler, moment))


# Differences and sums


def _datediff(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    end, start = (as_day(compiler, part) for part in parts)
    return compiler.strict(
        "datediff", int, lambda a, b: Vector(a.values - b.values, both(a.valid, b.valid)), end, start
    )


def _shifted(shift: Callable[[Vector, Vector], Vector]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        count = parts[1]
        if count.kind is str:
            count = compiler.read_text(count, int)
        if count.kind is not int:
            return compiler.null
        narrow = compiler.strict(
            "int", int, lambda by: Vector(by.values, _within(by.valid, by.values, -(2**31), 2**31 - 1)), count
        )
        return compiler.strict(call.function, date, shift, as_day(compiler, parts[0]), narrow)

    return form


def _timestampdiff(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    size = _UNITS.get(parts[0].text or "")
    if size is None:
        return None
    start, end = (as_clock(compiler, as_moment(compiler, part)) for part in parts[1:])

    def compute(first: Vector, last: Vector) -> Vector:
        apart = last.values - first.values
        whole = np.sign(apart) * (np.abs(apart) // size)
        return Vector(whole, both(first.valid, last.valid))

    return compiler.strict(("timestampdiff", size), int, compute, start, end)


# Counts since 1970


def _since_1970(unit: int) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        if parts[0].kind is not datetime:
            return compiler.null
        return compiler.strict(call.function, int, lambda at: Vector(at.values // unit, at.valid), parts[0])

    return form


def _unix_date(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    if parts[0].kind is not date:
        return compiler.null
    return compiler.strict("unix_date", int, lambda days: days, parts[0])


def moments_after_1970(compiler: VectorCompiler, part: Part, unit: int) -> Part:
    """Integers that count units of time since 1970, as moments."""
    return compiler.strict(("moment", unit), datetime, lambda vector: _moments(vector, unit), part)


def _moments(counts: Vector, unit: int) -> Vector:
    first, last = -(-FIRST_MICROS // unit), LAST_MICROS // unit
    inside = np.clip(counts.values, first, last)
    return Vector(inside * unit, _within(counts.valid, counts.values, first, last))


def _after_1970(unit: int) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        if parts[0].kind is not int:
            return None
        return moments_after_1970(compiler, parts[0], unit)

    return form


def _to_date(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    return as_day(compiler, parts[0]) if len(parts) == 1 else None


TIME_FORMS: Final[Mapping[str, Form]] = {
    "year": _day_field(pc.year),
    "quarter": _of_days(int, lambda days: _months(days) % 12 // 3 + 1),
    "month": _of_days(int, lambda days: _months(days) % 12 + 1),
    "dayofmonth": _day_field(pc.day),
    "dayofweek": _of_days(int, lambda days: (days + 4) % 7 + 1),
    "dayofweek_iso": _of_days(int, lambda days: (days + 3) % 7 + 1),
    "weekday": _of_days(int, lambda days: (days + 3) % 7),
    "dayofyear": _day_field(pc.day_of_year),
    "weekofyear": _day_field(pc.iso_week),
    "yearofweek": _day_field(pc.iso_year),
    "last_day": _of_days(date, lambda days: _first_days(_months(days) + 1) - 1),
    "hour": _clock_field(3_600 * _SECOND, 24),
    "minute": _clock_field(60 * _SECOND, 60),
    "second": _clock_field(_SECOND, 60),
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "datediff": _datediff,
    "date_add": _shifted(later_days),
    "date_sub": _shifted(earlier_days),
    "timestampdiff": _timestampdiff,
    "unix_date": _unix_date,
    "unix_seconds": _since_1970(_SECOND),
    "unix_millis": _since_1970(1_000),
    "unix_micros": _since_1970(1),
    "timestamp_seconds": _after_1970(_SECOND),
    "timestamp_millis": _after_1970(1_000),
    "timestamp_micros": _after_1970(1),
    "to_date": _to_date,
}
