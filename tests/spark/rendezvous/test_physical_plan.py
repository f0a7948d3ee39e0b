"""The rendezvous plan on Spark: when it is chosen, what it shows, and that no subscription comes to the driver."""

from __future__ import annotations

import logging
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from palio import InvalidSubscription, PalioError
from palio.errors import PipelineError
from palio.spark import Rendezvous, Wants, match
from palio.spark.physical_plan import gather_for_plan, index_memory_bytes
from palio.spark.subscription_frame import SubscriptionFrame
from palio.workloads import mix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW = Rendezvous(buckets=4)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.sql("""
        SELECT id, cast(id % 7 AS INT) AS price, concat('s', id % 3) AS symbol, array(id, id + 1) AS list,
               concat('{"x": ', id, '}') AS payload, INTERVAL '1' MONTH AS span
        FROM range(40)
    """).cache()


@pytest.fixture(scope="module")
def subscriptions(spark: SparkSession) -> DataFrame:
    rows = [
        ("a", "price > 4 AND symbol = 's1'", "desk"),
        ("b", "list = 3 OR price = 2", None),
        ("c", "id + price > 40", None),
        ("bad", "price >", None),
        ("a", "id = 1", None),
        (None, "id = 1", None),
    ]
    return spark.createDataFrame(rows, "id string, where string, subscriber string").repartition(2).cache()


def expected(events: DataFrame, subscriptions: DataFrame, first: str) -> set[tuple[int, str, str | None]]:
    """Who wants what, where one of two subscriptions called a is the first."""
    wheres = {"a": first, "b": "array_contains(list, 3L) OR price = 2", "c": "id + price > 40"}
    who = {row["where"]: row["subscriber"] for row in subscriptions.collect()}
    return {
        (row["id"], id, who.get(where))
        for id, where in wheres.items()
        for row in events.where(where).select("id").collect()
    }


def test_a_frame_of_subscriptions_stays_where_it_is(
    events: DataFrame, subscriptions: DataFrame, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wants, "read", None)
    with caplog.at_level(logging.WARNING, "palio.spark"):
        found = match(events, subscriptions, columns=["id"], plan=FEW).where("id >= 0")
    assert sorted(record.getMessage().partition(":")[0] for record in caplog.records) == [
        "subscription None is left out",
        "subscription a is left out",
        "subscription bad is left out",
    ]
    rows = [(row["id"], row["subscription_id"], row["subscriber"]) for row in found.collect()]
    assert len(rows) == len(set(rows))
    either = [expected(events, subscriptions, first) for first in ("price > 4 AND symbol = 's1'", "id = 1")]
    assert set(rows) in either
    with pytest.raises(InvalidSubscription, match="and 2 more"):
        match(events, subscriptions, columns=["id"], plan=FEW, on_error="fail").count()


def test_the_plan_is_chosen_by_the_size_of_the_index(
    spark: SparkSession, events: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    wants = [{"id": str(number), "where": f"id = {number}"} for number in range(50)]

    def shown(**options: Any) -> str:
        capsys.readouterr()
        match(events, wants, columns=["id"], **options).explain()
        return capsys.readouterr().out

    assert "palio_broadcast" in shown()
    assert "palio_broadcast" in shown(memory="1k", plan="broadcast")
    plan = shown(memory="1k")
    assert "palio_rendezvous_pairs" in plan
    assert "palio_rendezvous_subscriptions" in plan
    assert "palio_rendezvous_attribute_split(id#" in shown(plan=Rendezvous("attribute-split"))


def test_a_long_frame_is_measured_before_it_is_gathered(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    # Twenty thousand subscriptions would take longer than the rest of the tests.
    monkeypatch.setattr("palio.spark.physical_plan._DRIVER_SUBSCRIPTIONS", 10)
    rows = spark.sql("SELECT cast(id AS STRING) AS id, concat('x = ', id) AS where FROM range(1000)")
    assert isinstance(gather_for_plan(spark, rows, "auto", 10**9), Wants)
    scattered = gather_for_plan(spark, rows, "auto", 2_000)
    assert isinstance(scattered, SubscriptionFrame)
    assert (scattered.count, len(scattered.sample), scattered.attributes) == (1000, 1000, {"x"})
    assert 10 < scattered.bytes_each < 1000


def test_a_short_frame_of_subscriptions_is_run_twice(
    spark: SparkSession, events: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([("a", "price > 4"), ("b", "price = 2")], "id string, where string")
    runs: list[str] = []
    frame = type(rows)

    def observe(name: str) -> None:
        real = getattr(frame, name)

        def run(self: DataFrame) -> Any:
            runs.append(name)
            return real(self)

        monkeypatch.setattr(frame, name, run)

    for name in ("toArrow", "count", "collect"):
        observe(name)
    found = match(events, rows, columns=["id"])
    assert runs == []
    assert found.columns == ["id", "subscription_id"]
    assert runs == ["toArrow", "toArrow"]  # a look at its length, and all of it
    assert found.count() == 16


def numbered(spark: SparkSession, events: pa.RecordBatch) -> DataFrame:
    rows = pa.array(range(events.num_rows), pa.int64())
    return spark.createDataFrame(pa.Table.from_batches([events]).append_column("row", rows))


def test_a_workload_is_matched_alike_by_both_plans(spark: SparkSession) -> None:
    workload = mix(seed=5)
    events = numbered(spark, workload.events(600))
    wants = Wants.read(spark, workload.subscriptions(3_000).to_pylist())
    expected = match(events, wants, columns=["row"], plan="broadcast").toArrow()
    found = match(events, wants, columns=["row"], plan=Rendezvous(buckets=6)).toArrow()
    order = [("row", "ascending"), ("subscription_id", "ascending")]
    assert found.sort_by(order).equals(expected.sort_by(order))
    assert len(found) > 800


def test_one_value_for_all_is_divided(spark: SparkSession) -> None:
    events = spark.sql("SELECT id, 'hot' AS x, id % 100 AS n FROM range(300)")
    wants = [{"id": str(number), "where": f"x = 'hot' AND n >= {number}"} for number in range(80)]
    found = match(events, wants, columns=["id"], plan=Rendezvous("selective-attribute", 6))
    rows = [tuple(row) for row in found.select("id", "subscription_id").collect()]
    assert sorted(rows) == sorted((id, str(number)) for id in range(300) for number in range(80) if id % 100 >= number)


def test_texts_that_hold_json_are_keyed_too(spark: SparkSession, events: DataFrame) -> None:
    wants = [{"id": str(number), "where": f"payload.x = {number} OR price = 6 AND id < 7"} for number in range(5)]
    found = match(events, wants, columns=["id"], json=["payload"], plan=FEW)
    rows = sorted((row["id"], row["subscription_id"]) for row in found.collect())
    assert rows == sorted([*((n, str(n)) for n in range(5)), *((6, str(n)) for n in range(5))])


def test_without_subscriptions_nobody_wants_an_event(events: DataFrame) -> None:
    none = match(events, [], columns=["id"], per_event=True, plan=FEW).collect()
    assert sorted((row["id"], row["subscription_ids"]) for row in none) == [(n, []) for n in range(40)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"plan": "fastest"}, "'auto', 'broadcast', 'rendezvous'"),
        ({"plan": Rendezvous("by-magic")}, "there is no mapping 'by-magic'; there are attribute-split"),
        ({"plan": "rendezvous", "columns": None}, "the column span is of the type interval month"),
        ({"memory": "much"}, "memory is a number of bytes"),
        ({"memory": 0}, "memory is a number of bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(events: DataFrame, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalioError, match=reason):
        match(events, [{"id": "a", "where": "id = 1"}], **{"columns": ["id"], **options})


def test_there_is_at_least_one_bucket() -> None:
    with pytest.raises(PipelineError, match="at least one bucket"):
        Rendezvous(buckets=0)


def test_what_only_an_index_can_do_is_refused(spark: SparkSession, events: DataFrame, subscriptions: DataFrame) -> None:
    with pytest.raises(PipelineError, match="only an index of all subscriptions numbers them"):
        match(events, subscriptions, numbers=True, columns=["id"], plan=FEW).count()
    stream = spark.readStream.format("rate").load()
    with pytest.raises(PipelineError, match="foreachBatch"):
        match(stream, [{"id": "a", "where": "value = 1"}], plan="rendezvous")


def test_memory_is_half_of_an_executors_unless_given(spark: SparkSession) -> None:
    assert index_memory_bytes(spark) == 512 << 20
    assert index_memory_bytes(spark, "2g") == 2 << 30
    assert index_memory_bytes(spark, 1000) == 1000


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_large_workloads_are_matched_alike(spark: SparkSession, seed: int) -> None:
    workload = mix(seed=seed)
    events = numbered(spark, workload.events(20_000)).cache()
    frame = spark.createDataFrame(workload.subscriptions(60_000)).repartition(3)
    plan = Rendezvous(Random(seed).choice([None, "attribute-split", "key-space-split"]), 12)
    sums = ["count(*)", "sum(row)", "sum(xxhash64(row, subscription_id) % 1000003)"]
    broadcast = match(events, frame, columns=["row"], plan="broadcast").selectExpr(*sums).collect()
    assert match(events, frame, columns=["row"], plan=plan).selectExpr(*sums).collect() == broadcast
