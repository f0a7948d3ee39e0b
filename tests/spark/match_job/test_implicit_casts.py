"""Conditions on typed columns mean what Spark's analyzer makes of them."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

import palio
from palio import Subscription
from palio.spark import Wants, match, matches
from palio.spark.attributes import cast_name, split_cast
from palio.spark.implicit_casts import ImplicitCasts
from tests.oracles.answers import Answer
from tests.oracles.spark_answers import SparkTable
from tests.spark.match_job.queries import pairs, rendezvous, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXTS = [
    "10", "3", " 7 ", "abc", "10.5", "true", "FALSE", "1",
    "0", "", None, "2024-01-01", "2024-01-01 10:00:00", "1e1", "5", "9223372036854775808",
    "NaN", "010", "2.54", "-5", "yes", "2024-01-01T10:00:00+02:00", "5.0", "2.5",
    "t", "Infinity",
]  # fmt: skip
MOMENT = datetime(2024, 1, 1, 10, tzinfo=UTC)

CONDITIONS = """
t > 5
t > 5L
t > 5.5
t > 5e0
t = 5
t <> 5
NOT (t > 5)
(t > 5) IS NOT TRUE
5 < t
t > -6
t = true
t = false
t <> true
t AND b
NOT t
t OR b
t IS TRUE
t IS NOT FALSE
t <=> 5
t <=> '5'
t IS DISTINCT FROM 5
t <=> NULL
t IS NULL
t = NULL
t > 12345678901234567890
t > 5BD
t = '10'
t > DATE'2023-12-31'
t = TIMESTAMP'2024-01-01 10:00:00'
t BETWEEN 1 AND 20
t BETWEEN 1 AND 20.5
t NOT BETWEEN 1 AND 2.5
t BETWEEN '1' AND '3'
t BETWEEN i AND 7
i BETWEEN t AND 7
t IN (1, 10)
t IN (2.5, 1)
t IN (1, 2.5)
t IN (1, 2.5, 3e0)
t IN (true)
t IN ('a', 1)
t NOT IN (1, 10)
t NOT IN (1, NULL)
t IN (DATE'2024-01-01', TIMESTAMP'2024-01-01 10:00:00')
t IN (1, d)
i IN (t, 2)
i IN ('5', t)
d IN (t, 1)
5 IN (t, 7)
t > i
t >= l
t > sh
t < d
t > f
t = b
t = da
t = ts
t = nt
t = bin
i = t OR i > t
t = i + 1
(t > 5) = b
t = (i > 3)
i = lower(t)
substring(t, 1, 1) > 0
substring(t, 1, 1) = i
t + 1 > 5
t * 2 > d
abs(t) > 5
coalesce(t, 5) > 5
CASE t WHEN 5 THEN true WHEN 'abc' THEN true END
CASE WHEN t > 5 THEN true ELSE false END
nullif(t, 5) = '10'
i LIKE '1%'
d LIKE '5%'
f LIKE '5.%'
f RLIKE '5'
startswith(i, '5')
contains(l, '5')
da LIKE '2024%'
b LIKE 't%'
ts LIKE '2024-01-01 1%'
bin LIKE '1%'
startswith(bin, '1')
startswith(bin, bin)
contains(bin, X'31')
endswith(bin, t)
i NOT LIKE '1%'
endswith(d, '5')
b ILIKE 'T%'
t LIKE '1%'
t > 5 AND t = '10'
t > 5 AND t < 11 AND b
s.u > 5
s.u = true
m.k > 5
m.k = '10'
T > 5 AND `t` < 20
n > '5'
i > '5'
flt LIKE '5.1%'
t > 5 OR s.u > 5
""".strip().splitlines()


def table() -> pa.Table:
    count = len(TEXTS)
    columns: dict[str, Any] = {
        "id": pa.array(range(count), pa.int64()),
        "t": pa.array(TEXTS, pa.string()),
        "i": pa.array([n % 11 for n in range(count)], pa.int32()),
        "l": pa.array([n - 5 for n in range(count)], pa.int64()),
        "sh": pa.array([n % 4 for n in range(count)], pa.int16()),
        "d": pa.array([Decimal(n) / 2 for n in range(count)], pa.decimal128(5, 1)),
        "f": pa.array([n / 2 for n in range(count)], pa.float64()),
        "flt": pa.array([n + 0.1 for n in range(count)], pa.float32()),
        "b": pa.array([[True, False, None][n % 3] for n in range(count)]),
        "da": pa.array([date(2024, 1, 1 + n % 2) for n in range(count)]),
        "ts": pa.array([MOMENT] * count, pa.timestamp("us", "UTC")),
        "nt": pa.array([MOMENT.replace(tzinfo=None)] * count, pa.timestamp("us")),
        "bin": pa.array([(each or "").encode() for each in TEXTS]),
        "s": pa.array([{"u": each} for each in TEXTS]),
        "m": pa.array([[] if each is None else [("k", each)] for each in TEXTS], pa.map_(pa.string(), pa.string())),
        "n": pa.array([None] * count, pa.string()),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table())


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> dict[tuple[int, str], Answer]:
    oracle = SparkTable(spark, table())
    assert oracle.refusals(CONDITIONS) == {}
    return {
        (row, condition): answer
        for condition, answers in zip(CONDITIONS, oracle.answers(CONDITIONS), strict=True)
        for row, answer in enumerate(answers)
    }


def check(found: set[tuple[int, str]], expected: dict[tuple[int, str], Answer]) -> None:
    raised = {pair for pair, answer in expected.items() if answer is Answer.RAISES}
    assert found - raised == {pair for pair, answer in expected.items() if answer is Answer.TRUE}


@pytest.mark.parametrize("plan", ["broadcast", rendezvous()], ids=["broadcast", "rendezvous"])
@pytest.mark.parametrize("columns", [["id"], None], ids=["beside", "whole"])
def test_the_casts_of_a_match_are_sparks(
    frame: DataFrame, expected: dict[tuple[int, str], Answer], plan: Any, columns: list[str] | None
) -> None:
    check(pairs(match(frame, wants(*CONDITIONS), plan=plan, columns=columns)), expected)


def test_subscriptions_of_a_frame_are_cast_too(
    spark: SparkSession, frame: DataFrame, expected: dict[tuple[int, str], Answer]
) -> None:
    subscriptions = spark.createDataFrame([(each, each) for each in CONDITIONS], "id string, where string")
    check(pairs(match(frame, subscriptions, plan=rendezvous())), expected)


@pytest.mark.parametrize("named", [True, False], ids=["named", "struct"])
def test_the_casts_of_the_function_are_sparks(
    frame: DataFrame, expected: dict[tuple[int, str], Answer], named: bool
) -> None:
    names = [each for each in frame.columns if each != "id"] if named else []
    rows = frame.withColumn("who", matches(wants(*CONDITIONS), *names)).select("id", "who").collect()
    check({(row["id"], id) for row in rows for id in row["who"]}, expected)


def test_a_time_is_read_in_the_zone_of_the_session(spark: SparkSession) -> None:
    condition = "t = TIMESTAMP'2024-01-01 10:00:00' AND ts LIKE '2024-01-01 1%'"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        events = spark.createDataFrame(table()).select("id", "t", "ts")
        ids = {row["id"] for row in events.where(f"try_cast(t AS TIMESTAMP) IS NOT NULL AND {condition}").collect()}
        assert ids
        assert {row for row, _ in pairs(match(events, wants(condition)))} == ids
        called = events.where(sql.size(matches(wants(condition), "t", "ts")) > 0)
        assert {row["id"] for row in called.collect()} == ids
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_numbers_stay_those_of_the_matcher_that_was_given(spark: SparkSession, frame: DataFrame) -> None:
    matcher = palio.Matcher()
    matcher.add_many(["a", "b", "c"], ["i = 1", "t > 5", "t = 10"])
    matcher.remove("a")
    found = match(frame, matcher, numbers=True, columns=["id"]).collect()
    ids = matcher.numbered_ids().to_pylist()
    named = pairs(match(frame, matcher, columns=["id"]))
    assert {(row["id"], ids[row["subscription_id"]]) for row in found} == named
    assert {id for _, id in named} == {"b", "c"}


def test_elements_of_objects_are_cast_where_they_stand(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT 1 AS id, array('7', 'x') AS tags, "
        "array(named_struct('size', '10', 'sku', 'a'), named_struct('size', 'x', 'sku', 'b')) AS items"
    )
    found = pairs(
        match(
            events,
            wants(
                "items.size > 5 AND items.sku = 'a'",
                "items.size > 5 AND items.sku = 'b'",
                "items.size > 5 AND items.size = '10' AND items.sku = 'a'",
                "tags > 5",
                "tags > 8",
                "tags > 5 AND tags = 'x'",
            ),
        )
    )
    # A cast element is another attribute than the element itself, so `tags > 5 AND tags = 'x'` may choose two elements.
    assert {id for _, id in found} == {
        "items.size > 5 AND items.sku = 'a'",
        "items.size > 5 AND items.size = '10' AND items.sku = 'a'",
        "tags > 5",
        "tags > 5 AND tags = 'x'",
    }


def test_an_array_is_null_only_where_it_is_as_a_whole(spark: SparkSession) -> None:
    events = spark.sql(
        "SELECT * FROM VALUES (1, array(10, NULL)), (2, array()), (3, CAST(NULL AS ARRAY<INT>)), (4, array(7)) "
        "AS v(id, a)"
    )
    conditions = ["a IS NULL", "a IS NOT NULL", "a <=> NULL", "NOT (a <=> NULL)"]
    expected = {(row["id"], each) for each in conditions for row in events.where(each).collect()}
    assert pairs(match(events, wants(*conditions))) == expected
    rows = events.withColumn("who", matches(wants(*conditions), "a")).collect()
    assert {(row["id"], each) for row in rows for each in row["who"]} == expected


def test_other_languages_keep_their_own_meaning(frame: DataFrame) -> None:
    selector = [{"id": "jms", "where": "t > 5", "language": "jms"}]
    assert match(frame, selector).count() == 0


def test_what_needs_no_cast_is_left_as_it_is(frame: DataFrame) -> None:
    casts = ImplicitCasts.of(frame)
    for text in (
        "t = 'x' AND i > 5",
        "t LIKE 'a%'",
        "i IN (1, 2)",
        "t IN ('a', 'b')",
        "nosuch > 5",
        "t >",
        "s IS NULL",
    ):
        assert casts.apply(text) is text
    matcher = palio.Matcher()
    matcher.add_many(["a", "b"], ["t = 'x' AND i > 5", "nosuch = 1"])
    assert casts.apply_to_matcher(matcher) is matcher
    wanted = Wants(matcher)
    assert wanted.with_casts(casts).with_casts(casts).matcher is matcher


def test_conditions_of_one_skeleton_are_cast_alike(frame: DataFrame) -> None:
    casts = pickle.loads(pickle.dumps(ImplicitCasts.of(frame)))
    for number in range(18):
        assert casts.apply(f"t > {number} AND b") == f"`t AS BIGINT` > {number} AND b"
        assert casts.apply(f"t IN (1, 0.{'1' * (number + 1)})").startswith(f"`t AS DECIMAL_{21 + number}_{number + 1}`")
        # Not literals, but columns, of which only one is there.
        assert casts.apply(f"`t {number}` > 5") == f"`t {number}` > 5"
        # The operand of CASE stands once in the text, and is cast in one of its two comparisons only.
        assert casts.apply(f"CASE t WHEN {number} THEN true WHEN 'a' THEN true END") == (
            f"CASE WHEN (`t AS BIGINT` = {number}) THEN TRUE WHEN (t = 'a') THEN TRUE END"
        )


def test_many_conditions_are_cast_in_bulk_as_one_by_one(frame: DataFrame) -> None:
    forms = (
        "t > {0}", "i > {0}", "t = 'x{0}'", "i > {0} AND t = '{0}'", "t > {0} AND i > 5", "i + {0} > 2147483647",
        "i = 99999999{0}", "t IN (1, {0})", "t IN ('a', '{0}')", "t LIKE '{0}%' OR t > {0}", "`t {0}` > 5",
        "t > {0} --", "`t {0}` = 'é'", "t = 'a\\{0}'", "i = 1 AND t > {0} AND t = 'a AND b'",
        "CASE t WHEN {0} THEN true END", "t >", "",
    )  # fmt: skip
    texts = [form.format(number % 13) for number in range(200) for form in forms[: 1 + number % len(forms)]]
    given = [
        text if number % 5 else Subscription(f"s{number}", text or "i = 1", timezone="Europe/Rome")
        for number, text in enumerate(texts)
    ]
    found = ImplicitCasts.of(frame).apply_to_wants(given)
    expected: list[Any] = []
    for want in given:
        alone = ImplicitCasts.of(frame)  # which remembers nothing of the others
        expected.append(alone.apply(want) if isinstance(want, str) else alone.apply_to(want))
    assert found == expected
    assert any(isinstance(new, str) and new != old for new, old in zip(found, given, strict=True))
    unchanged = [number for number, want in enumerate(given) if expected[number] is want]
    assert unchanged == [number for number, want in enumerate(given) if found[number] is want]


def test_what_many_conditions_have_to_cast_is_found_once_for_a_skeleton(
    frame: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    casts = ImplicitCasts.of(frame)
    asked: list[str] = []
    apply = ImplicitCasts.apply
    monkeypatch.setattr(
        ImplicitCasts, "apply", lambda self, text, *zone: asked.append(text) or apply(self, text, *zone)
    )
    given = [f"i > {number} AND t = '{number}'" for number in range(500)]
    assert casts.apply_to_wants(given) == given
    assert len(asked) == 1


@pytest.mark.parametrize("target", ["bigint", "decimal(21,1)", "presence", "timestamp_ntz"])
def test_the_name_of_a_cast_tells_its_parts(target: str) -> None:
    name = cast_name("a.`b.c`", target)
    assert split_cast(name.split(".", 1)[1].strip("`")) == ("b.c", target)
    assert split_cast("price") == ("price", None)
