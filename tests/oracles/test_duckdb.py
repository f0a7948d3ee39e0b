"""Tests against DuckDB where DuckDB and Spark agree; no JVM is needed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.oracles.answers import Answer
from tests.oracles.comparison import Outcome, PalioTable, compare, report
from tests.oracles.duckdb_answers import duckdb_answers
from tests.oracles.seeds import replay, seeds
from tests.oracles.shared_grammar import SharedGenerator, shared_table

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROWS = 30
_HERE = "tests/oracles/test_duckdb.py"


def _agree(seed: int, count: int, test: str) -> None:
    table = shared_table(Random(f"table {seed}"), _ROWS)
    generator = SharedGenerator(seed)
    expressions = [generator.condition() for _ in range(count)]
    palio = PalioTable(table)

    def ask(conditions: Sequence[str]) -> Outcome:
        return compare(palio, conditions, duckdb_answers(table, conditions))

    outcome = ask(list({expression.text: None for expression in expressions}))
    if outcome.differences:
        pytest.fail(report(outcome, expressions, table, ask, replay(seed, test)))
    assert not outcome.refused
    compared = sum(outcome.answers.values())
    assert outcome.answers[Answer.RAISES.value] <= 0.1 * compared
    assert min(outcome.answers[answer.value] for answer in (Answer.TRUE, Answer.FALSE, Answer.NULL)) >= 0.1 * compared


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_random_conditions_mean_what_duckdb_means_by_them(seed: int) -> None:
    _agree(seed, 200, f"{_HERE}::test_random_conditions_mean_what_duckdb_means_by_them")


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, 60))
def test_many_random_conditions_mean_what_duckdb_means_by_them(seed: int) -> None:
    _agree(seed, 400, f"{_HERE}::test_many_random_conditions_mean_what_duckdb_means_by_them")
