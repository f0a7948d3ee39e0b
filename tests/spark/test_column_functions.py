"""`matches`: the same answers as a function of columns, in `withColumn` and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from palio.errors import PipelineError
from palio.spark import matches, matching_function

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
    assert answers(events.withColumn("who", matches(WANTS, "price"))) == expected(s=False)
    assert answers(events.withColumn("who", matches(WANTS, "s"))) == expected(price=False)
    named = matches(WANTS, "s.a", "s.list", "price", "s.objects")
    assert answers(events.withColumn("who", named)) == expected()


@pytest.mark.connect
def test_sql_may_call_it(spark: SparkSession, events: DataFrame) -> None:
    events.createOrReplaceTempView("palio_events")
    spark.udf.register("who_wants", matching_function(WANTS, "price", "s"))
    found = spark.sql("SELECT id, who_wants(price, s) AS who FROM palio_events")
    assert answers(found) == expected()
    counted = spark.sql("SELECT count(*) AS n FROM palio_events WHERE array_contains(who_wants(price, s), 'dear')")
    assert counted.collect()[0]["n"] == 2


def test_columns_are_named_by_strings(events: DataFrame) -> None:
    with pytest.raises(PipelineError, match="name the columns by strings"):
        matches(WANTS, events.price)
