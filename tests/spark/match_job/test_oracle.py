"""`match` gives for every subscription what Spark's own WHERE gives, whatever the tables and conditions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from palio.peers.mapping_choice import MAPPINGS
from palio.spark import Rendezvous, Wants, match
from tests.oracles.answers import Answer
from tests.oracles.generate import Generator
from tests.oracles.seeds import seeds
from tests.oracles.spark_answers import SparkTable
from tests.oracles.tables import random_table
from tests.spark.match_job.queries import pairs, wants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("through", [True, False])
def test_matches_equal_where_for_random_tables_and_conditions(spark: SparkSession, seed: int, through: bool) -> None:
    compare_with_where(spark, seed, columns=["id"] if through else None)


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.deep) for seed in seeds(4, 27))])
def test_the_rendezvous_equals_where_too(spark: SparkSession, seed: int) -> None:
    mapping = MAPPINGS[seed % 3]
    compare_with_where(spark, seed, columns=["id"], plan=Rendezvous(mapping, 2 + seed % 5))


def compare_with_where(spark: SparkSession, seed: int, **options: Any) -> None:
    table = random_table(Random(f"match {seed}"), 24)
    generator = Generator(seed, "UTC")
    made = list(dict.fromkeys(generator.condition().text for _ in range(150)))
    oracle = SparkTable(spark, table)
    refused = oracle.refusals(made)
    frame = spark.createDataFrame(table)
    read = Wants.read(spark, wants(*(each for each in made if each not in refused)))
    conditions = list(read.matcher)
    expected = {
        (row, condition): answer
        for condition, answers in zip(conditions, oracle.answers(conditions), strict=True)
        for row, answer in enumerate(answers)
    }
    found = pairs(match(frame, read, **options))
    raised = {pair for pair, answer in expected.items() if answer is Answer.RAISES}
    assert {pair for pair, answer in expected.items() if answer is Answer.TRUE} == found - raised
    assert len(found) > 100
