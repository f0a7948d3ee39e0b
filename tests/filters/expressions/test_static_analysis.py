"""Tests of required attributes: without one, no event gives the condition the wanted outcome."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.ast import Attribute, Call, Literal, attributes_of
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.static_analysis import required_attributes, required_for
from palio.languages.sql.parser import parse_condition
from tests.filters.expressions.generator import FORMS, ROOTS, Generator
from tests.filters.expressions.samples import POOLS


def parse(sql: str) -> Any:
    return parse_condition(sql, timezone="UTC")


@pytest.mark.parametrize(
    ("sql", "either", "true", "false"),
    [
        ("x > y", "xy", "xy", "xy"),
        ("x > 1 AND y > 1", "", "xy", ""),
        ("x > 1 AND x < y", "x", "xy", "x"),
        ("x > 1 OR y > 1", "", "", "xy"),
        ("NOT (x > 1 OR y > 1)", "", "xy", ""),
        ("x IS NULL", "", "", "x"),
        ("x IS NOT NULL", "", "x", ""),
        ("(x > 1) IS TRUE", "", "x", ""),
        ("x <=> 5", "", "x", ""),
        ("x <=> y", "", "", ""),
        ("x IN (1, y)", "x", "x", "xy"),
        ("x IN (y, y + 1)", "xy", "xy", "xy"),
        ("x BETWEEN y AND 5", "x", "xy", "x"),
        ("coalesce(x, y) > 1", "", "", ""),
        ("coalesce(x, x + y) > 1", "x", "x", "x"),
        ("coalesce(x, NULL) > 1", "x", "x", "x"),
        ("nullif(x, y) > 1", "x", "x", "x"),
        ("CASE WHEN x > 1 THEN y > 1 END", "xy", "xy", "xy"),
        ("CASE WHEN x > 1 THEN y > 1 ELSE FALSE END", "", "xy", ""),
        ("if(x > 1, y, y + 1) > 1", "y", "y", "y"),
        ("nvl2(x, y, 1) > 1", "", "", ""),
        ("greatest(x, x + y) > 1", "x", "x", "x"),
        ("concat_ws(x, y) = 'a'", "x", "x", "x"),
        ("isnan(x)", "", "x", ""),
        ("locate('a', x, y) > 0", "", "", ""),
        ("locate('a', x, 2) > 0", "x", "x", "x"),
        ("upper(x) LIKE 'A%'", "x", "x", "x"),
        ("array_contains(x, y)", "y", "y", "y"),
        ("size(x) = 0", "", "", ""),
        ("NULL AND x > 1", "x", "", "x"),
    ],
)
def test_what_must_be_there(sql: str, either: str, true: str, false: str) -> None:
    expression = parse(sql)
    assert required_attributes(expression) == set(either)
    assert required_for(expression, True) == set(true)
    assert required_for(expression, False) == set(false)


@given(name=st.sampled_from(ROOTS["truth"]), seed=st.integers(0, 2**32))
def test_without_a_required_attribute_the_outcome_does_not_happen(name: str, seed: int) -> None:
    generator = Generator(seed)
    expression = parse(generator.call(name, 3))
    run = compile_expression(expression)
    choose = random.Random(seed)
    for wants in (True, False, None):
        for absent in required_for(expression, wants):
            event = {each: choose.choice(pool) for each, pool in POOLS.items() if each != absent}
            arrays = {each: held for each, held in event.items() if isinstance(held, tuple)}
            outcome = run({each: held for each, held in event.items() if each not in arrays}, arrays)
            assert outcome is None if wants is None else outcome is not wants


@given(name=st.sampled_from(sorted(FORMS)), seed=st.integers(0, 2**32))
def test_what_is_required_is_read(name: str, seed: int) -> None:
    expression = parse(Generator(seed).call(name, 3))
    for wants in (True, False, None):
        assert required_for(expression, wants) <= attributes_of(expression)


def test_an_answer_does_not_take_exponential_time() -> None:
    expression: Any = Attribute("x")
    for _ in range(90):
        expression = Call("=", (Call("and", (expression, Call("not", (expression,)))), Literal(True)))
    assert required_attributes(expression) == {"x"}
