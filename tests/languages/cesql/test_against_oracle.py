"""CESQL evaluator and filters against a second implementation of the specification."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.languages import cesql
from tests.languages.cesql import oracle
from tests.languages.cesql.expressions import events, expressions, simple_conditions, text_of


def matches(tree: tuple[Any, ...], event: dict[str, Any]) -> bool:
    """Whether an event passes an expression: it is true, and nothing failed."""
    value, errors = oracle.evaluate(tree, event)
    return value is True and not errors


@given(expressions(), events())
def test_an_expression_has_the_value_and_the_errors_of_the_specification(tree: Any, event: dict[str, Any]) -> None:
    value, errors = cesql.evaluate(text_of(tree), event)
    expected, kinds = oracle.evaluate(tree, event)
    assert (type(value), value, errors) == (type(expected), expected, kinds)


@given(simple_conditions(), st.lists(events(), min_size=1, max_size=4))
def test_a_filter_of_simple_conditions_matches_what_the_specification_says(tree: Any, several: list[Any]) -> None:
    wanted = Filter.parse(text_of(tree), language="cesql")
    for event in several:
        assert wanted.matches_attributes(event) is matches(tree, event)
        assert (~wanted).matches_attributes(event) is matches(("not", tree), event)


@given(expressions(), st.lists(events(), min_size=1, max_size=4))
def test_so_does_a_filter_of_any_expression(tree: Any, several: list[Any]) -> None:
    wanted = Filter.parse(text_of(tree), language="cesql")
    for event in several:
        assert wanted.matches_attributes(event) is matches(tree, event)
        assert (~wanted).matches_attributes(event) is matches(("not", tree), event)


@given(st.one_of(simple_conditions(), expressions()))
def test_a_filter_reads_back_as_itself(tree: Any) -> None:
    wanted = Filter.parse(text_of(tree), language="cesql")
    assert Filter.parse(str(wanted)) == wanted
    assert Filter.parse(str(~wanted)) == ~wanted
