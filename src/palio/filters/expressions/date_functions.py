"""Date and time functions: fields, truncation, differences, and conversion from and to Unix time.

Arguments are dates or datetimes already and never NULL. A function of a timestamp that depends on the clock takes the
time zone as its first argument. Years are 1 to 9999; a result outside is NULL: the function returns None, or raises a
ValueError or an OverflowError.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from palio.events.values import MICROS_PER_DAY
from palio.filters.expressions import arithmetic, cast
from palio.filters.expressions.ast import Micros, Months
from palio.filters.expressions.coercion import FIRST_DAY, Value, bounded, day_at, local, midnight, moment_at, moment_of
from palio.filters.kinds import timestamp_position

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS: Final = {
    **{name: number for number, name in enumerate(_DAYS)},
    **{name[:3]: number for number, name in enumerate(_DAYS)},
    **{name[:2]: number for number, name in enumerate(_DAYS)},
}
_SECONDS_PER_DAY: Final = 86_400
_SECONDS_PER_MONTH: Final = 31 * _SECONDS_PER_DAY


def year(day: date) -> int:
    return day.year


def quarter(day: date) -> int:
    return (day.month + 2) // 3


def month(day: date) -> int:
    return day.month


def dayofmonth(day: date) -> int:
    return day.day


def dayofweek(day: date) -> int:
    """1 for Sunday to 7 for Saturday."""
    return day.isoweekday() % 7 + 1


def weekday(day: date) -> int:
    """0 for Monday to 6 for Sunday."""
    return day.weekday()


def dayofyear(day: date) -> int:
    return day.timetuple().tm_yday


def weekofyear(day: date) -> int:
    """The ISO week: weeks begin on Monday, and the first has a Thursday in the year."""
    return day.isocalendar().week


def yearofweek(day: date) -> int:
    """The year that the ISO week of a day belongs to."""
    return day.isocalendar().year


def dayofweek_iso(day: date) -> int:
    """1 for Monday to 7 for Sunday."""
    return day.isoweekday()


def dayname(day: date) -> str:
    return _DAYS[day.weekday()][:3].capitalize()


def monthname(day: date) -> str:
    return _MONTHS[day.month - 1]


def hour(zone: str, moment: datetime) -> int:
    return local(moment, zone).hour


def minute(zone: str, moment: datetime) -> int:
    return local(moment, zone).minute


def second(zone: str, moment: datetime) -> int:
    return local(moment, zone).second


def second_with_fraction(zone: str, moment: datetime) -> Decimal:
    """The seconds with their fraction, a decimal of six digits after the point."""
    clock = local(moment, zone)
    return Decimal(clock.second * 1_000_000 + clock.microsecond).scaleb(-6)


def date_add(day: date, days: int) -> date | None:
    return day_at(day.toordinal() - FIRST_DAY + days)


def date_sub(day: date, days: int) -> date | None:
    return date_add(day, -days)


def datediff(end: date, start: date) -> int:
    return end.toordinal() - start.toordinal()


def last_day(day: date) -> date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def next_day(day: date, name: str) -> date | None:
    """The first day of that name after a day: 'MO', 'MON' or 'MONDAY' in any case."""
    wanted = _WEEKDAYS.get(name.lower())
    if wanted is None:
        return None
    return date_add(day, (wanted - day.weekday() - 1) % 7 + 1)


# Units of time, in months or microseconds.
_MONTHS_IN: Final = {"month": 1, "quarter": 3, "year": 12}
_MICROS_IN: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": MICROS_PER_DAY,
    "dayofyear": MICROS_PER_DAY,
    "week": 7 * MICROS_PER_DAY,
}
UNITS: Final = (*_MICROS_IN, *_MONTHS_IN)
"""The units of timestampadd; timestampdiff has all but dayofyear."""


def timestampadd(zone: str, unit: str, count: int, moment: datetime) -> Value:
    """A moment plus a number of units; days and longer units follow the calendar of the zone, hours do not."""
    if unit in _MONTHS_IN:
        months = count * _MONTHS_IN[unit]
        return arithmetic.add(zone, moment, Months(months)) if -(2**31) <= months < 2**31 else None
    micros = bounded(count * _MICROS_IN[unit])
    if micros is None:
        return None
    if _MICROS_IN[unit] < MICROS_PER_DAY:
        return moment_at(timestamp_position(moment) + micros)
    return arithmetic.add(zone, moment, Micros(micros))


def timestampdiff(zone: str, unit: str, start: datetime, end: datetime) -> int:
    """Whole units between what the clocks of the zone show at two moments, towards zero."""
    first, last = local(start, zone), local(end, zone)
    if unit in _MONTHS_IN:
        return _towards_zero(_whole_months(first, last), _MONTHS_IN[unit])
    return _towards_zero((last - first) // timedelta(microseconds=1), _MICROS_IN[unit])


def _whole_months(first: datetime, last: datetime) -> int:
    """Months as Java counts them: an incomplete day is subtracted before months are counted."""
    full = last.date()
    if full > first.date() and last.time() < first.time():
        full -= timedelta(days=1)
    elif full < first.date() and last.time() > first.time():
        full += timedelta(days=1)
    months = (full.year - first.year) * 12 + full.month - first.month
    # As Java packs them: a month of 32 days, longer than any, so that days decide only between equal months.
    return _towards_zero(months * 32 + full.day - first.day, 32)


def _towards_zero(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def months_between(zone: str, end: datetime, start: datetime, rounded: bool = True) -> float:
    """Months, and the rest in months of 31 days; no rest between equal days or last days of a month."""
    last, first = local(end, zone), local(start, zone)
    months = (last.year - first.year) * 12 + last.month - first.month
    if last.day == first.day or (_is_last(last) and _is_last(first)):
        return float(months)
    seconds = (last.day - first.day) * _SECONDS_PER_DAY
    seconds += _seconds_into(last.date(), end, zone) - _seconds_into(first.date(), start, zone)
    difference = months + seconds / _SECONDS_PER_MONTH
    return _round_to_8(difference) if rounded else difference


def _is_last(day: date) -> bool:
    return day.day == calendar.monthrange(day.year, day.month)[1]


def _seconds_into(day: date, moment: datetime, zone: str) -> int:
    """Whole seconds since a day began in the zone; on the day clocks change, not what the clock shows."""
    return (timestamp_position(moment) - timestamp_position(midnight(day, zone))) // 1_000_000


def _round_to_8(number: float) -> float:
    scaled = number * 1e8
    whole = int(scaled // 1)
    return (whole + (scaled - whole >= 0.5)) / 1e8  # half up, as Java's Math.round


_TRUNCATIONS: Final = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mm", "mon"), "month"),
    "week": "week",
}


def trunc(day: date, unit: str) -> date | None:
    """The first day of the year, quarter, month or week a day is in; NULL for any other unit."""
    return _first_day(day, _TRUNCATIONS.get(unit.lower()))


def _first_day(day: date, unit: str | None) -> date | None:
    match unit:
        case "year":
            return date(day.year, 1, 1)
        case "quarter":
            return date(day.year, 3 * ((day.month - 1) // 3) + 1, 1)
        case "month":
            return date(day.year, day.month, 1)
        case "week":
            return day_at(day.toordinal() - FIRST_DAY - day.weekday())
    return None


_CLOCK_TRUNCATIONS: Final[dict[str, Callable[[datetime], datetime]]] = {
    "hour": lambda clock: clock.replace(minute=0, second=0, microsecond=0),
    "minute": lambda clock: clock.replace(second=0, microsecond=0),
    "second": lambda clock: clock.replace(microsecond=0),
    "millisecond": lambda clock: clock.replace(microsecond=clock.microsecond // 1000 * 1000),
    "microsecond": lambda clock: clock,
    **dict.fromkeys(("day", "dd"), lambda clock: clock.replace(hour=0, minute=0, second=0, microsecond=0)),
}


def date_trunc(zone: str, unit: str, moment: datetime) -> datetime | None:
    """The first moment of the unit a moment is in, on the clocks of the zone; NULL for an unknown unit."""
    unit = unit.lower()
    clock = local(moment, zone)
    if (cut := _CLOCK_TRUNCATIONS.get(unit)) is not None:
        # At the second 01:30 of a night with two of them, the hour began at the second 01:00.
        return moment_of(cut(clock), zone, moment)
    day = _first_day(clock.date(), _TRUNCATIONS.get(unit))
    return None if day is None else moment_of(datetime(day.year, day.month, day.day), zone, moment)


def make_timestamp(
    zone: str, year: int, month: int, day: int, hour: int, minute: int, second: Decimal, other_zone: str | None = None
) -> datetime:
    """The moment of a local time; a second 60 is the first of the next minute."""
    whole = int(second)
    micros = int(second.scaleb(6)) - whole * 1_000_000
    if whole == 60 and not micros:
        clock = datetime(year, month, day, hour, minute) + timedelta(minutes=1)
    else:
        clock = datetime(year, month, day, hour, minute, whole, micros)
    return moment_of(clock, other_zone or zone)


def from_utc_timestamp(moment: datetime, zone: str) -> datetime:
    """What the clocks of a zone show at a moment, as if it were the time in UTC."""
    return local(moment, zone).replace(tzinfo=UTC)


def to_utc_timestamp(moment: datetime, zone: str) -> datetime:
    """The moment at which the clocks of a zone show what those of UTC show at the given one."""
    return moment_of(local(moment, "UTC"), zone)


def unix_date(day: date) -> int:
    return day.toordinal() - FIRST_DAY


def unix_seconds(moment: datetime) -> int:
    return timestamp_position(moment) // 1_000_000


def unix_millis(moment: datetime) -> int:
    return timestamp_position(moment) // 1_000


def timestamp_seconds(seconds: int | Decimal | float) -> datetime | None:
    if isinstance(seconds, Decimal) and seconds * 1_000_000 % 1:  # finer than a microsecond: Spark raises
        return None
    return cast.to_moment(seconds, "UTC")


def timestamp_millis(millis: int) -> datetime | None:
    return moment_at(millis * 1000) if bounded(millis * 1000) is not None else None
