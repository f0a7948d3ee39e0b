"""An index that the workers build holds what the driver would have put into it, and matches alike."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidSubscription
from palio.spark import Wants, index_build, match
from palio.spark.subscriptions import _Collector, collect_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.connect]

SCHEMA = "id string, where string, language string, subscriber string, timezone string, priority int"
CONDITIONS = {
    "sql": [
        "a = {n}",
        "a > {n} AND s = 'x{n}'",
        "s LIKE '%{n}' OR a < {n}",
        "a + b > {n}",
        "at > '2024-03-01 0{n}:00:00'",
    ],
    "jms": ["a > {n} AND s LIKE 'x%'"],
    "cesql": ["a > {n}"],
    "eventbridge": ['{{"a": [{{"numeric": [">", {n}]}}]}}'],
    "sns": ['{{"a": [{{"numeric": ["<=", {n}]}}]}}'],
    "sigma": ["detection:\n  sel:\n    s: x{n}\n  condition: sel"],
    "cloudevents": ['{{"exact": {{"s": "x{n}"}}}}'],
}
UNREADABLE = ["a >", "nowhere(a) = {n}", "{n} AND"]


def drawn(seed: int, count: int) -> list[dict[str, Any]]:
    """Subscriptions of all languages; some unreadable, some without an id or a condition, some ids taken before."""
    choose = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        language = choose.choice(["sql", "sql", "sql", *CONDITIONS])
        form = choose.choice(UNREADABLE if choose.random() < 0.1 else CONDITIONS[language])
        ids = [str(number), f"ü{number}", str(choose.randrange(count))]
        rows.append(
            {
                "id": choose.choice([None, "", str(number)] if number % 9 == 0 else ids),
                "where": None if choose.random() < 0.03 else form.format(n=choose.randrange(9)),
                "language": None if language == "sql" else language,
                "subscriber": choose.choice([None, None, "ops", "desk"]),
                "timezone": choose.choice([None, None, "Europe/Berlin"]),
                "priority": choose.choice([None, 1, 2]),
            }
        )
    return rows


@pytest.fixture(autouse=True)
def on_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short DataFrames go the way of long ones, in three tasks or so."""
    monkeypatch.setattr(index_build, "MAX_DRIVER_SUBSCRIPTIONS", 20)
    monkeypatch.setattr(index_build, "SUBSCRIPTIONS_PER_TASK", 100)


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    at = "timestamp_seconds(1709244000 + 1800 * id)"
    return spark.sql(
        f"SELECT id AS number, id % 11 AS a, id % 3 AS b, concat('x', id % 7) AS s, {at} AS at FROM range(60)"
    )


def shown(wants: Wants) -> dict[str, Any]:
    return {id: wants.matcher[id] for id in wants.matcher}


def found(events: DataFrame, wants: Wants) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, match(events, wants, columns=["number"]).collect()))


@pytest.mark.parametrize("seed", range(3))
def test_workers_build_what_the_driver_builds(spark: SparkSession, events: DataFrame, seed: int) -> None:
    rows = drawn(seed, 260)
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA).repartitionByRange(4, "where")
    rows = [row.asDict() for row in frame.collect()]  # in the order in which Spark has them
    driver, workers = Wants.read(spark, rows), Wants.read(spark, frame)
    assert workers.matcher.statistics().segments == 3
    assert shown(workers) == shown(driver)
    assert Counter(workers.refused) == Counter(driver.refused)
    assert workers.refused == Wants.read(spark, frame).refused
    assert dict(workers.subscribers) == driver.subscribers
    assert len(workers.subscribers) == len(driver.subscribers)
    assert found(events, workers) == found(events, driver)


@pytest.mark.parametrize("seed", range(2))
def test_files_in_pieces_are_those_of_a_shared_folder(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rows = [tuple(row.values()) for row in drawn(seed, 260)]
    frame = spark.createDataFrame(rows, SCHEMA).repartitionByRange(4, "where")
    shared = Wants.read(spark, frame)
    monkeypatch.setattr(index_build, "is_local", lambda _: False)
    monkeypatch.setattr(index_build, "_PIECE_BYTES", 1000)
    pieces = Wants.read(spark, frame)
    assert shown(pieces) == shown(shared)
    assert pieces.refused == shared.refused
    assert dict(pieces.subscribers) == dict(shared.subscribers)


IDS = st.sampled_from(["a", "b", "c", "d", "e", "é", ""]) | st.none()
ROW = st.tuples(
    IDS, st.sampled_from(["a = 1", "a >"]) | st.none(), st.none() | st.just("sql"), st.none() | st.just("me")
)


@given(st.lists(st.lists(ROW, max_size=4), max_size=4))
def test_batches_of_texts_are_taken_as_row_by_row(batches: list[list[tuple[str | None, ...]]]) -> None:
    schema = pa.schema([(name, pa.string()) for name in ("id", "where", "language", "subscriber")])
    columns = [[list(each) for each in zip(*rows, strict=True)] or [[]] * 4 for rows in batches]
    made = [pa.RecordBatch.from_arrays([pa.array(each, pa.string()) for each in own], schema=schema) for own in columns]
    rows = _Collector()
    for row in (row for batch in made for row in batch.to_pylist()):
        rows.take_any(row)
    expected, wants = rows.gather(), collect_batches(made, "UTC", "sql", None)
    assert shown(wants) == shown(expected)
    assert (wants.refused, wants.subscribers) == (expected.refused, expected.subscribers)


def test_rows_without_anything_special_are_indexed_by_their_texts(spark: SparkSession, events: DataFrame) -> None:
    frame = spark.sql("SELECT CAST(id AS string) AS id, concat('a = ', id % 11) AS where FROM range(300)")
    workers = Wants.read(spark, frame)
    assert not workers.refused
    assert not workers.subscribers
    assert found(events, workers) == found(events, Wants.read(spark, [row.asDict() for row in frame.collect()]))


def test_of_rows_with_one_id_the_first_counts(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'same' AS id, concat('a = ', id) AS where FROM range(0, 50, 1, 5)")
    workers = Wants.read(spark, frame)
    assert shown(workers)["same"].where == "a = 0"
    assert [(each.id, each.reason) for each in workers.refused] == [("same", "another subscription has this id")] * 49


def test_a_folder_and_a_table_are_built_by_the_workers(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id, concat('a = ', id) AS where FROM range(120)")
    frame.write.parquet(str(tmp_path / "wants"))
    frame.createOrReplaceTempView("long_wants")
    for source in (str(tmp_path / "wants"), "long_wants"):
        wants = Wants.read(spark, source)
        assert wants.matcher.statistics().segments == 2
        assert match(events, source, columns=["number"]).count() == 60


def test_only_unusable_rows_make_an_empty_index(spark: SparkSession, events: DataFrame) -> None:
    frame = spark.sql("SELECT CAST(id AS string) AS id, 'a >' AS where FROM range(120)")
    wants = Wants.read(spark, frame)
    assert len(wants.refused) == 120
    assert match(events, wants, columns=["number"]).count() == 0
    with pytest.raises(InvalidSubscription, match=r"(?s)value should stand.* \(and 119 more\)"):
        match(events, frame, on_error="fail", plan="broadcast").count()
