"""Tests of evaluation in columns against the scalar evaluator, which says what an expression means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from palio.errors import ParseError
from palio.events.arrow import read_column
from palio.filters.expressions.ast import Call, Expression, walk
from palio.filters.expressions.special_forms import compile_expression
from palio.languages.sql.parser import parse_condition
from palio.matching.columnar.vector_evaluation import BatchEvaluator, evaluate, vectorize
from tests.filters.expressions.generator import FORMS, Generator
from tests.matching.columnar.random_columns import random_columns
from tests.oracles.seeds import seeds

ROWS = 40
ZONES = ("UTC", "UTC", "Europe/Paris", "America/New_York", "+05:30", "Asia/Kathmandu", "Pacific/Apia")


def same(mine: Any, theirs: Any) -> bool:
    """Whether two values are one: of one kind, NaN like NaN, but 0.0 unlike -0.0 and 1.0 unlike 1.00."""
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, float):
        return (
            mine == theirs and math.copysign(1, mine) == math.copysign(1, theirs) if mine == mine else theirs != theirs
        )
    return bool(mine == theirs) and str(mine) == str(theirs)


def rows_of(columns: Mapping[str, pa.Array], count: int) -> list[dict[str, Any]]:
    values = {name: read_column(column) for name, column in columns.items()}
    return [{name: column[row] for name, column in values.items()} for row in range(count)]


def listed(values: pa.Array | list[Any]) -> list[Any]:
    return values if isinstance(values, list) else read_column(values)


def differences(expression: Expression, evaluator: BatchEvaluator, rows: list[dict[str, Any]], zone: str) -> list[str]:
    run = compile_expression(expression, zone)
    found = listed(evaluator.value(expression))
    assert len(found) == len(rows)
    return [
        f"{expression}: {mine!r}, not {theirs!r}, for {row}"
        for mine, row in zip(found, rows, strict=True)
        if not same(mine, theirs := run(row, {}))
    ]


def random_expression(random: Random, zone: str) -> Expression | None:
    generator = Generator(random.random())
    name = random.choice(list(FORMS))
    try:
        return parse_condition(generator.call(name, random.choice((1, 1, 2, 3))), timezone=zone)
    except ParseError:
        return None


def compare_many(seed: int, batches: int, each: int) -> None:
    """Compare random expressions, and all their parts, over random columns."""
    random = Random(seed)
    compared = in_columns = 0
    for _ in range(batches):
        zone = random.choice(ZONES)
        columns = random_columns(random, ROWS)
        rows = rows_of(columns, ROWS)
        evaluator = BatchEvaluator(columns, ROWS, zone)
        for _ in range(each):
            expression = random_expression(random, zone)
            if expression is None:
                continue
            for part in walk(expression):
                if isinstance(part, Call):
                    compared += 1
                    in_columns += evaluator.compiler.part(part) is not None
                    wrong = differences(part, evaluator, rows, zone)
                    types = {name: column.type for name, column in columns.items()}
                    assert not wrong, f"{wrong[0]} ({zone}, {types})"
    assert in_columns >= 0.6 * compared


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_random_expressions_have_the_values_that_the_scalar_evaluator_gives(seed: int) -> None:
    compare_many(seed, batches=5, each=40)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, 40))
def test_20_000_random_expressions_have_the_values_that_the_scalar_evaluator_gives(seed: int) -> None:
    compare_many(seed, batches=20, each=25)
