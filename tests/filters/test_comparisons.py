"""Tests of comparisons with literals against an oracle written from docs/language.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters import comparisons
from palio.filters.comparisons import OPERATORS, compare, equal_to_any, number_terms, values_satisfying
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.kinds import KINDS, MISSING, NUMBERS
from palio.filters.value_sets import NO_VALUE, ValueSet
from tests.strategies import EVERY_VALUE, OF_KIND, STRINGS, Kind, literals, values

DECIDED: dict[str, Any] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}

# What each string of the pool is worth beside another kind, written down by hand.
_NEW_YEAR, _LEAP_DAY = date(2024, 1, 1), date(2024, 2, 29)
WORTH: dict[str, dict[type, Any]] = {
    "0": {int: 0, float: 0.0, bool: False},
    "1": {int: 1, float: 1.0, bool: True},
    " 1 ": {int: 1, float: 1.0, bool: True},
    "-1": {int: -1, float: -1.0},
    "5": {int: 5, float: 5.0},
    "1.0": {float: 1.0},
    "1e0": {float: 1.0},
    "0.1": {float: 0.1},
    "NaN": {float: math.nan},
    "inf": {float: math.inf},
    "true": {bool: True},
    "t": {bool: True},
    "FALSE": {bool: False},
    "2024": {int: 2024, float: 2024.0, date: _NEW_YEAR, datetime: datetime(2024, 1, 1, tzinfo=UTC)},
    "2024-01-01": {date: _NEW_YEAR, datetime: datetime(2024, 1, 1, tzinfo=UTC)},
    "2024-02-29 10:00:00": {date: _LEAP_DAY, datetime: datetime(2024, 2, 29, 10, tzinfo=UTC)},
    "1969-12-31 23:59:59.999999": {
        date: date(1969, 12, 31),
        datetime: datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    },
}


def order(value: Any, literal: Any) -> int | None:
    """-1, 0 or 1 as a value stands to a literal; None where the two do not compare."""
    if value is None or value is MISSING or literal is None:
        return None
    if isinstance(literal, str) and not isinstance(value, str):
        literal = WORTH.get(literal, {}).get(float if isinstance(value, Decimal) else type(value))
        return None if literal is None else order(value, literal)
    numeric = [isinstance(each, int | float | Decimal) and not isinstance(each, bool) for each in (value, literal)]
    if all(numeric):
        return _order_of_numbers(value, literal)
    if {type(value), type(literal)} == {date, datetime}:
        value, literal = _at_midnight(value), _at_midnight(literal)
    if type(value) is not type(literal):
        return None
    if isinstance(value, str):
        value, literal = value.encode(), literal.encode()
    return (value > literal) - (value < literal)


def _order_of_numbers(value: Any, literal: Any) -> int:
    if isinstance(value, float) or isinstance(literal, float):
        one, two = _as_float(value), _as_float(literal)
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) - math.isnan(two)
        return (one > two) - (one < two)
    exact, other = Fraction(value), Fraction(literal)
    return (exact > other) - (exact < other)


def _as_float(number: Any) -> float:
    return number if isinstance(number, float) else Fraction(number).numerator / Fraction(number).denominator


def _at_midnight(moment: Any) -> datetime:
    return moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day, tzinfo=UTC)


def known(literal: Any) -> bool:
    """Whether the oracle knows a literal: of strings, only those of the pool."""
    return not isinstance(literal, str) or literal in STRINGS


def check(operator: str, values: Sequence[Any], literal: Any) -> None:
    truth = compare(operator, literal)
    for value in values:
        stands = order(value, literal)
        assert truth.true.contains(value) is (stands is not None and DECIDED[operator](stands)), value
        assert truth.false.contains(value) is (stands is not None and not DECIDED[operator](stands)), value


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_pair_of_awkward_values_compares_as_the_oracle_says(operator: str) -> None:
    for literal in EVERY_VALUE:
        if literal is not MISSING:
            check(operator, EVERY_VALUE, literal)


@given(st.sampled_from(OPERATORS), values(), literals().filter(known))
def test_any_pair_of_values_compares_as_the_oracle_says(operator: str, value: Any, literal: Any) -> None:
    check(operator, [value], literal)


@given(st.sampled_from(OPERATORS), OF_KIND[Kind.FLOAT].filter(math.isfinite), st.integers(-2, 2), st.data())
def test_numbers_beside_a_float_compare_as_it_rounds_them(operator: str, number: float, steps: int, data: Any) -> None:
    """Near a float, where a decimal of 38 digits may lie on either side of the half-way point."""
    near = number
    for _ in range(abs(steps)):
        near = math.nextafter(near, math.copysign(math.inf, steps))
    digits = data.draw(st.integers(1, 38))
    middle = Decimal(number) / 2 + (Decimal(near) / 2 if math.isfinite(near) else 0)
    for value in (Decimal(f"{middle:.{digits}g}"), Decimal(f"{Decimal(number):.{digits}g}")):
        if value.adjusted() < 38 and -38 <= value.as_tuple().exponent <= 0:  # type: ignore[operator]
            check(operator, [value], number)


@given(literals(), values())
def test_true_and_false_exclude_each_other_and_not_exchanges_them(literal: Any, value: Any) -> None:
    for operator, opposite in (("=", "<>"), ("<", ">="), (">", "<=")):
        truth = compare(operator, literal)
        assert truth.true.intersect(truth.false) == NO_VALUE
        assert truth.negate() == compare(opposite, literal)
        assert truth.true.contains(value) + truth.false.contains(value) <= 1


@given(literals())
def test_less_equal_and_greater_divide_what_compares(literal: Any) -> None:
    less, equal, greater = (compare(operator, literal).true for operator in ("<", "=", ">"))
    assert less.intersect(equal) == equal.intersect(greater) == less.intersect(greater) == NO_VALUE
    assert less.union(equal) == compare("<=", literal).true
    assert greater.union(equal) == compare(">=", literal).true
    assert less.union(greater) == compare("<>", literal).true


def test_a_comparison_with_null_is_never_true_nor_false() -> None:
    for operator in OPERATORS:
        assert compare(operator, None).true == compare(operator, None).false == NO_VALUE


def test_every_operator_has_a_mirror_image() -> None:
    assert {MIRRORED[MIRRORED[operator]] for operator in OPERATORS} == set(OPERATORS)


class TestZones:
    @pytest.mark.parametrize(
        "zone", ["UTC", "Europe/Paris", "+05:30", "America/Sao_Paulo", "Pacific/Kiritimati", "-11:00"]
    )
    def test_a_date_meets_a_timestamp_at_its_midnight_in_the_zone(self, zone: str) -> None:
        from palio.filters.expressions.text_cast import zone_of

        place = zone_of(zone)
        for day in (date(1970, 1, 1), date(2024, 3, 31), date(2024, 10, 27)):
            midnight = datetime(day.year, day.month, day.day, tzinfo=place).astimezone(UTC)
            for micros in (-1, 0, 1):
                moment = midnight + timedelta(microseconds=micros)
                for operator in OPERATORS:
                    assert compare(operator, day, zone).true.contains(moment) is DECIDED[operator](micros)
                    assert compare(operator, moment, zone).true.contains(day) is DECIDED[operator](-micros)

    def test_a_day_whose_midnight_the_clocks_skip_begins_when_they_go_on(self) -> None:
        """In São Paulo, 4 November 2018 began at 01:00, which was 03:00 in UTC."""
        zone, day = "America/Sao_Paulo", date(2018, 11, 4)
        start = datetime(2018, 11, 4, 3, tzinfo=UTC)
        before = start - timedelta(microseconds=1)
        assert compare("=", day, zone).true.contains(start)
        assert compare("=", start, zone).true.contains(day)
        assert compare(">", before, zone).true.contains(day)
        assert not compare(">=", start + timedelta(microseconds=1), zone).true.contains(day)

    @pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "-11:00", "Europe/Paris"])
    def test_the_first_and_last_instants_compare_in_any_zone(self, zone: str) -> None:
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        for moment in (first, last):
            assert compare("=", moment, zone).true.contains(moment)
            assert compare("<", moment, zone).true.contains(date(2024, 1, 1)) is (moment is last)
        for day in (date.min, date.max):
            assert compare("=", day, zone).true.contains(day)
            assert compare("<", day, zone).true.contains(datetime(2024, 1, 1, tzinfo=UTC)) is (day is date.max)

    def test_an_instant_is_the_same_whatever_zone_it_is_written_in(self) -> None:
        instant = datetime(2024, 1, 1, 12, tzinfo=UTC)
        assert compare("<", instant) == compare("<", instant.astimezone(timezone(timedelta(hours=3))))


class TestIn:
    @given(st.lists(literals(), min_size=1, max_size=4), values())
    def test_one_kind_of_literal_is_one_comparison_after_the_other(self, items: list[Any], value: Any) -> None:
        same = [item for item in items if type(item) is type(items[0])]
        truth = equal_to_any(same)
        parts = [compare("=", item) for item in same]
        assert truth.true.contains(value) is any(part.true.contains(value) for part in parts)
        assert truth.false.contains(value) is all(part.false.contains(value) for part in parts)

    def test_beside_a_float_even_integers_meet_as_floats(self) -> None:
        assert equal_to_any([2**53 + 1, 1.5]).true.contains(2**53)
        assert not equal_to_any([2**53 + 1, Decimal("1.5")]).true.contains(2**53)

    def test_beside_a_timestamp_a_string_is_one_too(self) -> None:
        moment = datetime(2024, 2, 29, tzinfo=UTC)
        assert equal_to_any(["2024-02-29 10:00:00"]).true.contains(date(2024, 2, 29))
        assert not equal_to_any(["2024-02-29 10:00:00", moment + timedelta(days=1)]).true.contains(date(2024, 2, 29))

    def test_null_in_the_list_keeps_it_from_being_false(self) -> None:
        truth = equal_to_any([1, None])
        assert truth.true.contains(1)
        assert truth.false == NO_VALUE


_numbers = st.sampled_from([0, -1, 5, 2**53 + 1, 0.1, 1.5, -0.25, 1e300, 5e-324, math.inf, math.nan]) | st.sampled_from(
    [Decimal("0.1"), Decimal("1.50"), Decimal("0.03"), Decimal("1e-20"), Decimal("9007199254740993.5")]
)
_terms = st.lists(st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), _numbers), min_size=1, max_size=2)
_ranges = st.lists(_terms, min_size=1, max_size=2).map(values_satisfying)


@given(_ranges, _ranges, st.sampled_from(NUMBERS))
def test_a_cheap_look_rules_out_no_terms_that_express_all_numbers(one: ValueSet, two: ValueSet, kind: Any) -> None:
    mixed = ValueSet.of({**dict(zip(KINDS, one.parts, strict=True)), kind: two.parts[kind]})
    for wanted in (one, mixed):
        found = number_terms(wanted)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(comparisons, "_may_be_alike", lambda *_: True)
            assert repr(number_terms(wanted)) == repr(found)  # NaN is unlike itself
