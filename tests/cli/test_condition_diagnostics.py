"""Conditions that `palio check` calls slow: the index cannot file them, or computes an expression for them alone."""

from __future__ import annotations

import pytest

from palio.cli.condition_diagnostics import why_slow
from palio.filters.filter import Filter
from palio.matching.access_paths import is_always_candidate
from palio.matching.columnar.computed_attributes import ExpressionUses
from palio.matching.matcher import Matcher

QUICK = [
    "x = 1", "x > 3", "x IN ('a', 'b')", "x IS NOT NULL", "x LIKE 'a%'", "x LIKE '%abc%'", "x ILIKE '%abc'",
    "x RLIKE 'abcd[0-9]+'", "x RLIKE '(?i)abcd'", "x RLIKE '^abc[0-9]+'", "x RLIKE 'ab'", "x RLIKE '^a'",
    "x = 1 AND y IS NULL", "x = 1 OR y = 2", "x <> 3 AND y = 1", "TRUE",
    "FALSE", "x = 1 AND y NOT LIKE '%a%'", "array_contains(x, 'a')",
    "x LIKE 'ab%c%d'", "x LIKE '_abc%'",
]  # fmt: skip
ASKED_ALWAYS = ["x IS NULL", "x IS NULL AND y IS NULL", "x = 1 OR y IS NULL", "x IS NULL OR x > 3"]
SLOW = {
    "x IS NULL": "every event is asked: x IS NULL holds where the attribute is missing",
    "x = 1 OR y IS NULL": "and one such alternative is enough",
    "a + b > 3": "a + b is computed for each event, and fewer than 4 subscriptions share that",
    "a < b AND c IS NOT NULL": "a < b is computed for each event",
    "coalesce(a, b) = 3": "coalesce(a, b) is computed for each event",
    "x <> 5": "it only says what is not wanted: nearly every event with x is a candidate",
    "x NOT IN (1, 2) AND y NOT LIKE '%a%'": "nearly every event with x and y is a candidate",
    "x RLIKE '[a-z]+[0-9]'": "has no fixed text to look for: tried on each distinct value of x",
    "x RLIKE 'a|[0-9]'": "has no fixed text to look for",
    "x LIKE '___'": "x LIKE '___' has no fixed text to look for",
    "x RLIKE '[0-9]+'": "write a text that every match has",
    "x RLIKE 'a.*b'": "has no fixed text longer than a character: tried on nearly each distinct value of x",
    "x LIKE 'a%b%c'": "has no fixed text longer than a character",
    "x LIKE '%ab%cd%'": "is tried on each distinct value of x with its fixed text, which has 2 characters",
    "x RLIKE 'ab[a-m]+c'": "which has 2 characters (about 500 × an equality); write a longer text that every match has",
    "x RLIKE 'abc[0-9]+'": "or say with ^ that a value begins with it",
    "x RLIKE '(?i)ab+'": "which has 2 characters",
    "x RLIKE '^ab[a-m]+c'": "which has 2 characters (about 50 × an equality)",
    "x RLIKE 'abcd|efgh'": "which has 4 characters (about 10 × an equality)",
    "x <> 5 OR y = 1": "it only says what is not wanted",
    "x RLIKE 'abc.{70}'": "has more than 62 characters with its repetitions written out",
    "upper(x) = 'A'": "upper(x) is computed for each event",
    "a < b AND c = 1": "a < b is evaluated on each event that meets the rest (about 300 × an equality there)",
}


@pytest.mark.parametrize("condition", QUICK)
def test_what_the_index_holds_is_not_slow(condition: str) -> None:
    assert why_slow(Filter.parse(condition)) == []


@pytest.mark.parametrize("condition", SLOW)
def test_what_it_does_not_hold_is_slow_and_why(condition: str) -> None:
    [found] = why_slow(Filter.parse(condition))
    assert SLOW[condition] in f"{found.reason}; {found.remedy}"
    assert "× an equality" in found.reason
    assert found.remedy


@pytest.mark.parametrize("condition", [*QUICK, *SLOW, *ASKED_ALWAYS])
def test_asked_always_is_what_the_index_itself_files_nowhere(condition: str) -> None:
    from palio.matching.columnar.conditions import ConditionsBuilder
    from palio.matching.columnar.segment import Segment

    tree = Filter.parse(condition).tree
    builder = ConditionsBuilder()
    builder.add(0, tree)
    assert is_always_candidate(tree) == bool(Segment.build(builder).postings.is_always.any())


def test_an_expression_that_many_share_is_not_slow() -> None:
    filters = [Filter.parse(f"upper(x) = 'A{number}'") for number in range(4)] + [Filter.parse("lower(x) = 'a'")]
    uses = ExpressionUses(each.tree for each in filters)
    assert [bool(why_slow(each, uses)) for each in filters] == [False, False, False, False, True]


@pytest.mark.parametrize("condition", [*QUICK, *SLOW])
def test_statistics_call_slow_what_check_calls_slow(condition: str) -> None:
    matcher = Matcher(background=False)
    matcher.add_many(["alone"], [condition])
    is_always = condition == "TRUE"  # which has a finding of its own
    assert matcher.statistics().slow == (is_always or bool(why_slow(Filter.parse(condition))))


def test_statistics_count_as_check_does() -> None:
    matcher = Matcher()
    texts = [*(f"upper(x) = 'A{number}'" for number in range(4)), "lower(x) = 'a'", "x IS NULL", "x = 1 AND a < b"]
    matcher.add_many(map(str, range(len(texts))), texts)
    found = matcher.statistics()
    assert (found.slow, found.computed, found.residuals) == (3, 2, 1)


def test_long_and_many_conditions_are_cut() -> None:
    computed = " AND ".join(f"a{number} < b{number}" for number in range(5))
    [found] = why_slow(Filter.parse(computed))
    assert "and 3 more are computed" in found.reason
    [found] = why_slow(Filter.parse("x RLIKE '" + "[a-z][0-9]" * 20 + "'"))
    assert "…" in found.reason
    assert len(found.reason) < 170
