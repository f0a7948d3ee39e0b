"""`match` plans nothing that would run a job or read a row; the first use of its result does."""

from __future__ import annotations

import copy
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame as SparkDataFrame
from pyspark.sql import functions as sql

from palio import InvalidSubscription, Matcher, PalioError
from palio.errors import InputError, PipelineError
from palio.spark import Rendezvous, SubscriptionLog, match
from palio.spark.record_batches import active_match_counter, count_matches
from tests.spark.match_job.queries import pairs, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLANS: list[Any] = ["auto", "broadcast", Rendezvous(buckets=3)]
connect = pytest.mark.connect


def failing(spark: SparkSession) -> DataFrame:
    """Subscriptions of which no row can be read."""
    return spark.sql("SELECT concat('a', id) AS id, raise_error('read') AS where FROM range(3)")


@connect
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_call_reads_no_subscription(spark: SparkSession, plan: Any) -> None:
    found = match(spark.range(9), failing(spark), plan=plan)
    assert isinstance(found, SparkDataFrame)
    for _ in range(2):  # a failure does not make it usable
        with pytest.raises(Exception, match="read"):
            found.count()


@connect
@pytest.mark.parametrize("given", [Matcher, dict, list], ids=["matcher", "mapping", "list"])
def test_the_call_reads_no_event(spark: SparkSession, given: Any) -> None:
    texts = {"a": "id = 1", "b": "id < 5"}
    source: Any = texts if given is dict else [{"id": id, "where": where} for id, where in texts.items()]
    if given is Matcher:
        source = Matcher()
        source.add_many(list(texts), list(texts.values()))
    unreadable = spark.range(9).select(sql.raise_error(sql.lit("read")).cast("long").alias("id"))
    for plan in PLANS:
        found = match(unreadable, source, plan=plan)
        with pytest.raises(Exception, match="read"):
            found.count()


@pytest.mark.parametrize("plan", [PLANS[0], PLANS[2]], ids=str)
def test_the_call_runs_no_job(spark: SparkSession, tmp_path: Path, plan: Any) -> None:
    rows = spark.createDataFrame(wants("id = 1", "id = 2"))
    rows.write.parquet(str(tmp_path / "wants"))
    rows.createOrReplaceTempView("palio_deferred")
    context, group = spark.sparkContext, str(uuid4())
    context.setJobGroup(group, "match")
    try:
        found = [match(spark.range(9), each, plan=plan) for each in (rows, tmp_path / "wants", "palio_deferred")]
        assert not context.statusTracker().getJobIdsForGroup(group)
        for each in found:
            assert pairs(each) == {(1, "id = 1"), (2, "id = 2")}
        assert context.statusTracker().getJobIdsForGroup(group)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


@connect
def test_files_and_logs_are_read_by_the_first_use_and_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "wants.jsonl"
    path.write_text("no subscription")
    log = SubscriptionLog(tmp_path / "log")
    log.extend(wants("id = 7"))
    log.commit()
    of_file, of_log = (match(spark.range(9), source) for source in (path, log))
    path.write_text('{"id": "a", "where": "id = 1"}\n')
    log.extend(wants("id = 8"))
    log.commit()
    expected = {(1, "a")}, {(7, "id = 7"), (8, "id = 8")}
    assert (pairs(of_file), pairs(of_log)) == expected
    path.write_text("no subscription")
    log.remove("id = 7")
    log.commit()
    assert (pairs(of_file), pairs(of_log)) == expected


@connect
def test_the_result_is_used_like_any_other_frame(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.range(9).withColumn("name", sql.concat(sql.lit("n"), "id"))
    rows = spark.createDataFrame(wants("id = 1", "name = 'n2'"))

    def found(**options: Any) -> DataFrame:
        return match(events, rows, **options)

    ids = [1, 2]
    uses: list[Any] = [
        lambda: found().where("id > 0"),
        lambda: found().select("id"),
        lambda: (each := found()).where(each.id > 0),
        lambda: (each := found()).where(each["name"] != "x"),
        lambda: spark.range(9).join(found().drop("name"), "id"),
        lambda: events.join(found().select("id"), "id"),
        lambda: spark.sql("SELECT * FROM {found}", found=found()),
        lambda: found().groupBy("id").count(),
        lambda: found(per_event=True).where("size(subscription_ids) > 0"),
        lambda: found().alias("f").where("f.id > 0"),
        lambda: found().limit(2).union(found().limit(0)),
        lambda: found().mapInArrow(lambda batches: batches, "id long, name string, subscription_id string"),
        lambda: copy.copy(found()),
    ]
    for place, use in enumerate(uses):
        assert sorted(row["id"] for row in use().collect()) == ids, place
    found().write.parquet(str(tmp_path / "out"))
    assert pairs(spark.read.parquet(str(tmp_path / "out"))) == {(1, "id = 1"), (2, "name = 'n2'")}
    assert found().columns == ["id", "name", "subscription_id"]
    assert repr(found()) == "DataFrame[id: bigint, name: string, subscription_id: string]"
    assert [row["id"] for row in found().toLocalIterator()] in ([1, 2], [2, 1])
    assert not found().isStreaming


@connect
def test_a_look_at_the_object_is_no_use(spark: SparkSession) -> None:
    found = match(spark.range(9), failing(spark))
    assert not hasattr(found, "__array__")
    assert not hasattr(found, "_ipython_display_")
    assert found.sparkSession is spark
    assert hasattr(found, "toArrow")


@connect
def test_what_is_wrong_with_the_arguments_is_told_by_the_call(spark: SparkSession, tmp_path: Path) -> None:
    events, rows = spark.range(9), failing(spark)
    for options, reason in (
        ({"columns": ["nope"]}, "no column nope"),
        ({"json": ["nope"]}, "no column nope"),
        ({"plan": "fastest"}, "'auto', 'broadcast', 'rendezvous'"),
        ({"plan": Rendezvous("by-magic")}, "no mapping 'by-magic'"),
        ({"memory": "much"}, "number of bytes"),
        ({"on_error": "panic"}, "'quarantine' or 'fail'"),
        ({"subscription_columns": ["priority"]}, "no column priority"),
    ):
        with pytest.raises(PalioError, match=reason):
            match(events, rows, **options)
    with pytest.raises(PipelineError, match="where is not among id, condition"):
        match(events, rows.withColumnRenamed("where", "condition"))
    with pytest.raises(PipelineError, match="subscription_id already"):
        match(events.withColumn("subscription_id", sql.lit(1)), rows)
    with pytest.raises(InputError, match="no such file"):
        match(events, tmp_path / "nowhere.jsonl")


@connect
@pytest.mark.parametrize("plan", PLANS[1:], ids=str)
def test_what_is_wrong_with_subscriptions_is_told_by_the_first_use(spark: SparkSession, plan: Any) -> None:
    rows = spark.createDataFrame(wants("id >", "id = 1", "pricee > 1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strict = match(spark.range(9), rows, plan=plan, on_error="fail")
        found = match(spark.range(9), rows, plan=plan)
    with pytest.raises(InvalidSubscription, match="id >"):
        strict.where("id = 1")
    with pytest.warns(UserWarning, match=r"no column for pricee \(pricee > 1\)") as told:
        selected = found.select("id")
    assert [each.filename for each in told if each.category is UserWarning] == [__file__]
    assert [row.id for row in selected.collect()] == [1]


def test_matches_are_counted_for_the_block_of_the_call(spark: SparkSession) -> None:
    with count_matches(spark) as counter:
        found = match(spark.range(9), spark.createDataFrame(wants("id < 4")))
    assert active_match_counter() is None
    assert found.count() == 4
    assert counter is not None
    assert counter.value == 4


@connect
def test_threads_that_use_it_first_make_one_plan(spark: SparkSession) -> None:
    found = match(spark.range(9), spark.createDataFrame(wants("id < 4", "id >")))
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(found.count())) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [4] * 4
