"""Sums and differences of times: days, moments and intervals.

Whole days of an interval are added on the calendar of the zone and the rest on the clock, as in
`filters.expressions.arithmetic`. The interval between two times is a number of microseconds, which can be compared but
is no column. Intervals of months, and intervals added to dates, have no vector form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final

from palio.events.values import MICROS_PER_DAY
from palio.filters.expressions.ast import Call, Micros
from palio.matching.columnar.vector_arithmetic import ARITHMETIC_FORMS
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vector_time import as_clock, as_moment, earlier_days, later_days, within_years
from palio.matching.columnar.vectors import Vector, both
from palio.matching.columnar.zone_offsets import from_clock

_TIMES: Final = frozenset({date, datetime})


def _sum(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    first, second = parts
    # The order of the operands does not matter.
    for time, by in ((first, second), (second, first)):
        if (time.kind, by.kind) == (date, int):
            return compiler.strict("later", date, later_days, time, by)
        if time.kind is datetime and isinstance(by.value, Micros):
            return _moved(compiler, time, by.value.micros)
    return ARITHMETIC_FORMS["+"](compiler, call, parts)


def _difference(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    first, second = parts
    if (first.kind, second.kind) == (date, int):
        return compiler.strict("earlier", date, earlier_days, first, second)
    if first.kind is datetime and isinstance(second.value, Micros):
        return _moved(compiler, first, -second.value.micros)
    if first.kind in _TIMES and second.kind in _TIMES:
        ends = (
            (as_clock(compiler, as_moment(compiler, part)) for part in parts)
            if first.kind is not second.kind
            else (as_clock(compiler, part) for part in parts)
        )
        return compiler.strict("apart", Micros, _apart, *ends)
    return ARITHMETIC_FORMS["-"](compiler, call, parts)


def _apart(left: Vector, right: Vector) -> Vector:
    return Vector(left.values - right.values, both(left.valid, right.valid))


def _moved(compiler: VectorCompiler, moment: Part, micros: int) -> Part:
    """Moments moved by an interval; NULL beyond the years 1 and 9999, and where that is on the way."""
    sign = 1 if micros >= 0 else -1
    days = sign * (abs(micros) // MICROS_PER_DAY)
    rest = micros - days * MICROS_PER_DAY
    if abs(days) > _MAX_DAYS:
        return compiler.null
    zone = compiler.timezone

    def on_calendar(start: Vector, clock: Vector) -> Vector:
        shown = within_years(clock.values + days * MICROS_PER_DAY, clock.valid)
        moments = within_years(from_clock(shown.values, zone, clock.values - start.values), shown.valid)
        return on_clock(moments)

    def on_clock(moments: Vector) -> Vector:
        return within_years(moments.values + rest, moments.valid)

    if not days:
        return compiler.strict(("moved", micros), datetime, on_clock, moment)
    return compiler.strict(("moved", micros), datetime, on_calendar, moment, as_clock(compiler, moment))


_MAX_DAYS: Final = 4_000_000  # more than there are from the year 1 to 9999

SUM_FORMS: Final[Mapping[str, Form]] = {"+": _sum, "-": _difference}
