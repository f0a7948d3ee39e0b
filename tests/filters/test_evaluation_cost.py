"""Cost of evaluation: steps for a character that conditions take at worst."""

from __future__ import annotations

import pytest

from palio import Filter
from palio.filters.evaluation_cost import (
    _COSTLY_TEXT,
    _MATCH_FUNCTIONS,
    _TEXT_FUNCTIONS,
    MAX_CALL_STEPS,
    evaluation_cost,
)
from palio.filters.expressions.ast import Attribute, Call
from palio.filters.sql_writer import expression_to_sql
from palio.filters.stored_filter import StoredFilter
from palio.filters.work_limit import STEPS_PER_CHARACTER

_ARGUMENTS = {"mask": 1}


@pytest.mark.parametrize(
    ("condition", "steps"),
    [
        ("x > 5 AND y = 'a'", 0.0),
        ("t LIKE '%a%b%'", 0.05),
        ("t RLIKE 'a.{0,200}z'", 1.0),
        ("upper(t) = 'A' AND length(t) > 3", 1.0),
        ("t RLIKE 'a[ab]{60}c'", MAX_CALL_STEPS),
        ("levenshtein(t, 'abc') < 3", MAX_CALL_STEPS),
        ("CAST(t AS INT) + n > 3", 1.0),
    ],
)
def test_the_steps_of_patterns_and_functions_add_up(condition: str, steps: float) -> None:
    assert evaluation_cost(Filter.parse(condition)).steps == steps


def test_the_cost_names_the_costliest_part_and_the_largest_slow_pattern() -> None:
    cost = evaluation_cost(Filter.parse("t RLIKE '(a|b)*a(a|b){900}c' OR t LIKE '%x%' OR upper(u) = 'A'"))
    assert cost.costliest.name == cost.largest.name == "RLIKE '(a|b)*a(a|b){900}c'"
    assert cost.largest.size == 1_804
    assert cost.steps == MAX_CALL_STEPS + 1.05


def test_a_rule_of_hundreds_of_likes_costs_little() -> None:
    rule = " OR ".join(f"command LIKE '%tool{number}%'" for number in range(300))
    assert evaluation_cost(Filter.parse(rule)).steps < MAX_CALL_STEPS


def test_a_stored_filter_of_comparisons_is_not_parsed_for_its_cost() -> None:
    wanted = Filter.parse("x > 5 AND (y IN ('a', 'b') OR z IS NULL)")
    stored = StoredFilter.of_text(str(wanted), wanted.timezone, wanted.digest)
    assert not evaluation_cost(stored).parts
    assert "_holds" not in vars(stored)


@pytest.mark.parametrize("function", sorted(STEPS_PER_CHARACTER.keys() | _TEXT_FUNCTIONS - {"cast"} | _MATCH_FUNCTIONS))
def test_the_canonical_text_of_a_costly_call_shows_that_it_is_one(function: str) -> None:
    shown = expression_to_sql(Call(function, tuple(map(Attribute, "tuvw"))[: _ARGUMENTS.get(function, 2)]))
    assert _COSTLY_TEXT.search(shown), shown
