"""Times without a zone, narrow integers, qualified names and types that events lack, as Spark means them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql
from pyspark.sql.types import TimeType

from palio.spark import match, matches
from palio.spark.implicit_casts import ImplicitCasts
from tests.oracles.answers import Answer
from tests.oracles.spark_answers import SparkTable, session_zone
from tests.spark.match_job.queries import pairs, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZONE = "America/New_York"
# In spring the clocks skip from 2 to 3 o'clock on 10 March, in autumn 1:30 comes twice on 3 November.
CLOCKS = ["2024-03-10 01:30:00", "2024-03-10 02:30:00", "2024-03-10 03:30:00", "2024-11-03 01:30:00", "2024-07-01"]
LOCAL = """
n = TIMESTAMP_NTZ'2024-03-10 02:30:00'
n > TIMESTAMP_NTZ'2024-03-10 02:00:00' AND n < TIMESTAMP_NTZ'2024-03-10 03:00:00'
n BETWEEN '2024-03-10 02:30:00' AND TIMESTAMP_NTZ'2024-03-10 02:30:00'
n IN (TIMESTAMP_NTZ'2024-03-10 02:30:00', '2024-07-01')
n = '2024-03-10 02:30:00'
n >= DATE'2024-03-11'
n > d
hour(n) = 2
hour(n) = 3 OR minute(n) = 0
NOT (hour(n) = 2)
date_format(n, 'HH:mm') = '02:30'
CAST(n AS STRING) = '2024-03-10 02:30:00'
CAST(n AS DATE) = DATE'2024-03-10'
n + INTERVAL '24' HOUR = TIMESTAMP_NTZ'2024-03-11 02:30:00'
n + INTERVAL '1' HOUR = o
n - INTERVAL '1' HOUR = o
o - n = INTERVAL '1' HOUR
timestampadd(HOUR, 1, n) = o
timestampdiff(HOUR, n, o) = 1
greatest(n, o) = TIMESTAMP_NTZ'2024-03-10 02:30:00'
n > t
n <= t
n = TIMESTAMP'2024-03-10 01:30:00'
n = text
n > text
n IS NULL
n <=> o
coalesce(n, o) = TIMESTAMP_NTZ'2024-07-01 00:00:00'
year(n) = 2024 AND n <> o
hour(n) = hour(t)
unix_timestamp(n) = 1710037800
unix_seconds(n) = 1710037800
months_between(n, o) < 0
date_trunc('hour', n) = TIMESTAMP_NTZ'2024-03-10 03:00:00'
to_date(n) = DATE'2024-03-10'
second(n) = 0 AND dayofweek(n) = 1
n < DATE'2024-07-01' + INTERVAL '1' HOUR
add_months(n, 1) = DATE'2024-04-10'
from_utc_timestamp(n, 'UTC') = n
array_contains(ns, TIMESTAMP_NTZ'2024-03-10 02:30:00')
ns[0] = TIMESTAMP_NTZ'2024-03-10 02:30:00'
hour(ns[1]) = 2
exists(ns, x -> hour(x) = 2)
exists(ns, x -> x = t)
""".strip().splitlines()


def truths(spark: SparkSession, frame: DataFrame, conditions: list[str]) -> tuple[set[tuple[int, str]], ...]:
    """The pairs of ids and conditions that are true, and those that raise, in Spark; ids count from 0."""
    oracle = SparkTable(spark, pa.table({"id": range(frame.count())}), frame)
    assert oracle.refusals(conditions) == {}
    answers = [
        (row, condition, answer)
        for condition, each in zip(conditions, oracle.answers(conditions), strict=True)
        for row, answer in enumerate(each)
    ]
    return tuple(
        {(row, each) for row, each, found in answers if found is kind} for kind in (Answer.TRUE, Answer.RAISES)
    )


def called(frame: DataFrame, conditions: list[str]) -> set[tuple[int, str]]:
    names = [each for each in frame.columns if each != "id"]
    rows = frame.withColumn("who", matches(wants(*conditions), *names)).select("id", "who").collect()
    return {(row["id"], id) for row in rows for id in row["who"]}


def test_times_without_a_zone_are_local_times(spark: SparkSession) -> None:
    rows = zip([*CLOCKS, None], [*CLOCKS[1:], CLOCKS[1], None], [CLOCKS[0]] * 3 + [CLOCKS[3]] * 3, strict=True)
    texts = [(number, *row, row[1] or "x") for number, row in enumerate(rows)]
    with session_zone(spark, ZONE):
        frame = spark.createDataFrame(texts, "id int, n string, o string, t string, text string").selectExpr(
            "id",
            "CAST(n AS TIMESTAMP_NTZ) n",
            "CAST(o AS TIMESTAMP_NTZ) o",
            "CAST(t AS TIMESTAMP) t",
            "DATE(n) d",
            "text",
        )
        frame = frame.withColumn("ns", sql.when(sql.col("n").isNotNull(), sql.array("n", "o")))
        assert dict(frame.dtypes)["n"] == "timestamp_ntz"
        true, raised = truths(spark, frame, LOCAL)
        assert len({each for _, each in true}) > 0.8 * len(LOCAL)
        assert pairs(match(frame, wants(*LOCAL))) - raised == true
        assert called(frame, LOCAL) - raised == true


NARROW = """
i + 1 > 0
i + 1 IS NULL
i - 1 < 0
i * 2 > 0
i + i < 0
i * i > 0
-i > 0
abs(i) > 0
i + 1L > 0
i * 3000000000 > 0
ti + 1Y > 0
ti + 1 > 0
ti + ti > 0
-ti > 0
ti * si > 0
si + 1S > 0
si - ti > 0
b + 1 > 0
b + i > 0
i + ti * 2 > 5
coalesce(ti, si) * 2S > 0
length(s) * i > 0
CAST(s AS INT) * i > 0
CASE WHEN ti > 0 THEN ti ELSE si END + 1S > 0
year(DATE'2024-01-01') * i > 0
i + '1' > 0
i + 1.0 > 0
i / 2 > 0
i % 2 = 1
pmod(i, 2) = 1
i + 1 BETWEEN 1 AND 10
i + 1 IN (4, 5)
""".strip().splitlines()


def test_narrow_integers_overflow(spark: SparkSession) -> None:
    rows = [
        (0, 3, 1, 2, 3, "5"),
        (1, 2**31 - 1, 127, 2**15 - 1, 2**63 - 1, "7"),
        (2, -(2**31), -128, -(2**15), -(2**63), "-7"),
        (3, 2**30, 64, 2**14, 2**40, "1000000"),
        (4, None, None, None, None, None),
    ]
    frame = spark.createDataFrame(rows, "id int, i int, ti tinyint, si smallint, b bigint, s string")
    true, raised = truths(spark, frame, NARROW)
    assert len(raised) > len(NARROW)
    # What raises in Spark is NULL here: neither the condition nor its negation holds.
    asked = [*NARROW, *(f"NOT ({each})" for each in NARROW if "IS NULL" not in each)]
    negated = {(row, f"NOT ({each})") for row, each in raised if "IS NULL" not in each}
    for found in (pairs(match(frame, wants(*asked))), called(frame, asked)):
        assert {pair for pair in found if pair[1] in NARROW} - {(1, "i + 1 IS NULL")} == true
        assert found.isdisjoint(negated)
        assert (1, "i + 1 IS NULL") in found


def test_names_may_be_qualified_by_an_alias(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1, 5, '7', named_struct('price', 9)), (2, 1, 'x', NULL) AS q(id, price, t, s)"
    )
    events = rows.alias("e")
    conditions = ["e.price > 3", "E.price > 3 AND price < 9", "e.t > 5", "e.s.price = 9", "e.s.price IS NULL"]
    expected = {(row["id"], each) for each in conditions[:2] + conditions[3:] for row in events.where(each).collect()}
    with warnings.catch_warnings(action="error"):
        assert pairs(match(events, wants(*conditions))) == {*expected, (1, "e.t > 5")}
        assert pairs(match(rows, wants("q.price > 3"))) == {(1, "q.price > 3")}
    joined = rows.alias("l").join(rows.withColumn("price", sql.lit(2)).alias("r"), "id")
    conditions = ["l.price > r.price", "r.price = 2 AND l.price < 2"]
    expected = {(row["id"], each) for each in conditions for row in joined.where(each).select("id").collect()}
    assert len(expected) == 2
    assert pairs(match(joined, wants(*conditions), columns=["id"])) == expected


def test_types_that_events_lack_are_named_and_their_absence_is_known(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT 1 AS id, INTERVAL '1' DAY AS i, parse_json('1') AS v UNION ALL SELECT 2, NULL, NULL UNION ALL "
        "SELECT 3, INTERVAL '2' DAY, NULL"
    )
    conditions = ["i IS NULL", "v IS NOT NULL", "i IS NOT NULL AND v IS NULL"]
    expected = {(row["id"], each) for each in conditions for row in events.where(each).collect()}
    with warnings.catch_warnings(action="error"):
        assert pairs(match(events, wants(*conditions))) == expected
    with pytest.warns(UserWarning, match="i > .*INTERVAL DAY.*add a column") as caught:
        match(events, wants("i > INTERVAL '1' DAY"))
    assert len(caught) == 1
    casts = ImplicitCasts({("t",): TimeType()}, case_sensitive=False)
    assert casts.apply("t IS NULL") == "`t AS PRESENCE` IS NULL"
    casts.apply("t > '12:00'")
    assert "CAST(t AS STRING)" in casts.conflicts["t > '12:00'"]
    with pytest.warns(UserWarning, match=r"v = 1.*v:path::int"):
        match(events, wants("v = 1"))
    with pytest.warns(UserWarning, match="only an array has elements"):
        match(events, wants("id[0] = 1"))
