"""Sums with constants, read in bulk: at the ends of all kinds of number they match what their filters match."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events.event import Event
from palio.events.values import MAX_INT64, MIN_INT64
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher

LARGEST_DECIMAL = 10**38 - 1
BOUNDS = ["5", "-5", "0", "5.5", "2.25", "1e1", "7.0D"]
WHOLE = st.sampled_from([0, 1, 7, 10]) | st.integers(0, 10**6) | st.integers(0, 10**14)
FRACTIONS = st.sampled_from(["0.5", "7.25", "7.5", "0.75", "123.45", "0.1"]).map(Decimal) | st.integers(0, 10**6).map(
    lambda number: Decimal(f"{number}.125")
)


def values_near(constants: list[Any]) -> Iterator[Any]:
    """Numbers where a sum passes a bound, and where it overflows."""
    yield from (0, 1.5, float("inf"), float("-inf"), float("nan"), 1.7e308, -1.7e308, True, "5", None)
    for constant, sign, step in product(constants, (1, -1), (-2, -1, 0, 1, 2)):
        for bound in (5, -5, 0):
            near = bound + sign * constant
            yield from (int(near) + step, Decimal(near) + step, float(near) + step)
        for end in (MAX_INT64, MIN_INT64):
            yield end + sign * int(constant) + step
        for end in (LARGEST_DECIMAL, -LARGEST_DECIMAL):
            yield Decimal(end + sign * int(constant) + step)


def events_of(values: Iterator[Any]) -> Iterator[Event]:
    for value in values:
        try:
            yield Event({} if value is None else {"x": value})
        except EventError:
            continue  # beyond what a kind holds


@pytest.mark.parametrize("form", ["x + {c} {o} {k}", "{c} + x {o} {k}", "x - {c} {o} {k}", "abs(x - {c}) {o} {k}"])
@given(
    st.sampled_from([">", ">=", "<", "<=", "<>", "="]),
    st.sampled_from(BOUNDS),
    st.lists(WHOLE, min_size=9, max_size=12) | st.lists(FRACTIONS, min_size=9, max_size=12),
)
def test_sums_in_bulk_are_what_their_filters_say(form: str, operator: str, bound: str, constants: list[Any]) -> None:
    wheres = [form.format(c=constant, o=operator, k=bound) for constant in constants]
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(len(wheres))), wheres)
    filters = {str(at): Filter.parse(where) for at, where in enumerate(wheres)}
    for event in events_of(values_near(constants[:2])):
        assert matcher.match(event) == {id for id, each in filters.items() if each.matches(event)}


@pytest.mark.parametrize("form", ["x - {c} {o} 7.0D", "abs(x - {c}) {o} 7.0D", "abs(x + {c}) {o} 7.0D"])
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_decimals_whose_difference_is_rounded_to_a_double_match_as_alone(form: str, operator: str) -> None:
    constants = [Decimal("10.125"), *(Decimal(37 * number + 1) / 1000 for number in range(11))]
    wheres = [form.format(c=constant, o=operator) for constant in constants]
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(len(wheres))), wheres)
    filters = {str(at): Filter.parse(where) for at, where in enumerate(wheres)}
    for constant, sign, bound in product(constants, (1, -1), (7, -7)):
        near = sign * constant + bound
        for value in (near, float(near), near + Decimal("1e-17"), near - Decimal("1e-15"), int(near)):
            event = Event({"x": value})
            assert matcher.match(event) == {id for id, each in filters.items() if each.matches(event)}
