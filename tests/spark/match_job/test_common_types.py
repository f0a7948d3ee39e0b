"""Functions that bring their arguments to one type do so on typed columns as in Spark, with NULLs in every column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from palio import Filter
from palio.errors import ParseError
from palio.spark import match, matches
from palio.spark.implicit_casts import ImplicitCasts
from tests.oracles.answers import Answer
from tests.oracles.seeds import seeds
from tests.oracles.spark_answers import SparkTable
from tests.spark.match_job.queries import pairs, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE = 60
MOMENT = datetime(2024, 1, 1, 10, tzinfo=UTC)
TEXTS = ["10", "5", "5.0", "abc", "true", "2024-01-01", "2024-01-01 10:00:00", "0", "", None, " 5 ", "2.5", "f", "1"]
COLUMNS = "t i l d e f flt b da ts nt bin".split()
LITERALS = "5 5.5 5e0 '5' 'abc' true DATE'2024-01-01' TIMESTAMP'2024-01-01' NULL X'35'".split()
FORMS = """
nullif({0}, {1}) IS NULL
nullif({0}, {1}) = {0}
coalesce({0}, {1}) = '10'
coalesce({0}, {1}) > {1}
concat(coalesce({0}, {1}), '|') LIKE '5%'
length(nvl2(i, {0}, {1})) > 3
if(b, {0}, {1}) > 2
if(b, {0}, {1}) LIKE '%0'
CASE WHEN i > 2 THEN {0} WHEN b THEN {1} END LIKE '%.%'
CASE {0} WHEN {1} THEN true ELSE false END
CASE {0} WHEN {1} THEN b WHEN i THEN true END
greatest({0}, {1}) > 2
concat(least({0}, {1}), '') LIKE '%0'
concat({0}, {1}) LIKE '5%'
concat_ws('-', {0}, {1}) LIKE '%5%'
ifnull({0}, {1}) <=> {1}
ifnull({0}, {1}) IN (5, 10)
decode({0}, {1}, 'x', 'y') = 'x'
coalesce({0}, {1}, i) BETWEEN 1 AND '7'
CAST(coalesce({0}, {1}, d) AS STRING) = '5.000'
upper(concat({0}, '')) LIKE '%.1'
{0} = {1}
{0} IN ({1}, i)
array_contains(nums, {0})
array_contains(names, {0})
element_at(names, coalesce({0}, {1})) = 'a'
NOT (nullif({0}, {1}) <=> {1})
CASE WHEN {0} THEN {1} ELSE {1} END IS NULL
if({0}, 1, 2) = 1
""".strip().splitlines()
FIXED = [
    "nullif(t, 10) IS NULL",
    "nullif(t, 5) = '10'",
    "concat(coalesce(i, f), '|') = '5.0|'",
    "concat(coalesce(i, e), '|') LIKE '%.000|'",
    "concat(coalesce(d, e), '|') LIKE '%.500|'",
    "concat(coalesce(da, ts), '|') LIKE '%00:00:00|'",
    "concat(coalesce(f, 0), '|') = '0.0|'",
    "concat(flt, '') = '2.1'",
    "bin = '5'",
    "bin IN ('5', t)",
    "concat(bin, X'35') LIKE '%55'",
    "coalesce(nt, '2024-01-01') > TIMESTAMP_NTZ'2024-01-01 09:00:00'",
]


def table() -> pa.Table:
    def some(values: Any, missing: int) -> list[Any]:
        return [None if place % 5 == missing else value for place, value in enumerate(values)]

    places = range(len(TEXTS))
    columns: dict[str, Any] = {
        "id": pa.array(places, pa.int64()),
        "t": pa.array(TEXTS, pa.string()),
        "i": pa.array(some([place % 6 for place in places], 1), pa.int32()),
        "l": pa.array(some([place - 5 for place in places], 2), pa.int64()),
        "d": pa.array(some([Decimal(place) / 2 for place in places], 3), pa.decimal128(5, 1)),
        "e": pa.array(some([Decimal(place * 5) / 4 for place in places], 4), pa.decimal128(7, 3)),
        "f": pa.array(some([place / 2 for place in places], 0), pa.float64()),
        "flt": pa.array(some([place + 0.1 for place in places], 1), pa.float32()),
        "b": pa.array(some([place % 2 == 0 for place in places], 2)),
        "da": pa.array(some([date(2024, 1, 1 + place % 2) for place in places], 3)),
        "ts": pa.array(some([MOMENT] * len(TEXTS), 4), pa.timestamp("us", "UTC")),
        "nt": pa.array(some([MOMENT] * len(TEXTS), 0), pa.timestamp("us", "UTC")),
        "bin": pa.array(some([(each or "").encode() for each in TEXTS], 1)),
        "nums": pa.array(some([[place % 6, 10] for place in places], 2), pa.list_(pa.int64())),
        "names": pa.array(some([[TEXTS[place] or "a", "a"] for place in places], 3), pa.list_(pa.string())),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table()).withColumn("nt", sql.col("nt").cast("timestamp_ntz")).cache()


def random_conditions(seed: int) -> list[str]:
    """Random ones of all forms with pairs of columns and literals."""
    values = [*COLUMNS, *LITERALS]
    every = [
        form.format(left, right)
        for form, left, right in product(FORMS, values, values)
        if left != right and {left, right} & set(COLUMNS)
    ]
    return list(dict.fromkeys(Random(f"common types {seed}").sample(every, 2 * SAMPLE)))


def is_readable(condition: str) -> bool:
    """Whether it is a condition without a schema, too."""
    try:
        Filter.parse(condition)
    except ParseError:
        return False
    return True


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in seeds(2, 12))])
def test_arguments_are_brought_to_one_type_as_in_spark(spark: SparkSession, frame: DataFrame, seed: int) -> None:
    oracle = SparkTable(spark, table(), frame)
    made = [each for each in random_conditions(seed) if is_readable(each)]
    refused = oracle.refusals(made)
    conditions = [*FIXED, *[each for each in made if each not in refused][:SAMPLE]]
    expected = dict(zip(conditions, oracle.answers(conditions), strict=True))
    raised = {
        (row, each) for each in conditions for row, answer in enumerate(expected[each]) if answer is Answer.RAISES
    }
    true = {(row, each) for each in conditions for row, answer in enumerate(expected[each]) if answer is Answer.TRUE}
    assert pairs(match(frame, wants(*conditions), columns=["id"])) - raised == true
    rows = frame.withColumn("who", matches(wants(*conditions))).select("id", "who").collect()
    assert {(row["id"], id) for row in rows for id in row["who"]} - raised == true
    assert len(true) > 60


def test_literals_in_choices_stay_in_the_index(frame: DataFrame) -> None:
    casts = ImplicitCasts.of(frame)
    # All of one type: nothing to cast.
    for text in ("coalesce(i, 0) > 3", "coalesce(t, '-') = 'abc'", "CASE WHEN b THEN f ELSE 0e0 END > 1"):
        assert casts.apply(text) is text
    assert casts.apply("coalesce(i, f) > 3") == "coalesce(`i AS DOUBLE`, f) > 3"
    assert casts.apply("nullif(t, 10) IS NULL") == "(CASE WHEN (`t AS BIGINT` = 10) THEN NULL ELSE t END IS NULL)"
