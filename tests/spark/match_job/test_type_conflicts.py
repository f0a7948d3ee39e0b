"""Conditions that Spark refuses by the types of columns are named in a warning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palio.spark import Wants, match, matches
from palio.spark.implicit_casts import TYPE_CONFLICT_WARNING, ImplicitCasts
from palio.spark.sinks.parquet import ParquetSink
from palio.spark.streaming.stream import stream
from palio.spark.subscription_log import SubscriptionLog
from tests.oracles.spark_answers import SparkTable
from tests.spark.match_job.queries import rendezvous, wants
from tests.spark.match_job.test_common_types import is_readable, random_conditions, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BAD = "day > 5 AND qty = 1"
MESSAGE = rf"{TYPE_CONFLICT_WARNING} day > 5 AND qty = 1 \(day is DATE; a date and an integer do not compare\): .*CAST"


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT id, DATE'2024-01-01' AS day, '1' AS qty, true AS ok, named_struct('x', 1) AS s, map('k', 1) AS m, "
        "array(1, 2) AS nums, CAST(NULL AS VOID) AS nothing FROM range(2)"
    )


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (BAD, "day is DATE; a date and an integer do not compare"),
        ("ok = s", "s is STRUCT<X:INT>; = takes a value, not a whole struct or map"),
        ("m LIKE 'a%'", "m is MAP<STRING,INT>; like takes a value, not a whole struct or map"),
        ("coalesce(ok, 5) = 5", "ok is BOOLEAN; coalesce() chooses among values of one type, not among"),
        ("year(ok) = 2024", "ok is BOOLEAN; year() takes a date here, not a boolean"),
        ("day + ok > 5", "day is DATE, ok is BOOLEAN; + does not take a date and a boolean"),
        ("greatest(qty, 5) > 5", "qty is STRING; greatest() chooses among values of one type"),
        ("nums > DATE'2024-01-01'", "nums is ARRAY<INT>; an integer and a date do not compare"),
        ("qty", "qty is STRING; a condition is true or false"),
        ("s", "s is STRUCT<X:INT>; a condition is true or false"),
        ("size(qty) = 1", "qty is STRING; size() takes an array"),
        ("array_contains(day, 1)", "day is DATE; array_contains() takes an array"),
        ("exists(ok, x -> x)", "ok is BOOLEAN; exists() takes an array"),
        ("array_contains(nums, 'x')", "nums is ARRAY<INT>; array_contains() takes a value of the type that the"),
        ("CASE WHEN day THEN true END", "day is DATE; WHEN takes a boolean, not date"),
    ],
)
def test_the_reason_names_columns_and_types(events: DataFrame, condition: str, reason: str) -> None:
    casts = ImplicitCasts.of(events)
    casts.apply(condition)
    [found] = casts.conflicts.values()
    assert reason in found.replace("ok is BOOLEAN, s is", "s is")


def test_what_spark_takes_is_no_conflict(events: DataFrame) -> None:
    casts = ImplicitCasts.of(events)
    for condition in (
        "day > '2024-01-01' AND qty > 5 AND s.x = 1 AND s IS NULL AND m.k LIKE '1%' AND nums > 5 AND ok",
        "s <=> NULL OR nothing = 5 OR nosuch > 5 OR size(nums) = 2 OR size(m) = 1 OR size(nosuch) = 1",
        "array_contains(nums, 5) OR array_contains(nums, 2.5) OR exists(nums, x -> x > 2) OR nums[0] = 1",
        "CASE WHEN ok THEN true WHEN qty THEN false END OR array_contains(map_keys(m), 'k')",
        "ok",
        "nothing",
        "nosuch",
        "TRUE > 1",  # refused without any column, and reported as such
    ):
        casts.apply(condition)
    assert casts.conflicts == {}


def test_conflicts_are_what_spark_refuses(spark: SparkSession) -> None:
    frame = spark.createDataFrame(table())
    conditions = [each for each in random_conditions(3) if is_readable(each)]
    casts = ImplicitCasts.of(frame)
    conflicts = set()
    for each in conditions:
        casts.conflicts.clear()
        casts.apply(each)
        conflicts.update(each for _ in casts.conflicts)
    refused = set(SparkTable(spark, table(), frame).refusals(conditions))
    assert conflicts <= refused
    # Spark looks into conditions that are NULL whatever their columns are.
    missed = {each for each in refused - conflicts if "NULL" not in each}
    assert len(missed) <= len(refused) // 20, missed


@pytest.mark.parametrize("plan", ["broadcast", rendezvous()], ids=["broadcast", "rendezvous"])
def test_a_match_warns(spark: SparkSession, events: DataFrame, plan: Any) -> None:
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        match(events, wants(BAD, "qty > 0"), plan=plan)
    assert caught[0].filename == __file__
    rows = spark.createDataFrame([(each, each) for each in (BAD, "qty > 0")], "id string, where string")
    with pytest.warns(UserWarning, match=TYPE_CONFLICT_WARNING) as caught:
        match(events, rows, plan=plan).select("subscription_id")
    assert caught[0].filename == __file__
    known = Wants.read(spark, wants(BAD))
    for _ in range(2):  # the second time with the answers of the first
        with pytest.warns(UserWarning, match=MESSAGE):
            match(events, known, plan=plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        match(events, wants("qty > 0"), plan=plan)


@pytest.mark.parametrize("names", [("day", "qty"), ()], ids=["named", "struct"])
def test_the_function_warns_on_the_driver(events: DataFrame, names: tuple[str, ...]) -> None:
    with pytest.warns(UserWarning, match=MESSAGE):
        events.select(matches(wants(BAD), *names)).collect()


def test_a_stream_warns(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT id, DATE'2024-01-01' AS day, '1' AS qty FROM range(2)").write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id bigint, day date, qty string").parquet(str(tmp_path / "in"))
    log = SubscriptionLog(tmp_path / "log")
    log.add("bad", BAD)
    log.commit()
    sink = ParquetSink(tmp_path / "out")

    def run() -> None:
        stream(rows, log, sink, checkpoint=tmp_path / "state", trigger={"availableNow": True}).awaitTermination()

    with pytest.warns(UserWarning, match=MESSAGE):
        run()
