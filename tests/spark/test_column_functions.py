"""`matches`: the same answers as a function of columns, in `withColumn` and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sql

from palio.errors import PipelineError
from palio.matching.matcher import Matcher
from palio.spark import matches, matching_function
from palio.spark.column_functions import TypedMatcher, given_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WANTS = [
    {"id": "dear", "where": "price > 4"},
    {"id": "deep", "where": "s.a = 3 OR s.list = 5"},
    {"id": "inside", "where": "s.objects.x = 2"},
    {"id": "all", "where": "TRUE"},
]


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT id, cast(id % 7 AS INT) AS price, "
        "named_struct('a', id, 'list', array(id, id + 1), 'objects', array(named_struct('x', id))) AS s FROM range(8)"
    )


def answers(found: DataFrame) -> dict[int, set[str]]:
    return {row["id"]: set(row["who"]) for row in found.collect()}


def expected(*, s: bool = True, price: bool = True) -> dict[int, set[str]]:
    deep, inside = {3, 4, 5}, {2}
    return {
        id: {"all"}
        | ({"dear"} if price and id % 7 > 4 else set())
        | ({"deep"} if s and id in deep else set())
        | ({"inside"} if s and id in inside else set())
        for id in range(8)
    }


@pytest.mark.connect
def test_all_columns_are_looked_at_where_none_is_named(events: DataFrame) -> None:
    assert answers(events.withColumn("who", matches(WANTS))) == expected()


def test_only_the_named_columns_are_looked_at(events: DataFrame) -> None:
    with pytest.warns(UserWarning, match="no column is given for"):
        assert answers(events.withColumn("who", matches(WANTS, "price"))) == expected(s=False)
    with pytest.warns(UserWarning, match="no column is given for"):
        assert answers(events.withColumn("who", matches(WANTS, "s"))) == expected(price=False)
    named = matches(WANTS, "s.a", "s.list", "price", "s.objects")
    assert answers(events.withColumn("who", named)) == expected()


@pytest.mark.parametrize("function", [matches, matching_function])
def test_attributes_without_a_named_column_are_told_with_who_reads_them(spark: SparkSession, function: Any) -> None:
    asked = [
        {"id": "no tail", "where": "tailnum IS NULL"},
        {"id": "late", "where": "Delay > 5 AND tailnum = 'N1'"},
        {"id": "deep", "where": "s.a = 3"},
    ]
    with pytest.warns(UserWarning, match="no column is given") as told:
        function(asked, "delay")
    [warning] = told
    assert str(warning.message) == (
        "no column is given for s.a (deep), tailnum (no tail, late): NULL to every condition"
    )
    assert warning.filename == __file__
    function(asked, "DELAY", "S", "TailNum")  # no warning: pytest makes it an error


def test_a_row_without_a_column_is_told_once() -> None:
    # The driver does not know the columns of `struct(*)`, so a worker tells it.
    matcher = Matcher()
    matcher.add("no tail", "tailnum IS NULL")
    row = pa.array([{"delay": 1}])
    told: list[str] = []
    typed = TypedMatcher(matcher, False, "UTC", told.append)
    known = TypedMatcher(matcher, False, "UTC", told.append, ["tailnum"])
    for each in (typed, typed, known):
        each.match(given_columns([row], []), 1)
    assert told == ["the events have no column for tailnum (no tail): NULL to every condition"]


@pytest.mark.connect
def test_sql_may_call_it(spark: SparkSession, events: DataFrame) -> None:
    events.createOrReplaceTempView("palio_events")
    spark.udf.register("who_wants", matching_function(WANTS, "price", "s"))
    found = spark.sql("SELECT id, who_wants(price, s) AS who FROM palio_events")
    assert answers(found) == expected()
    counted = spark.sql("SELECT count(*) AS n FROM palio_events WHERE array_contains(who_wants(price, s), 'dear')")
    assert counted.collect()[0]["n"] == 2


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("who_wants(price)", r"takes 2 columns, in this order: price, s; 1 is given"),
        ("who_wants(price, s, id)", r"takes 2 columns, in this order: price, s; 3 are given"),
        ("who_wants_all(price)", r"takes one struct of all columns, as in who\(struct\(\*\)\), not int"),
        ("who_wants_all(price, s)", r"takes one struct of all columns, as in who\(struct\(\*\)\), not 2 columns"),
    ],
)
def test_a_wrong_call_names_the_arguments(spark: SparkSession, events: DataFrame, call: str, reason: str) -> None:
    events.createOrReplaceTempView("palio_events")
    spark.udf.register("who_wants", matching_function(WANTS, "price", "s"))
    spark.udf.register("who_wants_all", matching_function(WANTS))
    with pytest.raises(PySparkException, match=reason):
        spark.sql(f"SELECT {call} AS who FROM palio_events").collect()


@pytest.mark.connect
def test_columns_may_be_given_as_columns(events: DataFrame) -> None:
    renamed = events.selectExpr("id", "price AS cost", "s")
    for price, s in [
        (sql.col("cost").alias("price"), sql.col("s")),
        (renamed["cost"].alias("price"), renamed.s),
        ((sql.col("cost") + 0).alias("price"), "s"),
    ]:
        assert answers(renamed.withColumn("who", matches(WANTS, price, s))) == expected()
    members = [sql.col("s.a"), events["s.list"], sql.col("s.objects"), events.price]
    assert answers(events.withColumn("who", matches(WANTS, *members))) == expected()
    dotted = events.withColumnRenamed("price", "price.net")
    asked = [{"id": "dear", "where": "`price.net` > 4"}]
    found = answers(dotted.withColumn("who", matches(asked, sql.col("`price.net`"))))
    assert found == {id: {"dear"} if id % 7 > 4 else set() for id in range(8)}


def test_a_column_without_a_name_is_refused_with_what_to_do(events: DataFrame) -> None:
    for unnamed in (sql.col("price") + 1, sql.col("price").cast("string"), sql.col("*"), sql.col("s")["a"]):
        with pytest.raises(PipelineError, match=r"give it one by \.alias\(.*\)"):
            matches(WANTS, unnamed)
    with pytest.raises(PipelineError, match="price is given twice"):
        matches(WANTS, "price", events.price)
    with pytest.raises(PipelineError, match="a column is a name or a Column, not int"):
        matches(WANTS, 3)  # type: ignore[arg-type]
