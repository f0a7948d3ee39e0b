"""Conditions that `palio check` calls slow are those that the index cannot file."""

from __future__ import annotations

import pytest

from palio.cli.condition_diagnostics import is_always_candidate, why_slow
from palio.filters.filter import Filter

QUICK = [
    "x = 1", "x > 3", "x IN ('a', 'b')", "x IS NOT NULL", "x LIKE 'a%'", "x LIKE '%abc%'", "x ILIKE '%abc'",
    "x RLIKE 'abc[0-9]+'", "x RLIKE '(?i)abc'",
    "x = 1 AND y IS NULL", "x = 1 OR y = 2", "x <> 3 AND y = 1", "TRUE",
    "FALSE", "x = 1 AND y NOT LIKE '%a%'",
]  # fmt: skip
ASKED_ALWAYS = ["x IS NULL", "x IS NULL AND y IS NULL", "x = 1 OR y IS NULL", "x IS NULL OR x > 3"]
SLOW = {
    "x IS NULL": "every event is asked: x IS NULL holds where the attribute is missing",
    "x = 1 OR y IS NULL": "and one such alternative is enough",
    "a + b > 3": "no index holds (a + b) > 3: worked out for each event with a and b",
    "a < b AND c = 1": "no index holds a < b: worked out for each event that passes the rest",
    "coalesce(a, b) = 3": "every event is asked: coalesce(a, b) = 3 has no value to look up",
    "x <> 5": "it only says what is not wanted: nearly every event with x is a candidate",
    "x NOT IN (1, 2) AND y NOT LIKE '%a%'": "nearly every event with x and y is a candidate",
    "x RLIKE '[a-z]+[0-9]'": "has no fixed text to look for: tried on each distinct value of x",
    "x RLIKE 'a|[0-9]'": "has no fixed text to look for",
    "x LIKE '___'": "x LIKE '___' has no fixed text to look for",
    "upper(x) = 'A'": "upper(x) = 'A' is worked out for each distinct value of x",
}


@pytest.mark.parametrize("condition", QUICK)
def test_what_the_index_holds_is_not_slow(condition: str) -> None:
    assert why_slow(Filter.parse(condition)) == []


@pytest.mark.parametrize("condition", SLOW)
def test_what_it_does_not_hold_is_slow_and_why(condition: str) -> None:
    [reason] = why_slow(Filter.parse(condition))
    assert SLOW[condition] in reason


@pytest.mark.parametrize("condition", [*QUICK, *SLOW, *ASKED_ALWAYS])
def test_asked_always_is_what_the_index_itself_files_nowhere(condition: str) -> None:
    from palio.matching.columnar.conditions import ConditionsBuilder
    from palio.matching.columnar.segment import Segment

    tree = Filter.parse(condition).tree
    builder = ConditionsBuilder()
    builder.add(0, tree)
    assert is_always_candidate(tree) == bool(Segment.build(builder).postings.is_always.any())


def test_long_and_many_conditions_are_cut() -> None:
    computed = " AND ".join(f"a{number} < b{number}" for number in range(5))
    [reason] = why_slow(Filter.parse(computed))
    assert "and 3 more: worked out" in reason
    [reason] = why_slow(Filter.parse("x RLIKE '" + "[a-z][0-9]" * 20 + "'"))
    assert "…" in reason
    assert len(reason) < 140
