"""Evaluation of templates: TRUE for exactly the events that the filter of the condition matches."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events.event import Event
from palio.languages.sql.skeletons import split_literals
from palio.languages.sql.template_cache import TemplateCache
from palio.languages.sql.template_evaluation import evaluator_of
from palio.languages.sql.templates import Template
from tests.languages.sql.samples import ZONES, parsed
from tests.strategies import conditions, scalar_attributes, usual_conditions


def check(text: str, zone: str, events: list[Any]) -> None:
    """The compiled template and the filter agree on all events; a text without a template is passed over."""
    expected, found = parsed(text, zone), split_literals(text)
    template = TemplateCache().template(found[0], text) if found is not None else None
    if expected is None or template is None or found is None or not template.is_evaluable:
        return
    evaluate, arguments = evaluator_of(template), template.parse_literals(found[1], zone)
    assert [evaluate(event, arguments, zone) for event in events] == [
        expected.matches(Event(event)) for event in events
    ]


@given(usual_conditions() | conditions(arrays=False), st.sampled_from(ZONES), st.lists(scalar_attributes(), max_size=5))
def test_an_event_satisfies_a_template_where_it_matches_the_filter(text: str, zone: str, events: list[Any]) -> None:
    check(text, zone, events)


# Both sides of every short cut: a value of the literal's own type, one of another type, NULL, and no value.
VALUES = [
    5, 6, 5.0, 5.5, Decimal("5.00"), "5", "5.0", "x", "", True, False, None, float("nan"), b"5",
    date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 5, tzinfo=UTC),
]  # fmt: skip
PREDICATES = [
    *(f"a {operator} 5" for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
    *(f"a {operator} '5'" for operator in ("=", "<>", "<", ">=", "<=>")),
    "a = 5.0", "a < 5e0", "a >= DATE'2024-01-01'", "a = TIMESTAMP'2024-01-01 00:00:00'", "a = X'35'", "a = TRUE",
    "a <=> NULL", "a = NULL", "a IN (5, 6)", "a IN ('5', 'x')", "a IN (5, 'x')", "a IN (5, NULL)", "a BETWEEN 5 AND 6",
    "a LIKE '5%'", "a ILIKE 'X'", "a RLIKE '^[5x]'", "a IS NULL", "a IS NOT NULL", "a",
    "a + 0 = 5", "a + a > 11.5", "lower(a) = 'x'", "a < a", "CAST(a AS INT) IN (5, 6)", "a * 1 BETWEEN 5 AND 6",
    "to_date(a) = DATE'2024-01-01'", "to_date(a) < TIMESTAMP'2024-01-01 12:00:00'", "lower(a) LIKE 'x%'",
]  # fmt: skip
CONTEXTS = ["{}", "NOT ({})", "({}) IS TRUE", "({}) IS NOT TRUE", "({}) IS FALSE", "({}) IS NOT FALSE"]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_every_predicate_in_every_truth_test(predicate: str, context: str) -> None:
    for zone in ZONES:
        check(context.format(predicate), zone, [{}, *({"a": value} for value in VALUES)])


def test_a_template_is_compiled_once() -> None:
    template = TemplateCache().template(split_literals("a = 5")[0], "a = 5")  # type: ignore[index]
    assert isinstance(template, Template)
    assert evaluator_of(template) is evaluator_of(template)
