"""Tests against Spark SQL: matches equal its WHERE on every row where Spark does not raise.

Each seed makes one table and many conditions, NOT of each included. A failure names the seed and shows every
condition that differs, narrowed down to its smallest part that differs too.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.oracles.answers import Answer
from tests.oracles.comparison import Outcome, PalioTable, compare, report
from tests.oracles.generate import Expr, Generator
from tests.oracles.seeds import replay, seeds
from tests.oracles.spark_answers import SparkTable, session_zone
from tests.oracles.tables import random_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

_ROWS = 24

# What docs/language.md and docs/functions.md say is refused although Spark accepts it, by the place that says so.
_DOCUMENTED = {
    "5.1": r"a LIKE pattern cannot end with its escape|in a LIKE pattern, the escape character",
    "5.2": r"needs? a backtracking engine"
    r"|\\p is supported for"
    r"|the flag \w is not supported"
    r"|a class within a class is not supported"
    r"|\$ must be at the end of what it ends",
    "6.3": r"digits where a decimal has 38",
    "6.5": r"a 32-bit FLOAT can only be compared",
    "Paths in JSON": r"a path begins with \$",
}
_REFUSALS = re.compile("|".join(_DOCUMENTED.values()))


def _conditions(seed: int, count: int, zone: str) -> list[Expr]:
    generator = Generator(seed, zone)
    found = (generator.condition() for _ in range(count))
    return list({expression.text: expression for expression in found}.values())


def _table(seed: int) -> pa.Table:
    return random_table(Random(f"table {seed}"), _ROWS)


def _ask(spark: SparkTable, palio: PalioTable, conditions: Sequence[str]) -> Outcome:
    """Compare all conditions that Spark accepts."""
    refused = spark.refusals(conditions)
    accepted = [condition for condition in conditions if condition not in refused]
    return compare(palio, accepted, spark.answers(accepted))


def _agree(session: SparkSession, seed: int, count: int, zone: str, test: str) -> None:
    table, expressions = _table(seed), _conditions(seed, count, zone)
    with session_zone(session, zone):
        spark, palio = SparkTable(session, table), PalioTable(table, zone)
        outcome = _ask(spark, palio, [expression.text for expression in expressions])
        if outcome.differences:
            again = replay(seed, test)
            pytest.fail(report(outcome, expressions, table, lambda parts: _ask(spark, palio, parts), again))
    _is_no_empty_proof(outcome, len(expressions))
    undocumented = {condition: reason for condition, reason in outcome.refused.items() if not _REFUSALS.search(reason)}
    assert not undocumented, f"Spark accepts what Palio refuses for no documented reason (seed {seed})"


def _is_no_empty_proof(outcome: Outcome, generated: int) -> None:
    """Most of what was generated was really compared, and all three answers were common."""
    assert outcome.conditions >= 0.95 * generated
    assert len(outcome.refused) <= 0.1 * generated
    compared = sum(outcome.answers.values())
    assert outcome.answers[Answer.RAISES.value] <= 0.2 * compared
    for answer in (Answer.TRUE, Answer.FALSE, Answer.NULL):
        assert outcome.answers[answer.value] >= 0.1 * compared


_HERE = "tests/oracles/test_spark.py"


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_conditions_mean_what_spark_means_by_them(spark: SparkSession, seed: int) -> None:
    _agree(spark, seed, 150, "UTC", f"{_HERE}::test_random_conditions_mean_what_spark_means_by_them")


@pytest.mark.parametrize("zone", ["America/New_York"])
def test_the_time_zone_given_to_parse_is_sparks_session_zone(spark: SparkSession, zone: str) -> None:
    for seed in seeds(50, 1):
        _agree(spark, seed, 150, zone, f"{_HERE}::test_the_time_zone_given_to_parse_is_sparks_session_zone")


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, 40))
def test_many_random_conditions_mean_what_spark_means_by_them(spark: SparkSession, seed: int) -> None:
    # Not east of Greenwich: there the first day of year 1 began in year 0, before the first that Palio has.
    zone = ("UTC", "America/New_York", "UTC", "America/St_Johns", "UTC", "Europe/London")[seed % 6]
    _agree(spark, seed, 250, zone, f"{_HERE}::test_many_random_conditions_mean_what_spark_means_by_them")


# Conditions that are rewritten to another value or to a plain predicate, in the order of `palio.filters.rewriting`.
_REWRITTEN = [
    *(
        f"{name} {operation} > 3"
        for name in ("num", "big", "dbl", "dec", "wide")
        for operation in ("+ 5", "- 2", "* 3")
    ),
    *(f"abs({name} - 1.5) <= 100.25" for name in ("num", "big", "dbl", "tame", "dec")),
    *(f"abs(2.5D - {name}) < 1000D" for name in ("num", "big", "dbl", "dec")),
    *(f"{function} = 1" for function in ("round(tame)", "floor(dbl)", "ceil(dec)", "round(dec, 1)", "sqrt(dbl)")),
    *(f"coalesce({name}, 0) > 1" for name in ("num", "big", "dbl", "dec")),
    "coalesce(str, '-') = 'a'",
    "coalesce(str, 'a') = 'a'",
    "nvl(str, '') <> 'a'",
    *(f"nullif({name}, 1) < 5" for name in ("num", "big", "dbl", "dec")),
    "nullif(str, 'a') IS NULL",
    *(f"{function} = 2024" for function in ("year(day2)", "year(ts2)", "year(date_add(day2, 31))")),
    *(f"to_date({name}) >= DATE'2024-01-01'" for name in ("day2", "ts2")),
    "trunc(day2, 'month') <= DATE'2024-02-01'",
    "datediff(DATE'2024-03-01', day2) < 365",
    "day2 + 31 > DATE'2024-01-31'",
    "ts2 - INTERVAL '90' MINUTE > TIMESTAMP'2024-01-01'",
    "unix_seconds(ts2) > 1704067200",
    "substring(str, 1, 1) = 'a'",
    "left(str, 2) <> 'ab'",
    "left(str, 2) IN ('a', 'ab', 'b')",
]


def test_rewritten_conditions_mean_what_spark_means_by_them(spark: SparkSession) -> None:
    for seed in seeds(1, 3):
        table = _table(seed)
        outcome = _ask(SparkTable(spark, table), PalioTable(table, "UTC"), _REWRITTEN)
        assert not outcome.differences, (seed, outcome.differences)
        assert outcome.conditions == len(_REWRITTEN)
        assert not outcome.refused


def test_what_spark_is_asked_in_bulk_it_also_says_in_plain_queries(spark: SparkSession) -> None:
    """The oracle is held to account: WHERE and NOT by themselves, and row by row where a condition raises."""
    table = SparkTable(spark, _table(1))
    conditions = [expression.text for expression in _conditions(1, 60, "UTC")]
    refused = table.refusals(conditions)
    accepted = [condition for condition in conditions if condition not in refused]
    answers = dict(zip(accepted, table.answers(accepted), strict=True))
    sound = [condition for condition in accepted if Answer.RAISES not in answers[condition]]
    raising = [condition for condition in accepted if Answer.RAISES in answers[condition]]
    for condition in sound[:8]:
        for text, wanted in ((condition, Answer.TRUE), (f"NOT ({condition})", Answer.FALSE)):
            expected = {row for row, answer in enumerate(answers[condition]) if answer is wanted}
            assert table.where(text) == expected, text
    for condition in raising[:2]:
        for row in range(0, _ROWS, 5):
            assert table.answer(condition, row) is answers[condition][row], (condition, row)
