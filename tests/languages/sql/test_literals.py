"""The values of literals: numbers, texts, dates, moments, intervals, each of the type that Spark gives it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import ParseError
from palio.filters.expressions.ast import Literal, Micros, Months
from palio.filters.expressions.text_cast import to_text
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.lexer import parse_number, parse_strings
from palio.languages.sql.parser import parse_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def value(literal: str, timezone: str = "UTC") -> object:
    """What a literal alone is worth."""
    tree = parse_condition(literal, timezone=timezone)
    assert isinstance(tree, Literal)
    return tree.value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1", 1),
        ("0001", 1),
        ("0" * 5000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", Decimal(2**63)),
        ("-9223372036854775808", -(2**63)),
        ("1L", 1),
        ("-32768S", -32768),
        ("127y", 127),
        ("1.0", Decimal("1.0")),
        ("-0.00", Decimal("0.00")),
        ("5.", Decimal(5)),
        ("1e0", 1.0),
        ("-0e0", -0.0),
        ("1.7976931348623157E308", 1.7976931348623157e308),
        ("1e-999999999999", 0.0),
        ("1D", 1.0),
        ("0.1F", 0.10000000149011612),
        ("3.4028234663852886E38F", 3.4028234663852886e38),
        ("1e-50F", 0.0),
        ("12BD", Decimal(12)),
        ("1e37BD", Decimal(10**37)),
        ("1e-38BD", Decimal("1e-38")),
        ("0e37BD", Decimal(0)),
    ],
)
def test_a_number_has_the_type_its_notation_says(written: str, expected: object) -> None:
    found = parse_number(written)
    assert (type(found), repr(found)) == (type(expected), repr(expected))


@pytest.mark.parametrize(
    "written",
    [
        "9" * 39,
        "0." + "9" * 39,
        "1" * 30 + "." + "1" * 9,
        "1e38BD",
        "0e38BD",
        "1e-39BD",
        "1e99999999999BD",
        "1e309",
        "1.79769313486231570001E308",
        "1e999999999999",
        "3.4028235E38F",
        "128Y",
        "-129Y",
        "32768S",
        "9223372036854775808L",
        "9" * 100_000,
    ],
)
def test_a_number_beyond_its_type_is_refused(written: str) -> None:
    with pytest.raises(InvalidLiteral):
        parse_number(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("'it''s'", "it's"),
        ('"it\'s"', "it's"),
        ('"a""b"', 'a"b'),
        ("'a\"\"b'", 'a""b'),
        (r"'\0\b\n\r\t\Z'", "\0\b\n\r\t\x1a"),
        (r"'\a\\\'\"\x'", "a\\'\"x"),
        (r"'\%\_'", r"\%\_"),
        (r"'\101\012\177\200\18'", "A\n\x7f20018"),
        (r"'\u0041\u00e9\u004'", "Aéu004"),
        (r"'\U0001F600\U00000041'", "😀A"),
        (r"'\uD83D\uDE00'", "😀"),
        ("'\\\\'''", "\\'"),
        ("'\\\n'", "\n"),
        (r"r'\n\'", "\\n\\"),
        (r'R"a\"', "a\\"),
        ("'😀'", "😀"),
    ],
)
def test_a_text_stands_for_its_characters(written: str, expected: str) -> None:
    assert parse_strings([written]) == expected


def test_texts_side_by_side_are_one_even_within_a_character() -> None:
    assert value("'a' \"b\" r'c' -- d\n 'e'") == "abce"
    assert value(r"'\uD83D' '\uDE00'") == "😀"


@pytest.mark.parametrize("written", [r"'\uD83D'", r"'\uDE00\uD83D'", r"'\U00110000'", r"'\UFFFFFFFF'"])
def test_half_characters_and_ones_beyond_the_last_are_refused(written: str) -> None:
    with pytest.raises(InvalidLiteral):
        parse_strings([written])


@given(st.text())
def test_every_text_can_be_written_with_only_quotes_and_backslashes_escaped(characters: str) -> None:
    assert value("'" + characters.replace("\\", "\\\\").replace("'", "''") + "'") == characters
    assert value('"' + characters.replace("\\", "\\\\").replace('"', '\\"') + '"') == characters


@pytest.mark.parametrize(
    ("written", "zone", "expected"),
    [
        ("TIMESTAMP'2024-01-31 12:00:00'", "Europe/Paris", datetime(2024, 1, 31, 11, tzinfo=UTC)),
        ("TIMESTAMP'2024-07-31 12:00:00'", "Europe/Paris", datetime(2024, 7, 31, 10, tzinfo=UTC)),
        ("TIMESTAMP'2024-07-31 12:00:00Z'", "Europe/Paris", datetime(2024, 7, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP'2024-03-31 02:30:00'", "Europe/Paris", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
        ("TIMESTAMP'2024-10-27 02:30:00'", "Europe/Paris", datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),
        ("TIMESTAMP'2024-01-31'", "-08:00", datetime(2024, 1, 31, 8, tzinfo=UTC)),
        ("TIMESTAMP'epoch'", "-08:00", datetime(1970, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP_NTZ'2024-01-31 12:00:00Z'", "-08:00", datetime(2024, 1, 31, 20, tzinfo=UTC)),
        ("TIMESTAMP_NTZ'epoch'", "-08:00", datetime(1970, 1, 1, 8, tzinfo=UTC)),
        ("DATE'2024-01-31'", "-08:00", date(2024, 1, 31)),
    ],
)
def test_a_moment_without_a_zone_is_read_in_the_one_given(written: str, zone: str, expected: object) -> None:
    assert value(written, zone) == expected


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ParseError, match="there is no time zone 'Nowhere'"):
        parse_condition("a", timezone="Nowhere")


@pytest.mark.parametrize("word", ["now", "Today", " tomorrow ", "yesterday UTC"])
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_dates_that_move_with_the_clock_are_refused(kind: str, word: str) -> None:
    with pytest.raises(ParseError, match="changes with the clock"):
        value(f"{kind}'{word}'")


@pytest.mark.parametrize("written", ["0000-01-01", "10000-01-01", "-2024-01-01", "2024-13-01", "24-01-01", ""])
def test_a_date_outside_the_years_1_to_9999_is_refused(written: str) -> None:
    with pytest.raises(ParseError, match="is no date"):
        value(f"DATE'{written}'")
    with pytest.raises(ParseError, match="is no timestamp"):
        value(f"TIMESTAMP'{written}'")


DAY = 86_400_000_000
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("'1' DAY", Micros(DAY)),
        ("1 DAY 2 HOURS", Micros(DAY + 2 * HOUR)),
        ("1 DAY -2 HOURS", Micros(DAY - 2 * HOUR)),
        ("-'-1' DAY", Micros(DAY)),
        ("' - 1 ' DAY", Micros(-DAY)),
        ("'interval 1 Week -1 day'", Micros(6 * DAY)),
        ("'.5' SECOND", Micros(500_000)),
        ("'-1.123456789' SECONDS", Micros(-1_123_456)),
        ("9223372036854775807 MICROSECONDS", Micros(2**63 - 1)),
        ("'00000000000000000000000001' DAY", Micros(DAY)),
        ("1 YEAR 1 MONTH -1 YEAR", Months(1)),
        ("-2147483648 MONTHS", Months(-(2**31))),
        ("'1-2' YEAR TO MONTH", Months(14)),
        ("'-1-2' YEAR TO MONTH", Months(-14)),
        ("-'-1-2' YEAR TO MONTH", Months(14)),
        ("'1 2' DAY TO HOUR", Micros(DAY + 2 * HOUR)),
        ("'-1 02:30' DAY TO MINUTE", Micros(-DAY - 2 * HOUR - HOUR // 2)),
        ("' 1 02:00:01.5 ' DAY TO SECOND", Micros(DAY + 2 * HOUR + 1_500_000)),
        ("'100:30' HOUR TO MINUTE", Micros(100 * HOUR + HOUR // 2)),
        ("'100:00:00.000001' HOUR TO SECOND", Micros(100 * HOUR + 1)),
        ("'90:01' MINUTE TO SECOND", Micros(HOUR + HOUR // 2 + 1_000_000)),
        ("'-106751991 04:00:54.775808' DAY TO SECOND", Micros(-(2**63))),
    ],
)
def test_an_interval_has_months_or_microseconds(written: str, expected: Months | Micros) -> None:
    assert value(f"INTERVAL {written}") == expected


@pytest.mark.parametrize(
    "written",
    [
        "''",
        "'day'",
        "'1day'",
        "'1 day2 hours'",
        "'1 2' DAY",
        "'1 day' HOUR",
        "'--1' DAY",
        "'.' SECOND",
        "'1.5' DAY",
        "'1.1234567890' SECOND",
        "1 NANOSECOND",
        "1 MONTH 1 DAY",
        "2147483648 MONTHS",
        "106751992 DAYS",
        "9223372036854775808 MICROSECONDS",
        "-9223372036854775808 MICROSECONDS",
        "99999999999999999999999 DAYS",
        "1e3 DAYS",
        "1 DAY TO HOUR",
        "'1' DAY TO",
        "'1' YEAR TO MONTH",
        "'1-12' YEAR TO MONTH",
        "'1 24:00' DAY TO MINUTE",
        "'1 002:00' DAY TO MINUTE",
        "'1  02:00' DAY TO MINUTE",
        "'1:60' MINUTE TO SECOND",
        "'1:1' SECOND TO MINUTE",
        "'1 1' DAY TO DAY",
        "'1' DAYS TO HOURS",
        "'106751991 04:00:54.775808' DAY TO SECOND",
        "'" + "9" * 10_000 + " 1' DAY TO HOUR",
    ],
)
def test_what_is_no_interval_is_refused(written: str) -> None:
    with pytest.raises(ParseError):
        value(f"INTERVAL {written}")


NUMBERS = ["1", "12S", "-128Y", "3L", "2147483648", "9223372036854775808", "1.50", ".5", "5.", "-0.0", "1e3"]
NUMBERS += ["1.5e-3", "1D", "2.5BD", "1e3BD", "1e-38BD"]
TEXTS = [r"'a\tb\u0041\101\%\\'", "'it''s'", '"a""b"', r"r'\n' 'x'", r"'\uD83D\uDE00'", r"'\200\Z\q'"]


def test_spark_gives_literals_the_same_types_and_values(spark: SparkSession) -> None:
    columns = [f"concat(typeof({each}), ' ', cast({each} AS STRING))" for each in NUMBERS] + TEXTS
    *numbers, first, second, third, fourth, fifth, sixth = spark.range(1).selectExpr(*columns).collect()[0]
    for written, (kind, shown) in zip(NUMBERS, (each.split(" ") for each in numbers), strict=True):
        found = parse_number(written)
        expected = float if kind == "double" else Decimal if kind.startswith("decimal") else int
        assert type(found) is expected, written
        assert to_text(found) == shown, written
    assert [value(each) for each in TEXTS] == [first, second, third, fourth, fifth, sixth]
