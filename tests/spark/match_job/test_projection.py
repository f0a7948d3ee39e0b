"""`match` looks at every kind of column as Spark's own WHERE does, in every form it can be asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import palio.spark
from palio.peers.mapping_choice import MAPPINGS
from palio.spark import match
from tests.spark.match_job.queries import pairs, rendezvous, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    assert re.search(r"palio_broadcast\[1 subscription, \d+ KB\]\(price#", line)
    assert plan.count("palio_broadcast") == 1  # and it is computed once


def test_a_kept_column_that_is_looked_at_leaves_the_jvm_once(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    events = spark.sql("SELECT id AS `a.b`, CAST(id AS string) AS `t``x`, id * 2 AS c FROM range(9)")
    asked = wants("`a.b` = 4", "`t``x` = '5'", "`t``x` > 6")  # the last one reads a cast of it as well
    found = match(events, asked)
    assert {tuple(row) for row in found.collect()} == {
        (4, "4", 8, "`a.b` = 4"),
        (5, "5", 10, "`t``x` = '5'"),
        (7, "7", 14, "`t``x` > 6"),
        (8, "8", 16, "`t``x` > 6"),
    }
    found.explain()
    [line] = [line for line in capsys.readouterr().out.splitlines() if "palio_broadcast" in line]
    assert len(re.findall(r"\bc\d+#", line)) == 4


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
    asked = wants("gap IS NOT NULL", "loose IS NOT NULL", "soft = 'A'", "at IS NOT NULL")
    for _ in range(2):
        assert len(pairs(match(row, asked, columns=["id"]))) == len(asked)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1  # once
    assert "column soft," in told[0]
    assert "compared by their bytes" in told[0]
    with pytest.warns(UserWarning, match="conditions cannot read an INTERVAL"):
        assert pairs(match(row, wants("gap > INTERVAL '1' HOUR"), columns=["id"])) == set()


def test_whole_events_are_searched(events: DataFrame) -> None:
    assert {id for id, _ in pairs(match(events, wants("any_value_like('s2')")))} == set(range(2, 24, 3))


def test_subscribers_are_told(events: DataFrame) -> None:
    conditions = [{"id": "a", "where": "id = 1", "subscriber": "desk"}, {"id": "b", "where": "id = 1"}]
    for columns in (None, ["id"]):
        found = match(events, conditions, columns=columns).select("subscription_id", "subscriber").collect()
        assert {tuple(row) for row in found} == {("a", "desk"), ("b", None)}


@pytest.mark.parametrize("plan", ["broadcast", "rendezvous"])
def test_one_value_that_no_event_can_hold_ends_no_job(spark: SparkSession, plan: str) -> None:
    events = spark.sql(
        "SELECT 1 AS id, CAST(X'41ff42' AS STRING) AS v, sequence(1, 100001) AS a UNION ALL SELECT 2, 'AB', array(1, 2)"
    ).coalesce(1)
    asked = {"like": "v LIKE '%B'", "upper": "upper(v) = 'AB'", "row": "id + 1 > 1 OR v = 'q'"}
    expected = {(row.id, id) for id, where in asked.items() for row in events.where(where).collect()}
    expected.add((2, "long"))  # an array that is too long is not there
    asked["long"] = "array_contains(a, 2)"
    found = match(events, [{"id": id, "where": where} for id, where in asked.items()], plan=plan, columns=["id"])
    assert {(row.id, row.subscription_id) for row in found.collect()} == expected


@pytest.mark.connect
@pytest.mark.parametrize("columns", [None, ["id"]])
def test_the_plan_shows_the_subscriptions_and_the_size_of_their_index(
    events: DataFrame, columns: list[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = wants(*(f"price > {number}" for number in range(1200)))
    for per_event in (False, True):
        found = match(events, asked, columns=columns, per_event=per_event)
        found.explain()
        assert re.search(r"palio_broadcast\w*\[1,200 subscriptions, \d+ KB\]\(", capsys.readouterr().out)
        assert found.count()
    match(events, asked, columns=columns, plan=rendezvous("selective-attribute")).explain()
    assert re.search(r"palio_rendezvous_pairs\[1,200 subscriptions, \d+ buckets?\]\(", capsys.readouterr().out)
