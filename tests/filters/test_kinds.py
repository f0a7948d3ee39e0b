"""Tests of value kinds: one total order per kind, faithfully represented by positions and cuts."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.kinds import (
    HIGHEST_CUT,
    LOWEST_CUT,
    MISSING,
    Kind,
    Missing,
    cut_after,
    date_position,
    exact_number,
    float_at,
    float_position,
    integer_cut,
    kind_of,
    position_of,
    rounding_cuts,
    timestamp_at,
    timestamp_position,
)
from tests.strategies import FLOATS, OF_KIND, POOLS

ORDERED = [kind for kind in Kind if kind > Kind.NULL]


def order_key(kind: Kind, value: Any) -> Any:
    """The order as the design states it, written with Python's own comparisons."""
    match kind:
        case Kind.DECIMAL:
            return Fraction(value)
        case Kind.FLOAT:
            return (math.isnan(value), 0.0 if math.isnan(value) else value)
        case Kind.STRING:
            return value.encode()
    return value


@pytest.mark.parametrize("kind", list(Kind))
def test_every_value_has_the_kind_of_its_type(kind: Kind) -> None:
    assert {kind_of(value) for value in POOLS[kind]} == {kind}


@st.composite
def pairs(draw: Any) -> tuple[Kind, Any, Any]:
    """Two values of one kind."""
    kind = draw(st.sampled_from(ORDERED))
    return kind, draw(OF_KIND[kind]), draw(OF_KIND[kind])


@given(pairs())
def test_positions_are_ordered_as_the_values_are(pair: tuple[Kind, Any, Any]) -> None:
    kind, one, two = pair
    first, second = position_of(kind, one), position_of(kind, two)
    assert (first < second) is (order_key(kind, one) < order_key(kind, two))
    assert (first == second) is (order_key(kind, one) == order_key(kind, two))


@given(pairs())
def test_no_value_lies_between_a_value_and_the_cut_after_it(pair: tuple[Kind, Any, Any]) -> None:
    kind, one, two = pair
    position, other = position_of(kind, one), position_of(kind, two)
    assert position < cut_after(kind, position)
    assert (other < cut_after(kind, position)) is (other <= position)


@given(pairs())
def test_every_value_lies_between_the_lowest_and_the_highest_cut(pair: tuple[Kind, Any, Any]) -> None:
    kind, one, _ = pair
    position = position_of(kind, one)
    assert kind not in LOWEST_CUT or LOWEST_CUT[kind] <= position
    assert kind not in HIGHEST_CUT or position < HIGHEST_CUT[kind]


@pytest.mark.parametrize("kind", ORDERED)
def test_positions_of_awkward_values_are_ordered_as_they_are(kind: Kind) -> None:
    by_position = sorted(POOLS[kind], key=lambda value: position_of(kind, value))
    by_order = sorted(POOLS[kind], key=lambda value: order_key(kind, value))
    assert [order_key(kind, each) for each in by_position] == [order_key(kind, each) for each in by_order]


@given(st.floats())
def test_a_float_is_found_again_at_its_position(value: float) -> None:
    found = float_at(float_position(value))
    assert found == value or (math.isnan(found) and math.isnan(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_next_float_has_the_next_position(value: float) -> None:
    assert float_position(math.nextafter(value, math.inf)) == float_position(value) + 1


def test_the_two_zeros_share_a_position_and_nan_is_above_infinity() -> None:
    assert float_position(-0.0) == float_position(0.0)
    assert float_position(math.nan) == float_position(math.inf) + 1
    assert float_position(-math.nan) == float_position(math.nan)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_timestamp_is_found_again_at_its_position(value: datetime) -> None:
    assert timestamp_at(timestamp_position(value)) == value


def test_a_timestamp_is_an_instant_whatever_its_zone() -> None:
    instant = datetime(2024, 1, 1, 12, tzinfo=UTC)
    assert timestamp_position(instant.astimezone(timezone(timedelta(hours=5)))) == timestamp_position(instant)
    assert timestamp_position(datetime(2024, 1, 1, 12)) == timestamp_position(instant)
    assert date_position(instant.date()) == instant.toordinal()


@given(OF_KIND[Kind.DECIMAL])
def test_an_exact_number_is_an_int_where_it_is_whole(value: Decimal) -> None:
    number = exact_number(value)
    assert number == Fraction(value)
    assert isinstance(number, int) is (value == value.to_integral_value())


@given(OF_KIND[Kind.DECIMAL], st.integers(0, 1), st.integers(-20, 20))
def test_a_cut_between_decimals_divides_the_integers_too(value: Decimal, after: int, offset: int) -> None:
    cut = (exact_number(value), after)
    integer = math.floor(value) + offset
    assert (integer < integer_cut(cut)) is ((integer, 0) < cut)


def _rounded(number: Fraction) -> float:
    """Rounding as the hardware does it; Python's division of integers is exact to the last bit."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3), st.integers(1, 10**30))
def test_rounding_cuts_enclose_exactly_what_rounds_to_a_float(value: float, steps: int, divisor: int) -> None:
    below, above = rounding_cuts(value)
    near = float_at(float_position(value) + steps)
    if not math.isfinite(near):
        return
    middle = (Fraction(value) + Fraction(near)) / 2
    nudge = (Fraction(value) - Fraction(near)) / divisor
    for number in (Fraction(value), Fraction(near), middle, middle + nudge, middle - nudge):
        inside = below <= (exact_number(number), 0) < above
        assert inside is (float_position(_rounded(number)) == float_position(value))


@pytest.mark.parametrize("value", [each for each in FLOATS if math.isfinite(each)])
def test_rounding_cuts_of_neighbours_meet(value: float) -> None:
    above = math.nextafter(value, math.inf)
    if math.isfinite(above):
        assert rounding_cuts(value)[1] == rounding_cuts(above)[0]


def test_missing_is_one_object_in_every_process() -> None:
    assert Missing() is MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING
    assert not MISSING
    assert repr(MISSING) == "MISSING"
