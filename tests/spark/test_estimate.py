"""Estimates hold what they promise, and are exact where everything was seen."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument, ParseError
from palio.spark import estimate
from palio.spark.subscription_analysis import Overlap, interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def archive(spark: SparkSession) -> DataFrame:
    return spark.range(20_000).selectExpr("id", "id % 100 AS price", "IF(id % 2 = 0, 'A', 'B') AS symbol").cache()


def test_a_small_archive_is_counted(spark: SparkSession, archive: DataFrame) -> None:
    found = estimate(archive, "price >= 90")
    assert (found.events, found.sampled, found.matches, found.expected) == (20_000, 20_000, 2_000, 2_000)
    assert found.rate == found.low == found.high == 0.1


def test_a_sample_bounds_the_rate(spark: SparkSession, archive: DataFrame) -> None:
    found = estimate(archive, "price >= 90", sample=4_000, seed=3)
    assert 3_000 < found.sampled < 5_000
    assert found.low < 0.1 < found.high
    assert found.high - found.low < 0.03
    never = estimate(archive, "price > 1000", sample=4_000)
    assert (never.matches, never.rate, never.low) == (0, 0.0, 0.0)
    assert 0 < never.high < 0.002
    assert estimate(archive, "price >= 90", sample=4_000, seed=3) == found


@pytest.mark.connect
def test_those_that_fire_with_it_are_told(spark: SparkSession, archive: DataFrame) -> None:
    others = [
        {"id": "new", "where": "price >= 80"},
        {"id": "even", "where": "symbol = 'A'"},
        {"id": "never", "where": "price < 0"},
        {"id": "apart", "where": "price < 50"},
    ]
    found = estimate(archive, "price >= 90", subscriptions=others)
    assert found.overlaps == (
        Overlap("new", 4_000, 2_000, 0.5),
        Overlap("even", 10_000, 1_000, 1_000 / 11_000),
    )
    assert len(estimate(archive, "price >= 90", subscriptions=others, top=1).overlaps) == 1


def test_an_empty_archive_tells_nothing(spark: SparkSession, archive: DataFrame) -> None:
    found = estimate(archive.limit(0), "price > 1")
    assert (found.events, found.matches, found.expected) == (0, 0, 0)
    assert (found.low, found.high) == (0.0, 1.0)


def test_what_makes_no_sense_is_refused(spark: SparkSession, archive: DataFrame) -> None:
    with pytest.raises(ParseError):
        estimate(archive, "price >")
    with pytest.raises(InvalidArgument, match="between 0 and 1"):
        estimate(archive, "price > 1", confidence=95)
    with pytest.raises(InvalidArgument, match="at least one"):
        estimate(archive, "price > 1", sample=0)


@given(st.integers(0, 1000), st.integers(1, 1000), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_an_interval_holds_the_rate(matches: int, more: int, confidence: float) -> None:
    sampled = matches + more
    low, high = interval(matches, sampled, confidence)
    assert 0 <= low <= matches / sampled <= high <= 1


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5])
def test_intervals_hold_the_truth_as_often_as_they_say(rate: float) -> None:
    chance = random.Random(1)
    held = 0
    for _ in range(1_000):
        low, high = interval(sum(chance.random() < rate for _ in range(200)), 200, 0.95)
        held += low <= rate <= high
    assert held > 920
