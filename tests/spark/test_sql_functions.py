"""Matching by SQL alone: one registration, or none at all."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import call_function, explode, lit, struct

from palio import Matcher
from palio.spark import SubscriptionLog, match, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTS = [
    {"id": "desk", "where": "symbol = 'ACME' AND price > 100"},
    {"id": "cheap", "where": "PRICE < 50"},
    {"id": "local", "where": "traded >= '2024-01-31 12:00:00'"},
]
EXPECTED = {(1, "desk"), (2, "cheap"), (2, "local"), (3, "local")}


@pytest.fixture(scope="module")
def quotes(spark: SparkSession) -> str:
    rows = spark.sql(
        "SELECT id, symbol, price, cast(traded AS TIMESTAMP) AS traded FROM VALUES "
        "(1, 'ACME', 120, '2024-01-31 11:00:00'), (2, 'INIT', 20, '2024-01-31 12:00:00'), "
        "(3, 'AC\tME', 80, '2024-01-31 13:00:00') AS quotes(id, symbol, price, traded)"
    )
    rows.createOrReplaceTempView("palio_quotes")
    assert {(row.id, row.subscription_id) for row in match(rows, WANTS).collect()} == EXPECTED
    register(spark)
    return "palio_quotes"


def write_lines(path: Path, wants: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in wants))
    return path


def sources(spark: SparkSession, folder: Path) -> Iterator[Path]:
    yield write_lines(folder / "wants.jsonl", WANTS)
    spark.createDataFrame(WANTS).write.parquet(str(folder / "parquet"))
    yield folder / "parquet"
    matcher = Matcher()
    matcher.add_many([each["id"] for each in WANTS], [each["where"] for each in WANTS])
    matcher.save(folder / "wants.palio")
    yield folder / "wants.palio"
    log = SubscriptionLog(folder / "log")
    log.extend(WANTS)
    log.commit()
    yield folder / "log"


def pairs(spark: SparkSession, quotes: str, wants: Path) -> set[tuple[int, str]]:
    found = spark.sql(f"SELECT id, explode(palio_matches('{wants}', struct(*))) AS subscription_id FROM {quotes}")
    return {(row.id, row.subscription_id) for row in found.collect()}


@pytest.mark.connect
def test_sql_names_the_subscriptions(spark: SparkSession, quotes: str, tmp_path: Path) -> None:
    for source in sources(spark, tmp_path):
        assert pairs(spark, quotes, source) == EXPECTED, source
    wants = tmp_path / "wants.jsonl"
    spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION who(symbol STRING, price INT) RETURNS ARRAY<STRING> "
        f"RETURN palio_matches('{wants}', named_struct('symbol', symbol, 'price', price))"
    )
    found = spark.sql(f"SELECT id FROM {quotes} WHERE array_contains(who(symbol, price), 'desk')")
    assert [row.id for row in found.collect()] == [1]


@pytest.mark.connect
def test_nothing_is_read_before_an_action(spark: SparkSession, quotes: str, tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    found = call_function("palio_matches", lit(str(path)), struct("*"))
    rows = spark.table(quotes).select("id", explode(found).alias("subscription_id"))
    write_lines(path, WANTS)
    assert {(row.id, row.subscription_id) for row in rows.collect()} == EXPECTED


def test_changed_subscriptions_are_read_again(spark: SparkSession, quotes: str, tmp_path: Path) -> None:
    wants, log = write_lines(tmp_path / "wants.jsonl", WANTS[:1]), SubscriptionLog(tmp_path / "log")
    log.extend(WANTS[:1])
    log.commit()
    for source in (wants, tmp_path / "log"):
        assert pairs(spark, quotes, source) == {(1, "desk")}
    write_lines(wants, WANTS[:2])
    log.add("cheap", "price < 50")
    log.commit()
    for source in (wants, tmp_path / "log"):
        assert pairs(spark, quotes, source) == {(1, "desk"), (2, "cheap")}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("palio_matches(struct(*))", r"takes the address of subscriptions and a struct of all columns"),
        ("palio_matches('wants.jsonl', price)", r"struct\(\*\)\), not \(string, int32\)"),
        ("palio_matches(symbol, struct(*))", "one address of subscriptions for all rows"),
        ("palio_matches('/nowhere/wants.jsonl', struct(*))", "/nowhere/wants.jsonl: there is no such file"),
    ],
)
def test_a_wrong_call_is_explained(spark: SparkSession, quotes: str, call: str, reason: str) -> None:
    with pytest.raises(PySparkException, match=reason):
        spark.sql(f"SELECT {call} FROM (SELECT /*+ COALESCE(1) */ * FROM {quotes})").collect()


@pytest.mark.parametrize("path", ["/nowhere/wants.jsonl", "empty"])
def test_the_last_line_of_an_error_names_its_cause(spark: SparkSession, quotes: str, tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PySparkException) as raised:
        spark.sql(f"SELECT palio_matches('{tmp_path / path}', struct(*)) FROM {quotes}").collect()
    told = [line for line in str(raised.value).splitlines() if line.strip()]
    assert str(tmp_path / path) in told[-1]


def test_the_driver_hears_what_workers_warn_of(spark: SparkSession, quotes: str, tmp_path: Path) -> None:
    wanted = [{"id": "far", "where": "exchange = 'X'"}, {"id": "bad", "where": "price >"}, *WANTS]
    wants = write_lines(tmp_path / "wants.jsonl", [*wanted, {"id": "odd", "where": "traded > 5"}])

    def run() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            spark.sql(f"SELECT palio_matches('{wants}', struct(*)) FROM {quotes}").collect()
        return [str(each.message) for each in caught if each.category is UserWarning]

    told = run()
    assert sum("the events have no column for exchange (far): NULL to every condition" in each for each in told) == 1
    assert sum(f"{wants}: subscription bad is left out: " in each for each in told) == 1
    assert (
        sum("traded > 5 (traded is TIMESTAMP; a timestamp and an integer do not compare)" in each for each in told) == 1
    )
    assert run() == []  # once for a session
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        register(spark)
        spark.sql(f"SELECT palio_matches('{wants}', struct(*)) FROM {quotes}").collect()
    register(spark)


def test_sql_without_any_registration_runs_the_command(spark: SparkSession, quotes: str, tmp_path: Path) -> None:
    # The recipe of docs/spark/matching.md, with the program of this Python.
    # Names in JSON are case sensitive, so that `PRICE` finds none.
    wants = write_lines(tmp_path / "wants.jsonl", [*WANTS[:2], {"id": "low", "where": "price < 50"}])
    palio = f"{shlex.quote(sys.executable)} -m palio match {wants} - --json --content --format jsonl"
    found = spark.sql(
        "SELECT found.content.id, found.subscription FROM ("
        " SELECT from_json(match, 'subscription STRING, content STRUCT<id: INT>') AS found"
        f" FROM (SELECT TRANSFORM(to_json(struct(*))) USING '{palio}' AS (match STRING) FROM {quotes}))"
    )
    assert {tuple(row) for row in found.collect()} == {(1, "desk"), (2, "low")}


def test_elements_of_columns_are_found_in_the_function(spark: SparkSession, quotes: str, tmp_path: Path) -> None:
    conditions = [
        "a[1] > 5",
        "m['k'] = 1",
        "exists(a, x -> x > 8)",
        "n[0][1].b = 'y'",
        "v:c[0]::int = 7",
        "hour(l) = 2",
    ]
    address = write_lines(tmp_path / "wants.jsonl", [{"id": each, "where": each} for each in conditions])
    rows = spark.sql(
        "SELECT 1 AS id, array(3, 9) AS a, map('k', 1) AS m, parse_json('{\"c\": [7]}') AS v, "
        "array(array(named_struct('b', 'x'), named_struct('b', 'y'))) AS n, TIMESTAMP_NTZ'2024-03-10 02:30:00' AS l "
        "UNION ALL SELECT 2, array(), map(), NULL, array(), NULL"
    )
    expected = {(row["id"], each) for each in conditions for row in rows.where(f"coalesce({safe(each)})").collect()}
    rows.createOrReplaceTempView("palio_elements")
    found = spark.sql(f"SELECT id, explode(palio_matches('{address}', struct(*))) AS who FROM palio_elements").collect()
    assert {(row["id"], row["who"]) for row in found} == expected == {(1, each) for each in conditions}


def safe(condition: str) -> str:
    """A condition that does not raise in Spark where an array is too short."""
    return condition.replace("a[1]", "get(a, 1)").replace("n[0][1]", "get(get(n, 0), 1)")
