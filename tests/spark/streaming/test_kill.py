"""A driver that is killed anywhere, with all it has started, loses nothing and repeats nothing.

A seed is a number of rows in each batch, around those that fill a row group, and places to die;
`PALIO_ORACLE_SEEDS=7 python -m pytest -m '' …` has the same rows and dies there again.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from palio import Event
from palio.spark import SubscriptionLog, progress
from tests.oracles.seeds import seeds
from tests.spark.streaming.driver import kill_point, run_driver
from tests.spark.streaming.scenario import ROW_GROUP_ROWS, Pairs, StreamScenario, run_in_small_groups, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 4
KILLS = 13
SUBSCRIPTIONS = ("price > 6", "symbol = 's1' AND price < 4", "TRUE")


class Producer:
    """Adds files, one a batch, of random numbers of rows: one, and those around multiples of a row group."""

    def __init__(self, flow: StreamScenario, seed: int) -> None:
        self._flow = flow
        self._random = Random(f"rows {seed}")
        self._files = 0
        self.rows = 0

    def add(self, files: int) -> None:
        for _ in range(files):
            rows = max(1, ROW_GROUP_ROWS * self._random.randrange(4) + self._random.choice((-1, 0, 1)))
            self._flow.add_events(self._files, rows)
            self._files += 1
            self.rows += rows


def prepare(folder: Path, seed: int) -> tuple[StreamScenario, Producer]:
    flow = StreamScenario(folder)
    producer = Producer(flow, seed)
    producer.add(BATCHES)
    write_log(flow, *SUBSCRIPTIONS)
    return flow, producer


def finish(spark: SparkSession, flow: StreamScenario, sink: str) -> Pairs:
    """Let the stream come to its end, and tell what it gave in all its lives."""
    run_in_small_groups(spark, flow, sink)
    return flow.parquet() if sink == "parquet" else flow.delta()


def all_matches(flow: StreamScenario) -> Pairs:
    """What subscriptions that never change should get, without regard to batches."""
    events = ds.dataset(flow.events).to_table().to_pylist()
    wants = list(SubscriptionLog(flow.log).at())
    return Counter((row["id"], each.id) for row in events for each in wants if each.filter.matches(Event(row)))


def check_totals(flow: StreamScenario, found: Pairs, rows: int) -> None:
    """Figures have no hole where a batch was run again."""
    [last] = progress(flow.checkpoint)
    assert last.totals == {"events": rows, "matches": found.total(), "dead": 0}


@pytest.mark.parametrize(("sink", "seed"), [("parquet", 4), ("delta", 9)])
def test_a_killed_driver_is_as_one_that_was_not(spark: SparkSession, tmp_path: Path, sink: str, seed: int) -> None:
    flow, producer = prepare(tmp_path, seed)
    assert run_driver(tmp_path, sink, *kill_point(seed)) == -signal.SIGKILL
    found = finish(spark, flow, sink)
    assert found == all_matches(flow) == flow.expected()
    check_totals(flow, found, producer.rows)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 16))
@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_nor_does_it_matter_where(spark: SparkSession, tmp_path: Path, sink: str, seed: int) -> None:
    flow, producer = prepare(tmp_path, seed)
    run_driver(tmp_path, sink, *kill_point(seed))
    run_driver(tmp_path, sink, *kill_point(seed + 1000))
    found = finish(spark, flow, sink)
    assert found == all_matches(flow)
    check_totals(flow, found, producer.rows)


@contextmanager
def changing(flow: StreamScenario) -> Iterator[None]:
    """The log gets one version after the other in the block, while drivers live and while none does."""
    stop = threading.Event()

    def change() -> None:
        log = SubscriptionLog(flow.log)
        while not stop.wait(0.1):
            number = log.version
            log.add(f"at {number}", f"price > {number % 13}")
            if number > 3:
                log.remove(f"at {number - 3}")
            log.commit()

    changer = threading.Thread(target=change)
    changer.start()
    try:
        yield
    finally:
        stop.set()
        changer.join()


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_nor_how_often_while_events_come_and_subscriptions_change(
    spark: SparkSession, tmp_path: Path, sink: str, seed: int
) -> None:
    flow, producer = prepare(tmp_path, seed)
    kills = life = 0
    with changing(flow):
        while kills < KILLS:
            producer.add(2)
            kills += run_driver(tmp_path, sink, *kill_point(100 * seed + life)) == -signal.SIGKILL
            life += 1
            assert life < 3 * KILLS  # one in four lives may end before its moment
        producer.add(2)
        found = finish(spark, flow, sink)
    assert found == flow.expected()
    assert max(found.values()) == 1
    check_totals(flow, found, producer.rows)
    assert SubscriptionLog(flow.log).version > 100
    assert len(set(flow.versions())) > KILLS // 2
