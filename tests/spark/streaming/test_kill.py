"""A driver that is killed anywhere, with all it has started, loses nothing and repeats nothing.

A seed is a place to die; `PALIO_ORACLE_SEEDS=7 python -m pytest -m '' …` dies there again.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palio.spark import DeltaSink, ParquetSink
from tests.oracles.seeds import seeds
from tests.spark.streaming.driver import kill_point, run_driver
from tests.spark.streaming.scenario import Pairs, StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 4
SUBSCRIPTIONS = ("price > 6", "symbol = 's1' AND price < 4", "TRUE")


def prepare(folder: Path) -> StreamScenario:
    flow = StreamScenario(folder)
    for name in range(BATCHES):
        flow.add_events(name)
    write_log(flow, *SUBSCRIPTIONS)
    return flow


def finish(spark: SparkSession, flow: StreamScenario, sink: str) -> Pairs:
    """Let the stream come to its end, and tell what it gave in all its lives."""
    flow.run(spark, ParquetSink(flow.out) if sink == "parquet" else DeltaSink(flow.out))
    return flow.parquet() if sink == "parquet" else flow.delta()


@pytest.fixture(scope="module")
def uninterrupted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    flow = prepare(tmp_path_factory.mktemp("uninterrupted"))
    found = finish(spark, flow, "parquet")
    assert found == flow.expected()
    return found


@pytest.mark.parametrize(("sink", "seed"), [("parquet", 4), ("delta", 9)])
def test_a_killed_driver_is_as_one_that_was_not(
    spark: SparkSession, tmp_path: Path, uninterrupted: Pairs, sink: str, seed: int
) -> None:
    flow = prepare(tmp_path)
    assert run_driver(tmp_path, sink, *kill_point(seed)) == -signal.SIGKILL
    assert finish(spark, flow, sink) == uninterrupted


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 16))
@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_nor_does_it_matter_where(
    spark: SparkSession, tmp_path: Path, uninterrupted: Pairs, sink: str, seed: int
) -> None:
    flow = prepare(tmp_path)
    run_driver(tmp_path, sink, *kill_point(seed))
    run_driver(tmp_path, sink, *kill_point(seed + 1000))
    assert finish(spark, flow, sink) == uninterrupted


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_nor_that_subscriptions_change_meanwhile(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    flow = prepare(tmp_path)
    for life in range(2):
        run_driver(tmp_path, "parquet", "--changing", *kill_point(seed + 2000 * life))
    found = finish(spark, flow, "parquet")
    assert found == flow.expected()
    assert len(set(flow.versions())) > 1
