"""Numerals of selectors: their values are those of Java."""

from __future__ import annotations

import re
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.coercion import low_64_bits
from palio.languages.grammar import InvalidLiteral
from palio.languages.jms.lexer import NUMERAL, parse_number

FORM = re.compile(NUMERAL, re.VERBOSE)
LONGS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("numeral", "value"),
    [
        ("0", 0), ("7", 7), ("1_000_000", 1_000_000), ("9223372036854775807L", 2**63 - 1),
        ("017", 15), ("00", 0), ("0_17l", 15), ("0777777777777777777777", 2**63 - 1), ("01777777777777777777777", -1),
        ("0xff", 255), ("0XFFl", 255), ("0xdead_beef", 0xDEADBEEF), ("0x7fff_ffff_ffff_ffff", 2**63 - 1),
        ("0x8000000000000000", -(2**63)),
        ("0b101", 5), ("0B1L", 1), ("0b" + "1" * 64, -1),
        ("7.", 7.0), (".5", 0.5), ("95.7", 95.7), ("7E3", 7000.0), ("7e-3", 0.007), ("7.e+3", 7000.0), (".5E1", 5.0),
        ("1_0.0_5", 10.05), ("5d", 5.0), ("5F", 5.0), ("0.1f", 0.10000000149011612), ("0.1D", 0.1), ("09.5", 9.5),
        ("09f", 9.0), ("1e1d", 10.0),
        ("0x1p0", 1.0), ("0x.8p1", 1.0), ("0x1.8p1f", 3.0), ("0x1p-1074", 5e-324), ("0xAp1d", 20.0), ("0x1.p3", 8.0),
        ("0.0", 0.0), ("0e999", 0.0), ("0x0p99999", 0.0), ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)  # fmt: skip
def test_a_numeral_stands_for_a_number(numeral: str, value: float) -> None:
    assert FORM.fullmatch(numeral)
    found = parse_number(numeral)
    assert (type(found), found) == (type(value), value)
    assert parse_number(numeral, negative=True) == (low_64_bits(-value) if isinstance(value, int) else -value)


@pytest.mark.parametrize(
    ("numeral", "reason"),
    [
        ("9223372036854775808", "more than a 64-bit integer"), ("1" * 5000, "more than a 64-bit integer"),
        ("08", "octal"), ("019L", "octal"), ("0x10000000000000000", "more than 64 bits"),
        ("0b1" + "0" * 64, "more than 64 bits"), ("0x" + "f" * 5000, "more than 64 bits"),
        ("02000000000000000000000", "more than 64 bits"), ("1e309", "too large for a Java double"),
        ("1e-330", "too small for a Java double"), ("1e39f", "too large for a Java float"),
        ("1e-50f", "too small for a Java float"), ("0x1p1024", "too large for a Java double"),
        ("0x1p-1080", "too small"),
        ("0x1p99999999999999999999", "too large"), ("0x1p-99999999999999999999", "too small"),
        ("0x1p128f", "too large for a Java float"),
    ],
)  # fmt: skip
def test_what_java_has_no_number_for_is_refused(numeral: str, reason: str) -> None:
    assert FORM.fullmatch(numeral)
    with pytest.raises(InvalidLiteral, match=reason):
        parse_number(numeral)


def test_the_smallest_long_needs_its_minus() -> None:
    assert parse_number("9223372036854775808", negative=True) == -(2**63)
    with pytest.raises(InvalidLiteral):
        parse_number("9223372036854775809", negative=True)


@pytest.mark.parametrize(
    "text", ["1_", "_1", "0x", "0x_1", "0x1_", "0b", "0b2", "1e", "1e+", ".", ".e5", "1.e.5", "0x1.8", "5LL", "5fd"]
)
def test_what_has_no_form_of_a_numeral(text: str) -> None:
    assert FORM.fullmatch(text) is None


@given(LONGS)
def test_every_long_can_be_written(value: int) -> None:
    assert parse_number(str(abs(value)), negative=value < 0) == value
    bits = value % 2**64
    assert parse_number(hex(bits)) == parse_number(bin(bits)) == parse_number(f"0{bits:o}") == value


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_every_double_can_be_written(value: float) -> None:
    assert parse_number(repr(value)) == value
    assert parse_number(f"{value!r}d") == value
    assert parse_number(value.hex()) == value


@given(st.integers())
def test_a_long_comes_round(value: int) -> None:
    assert -(2**63) <= low_64_bits(value) < 2**63
    assert (low_64_bits(value) - value) % 2**64 == 0
    assert low_64_bits(2**63) == -(2**63)
    assert inf > low_64_bits(value)
