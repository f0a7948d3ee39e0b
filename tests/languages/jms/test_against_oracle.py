"""JMS selectors against a second implementation of the specification."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.tree import Residual, leaves
from palio.languages.jms import condition, parse
from palio.languages.jms.parser import parse_selector, print_selector
from tests.languages.jms.oracle import arithmetic, judge
from tests.languages.jms.selectors import ESCAPED, NUMBERS, PATTERNS, SIGNS, messages, selectors, simple_selectors
from tests.strategies import EVERY_VALUE, MISSING

LITERAL_TEXTS = ["''", "'a'", "'ab'", "'5'", "'é'", "'true'"]
LISTS = ["'a'", "'a', 'b', ''", "5", "1, 2.5", "'a', 5", "TRUE", "TRUE, 'a', 0.1, 5", "2 + 3, 'a' + 'b'"]
BOUNDS = [("1", "5"), ("5", "1"), ("0.1", "10"), ("'a'", "'b'"), ("1", "'b'"), ("-5", "2 * 5")]
several = st.lists(messages(), min_size=1, max_size=5)


@given(selectors(), several)
def test_the_evaluator_agrees_with_the_specification(selector: str, events: list[dict[str, Any]]) -> None:
    asked = condition(selector)
    for event in events:
        assert asked(event) is judge(selector, event)


@given(selectors(), several)
def test_so_does_the_filter(selector: str, events: list[dict[str, Any]]) -> None:
    wanted = parse(selector)
    for event in events:
        outcome = judge(selector, event)
        assert wanted.matches_attributes(event) is (outcome is True)
        assert (~wanted).matches_attributes(event) is (outcome is False)


@given(simple_selectors())
def test_comparisons_with_literals_are_held_by_the_index_alone(selector: str) -> None:
    wanted = parse(selector)
    for each in (wanted, ~wanted):
        assert not any(isinstance(leaf, Residual) for leaf in leaves(each.tree))
        assert "condition_in" not in str(each)


FORMS = [
    *(f"a {sign} {literal}" for sign in SIGNS for literal in (*NUMBERS, *LITERAL_TEXTS)),
    *(f"{literal} {sign} a" for sign in SIGNS for literal in ("5", "0.1", "'a'")),
    *(f"a {sign} {literal}" for sign in ("=", "<>") for literal in ("TRUE", "FALSE")),
    *(f"a {word} '{pattern}'" for word in ("LIKE", "NOT LIKE") for pattern in PATTERNS),
    *(f"a {word} '{pattern}' ESCAPE '{escape}'" for word in ("LIKE", "NOT LIKE") for pattern, escape in ESCAPED),
    *(f"a {word} ({items})" for word in ("IN", "NOT IN") for items in LISTS),
    *(f"a {word} {low} AND {high}" for word in ("BETWEEN", "NOT BETWEEN") for low, high in BOUNDS),
    *("a", "a IS NULL", "a IS NOT NULL", "(a > 5) IS NULL", "(a LIKE '%b%') IS NOT NULL", "(a LIKE 'a%') = FALSE"),
]


@pytest.mark.parametrize("selector", FORMS)
def test_every_form_for_every_kind_of_value(selector: str) -> None:
    wanted, asked = parse(selector), condition(selector)
    assert not any(isinstance(leaf, Residual) for leaf in leaves(wanted.tree))
    for value in EVERY_VALUE:
        event = {} if value is MISSING else {"a": value}
        outcome = judge(selector, event)
        assert asked(event) is outcome
        assert wanted.matches_attributes(event) is (outcome is True)
        assert (~wanted).matches_attributes(event) is (outcome is False)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "%"])
def test_every_operation_on_every_two_values(sign: str) -> None:
    asked = condition(f"a {sign} b = c")
    values = [value for value in EVERY_VALUE if value is not MISSING and not isinstance(value, bytes | date)]
    for left in values:
        for right in values:
            event = {"a": left, "b": right, "c": arithmetic(sign, left, right)}
            assert asked(event) is (None if event["c"] is None else True), event


@given(selectors())
def test_a_filter_reads_back_as_itself(selector: str) -> None:
    wanted = parse(selector)
    assert Filter.parse(str(wanted)) == wanted
    assert Filter.parse(str(~wanted)) == ~wanted


@given(selectors())
def test_a_selector_reads_back_as_itself(selector: str) -> None:
    tree = parse_selector(selector)
    text = print_selector(tree)
    assert parse_selector(text) == tree
    assert print_selector(parse_selector(text)) == text


@given(selectors(depth=2), selectors(depth=2), several)
def test_filters_of_selectors_combine_as_selectors_do(one: str, two: str, events: list[dict[str, Any]]) -> None:
    both, either = parse(one) & parse(two), parse(one) | parse(two)
    for event in events:
        assert both.matches_attributes(event) is (judge(f"({one}) AND ({two})", event) is True)
        assert either.matches_attributes(event) is (judge(f"({one}) OR ({two})", event) is True)
        assert (~both).matches_attributes(event) is (judge(f"({one}) AND ({two})", event) is False)
