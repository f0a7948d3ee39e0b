"""Tests of times around changes of the clocks against Spark, value by value and in columns.

Most rows are within a day of a moment at which the offset of a zone changes: gaps and overlaps, of an hour, of half
an hour (Lord Howe), of a day (Apia), at midnight (Havana, Beirut). Spark computes all of a zone in one SELECT.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from palio.events.arrow import read_column
from palio.filters.expressions.coercion import EPOCH, local
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.kinds import timestamp_position
from palio.languages.sql.parser import parse_condition
from palio.matching.columnar.vector_evaluation import BatchEvaluator
from palio.matching.columnar.zone_offsets import to_clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW_ZONES = ("America/New_York", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia", "Europe/London")
ZONES = (
    *("Africa/Cairo", "Africa/Casablanca", "Africa/Juba", "Africa/Windhoek", "America/Argentina/San_Luis"),
    *("America/Asuncion", "America/Caracas", "America/Chicago", "America/Havana", "America/Los_Angeles"),
    *(
        "America/New_York",
        "America/Noronha",
        "America/Nuuk",
        "America/Anchorage",
        "America/Santiago",
        "America/Sao_Paulo",
    ),
    *("America/Scoresbysund", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut"),
    *("Asia/Colombo", "Asia/Dhaka", "Asia/Gaza", "Asia/Kathmandu", "Asia/Karachi", "Asia/Pyongyang", "Asia/Tehran"),
    *("Atlantic/Azores", "Australia/Adelaide", "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin"),
    *("Europe/Istanbul", "Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kwajalein"),
)
HOUR = 3_600_000_000
DAY = 24 * HOUR
# Java's database of zones may be older than Python's: what the laws say of the last years is left out, and of years of
# which historians still find something (Tehran, 1979).
FIRST, LAST = datetime(1982, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)

_INTERVALS = (
    *("'1' DAY", "'-1' DAY", "'24' HOUR", "'25' HOUR", "'-90' MINUTE", "'1 01:30:00' DAY TO SECOND", "'0' DAY"),
    *("'1' MONTH", "'-1' MONTH", "'0' MONTH", "'1' YEAR", "'5' MONTH"),
)
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_CUTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
EXPRESSIONS = (
    *(f"t + INTERVAL {size}" for size in _INTERVALS),
    *(f"t - INTERVAL {size}" for size in _INTERVALS),
    *(f"d + INTERVAL {size}" for size in _INTERVALS),
    *(f"timestampadd({unit}, {count}, t)" for unit in _UNITS for count in (1, -1)),
    *(f"timestampadd({unit}, 24, t)" for unit in _UNITS[3:]),
    *(f"timestampdiff({unit}, t, u)" for unit in _UNITS),
    *(f"date_trunc('{unit}', t)" for unit in _CUTS),
    *("hour(t)", "minute(t)", "second(t)", "to_date(t)", "dayofyear(t)", "CAST(t AS STRING)", "CAST(d AS TIMESTAMP)"),
    *("CAST(s AS TIMESTAMP)", "to_timestamp(s)", "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", "unix_timestamp(s)"),
    *("date_format(t, 'yyyy-MM-dd HH:mm:ss XXX')", "months_between(t, u)", "months_between(t, d)", "unix_seconds(t)"),
    *("t - u > INTERVAL '1' DAY", "t - u = INTERVAL '1' HOUR", "t - d < INTERVAL '1' HOUR", "u + (t - u) = t"),
    *(
        "d < t",
        "d = t",
        "t >= date_trunc('day', t)",
        "t + INTERVAL '0' MONTH = t",
        "datediff(t, u)",
        "from_unixtime(5)",
    ),
)


def changes(zone: str) -> list[int]:
    """The first moments with another offset, in microseconds, to the hour; for a gap or overlap that is enough."""
    hours = np.arange(timestamp_position(FIRST), timestamp_position(LAST), 6 * HOUR, dtype=np.int64)
    offsets = to_clock(hours, zone) - hours
    return [int(hours[place]) for place in np.flatnonzero(np.diff(offsets))]


def rows_around_changes(zone: str, random: Random, count: int) -> list[dict[str, Any]]:
    near = changes(zone)
    rows = []
    for _ in range(count):
        change = random.choice(near)
        step = random.choice((HOUR // 4, HOUR // 60, 1, 500_000))
        first, second = (
            change
            + random.choice((0, 0, 0, DAY, -DAY, 30 * DAY, -31 * DAY, 365 * DAY))
            + random.randint(-28, 52) * HOUR // 4
            for _ in range(2)
        )
        first += random.randint(-3, 3) * step
        moment, other = (EPOCH + timedelta(microseconds=each) for each in (first, second))
        shown = local(moment, zone)
        rows.append(
            {
                "t": moment,
                "u": other,
                "d": local(other, zone).date() + timedelta(days=random.randint(-1, 1)),
                # What the clock shows, also in the hour that it skips.
                "s": f"{shown + timedelta(minutes=random.choice((0, 0, 30, 60, -30))):%Y-%m-%d %H:%M:%S}",
            }
        )
    return rows


def in_spark(spark: SparkSession, zone: str, rows: list[dict[str, Any]]) -> list[list[Any]]:
    """The value of every expression on every row: times as microseconds or days."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        data = [
            (at, *(timestamp_position(row[name]) for name in "tu"), (row["d"] - date(1970, 1, 1)).days, row["s"])
            for at, row in enumerate(rows)
        ]
        frame = spark.createDataFrame(data, "id int, t bigint, u bigint, d int, s string").selectExpr(
            "id", "timestamp_micros(t) t", "timestamp_micros(u) u", "date_from_unix_date(d) d", "s"
        )
        kinds = [field.dataType.simpleString() for field in frame.selectExpr(*EXPRESSIONS).schema]
        whole = {"timestamp": "unix_micros({})", "date": "unix_date({})"}
        columns = [whole.get(kind, "{}").format(sql) for sql, kind in zip(EXPRESSIONS, kinds, strict=True)]
        selected = frame.selectExpr("id", *(f"{sql} AS c{at}" for at, sql in enumerate(columns))).collect()
        return [list(row)[1:] for row in sorted(selected)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def as_number(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp_position(value)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def compare(spark: SparkSession, zone: str, seed: int, count: int) -> None:
    rows = rows_around_changes(zone, Random(f"{zone} {seed}"), count)
    theirs = in_spark(spark, zone, rows)
    columns = {
        name: pa.array([row[name] for row in rows], kind)
        for name, kind in (("t", pa.timestamp("us", "UTC")), ("u", pa.timestamp("us", "UTC")), ("d", pa.date32()))
    }
    columns["s"] = pa.array([row["s"] for row in rows])
    evaluator = BatchEvaluator(columns, count, zone)
    wrong: dict[str, list[str]] = {}
    for place, sql in enumerate(EXPRESSIONS):
        expression = parse_condition(sql, timezone=zone)
        run = compile_expression(expression, zone)
        vector = evaluator.value(expression)
        found = vector if isinstance(vector, list) else read_column(vector)
        for row, mine, expected in zip(rows, found, theirs, strict=True):
            scalar, in_columns = as_number(run(row, {})), as_number(mine)
            if scalar != expected[place]:
                wrong.setdefault(sql, []).append(f"{scalar!r}, in Spark {expected[place]!r}, for {row} in {zone}")
            elif in_columns != scalar:
                wrong.setdefault(sql, []).append(f"in columns {in_columns!r}, not {scalar!r}, for {row} in {zone}")
    assert not wrong, "\n".join(f"{sql}: {len(cases)} × {cases[0]}" for sql, cases in wrong.items())


@pytest.mark.parametrize("zone", FEW_ZONES)
def test_times_around_changes_of_the_clocks_are_those_of_spark(spark: SparkSession, zone: str) -> None:
    compare(spark, zone, 0, 150)


def test_a_day_whose_midnight_is_skipped_begins_when_the_clocks_change(spark: SparkSession) -> None:
    """In Toronto the clocks went from 23:30 to 00:30 in 1919."""
    zone, sql = "America/Toronto", "CAST(d AS TIMESTAMP)"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        (row,) = spark.sql("SELECT unix_micros(CAST(DATE'1919-03-31' AS TIMESTAMP)) AS value").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    expression = parse_condition(sql, timezone=zone)
    days = pa.array([date(1919, 3, 31)], pa.date32())
    (in_columns,) = read_column(BatchEvaluator({"d": days}, 1, zone).value(expression))
    alone = compile_expression(expression, zone)({"d": date(1919, 3, 31)}, {})
    assert [as_number(alone), as_number(in_columns)] == [row.value] * 2


@pytest.mark.deep
@pytest.mark.parametrize("zone", ZONES)
def test_thousands_of_times_around_changes_in_40_zones_are_those_of_spark(spark: SparkSession, zone: str) -> None:
    compare(spark, zone, 1, 1_500)
