"""`match` gives for every subscription what Spark's own WHERE gives, in every form it can be asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import palio.spark
from palio import InvalidSubscription, Matcher, PalioError
from palio.errors import PipelineError
from palio.matching.subscription import Subscription
from palio.spark import Rendezvous, Wants, match
from palio.spark.rendezvous.choosing import MAPPINGS
from tests.oracles.answers import Answer
from tests.oracles.generate import Generator
from tests.oracles.seeds import seeds
from tests.oracles.spark_answers import SparkTable
from tests.oracles.tables import random_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = """
    SELECT id, cast(id % 7 AS INT) AS price, concat('s', id % 3) AS symbol,
           named_struct('a', id, 'List', array(id, id + 1),
                        'deep', array(named_struct('x', id), named_struct('x', -id))) AS s,
           map('k', id, 'dot.ted', id + 1) AS m, date_add(DATE'2024-01-01', cast(id AS INT)) AS day,
           cast(id AS DECIMAL(10, 2)) AS money, encode(cast(id AS STRING), 'UTF-8') AS raw,
           timestamp_seconds(id * 3600) AS at, cast(timestamp_seconds(id * 3600) AS TIMESTAMP_NTZ) AS local,
           array(array(id), array(id + 1)) AS nested, concat('{"x": ', id, ', "y": {"z": ["a", "b"]}}') AS payload,
           if(id % 2 = 0, named_struct('x', nullif(id, -1)), NULL) AS half,
           if(id % 3 = 0, map('x', nullif(id, -1)), NULL) AS whole,
           id AS `dot.ted`, INTERVAL '1' DAY AS span, cast(NULL AS STRING) AS nothing
    FROM range(24)
"""


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.sql(EVENTS).cache()


# The rendezvous has so few subscriptions here that buckets must be asked for.
def rendezvous(mapping: str | None = None) -> Rendezvous:
    return Rendezvous(mapping, 4)


def pairs(found: DataFrame) -> set[tuple[int, str]]:
    rows = [(row["id"], row["subscription_id"]) for row in found.select("id", "subscription_id").collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


def wants(*conditions: str) -> list[dict[str, str]]:
    return [{"id": condition, "where": condition} for condition in conditions]


# As Spark's own WHERE can say it, and, where that needs other words, in those.
CONDITIONS = {
    "price > 4 AND symbol = 's1'": None,
    "PRICE = 3": None,
    "s.a BETWEEN 3 AND 5": None,
    "S.A = 7": None,
    "s.list = 3": "array_contains(s.List, 3)",
    "s.deep.x = -5": "array_contains(s.deep.x, -5)",
    "m.k = 5": "m['k'] = 5",
    "m.`dot.ted` = 5": "m['dot.ted'] = 5",
    "m.none IS NULL": None,
    "half IS NULL": None,
    "half IS NOT NULL AND id < 5": None,
    "half.x IS NULL": None,
    "whole IS NULL": None,
    "m IS NOT NULL AND id > 20": None,
    "s.deep IS NOT NULL AND id > 21": None,
    "day >= DATE'2024-01-20'": None,
    "money = 3.00": None,
    "at > TIMESTAMP'1970-01-01 20:00:00'": None,
    "local > TIMESTAMP'1970-01-01 20:00:00'": None,
    "nested = 4": "array_contains(flatten(nested), 4)",
    "`dot.ted` = 3": None,
    "nothing IS NULL AND id = 1": None,
    "id + price > 20": None,
    "symbol LIKE '%2' AND id < 9": None,
    "missing IS NULL AND id = 2": "id = 2",
    "FALSE": None,
    "TRUE": None,
}


@pytest.fixture(scope="module")
def expected(events: DataFrame) -> set[tuple[int, str]]:
    meant = {condition: other or condition for condition, other in CONDITIONS.items() if "none" not in condition}
    meant["m.none IS NULL"] = "TRUE"
    return {
        (row["id"], condition) for condition, said in meant.items() for row in events.where(said).select("id").collect()
    }


@pytest.mark.connect
@pytest.mark.parametrize(
    ("columns", "plan"),
    [
        *((columns, "auto") for columns in (None, ["id"], ["id", "price"], ["id", "payload"])),
        (None, rendezvous("selective-attribute")),
        (["id", "payload"], rendezvous("key-space-split")),
        (["id"], rendezvous("attribute-split")),
    ],
    ids=str,
)
def test_every_column_is_looked_at_as_spark_does(
    events: DataFrame, expected: set[tuple[int, str]], columns: list[str] | None, plan: Any
) -> None:
    found = match(events, wants(*CONDITIONS), columns=columns, plan=plan)
    assert found.columns == [*(columns or events.columns), "subscription_id"]
    assert pairs(found) == expected
    kept = events.select(*(f"`{name}`" for name in columns or events.columns))
    one = found.where(found.subscription_id == "TRUE").drop("subscription_id")
    assert one.toArrow().sort_by("id") == kept.toArrow().sort_by("id")


@pytest.mark.parametrize(
    ("columns", "numbers", "plan"),
    [
        *((columns, numbers, "auto") for columns in (None, ["id"]) for numbers in (False, True)),
        (None, True, rendezvous("selective-attribute")),
        (["id"], False, rendezvous("key-space-split")),
    ],
    ids=str,
)
def test_a_row_for_each_event_has_all_who_want_it(
    events: DataFrame, expected: set[tuple[int, str]], columns: list[str] | None, numbers: bool, plan: Any
) -> None:
    found = match(events, wants(*CONDITIONS), columns=columns, per_event=True, numbers=numbers, plan=plan)
    collected = found.collect()
    rows = {row["id"]: row["subscription_ids"] for row in collected}
    names = list(CONDITIONS)
    assert sorted(row["id"] for row in collected) == list(range(24))
    assert all(len(set(who)) == len(who) for who in rows.values())
    assert {(id, names[each] if numbers else each) for id, who in rows.items() for each in who} == expected


def test_only_what_is_looked_at_leaves_the_jvm(events: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    match(events, wants("price > 4")).explain()
    plan = capsys.readouterr().out
    [line] = [line for line in plan.splitlines() if "palio_broadcast" in line]
    assert "palio_broadcast(price#" in line
    assert plan.count("palio_broadcast") == 1  # and it is computed once


def test_texts_that_hold_json_are_read(spark: SparkSession, events: DataFrame) -> None:
    conditions = wants("payload.x = 3", "payload.y.z = 'b' AND id = 1", "payload LIKE '%: 4,%'", "payload.x IS NULL")
    broken = events.select("id", "price", "payload").unionAll(
        spark.sql("SELECT 100L, 1, '{broken' UNION ALL SELECT 101L, 1, NULL UNION ALL SELECT 102L, 1, '[1]'")
    )
    expected = {(3, "payload.x = 3"), (1, "payload.y.z = 'b' AND id = 1"), (4, "payload LIKE '%: 4,%'")}
    expected |= {(id, "payload.x IS NULL") for id in (100, 101, 102)}
    for columns in (None, ["id"]):
        assert pairs(match(broken, conditions, json=["payload"], columns=columns)) == expected
    # Names find these columns too without regard to case.
    written = wants("Payload.x = 3", "payload.x = 3")
    assert pairs(match(broken, written, json=["PAYLOAD"])) == {(3, "Payload.x = 3"), (3, "payload.x = 3")}


OBJECTS = """
    SELECT 1L AS id, array(named_struct('sku', 'a', 'size', 1, 'tags', map('t', 1), 'parts', array(
        named_struct('n', 1, 'at', TIMESTAMP_NTZ'2024-01-01 00:00:00'), named_struct('n', 2, 'at', NULL)))) AS items
    UNION ALL SELECT 2L, array(named_struct('sku', 'a', 'size', 1, 'tags', NULL, 'parts', NULL), NULL,
                               named_struct('sku', 'b', 'size', 2, 'tags', map('t', 2), 'parts', array()))
    UNION ALL SELECT 3L, array() UNION ALL SELECT 4L, NULL
"""


@pytest.mark.parametrize("plan", ["broadcast", *map(rendezvous, MAPPINGS)], ids=str)
def test_conditions_on_the_objects_of_an_array_ask_for_one_of_them(spark: SparkSession, plan: Any) -> None:
    events = spark.sql(f"SELECT id, items, struct(items) AS box, to_json(struct(items)) AS text FROM ({OBJECTS})")
    # As Spark says it, of the objects in `items`.
    asked = {
        "{}.sku = 'a' AND {}.size = 1": "exists(items, i -> i.sku = 'a' AND i.size = 1)",
        "{}.sku = 'a' AND {}.size = 2": "FALSE",
        "{}.SKU = 'b' AND {}.Size = 2": "exists(items, i -> i.sku = 'b' AND i.size = 2)",
        "{}.sku = 'a' AND {}.tags.t IS NULL": "exists(items, i -> i.sku = 'a' AND i.tags['t'] IS NULL)",
        "{}.sku = 'a' AND {}.tags.t = 1": "exists(items, i -> i.sku = 'a' AND i.tags['t'] = 1)",
        "{}.parts.n = 1 AND {}.parts.at > TIMESTAMP'2023-01-01 00:00:00'": "id = 1",
        "{}.parts.n = 2 AND {}.parts.at > TIMESTAMP'2023-01-01 00:00:00'": "FALSE",
    }
    expected = {(row.id, said) for said, meant in asked.items() for row in events.where(meant).collect()}
    for place in ("items", "box.items", "text.items"):
        if place == "text.items":  # JSON is read as it is written
            asked = {said: meant for said, meant in asked.items() if "SKU" not in said and "parts" not in said}
            expected = {(id, said) for id, said in expected if said in asked}
        wanted = [{"id": said, "where": said.replace("{}", place)} for said in asked]
        assert pairs(match(events, wanted, json=["text"], columns=["id"], plan=plan)) == expected
    nobody = palio.spark.matches([{"id": "x", "where": "items.sku = 'a' AND items.size = 2"}])
    assert all(row.who == [] for row in events.withColumn("who", nobody).collect())


def test_columns_that_conditions_cannot_look_at_are_named(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    row = spark.sql(
        "SELECT 1L AS id, INTERVAL '1' DAY AS gap, parse_json('1') AS loose, 'A' COLLATE UTF8_LCASE AS soft, "
        "TIMESTAMP'2024-01-01 00:00:00' AS at"
    )
    asked = wants("gap IS NULL", "loose IS NULL", "soft = 'A'", "at IS NOT NULL")
    for _ in range(2):
        assert len(pairs(match(row, asked, columns=["id"]))) == len(asked)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3  # each once
    for name, said in {"gap": "interval day", "loose": "variant", "soft": "compared by their bytes"}.items():
        assert [message for message in told if f"column {name}," in message and said in message]


def test_whole_events_are_searched(events: DataFrame) -> None:
    assert {id for id, _ in pairs(match(events, wants("any_value_like('s2')")))} == set(range(2, 24, 3))


def test_subscribers_are_told(events: DataFrame) -> None:
    conditions = [{"id": "a", "where": "id = 1", "subscriber": "desk"}, {"id": "b", "where": "id = 1"}]
    for columns in (None, ["id"]):
        found = match(events, conditions, columns=columns).select("subscription_id", "subscriber").collect()
        assert {tuple(row) for row in found} == {("a", "desk"), ("b", None)}


def sources(spark: SparkSession, folder: Path) -> Iterable[Any]:
    rows = [("a", "id = 1", None), ("b", "id = 2", "sql")]
    frame = spark.createDataFrame(rows, "id string, where string, language string")
    yield frame
    frame.createOrReplaceTempView("palio_wants")
    yield "palio_wants"
    path = folder / "wants.jsonl"
    path.write_text('{"id": "a", "where": "id = 1"}\n{"id": "b", "where": "id = 2"}\n')
    yield path
    yield f"file://{path}"
    matcher = Matcher()
    matcher.add_many(["a", "b"], ["id = 1", "id = 2"])
    yield matcher
    matcher.save(folder / "wants.palio")
    yield str(folder / "wants.palio")
    yield [Subscription("a", "id = 1"), Subscription("b", "id = 2")]
    yield Wants.read(spark, matcher)


def test_subscriptions_come_from_everywhere(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    for source in sources(spark, tmp_path):
        assert pairs(match(events, source, columns=["id"])) == {(1, "a"), (2, "b")}, source


def test_bad_ones_are_set_aside_with_their_reasons(
    spark: SparkSession, events: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    given = [*wants("id = 1", "id >", "id = 1"), {"id": "no where"}, {"where": "id = 2"}]
    with caplog.at_level(logging.WARNING, "palio.spark"):
        read = Wants.read(spark, given)
    refused = {each.id: each.reason for each in read.refused}
    assert set(refused) == {"id >", "id = 1", "no where", None}
    assert "where a value should stand" in refused["id >"]
    assert "another subscription" in refused["id = 1"]
    assert len(caplog.records) == 4
    caplog.clear()
    Wants.read(spark, [{"id": str(number), "where": "id >"} for number in range(100)])
    assert [record.getMessage() for record in caplog.records][5:] == ["95 more subscriptions are left out"]
    assert read.refused_rows(spark).count() == 4
    assert pairs(match(events, read, columns=["id"])) == {(1, "id = 1")}
    with pytest.raises(InvalidSubscription, match="another subscription has this id"):
        match(events, given, on_error="fail")


def test_a_member_of_any_name_is_metadata(spark: SparkSession) -> None:
    matcher = Wants.read(spark, [{"id": "a", "where": "id = 1", "self": 3}]).matcher
    assert matcher["a"].metadata == {"self": 3}


def test_a_folder_of_parquet_holds_subscriptions(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "wants"
    spark.createDataFrame(wants("id = 1", "id = 2")).write.parquet(str(folder))
    for plan in ("auto", "rendezvous"):
        assert pairs(match(events, str(folder), columns=["id"], plan=plan)) == {(1, "id = 1"), (2, "id = 2")}
    assert len(Wants.read(spark, folder).matcher) == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"columns": ["nowhere"]}, "there is no column nowhere"),
        ({"json": ["nowhere"]}, "there is no column nowhere"),
        ({"json": ["id"]}, "the column id is no text"),
        ({"on_error": "panic"}, "'quarantine' or 'fail'"),
    ],
)
def test_what_makes_no_sense_is_refused(events: DataFrame, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalioError, match=reason):
        match(events, wants("id = 1"), **options)


def test_a_column_in_the_way_is_named(events: DataFrame) -> None:
    with pytest.raises(PipelineError, match="subscription_id already"):
        match(events.withColumnRenamed("price", "Subscription_ID"), wants("id = 1"))


def test_two_columns_of_one_name_are_named(spark: SparkSession) -> None:
    twice = spark.sql("SELECT 1L AS id, 2 AS price, 3 AS price")
    with pytest.raises(PipelineError, match="two columns price"):
        match(twice, wants("id = 1"))
    assert pairs(match(twice, wants("id = 1"), columns=["id"])) == {(1, "id = 1")}


def test_a_frame_without_what_makes_a_subscription_is_refused(spark: SparkSession, events: DataFrame) -> None:
    with pytest.raises(PipelineError, match="where is not among id, condition"):
        match(events, spark.sql("SELECT 'a' AS id, 'x = 1' AS condition"))


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


def test_a_language_for_those_that_name_none(spark: SparkSession, events: DataFrame) -> None:
    mixed = [
        {"id": "jms", "where": "id = 3 AND symbol LIKE 's%'"},
        {"id": "sql", "where": "id % 24 = 4", "language": "sql"},
    ]
    asked = Wants.read(spark, mixed, language="jms")
    assert asked.matcher["jms"].language == "jms"
    assert pairs(match(events, asked)) == {(3, "jms"), (4, "sql")}
