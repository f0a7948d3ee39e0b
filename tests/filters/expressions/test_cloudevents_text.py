"""The texts that CloudEvents gives to values, and the integers that texts say."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.filters.expressions.cloudevents_text import integer_in, text_of
from palio.filters.kinds import Kind, position_of
from tests.strategies import OF_KIND


@given(st.integers(-(2**40), 2**40), st.sampled_from(["", "+"]), st.integers(0, 30))
def test_an_integer_within_32_bits_is_read_with_sign_and_zeros(number: int, plus: str, zeros: int) -> None:
    sign = "-" if number < 0 else plus
    text = f"{sign}{'0' * zeros}{abs(number)}"
    assert integer_in(text) == (number if -(2**31) <= number < 2**31 else None)


@pytest.mark.parametrize("text", ["", "+", "-", " 1", "1 ", "1.0", "1e3", "0x1", "1_0", "٣", "--1", "+-1", "1\n", "²"])
def test_nothing_else_is_an_integer(text: str) -> None:
    assert integer_in(text) is None


def test_long_texts_of_digits_are_read_quickly() -> None:
    assert integer_in("0" * 1_000_000 + "7") == 7
    assert integer_in("9" * 1_000_000) is None


@pytest.mark.parametrize("kind", [Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP, Kind.INTEGER, Kind.BOOLEAN])
@given(data=st.data())
def test_values_have_the_same_text_where_they_have_the_same_position(kind: Kind, data: st.DataObject) -> None:
    one, two = data.draw(OF_KIND[kind]), data.draw(OF_KIND[kind])
    assert (text_of(one) == text_of(two)) is (position_of(kind, one) == position_of(kind, two))


@given(OF_KIND[Kind.DECIMAL] | OF_KIND[Kind.FLOAT])
def test_no_decimal_or_float_is_taken_for_an_integer(number: Any) -> None:
    text = text_of(number)
    assert text is not None
    assert integer_in(text) is None
    if isinstance(number, Decimal) or number - number == 0:
        assert Decimal(text) == Decimal(repr(number) if isinstance(number, float) else number)


def test_sql_has_both_as_functions() -> None:
    wanted = Filter.parse("cesql_int(a) = 7 AND cesql_string(b) = '1.5'")
    assert wanted.matches({"a": "+007", "b": 1.50})
    assert not wanted.matches({"a": 7, "b": 1.5})
    assert not wanted.matches({"a": "7", "b": b"1.5"})
    assert Filter.parse(str(wanted)) == wanted
