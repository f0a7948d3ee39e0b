"""Columns of subscriptions in matches: ids keep their type, and chosen columns come along with theirs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from palio import Matcher
from palio.errors import PipelineError
from palio.spark import Wants, match, matches
from tests.oracles.seeds import seeds
from tests.spark.match_job.queries import pairs, rendezvous

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLANS = ["broadcast", rendezvous("selective-attribute")]
RULES = """
    SELECT cast(id AS INT) AS id, concat('id = ', id) AS where, cast(id * 10 AS SMALLINT) AS Priority,
           if(id % 2 = 0, NULL, concat('mail ', id)) AS channel, cast(id AS DECIMAL(12, 2)) AS fee,
           date_add(DATE'2024-01-01', cast(id AS INT)) AS since, timestamp_seconds(id * 3600) AS changed,
           named_struct('a', id, 'b c', array(id)) AS routing, id % 3 = 0 AS active, encode(string(id), 'UTF-8') AS key,
           map('k', id, 'l', NULL) AS limits
    FROM range(6)
"""
CHOSEN = ["priority", "channel", "fee", "since", "changed", "routing", "active", "key", "limits"]


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("kind", ["tinyint", "bigint", "decimal(38,0)", "string"])
def test_ids_have_the_type_of_their_column(spark: SparkSession, events: DataFrame, kind: str, plan: Any) -> None:
    asked = spark.sql(f"SELECT cast(id AS {kind}) AS id, concat('id = ', id) AS where FROM range(4)")
    matched = match(events, asked, plan=plan)
    assert matched.schema["subscription_id"].dataType == asked.schema["id"].dataType
    # As a join does, which refuses a comparison of other types at analysis.
    joined = matched.alias("m").join(asked.alias("s"), matched.subscription_id == asked.id).select("m.id", "s.where")
    assert sorted(map(tuple, joined.collect())) == [(number, f"id = {number}") for number in range(4)]
    lists = match(events, asked, columns=["id"], per_event=True, plan=plan)
    assert lists.schema["subscription_ids"].dataType.elementType == asked.schema["id"].dataType
    own = {row.id: row["own"] for row in asked.selectExpr("cast(id AS BIGINT) AS id", "id AS own").collect()}
    assert {row.id: row.subscription_ids for row in lists.collect()} == {
        number: [own[number]] if number < 4 else [] for number in range(24)
    }


def test_ids_in_a_column_of_matches_have_their_type(spark: SparkSession, events: DataFrame) -> None:
    asked = spark.sql(RULES).select("id", "where")
    found = events.select("id", matches(asked, "id").alias("who"))
    assert found.schema["who"].dataType.simpleString() == "array<int>"
    assert {row.id: row.who for row in found.where("id < 8").collect()} == {
        number: [number] if number < 6 else [] for number in range(8)
    }


def test_ids_without_a_column_are_texts(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "wants.jsonl"
    path.write_text('{"id": 1, "where": "id = 1"}\n')
    for source in (path, [{"id": 1, "where": "id = 1"}], spark.sql("SELECT DATE'2024-01-01' AS id, 'id = 1' AS where")):
        [row] = match(events, source, columns=["id"]).collect()
        assert row.subscription_id in ("1", "2024-01-01")


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_ids_of_other_types_are_texts_as_spark_writes_them(spark: SparkSession, events: DataFrame, plan: Any) -> None:
    ids = {
        "true": "true",
        "1e20D": "1.0E20",
        "TIMESTAMP_NTZ'2024-01-01 00:00:00'": "2024-01-01 00:00:00",
        "X'FF00'": "FF00",
        "array(1, 2)": "[1, 2]",
    }
    for written, text in ids.items():
        rules = spark.sql(f"SELECT {written} AS id, 'id = 1' AS where, true AS subscriber")
        [row] = match(events, rules, columns=["id"], plan=plan).collect()
        assert (row.subscription_id, row.subscriber) == (text, "true")


@pytest.mark.parametrize("numbers", [False, True])
def test_numbers_stay_numbers(spark: SparkSession, events: DataFrame, numbers: bool) -> None:
    asked = spark.sql("SELECT 7L AS id, 'id = 1' AS where")
    [row] = match(events, asked, columns=["id"], numbers=numbers).collect()
    assert row.subscription_id == (0 if numbers else 7)


@pytest.mark.connect
@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("columns", [None, ["id"]], ids=str)
def test_chosen_columns_come_along_as_in_a_join(
    spark: SparkSession, events: DataFrame, columns: list[str] | None, plan: Any
) -> None:
    rules = spark.sql(RULES)
    found = match(events, rules, columns=columns, subscription_columns=CHOSEN, plan=plan)
    # Named and typed as the subscriptions have them; found as the session finds them.
    chosen = ["Priority", *CHOSEN[1:]]
    assert found.columns == [*(columns or events.columns), "subscription_id", *chosen]
    assert [found.schema[name].dataType for name in chosen] == [rules.schema[name].dataType for name in chosen]
    expected = rules.selectExpr("cast(id AS BIGINT) AS id", "id AS subscription_id", *chosen).orderBy("id").collect()
    assert found.select("id", "subscription_id", *chosen).orderBy("id").collect() == expected


def test_chosen_columns_come_from_what_was_read_before(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    wants = Wants.read(spark, spark.sql(RULES))
    expected = {(number, number, number * 10) for number in range(6)}
    with wants.shared(spark) as shared:
        for plan in PLANS:
            found = match(events, shared, columns=["id"], subscription_columns=["Priority"], plan=plan)
            assert found.dtypes == [("id", "bigint"), ("subscription_id", "int"), ("Priority", "smallint")]
            assert set(map(tuple, found.collect())) == expected


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_chosen_columns_of_subscriptions_without_a_schema_have_the_type_of_their_values(
    spark: SparkSession, events: DataFrame, tmp_path: Path, plan: Any
) -> None:
    given = [
        {"id": "a", "where": "id = 1", "subscriber": "ops", "priority": 3, "tags": ["x"], "weight": 1},
        {"id": "b", "where": "id = 1", "weight": 0.5},
    ]
    matcher = Matcher()
    for each in given:
        metadata = {name: each[name] for name in ("priority", "tags", "weight") if name in each}
        matcher.add(each["id"], each["where"], subscriber=each.get("subscriber"), metadata=metadata)
    matcher.save(tmp_path / "wants.palio")
    for source in (given, tmp_path / "wants.palio"):
        found = match(
            events, source, columns=["id"], subscription_columns=["priority", "weight", "tags"], plan=plan
        ).drop("id")
        assert [type for _, type in found.dtypes] == ["string", "string", "bigint", "double", "array<string>"]
        assert sorted(map(tuple, found.collect())) == [("a", "ops", 3, 1.0, ["x"]), ("b", None, None, 0.5, None)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscription_columns": ["prio"]}, "subscriptions have no column prio; there are channel, priority"),
        ({"subscription_columns": ["priority"], "per_event": True}, "per_event"),
        ({"subscription_columns": ["priority", "PRIORITY"]}, "the column priority of subscriptions is chosen twice"),
        ({"subscription_columns": ["price"]}, "the events have a column price already"),
        ({"subscription_columns": ["subscriber"]}, "subscriber is in the matches already"),
        ({"subscription_columns": ["where"]}, "where is no column"),
        ({"subscription_columns": ["mixed"]}, "mixed .* of several types"),
        ({"subscription_columns": "priority"}, r"a list of names, not 'priority'"),
    ],
)
def test_what_cannot_come_along_is_refused(
    spark: SparkSession, events: DataFrame, options: dict[str, Any], reason: str
) -> None:
    given = [
        {"id": "a", "where": "id = 1", "priority": 3, "channel": "mail"},
        {"id": "b", "where": "id = 2", "priority": 4, "channel": None},
    ]
    if options["subscription_columns"] == ["price"]:
        given = [{**each, "price": 3} for each in given]
    if options["subscription_columns"] == ["mixed"]:
        given = [{**each, "mixed": value} for each, value in zip(given, (3, "x"), strict=True)]
    with pytest.raises(PipelineError, match=reason):
        match(events, given, **options)


def test_a_chosen_column_that_a_frame_does_not_have_is_refused(spark: SparkSession, events: DataFrame) -> None:
    for plan in PLANS:
        with pytest.raises(PipelineError, match="subscriptions have no column prio; there are Priority, channel, fee"):
            match(events, spark.sql(RULES), subscription_columns=["prio"], plan=plan)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_columns_that_nobody_asks_for_are_not_read(spark: SparkSession, events: DataFrame, plan: Any) -> None:
    asked = spark.sql(
        "SELECT id, concat('id = ', id) AS where, named_struct('a', make_interval(1), 'b', map(id, id)) AS routing, "
        "map('k', INTERVAL '1' DAY) AS limits, parse_json('{}') AS variant, NULL AS nothing, id * 10 AS priority, "
        "raise_error('read') AS broken FROM range(3)"
    )
    expected = {(number, number) for number in range(3)}
    found = match(events, asked, columns=["id"], plan=plan)
    assert {(row.id, row.subscription_id) for row in found.collect()} == expected
    found = match(events, asked, columns=["id"], plan=plan, subscription_columns=["priority"])
    assert {(row.id, row.priority) for row in found.collect()} == {(number, 10 * number) for number in range(3)}
    with pytest.raises(PipelineError, match="routing of subscriptions is of the type struct"):
        match(events, asked, plan=plan, subscription_columns=["routing"])
    called = events.select("id", matches(asked, "id").alias("who")).where("size(who) > 0")
    assert {(row.id, *row.who) for row in called.collect()} == expected
    # Without a choice, all that Python has.
    read = Wants.read(spark, asked.drop("broken"))
    assert read.matcher["1"].metadata == {"priority": 10}


@pytest.mark.parametrize("session", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in seeds(2, 10))])
def test_a_time_zone_of_their_own_counts_in_both_plans(
    spark: SparkSession, events: DataFrame, session: str, seed: int
) -> None:
    random = Random(f"zones {seed}")
    zones = [None, "", "UTC", "Etc/UTC", "Z", "Asia/Tokyo", "America/New_York", "Nowhere/City", "+05:30"]
    shapes = [
        "at > TIMESTAMP'1970-01-01 {}:00:00'",
        "hour(at) = {}",
        "at >= '1970-01-01 {}:30:00' AND id > 3",
        "local < TIMESTAMP_NTZ'1970-01-01 {}:00:00'",
        "NOT (hour(local) > {})",
        "price = {}",
    ]
    rows = [
        (f"s{number}", random.choice(shapes).format(f"{random.randrange(24):02}"), random.choice(zones))
        for number in range(40)
    ]
    spark.conf.set("spark.sql.session.timeZone", session)
    try:
        asked = spark.createDataFrame(rows, "id string, where string, TimeZone string")
        found = [pairs(match(events, asked, columns=["id"], plan=plan)) for plan in PLANS]
        assert found[0] == found[1]
        assert len(found[0]) > 100
        alone = spark.createDataFrame([("ny", "hour(local) = 7", "America/New_York")], asked.schema)
        found = [pairs(match(events, alone, columns=["id"], plan=plan)) for plan in PLANS]
        assert found[0] == found[1] == {(7, "ny")}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
