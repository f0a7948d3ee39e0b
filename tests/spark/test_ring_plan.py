"""Rings of peers that are planned by statistics of an archive on Spark."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from palio.errors import InvalidArgument, PipelineError
from palio.filters.filter import Filter
from palio.peers.ring_description import decode_description
from palio.simulation.peer_network import ChordNetwork
from palio.spark import ring_plan

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WANTS = [
    {"id": str(n), "where": f"price BETWEEN {4 * n} AND {4 * n + 200} AND volume BETWEEN {n % 4} AND {n % 4 + 2}"}
    for n in range(200)
]


@pytest.fixture(scope="module")
def archive(spark: SparkSession) -> DataFrame:
    return spark.range(4_000).selectExpr("id % 1000 AS price", "id % 7 AS volume", "'Oslo' AS city").cache()


def test_a_ring_is_planned_by_what_an_archive_matches(archive: DataFrame, tmp_path: Path) -> None:
    plan = ring_plan(archive, WANTS, peers=50)
    assert (plan.events, plan.sampled, plan.subscriptions) == (4_000, 4_000, 200)
    filters = [Filter.parse(each["where"]) for each in WANTS]
    events = [row.asDict() for row in archive.collect()]
    matches = sum(each.matches(event) for each in filters for event in events)
    assert plan.matches_per_event == matches / len(events)
    assert set(plan.attributes) <= {"price", "volume"}, "nobody asks for the city"
    plan.save(tmp_path / "ring.plan")
    found = decode_description((tmp_path / "ring.plan").read_bytes())
    assert found == plan.description
    random = Random(1)
    net = ChordNetwork(50, mapping=found.key_space().mapping, seed=1)
    for each in filters:
        net.subscribe(random.randrange(50), each)
    for event in random.sample(events, 40):
        net.publish(random.randrange(50), event)
    net.run()
    assert net.verdict().is_right
    assert net.verdict().required > 100


def test_the_more_events_are_published_the_fewer_peers_each_goes_to(archive: DataFrame) -> None:
    few, many = (ring_plan(archive, WANTS, peers=50, sample=2_000, events_per_second=n) for n in (0.01, 1e5))
    assert many.event_copies <= few.event_copies
    assert many.subscription_copies > few.subscription_copies
    assert 0 < many.sampled < many.events


def test_what_cannot_be_planned_is_refused(archive: DataFrame) -> None:
    with pytest.raises(InvalidArgument, match="no event to plan a ring by"):
        ring_plan(archive.limit(0), WANTS)
    with pytest.raises(InvalidArgument, match="no subscription"):
        ring_plan(archive, [])
    with pytest.raises(InvalidArgument, match="at least one peer, not 0"):
        ring_plan(archive, WANTS, peers=0)
    with pytest.raises(InvalidArgument, match="events_per_second is a number above 0, not -1"):
        ring_plan(archive, WANTS, events_per_second=-1)
    with pytest.raises(PipelineError, match="a DataFrame"):
        ring_plan([{"price": 3}], WANTS)  # type: ignore[arg-type]
