"""Tests of the condition generator: repeatable, and complete over the grammar."""

from __future__ import annotations

from random import Random

from palio.filters.expressions.functions import FUNCTIONS
from palio.languages.sql.functions import ALIASES, CASTS
from tests.oracles.generate import Generator
from tests.oracles.signatures import ELSEWHERE, LEFT_OUT, SIGNATURES
from tests.oracles.sql_types import SCALARS
from tests.oracles.tables import COLUMNS, random_table


def test_a_seed_gives_the_same_conditions_and_the_same_table() -> None:
    first, second = Generator(7), Generator(7)
    assert [first.condition() for _ in range(50)] == [second.condition() for _ in range(50)]
    assert str(random_table(Random(7), 20).to_pylist()) == str(random_table(Random(7), 20).to_pylist())


def test_every_function_of_the_language_is_generated() -> None:
    known = {*FUNCTIONS, *ALIASES, *CASTS}
    written = {signature.name for signature in SIGNATURES}
    assert known - written - ELSEWHERE == LEFT_OUT


def test_every_production_is_used() -> None:
    generator = Generator(0)
    for _ in range(4_000):
        generator.condition()
    wanted = {signature.name for signature in SIGNATURES}
    assert {name for name in wanted if not generator.used[name]} == set()


def test_there_is_a_column_of_every_type() -> None:
    assert {column.type for column in COLUMNS} == set(SCALARS)
