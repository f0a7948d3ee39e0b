"""Sums and products with constants, read in bulk: at the ends of all kinds they match what their filters match."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from math import nextafter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events.event import Event
from palio.events.values import MAX_INT64, MIN_INT64
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher

# Each example reads and matches many conditions.
FEWER = settings(max_examples=settings.default.max_examples // 12 if settings.default else 8)
OPERATORS = st.sampled_from([">", ">=", "<", "<=", "=", "<>"])
INTEGERS = st.sampled_from([1, 2, 3, 7, 10, 1000, MAX_INT64]) | st.integers(1, 10**6)
DECIMALS = st.sampled_from(["0.1", "2.50", "3.0", "99999999999999999999.5", "0.0000000001"]) | st.integers(
    0, 10**6
).map(lambda number: f"{number}.25")
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda each: f"{each:%H:%M:%S}").map(
    lambda clock: f"2024-02-29 {clock}"
) | st.sampled_from(["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00"])
DAYS = st.dates().map(str)


def check(wheres: list[str], values: Iterator[Any]) -> None:
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(len(wheres))), wheres)
    filters = {str(at): Filter.parse(where) for at, where in enumerate(wheres)}
    for value in values:
        try:
            event = Event({} if value is None else {"x": value})
        except EventError:
            continue  # beyond what a kind holds
        assert matcher.match(event) == {id for id, each in filters.items() if each.matches(event)}


def numbers_near(factors: list[Any], bounds: list[Any]) -> Iterator[Any]:
    """Numbers where a sum or product passes a bound, and where it overflows."""
    yield from (None, "5", True, 0, -1.5, float("inf"), float("-inf"), float("nan"))
    ends = (MAX_INT64, MIN_INT64, 10**38 - 1, 1 - 10**38)
    for factor, bound in product(map(Decimal, factors), [*map(Decimal, bounds), *map(Decimal, ends)]):
        for near in (bound / factor, bound - factor, factor - bound):
            place = float(near)
            yield from (int(near), int(near) + 1, near, near + Decimal("1e-20"), place, nextafter(place, -1e308))


@pytest.mark.parametrize(
    "form",
    [
        *("x * {c} {o} {k}", "{c} * x {o} {k}", "x * -{c} {o} {k}", "x + {c} {o} {k}", "x - {c} {o} {k}"),
        *("{c} - x {o} {k}", "-(x * {c}) {o} {k}", "abs(x * {c}) {o} {k}", "abs({c} - x) {o} {k}"),
        *("x * {c} + {c} {o} {k}", "(x - {c}) * 2.5 {o} {k}", "x + {c} BETWEEN {k} AND 1000", "{k} {o} +x * {c}"),
    ],
)
@FEWER
@given(
    OPERATORS,
    st.lists(st.tuples(INTEGERS, INTEGERS), min_size=10, max_size=12, unique=True)
    | st.lists(st.tuples(DECIMALS, INTEGERS), min_size=10, max_size=12, unique=True)
    | st.lists(st.tuples(DECIMALS, DECIMALS), min_size=10, max_size=12, unique=True),
)
def test_numbers_match_as_alone(form: str, operator: str, constants: list[tuple[Any, Any]]) -> None:
    wheres = [form.format(c=factor, o=operator, k=bound) for factor, bound in constants]
    check(wheres, numbers_near([constants[0][0]], [constants[0][1]]))


def moments_near(moment: datetime, by: timedelta) -> Iterator[Any]:
    yield from (None, "2024-02-29", 5, date.min, date.max, datetime.min.replace(tzinfo=UTC), datetime.max)
    for near, sign, step in product((moment, datetime(2024, 2, 29)), (-1, 0, 1), (-1, 0, 1)):
        try:
            found = near + sign * by + timedelta(microseconds=step)
        except OverflowError:
            continue
        yield found.replace(tzinfo=UTC)
        yield from (found.date(), found.date() + timedelta(1) if found.date() < date.max else None)


@pytest.mark.parametrize(
    "form",
    [
        *("x + INTERVAL {n} MINUTES {o} {t}", "x - INTERVAL '{n}' SECOND {o} {t}", "INTERVAL {n} DAYS + x {o} {t}"),
        *("x - INTERVAL {n} DAYS {o} {t}", "x {o} {t} - INTERVAL {n} HOURS", "x {o} {t} + INTERVAL '{n}' MINUTE"),
        *("x + INTERVAL {n} HOURS BETWEEN {t} AND TIMESTAMP '2025-01-01 00:00:00'", "x {o} {t} - INTERVAL 1 DAY"),
    ],
)
@FEWER
@given(OPERATORS, st.lists(st.tuples(st.integers(0, 5000), MOMENTS), min_size=10, max_size=12, unique=True))
def test_moments_match_as_alone(form: str, operator: str, constants: list[tuple[int, str]]) -> None:
    wheres = [form.format(n=number, o=operator, t=f"TIMESTAMP '{text}'") for number, text in constants]
    number, text = constants[0]
    unit = 60 if "MINUTE" in form else 1 if "SECOND" in form else 3600 if "HOUR" in form else 86_400
    check(wheres, moments_near(datetime.fromisoformat(text), timedelta(seconds=unit * number)))


@pytest.mark.parametrize(
    "form",
    [
        *("date_add(x, {n}) {o} DATE '{d}'", "x + {n} {o} DATE '{d}'", "date_sub(x, {n}) {o} DATE '{d}'"),
        *("datediff(x, DATE '{d}') {o} {n}", "datediff(DATE '{d}', x) {o} {n}"),
    ],
)
@FEWER
@given(OPERATORS, st.lists(st.tuples(st.integers(0, 5000), DAYS), min_size=10, max_size=12, unique=True))
def test_days_match_as_alone(form: str, operator: str, constants: list[tuple[int, str]]) -> None:
    wheres = [form.format(n=number, o=operator, d=text) for number, text in constants]
    number, text = constants[0]
    check(wheres, moments_near(datetime.fromisoformat(text), timedelta(number)))


def test_many_products_need_no_expression_of_their_own() -> None:
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(1000)), [f"x * {2 + at % 250} > {at}" for at in range(1000)])
    assert matcher.statistics().computed == 1


def test_ranges_on_both_sides_of_zero_are_not_slow() -> None:
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(1000)), [f"abs(x - {at}.5) > {at + 7}" for at in range(1000)])
    assert matcher.statistics().slow == 0
