"""Subscriptions come from everywhere, and what makes none is told."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from palio import InvalidSubscription, Matcher, PalioError
from palio.errors import InputError, PipelineError
from palio.matching.subscription import Subscription
from palio.spark import SubscriptionLog, Wants, annotate, estimate, match
from tests.spark.match_job.queries import pairs, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    log = SubscriptionLog(folder / "log")
    log.extend([{"id": "a", "where": "id = 3"}, {"id": "b", "where": "id = 2"}])
    log.commit()
    log.replace("a", "id = 1")
    log.commit()
    yield log
    yield folder / "log"
    yield f"file://{folder}/log"


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
        ({"columns": ["id", "ID"]}, "the column id cannot be kept twice"),
        ({"json": ["nowhere"]}, "there is no column nowhere"),
        ({"json": ["id"]}, "the column id is no text"),
        ({"on_error": "panic"}, "'quarantine' or 'fail'"),
    ],
)
def test_what_makes_no_sense_is_refused(events: DataFrame, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PalioError, match=reason):
        match(events, wants("id = 1"), **options)


def test_columns_are_kept_by_names_that_the_session_knows(events: DataFrame) -> None:
    assert match(events, wants("id = 1"), columns=["ID", "Price"]).columns == ["id", "price", "subscription_id"]


def test_subscriptions_that_are_in_no_file_and_no_table_are_named(events: DataFrame) -> None:
    with pytest.raises(InputError, match="nowhere: there is no such file, and no table"):
        match(events, "nowhere")


@pytest.mark.parametrize("plan", ["broadcast", "rendezvous"])
def test_columns_that_are_not_there_are_named_with_who_asks_for_them(events: DataFrame, plan: Any) -> None:
    asked = wants("pricee > 1", "id = 1", "s.nope = 2 AND pricee > 2", "span IS NULL")
    with pytest.warns(UserWarning, match="no column") as told:
        match(events, asked, columns=["id"], plan=plan)
    # PySpark before 4.3 leaves sockets to the garbage collector, which warns of them at any time.
    [warning] = [each for each in told if each.category is UserWarning]
    assert "pricee (pricee > 1, s.nope = 2 AND pricee > 2), s.nope (s.nope = 2 AND pricee > 2)" in str(warning.message)
    assert warning.filename == __file__
    with pytest.warns(UserWarning, match=r"no column for pricee \(new\)"):
        assert estimate(events, "pricee > 1").matches == 0


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


def test_a_language_for_those_that_name_none(spark: SparkSession, events: DataFrame) -> None:
    mixed = [
        {"id": "jms", "where": "id = 3 AND symbol LIKE 's%'"},
        {"id": "sql", "where": "id % 24 = 4", "language": "sql"},
    ]
    asked = Wants.read(spark, mixed, language="jms")
    assert asked.matcher["jms"].language == "jms"
    assert pairs(match(events, asked)) == {(3, "jms"), (4, "sql")}


@pytest.mark.parametrize("plan", ["broadcast", "rendezvous"])
def test_columns_of_subscriptions_are_found_as_the_session_finds_them(
    spark: SparkSession, events: DataFrame, plan: Any
) -> None:
    shouted = spark.sql("SELECT 'a' AS ID, 'id = 1' AS WHERE, 'sql' AS Language, 'desk' AS SUBSCRIBER")
    [row] = match(events, shouted, columns=["id"], plan=plan).collect()
    assert row.asDict() == {"id": 1, "subscription_id": "a", "subscriber": "desk"}
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(PipelineError, match="id is not among ID, WHERE, Language, SUBSCRIBER"):
            match(events, shouted, plan=plan)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_what_is_no_subscriptions_is_refused_with_what_would_be(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"subscriptions are a path, .* not int"):
        match(spark.range(3), 42)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("quotes", "spark.table('quotes')"),
        ("main.quotes", "spark.table('main.quotes')"),
        ("quotes.jsonl", "spark.read.json('quotes.jsonl')"),
        ("in/quotes.csv.gz", "spark.read.csv('in/quotes.csv.gz', header=True, inferSchema=True)"),
        ("s3a://in/quotes.parquet", "spark.read.parquet('s3a://in/quotes.parquet')"),
        (Path("in/quotes"), "spark.read.parquet('in/quotes')"),
        ([{"id": 1}], "spark.createDataFrame(…)"),
    ],
)
def test_events_that_are_no_frame_are_refused_with_what_to_do(given: Any, advice: str) -> None:
    for function in (match, annotate, estimate):
        with pytest.raises(PipelineError, match="events are a DataFrame") as refusal:
            function(given, wants("id = 1"))
        assert advice in str(refusal.value)


def test_a_frame_of_another_library_is_told_from_one_of_spark(spark: SparkSession) -> None:
    table = pa.table({"id": [1]})
    with pytest.raises(PipelineError, match=r"events are a DataFrame of Spark, not a pandas\.DataFrame"):
        match(table.to_pandas(), wants("id = 1"))  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match=r"not pandas\.DataFrame: spark\.createDataFrame"):
        Wants.read(spark, table.to_pandas())


def test_conditions_are_given_by_id_as_to_a_matcher(spark: SparkSession) -> None:
    found = Wants.read(spark, {"a": "id = 1", "b": "id >"})
    assert [list(found.matcher), [each.id for each in found.refused]] == [["a"], ["b"]]
    with pytest.raises(PipelineError, match="put this one into brackets"):
        Wants.read(spark, {"id": "a", "where": "id = 1"})


def test_a_condition_in_place_of_a_path_is_told_what_to_write(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"id > 1: there is no such file.*; for a condition, write \[\{'id'"):
        Wants.read(spark, "id > 1")


def test_changes_of_a_log_that_are_not_committed_do_not_count_and_a_warning_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = SubscriptionLog(tmp_path / "log")
    log.extend(wants("id = 1", "id = 2"))
    with pytest.warns(UserWarning, match=r"2 changes of the subscription log .* are not committed .* commit\(\)"):
        assert not len(Wants.read(spark, log).matcher)
    log.commit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Wants.read(spark, log).matcher) == 2
