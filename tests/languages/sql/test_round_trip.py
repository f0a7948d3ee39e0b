"""Round trip of filters through SQL text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.ast import Literal
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.filter import Filter
from palio.filters.sql_writer import expression_to_sql, literal_to_sql
from palio.languages.sql.parser import parse_condition
from tests.strategies import (
    EVERY_VALUE,
    MISSING,
    attributes,
    conditions,
    filters,
    is_readable,
    literals,
    readable_conditions,
    scalar_attributes,
)

parse = Filter.parse


@given(filters())
def test_a_filter_reads_back_as_itself(wanted: Filter) -> None:
    again = parse(str(wanted))
    assert again == wanted
    assert hash(again) == hash(wanted)
    assert str(again) == str(wanted)


@given(filters())
def test_so_does_its_not(wanted: Filter) -> None:
    assert parse(str(~wanted)) == ~wanted


@given(filters(), filters(), st.sampled_from([0.0, 0.5]))
def test_so_do_filters_made_of_others(f: Filter, g: Filter, slack: float) -> None:
    for made in (f & g, f | g, f.merge(g, slack), *f.conjunctions(4)):
        assert parse(str(made)) == made


@given(filters(["a", "b"]), st.lists(attributes(["a", "b"]), min_size=1, max_size=4))
def test_what_reads_back_matches_the_same(wanted: Filter, events: list[dict[str, Any]]) -> None:
    again = parse(str(wanted))
    for event in events:
        assert again.matches_attributes(event) is wanted.matches_attributes(event)


@given(conditions().filter(is_readable))
def test_an_expression_reads_back_as_itself(condition: str) -> None:
    expression = parse_condition(condition)
    assert parse_condition(expression_to_sql(expression)) == expression


@given(readable_conditions(arrays=False), scalar_attributes())
def test_an_expression_that_reads_back_has_the_same_value(condition: str, event: dict[str, Any]) -> None:
    expression = parse_condition(condition)
    again = parse_condition(expression_to_sql(expression))
    value = compile_expression(expression)(event, {})
    assert compile_expression(again)(event, {}) == value or value != value


@given(literals())
def test_a_literal_reads_back_as_itself(value: Any) -> None:
    _check_literal(value)


@pytest.mark.parametrize("value", [value for value in EVERY_VALUE if value is not MISSING], ids=repr)
def test_every_awkward_literal_reads_back_as_itself(value: Any) -> None:
    _check_literal(value)


def _check_literal(value: Any) -> None:
    expression = parse_condition(f"x = {literal_to_sql(value)}").arguments[1]  # type: ignore[union-attr]
    found = compile_expression(expression)({}, {})
    assert type(found) is type(value)
    assert Literal(found) == Literal(value) or (found == value == 0)


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/Sao_Paulo", "+05:30"])
@given(condition=readable_conditions(["a", "b"], depth=2))
def test_a_filter_of_another_zone_reads_back_in_the_zone_it_names(zone: str, condition: str) -> None:
    wanted = parse(condition, timezone=zone)
    assert wanted.timezone in ("UTC", zone)
    again = parse(str(wanted), timezone=wanted.timezone)
    assert again == wanted
    assert again.digest == wanted.digest


def test_filters_that_compute_in_different_zones_differ() -> None:
    here, there = (parse("hour(t) = 3", timezone=zone) for zone in ("UTC", "Asia/Tokyo"))
    assert here != there
    assert here.digest != there.digest
    assert repr(there) == "Filter.parse('hour(t) = 3', timezone='Asia/Tokyo')"
