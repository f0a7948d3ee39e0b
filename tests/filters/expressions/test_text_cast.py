"""Tests of conversion between text and values: Spark's CAST, case by case."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.text_cast import (
    to_boolean,
    to_date,
    to_decimal,
    to_double,
    to_integer,
    to_local_timestamp,
    to_text,
    to_timestamp,
    zone_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        (" \t-12\x7f\n", -12),
        ("+7", 7),
        ("007", 7),
        ("0" * 5000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("9" * 100_000, None),
        ("1.0", None),
        ("1e3", None),
        ("1L", None),
        ("1_000", None),
        ("١", None),
        ("\xa01", None),
        ("- 1", None),
        ("+", None),
        ("", None),
    ],
)
def test_integers(text: str, expected: int | None) -> None:
    assert to_integer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1.0),
        (" 1.5 ", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1E-3", -0.001),
        ("1d", 1.0),
        ("1.5F", 1.5),
        ("0x1p3", 8.0),
        ("0x.8p1d", 1.0),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("0x1p9999", math.inf),
        ("-0x1p9999", -math.inf),
        ("Infinity", math.inf),
        ("-inf", -math.inf),
        ("+INF", math.inf),
        ("0x10", None),
        ("1L", None),
        ("1_0", None),
        ("1e", None),
        ("\x7f1", None),
        ("١", None),
        ("", None),
    ],
)
def test_doubles(text: str, expected: float | None) -> None:
    assert to_double(text) == expected


@pytest.mark.parametrize("text", ["NaN", "nan", " NAN ", "+NaN", "-NaN"])
def test_not_a_number(text: str) -> None:
    found = to_double(text)
    assert found is not None
    assert math.isnan(found)
    assert to_double("-nan") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.50", "1.50"),
        (" -.5\n", "-0.5"),
        ("5.", "5"),
        ("1e3", "1E+3"),
        ("1" * 38, "1" * 38),
        ("0." + "1" * 50, "0." + "1" * 50),
        ("1e-999999", "0"),
        ("-0", "0"),
        ("0e999999999", "0"),
        ("1" * 39, None),
        ("1e38", None),
        ("1e999999999", None),
        ("1e99999999999", None),
        ("1d", None),
        ("NaN", None),
        ("Infinity", None),
        ("1_0", None),
        ("", None),
    ],
)
def test_decimals(text: str, expected: str | None) -> None:
    found = to_decimal(text)
    assert found == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((word, True) for word in ("t", "TRUE", " y\t", "Yes", "1")),
        *((word, False) for word in ("f", "False", "n", "no", "0\x7f")),
        *((word, None) for word in ("", "on", "off", "01", "tr", "2")),
    ],
)
def test_booleans(text: str, expected: bool | None) -> None:
    assert to_boolean(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", date(2024, 1, 1)),
        ("2024-2", date(2024, 2, 1)),
        ("2024-2-3", date(2024, 2, 3)),
        (" +2024-02-03\n", date(2024, 2, 3)),
        ("02024-02-03", date(2024, 2, 3)),
        ("2024-02-03T", date(2024, 2, 3)),
        ("2024-02-03 anything", date(2024, 2, 3)),
        ("0001-01-01", date(1, 1, 1)),
        ("2024-02T", None),
        ("2024-02-03x", None),
        ("2024-02-30", None),
        ("2024-002-01", None),
        ("24-01-01", None),
        ("2024/01/01", None),
        ("20240101", None),
        ("0000-01-01", None),
        ("10000-01-01", None),
        ("-2024-01-01", None),
        ("today", None),
        ("", None),
    ],
)
def test_dates(text: str, expected: date | None) -> None:
    assert to_date(text) == expected


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2024", "UTC", datetime(2024, 1, 1)),
        ("2024-1-2 3", "UTC", datetime(2024, 1, 2, 3)),
        ("2024-1-2T3:4", "UTC", datetime(2024, 1, 2, 3, 4)),
        ("2024-01-02 03:04:05.", "UTC", datetime(2024, 1, 2, 3, 4, 5)),
        ("2024-01-02 03:04:05.1", "UTC", datetime(2024, 1, 2, 3, 4, 5, 100_000)),
        ("2024-01-02 03:04:05.123456999", "UTC", datetime(2024, 1, 2, 3, 4, 5, 123_456)),
        ("2024-01-02 03:04:05Z", "Asia/Tokyo", datetime(2024, 1, 2, 3, 4, 5)),
        ("2024-01-02 03:04:05 +8:00", "UTC", datetime(2024, 1, 1, 19, 4, 5)),
        ("2024-01-02 03:04:05-0130", "UTC", datetime(2024, 1, 2, 4, 34, 5)),
        ("2024-01-02 03:04:05+01:30:15", "UTC", datetime(2024, 1, 2, 1, 33, 50)),
        ("2024-01-02 03:04:05 GMT+1:3", "UTC", datetime(2024, 1, 2, 2, 1, 5)),
        ("2024-07-02 03:04:05Europe/Paris", "UTC", datetime(2024, 7, 2, 1, 4, 5)),
        ("2024-01-02 03:04:05 PST", "UTC", datetime(2024, 1, 2, 11, 4, 5)),
        ("2024-07-02 03:04:05EST", "UTC", datetime(2024, 7, 2, 8, 4, 5)),
        ("2024-07-02 03:04:05", "America/New_York", datetime(2024, 7, 2, 7, 4, 5)),
        ("2024-03-10 02:30:00", "America/New_York", datetime(2024, 3, 10, 7, 30)),
        ("2024-11-03 01:30:00", "America/New_York", datetime(2024, 11, 3, 5, 30)),
        ("2024-01-02T", "UTC", None),
        ("2024-01-02 24:00:00", "UTC", None),
        ("2024-01-02 03:04Z", "UTC", None),
        ("2024-01-02 03:04:60", "UTC", None),
        ("2024-01-02 03:04:05 +18:01", "UTC", None),
        ("2024-01-02 03:04:05 europe/paris", "UTC", None),
        ("2024-01-02 03:04:05z", "UTC", None),
        ("2024-01-02 03:04:05.1.2", "UTC", None),
        ("12:30", "UTC", None),
        ("T12:30:00", "UTC", None),
        ("10000-01-01", "UTC", None),
        ("0001-01-01", "Asia/Tokyo", None),
        ("2024-01-01", "Nowhere", None),
        ("", "UTC", None),
    ],
)
def test_moments(text: str, zone: str, expected: datetime | None) -> None:
    assert to_timestamp(text, zone) == (expected and expected.replace(tzinfo=UTC))


def test_what_the_clock_shows_ignores_the_zone_but_checks_it() -> None:
    assert to_local_timestamp("2024-01-02 03:04:05 +8:00") == datetime(2024, 1, 2, 3, 4, 5)
    assert to_local_timestamp("2024-01-02 03:04:05 Nowhere") is None
    assert to_local_timestamp("2024-02-30") is None


@pytest.mark.parametrize("name", ["", "Z5", "+", "+1:2:3", "+19", "UTC+", "UTCX", "utc", "localtime", "../UTC", "a\0b"])
def test_what_is_no_zone(name: str) -> None:
    assert zone_of(name) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (-7, "-7"),
        ("x", "x"),
        (b"x\xff", "x\ufffd"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.25e10, "-1.25E10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"),
        (12345678.9, "1.23456789E7"),
        (-100000000.0, "-1.0E8"),
        (1.5e300, "1.5E300"),
        (3e-5, "3.0E-5"),
        (0.00012, "1.2E-4"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1E-10"), "0.0000000001"),
        (date(24, 1, 2), "0024-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02 03:04:05"),
        (datetime(2024, 1, 2, 3, 4, 5, 120_000), "2024-01-02 03:04:05.12"),
    ],
)
def test_values_as_text(value: bool | int | float | Decimal | str | date | bytes, expected: str) -> None:
    assert to_text(value) == expected


def test_a_moment_is_written_in_the_zone() -> None:
    moment = datetime(2024, 7, 2, 22, 4, 5, tzinfo=UTC)
    assert to_text(moment, "Europe/Paris") == "2024-07-03 00:04:05"
    assert to_text(datetime(1, 1, 1, tzinfo=UTC), "America/New_York") == "0001-01-01 00:00:00"


@given(st.text())
def test_any_text_has_a_value_or_none(text: str) -> None:
    assert to_integer(text) is None or isinstance(to_integer(text), int)
    assert to_double(text) is None or isinstance(to_double(text), float)
    assert to_decimal(text) is None or isinstance(to_decimal(text), Decimal)
    assert to_boolean(text) in (None, True, False)
    assert to_date(text) is None or isinstance(to_date(text), date)
    assert to_timestamp(text, "UTC") is None or isinstance(to_timestamp(text, "UTC"), datetime)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_read_back(value: int) -> None:
    assert to_integer(to_text(value)) == value


@given(st.floats(allow_nan=False))
def test_doubles_read_back(value: float) -> None:
    assert to_double(to_text(value)) == value


@given(st.dates())
def test_dates_read_back(value: date) -> None:
    assert to_date(to_text(value)) == value


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_read_back(value: datetime) -> None:
    assert to_timestamp(to_text(value), "UTC") == value


# --- Spark -------------------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_spark(kind: str, text: str, zone: str) -> str | None:
    """What our functions make of a text, as Spark writes it."""
    if kind == "timestamp":
        moment = to_timestamp(text, zone)
        return None if moment is None else str((moment - EPOCH) // timedelta(microseconds=1))
    if kind == "decimal(38,10)":
        exact = to_decimal(text)
        rounded = exact and exact.quantize(Decimal("1E-10"), ROUND_HALF_UP, Context(prec=200))
        if rounded is None or len(rounded.as_tuple().digits) > 38:
            return None
        return to_text(rounded) if rounded else "0.0000000000"
    found = {"bigint": to_integer, "double": to_double, "boolean": to_boolean, "date": to_date}[kind](text)
    return None if found is None else to_text(found)


def spaced(pieces: str) -> list[str]:
    """Texts that are written with a bar between them."""
    return pieces.split("|")


NUMBERS = spaced(
    "1|-1|+1| 1\t|1.5|.5|5.|1e3|1E-3|1d|1.5f|1L|NaN|nan|-NaN|-nan|inf|-Infinity|0x10|0x1p3||+|-|.|1e|1_0"
    "|\xa01|1e400|1e-400|9223372036854775807|9223372036854775808|1e27|1e28|0.00000000005|0e99|1\x7f|1e5d|--1"
    "|1 2|\x7f1"
)
TIMES = spaced(
    "2024|2024-1|2024-1-2|+2024-01-02|02024-1-1|2024-02-30|2024-01-02T|2024-01-02 x|2024-01-02 3"
    "|2024-01-02 3:4|2024-01-02 3:4:5|2024-01-02T03:04:05.|2024-01-02 03:04:05.1234567|2024-01-02 03:04:05Z"
    "|2024-01-02 03:04:05 z|2024-01-02 03:04:05+8:00|2024-01-02 03:04:05+08|2024-01-02 03:04:05+0800"
    "|2024-01-02 03:04:05UTC+1|2024-07-02 03:04:05 Europe/Paris|2024-07-02 03:04:05 EST"
    "|2024-01-02 03:04:05 PST|2024-01-02 03:04:05+18:00|2024-01-02 03:04:05+18:01|2024-03-10 02:30:00"
    "|2024-11-03 01:30:00|2024-01-02 24:00:00|1900-01-01 00:00:00|2024-01-02 03:04Z|x|| 2024 "
)
BOOLEANS = spaced("t|TRUE| y |yes|1|f|False|n|no|0|on|01||\ttrue\x7f")


def test_spark_casts_the_same_texts_to_the_same_values(spark: SparkSession) -> None:
    zone = "America/New_York"
    cases = [(kind, text) for kind in ("bigint", "double", "decimal(38,10)") for text in NUMBERS]
    cases += [(kind, text) for kind in ("date", "timestamp") for text in TIMES]
    cases += [("boolean", text) for text in BOOLEANS]
    shown = {"timestamp": "CAST(unix_micros({}) AS STRING)"}
    columns = [
        shown.get(kind, "CAST({} AS STRING)").format(f"try_cast({quoted(text)} AS {kind})") for kind, text in cases
    ]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        theirs = spark.range(1).selectExpr(*columns).collect()[0]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    ours = [as_spark(kind, text, zone) for kind, text in cases]
    assert [pair for pair in zip(cases, ours, theirs, strict=True) if pair[1] != pair[2]] == []


def quoted(text: str) -> str:
    return "'" + "".join(f"\\u{ord(character):04X}" for character in text) + "'"
