"""Spark calls with arguments of wrong types and values: a result or a `PalioError`, as `tests/test_arguments.py`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

import pytest

from palio import PalioError
from palio import spark as pipeline
from palio.spark import ParquetSink, SubscriptionLog
from tests.wrong_arguments import WRONG, check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUBSCRIPTIONS = [{"id": "a", "where": "x > 0"}]
FIELDS = {"where": "x > 1", "language": "sql", "subscriber": "s", "metadata": {}, "timezone": "UTC"}


def log(folder: Path) -> SubscriptionLog:
    made = SubscriptionLog(folder / "log")
    if not made.exists():
        made.add("a", "x > 1")
        made.commit()
    return made


def test_a_match_refuses_what_is_none(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "{}")], "x int, j string")
    given = {"columns": None, "subscription_columns": (), "json": (), "on_error": "quarantine", "memory": None}
    check(pipeline.match, events=events, subscriptions=SUBSCRIPTIONS, plan="auto", **given)
    with pytest.raises(PalioError, match="columns is a list of names, not 5"):
        pipeline.match(events, SUBSCRIPTIONS, columns=5)  # type: ignore[arg-type]
    with pytest.raises(PalioError, match="a name in json is a text, not 1"):
        pipeline.match(events, SUBSCRIPTIONS, json=[1])  # type: ignore[list-item]


def test_column_functions_refuse_what_is_no_column_and_no_session(spark: SparkSession) -> None:
    def call(function: Callable[..., Any], column: Any, **options: Any) -> Any:
        with catch_warnings(action="ignore"):  # another column than the subscription reads is right, too
            return function(SUBSCRIPTIONS, column, **options)

    for function in (pipeline.matches, pipeline.matching_function):
        check(partial(call, function), column="x", spark=spark, on_error="quarantine")
        check(function, subscriptions=SUBSCRIPTIONS)
    check(pipeline.register, spark=spark)
    events = spark.createDataFrame([(1,)], "x int")
    check(lambda **given: pipeline.annotate(events, SUBSCRIPTIONS, **given), name="header", json=())
    with pytest.raises(PalioError, match="spark is a SparkSession, not 'local'"):
        pipeline.matches(SUBSCRIPTIONS, "x", spark="local")  # type: ignore[arg-type]


def test_a_subscription_log_refuses_what_is_no_subscription(tmp_path: Path) -> None:
    check(SubscriptionLog, path=tmp_path / "log")
    check(lambda **given: log(tmp_path).add(**given), id="b", **FIELDS)
    check(lambda **given: log(tmp_path).replace(**given), id="a", **FIELDS)
    check(lambda **given: log(tmp_path).remove(**given), id="a")
    check(lambda **given: log(tmp_path).extend(**given), subscriptions=SUBSCRIPTIONS)
    with pytest.raises(PalioError, match="an address is a text or a Path, not None"):
        SubscriptionLog(None)  # type: ignore[arg-type]


def test_a_subscription_log_refuses_what_is_no_version(tmp_path: Path) -> None:
    check(lambda **given: log(tmp_path).at(**given), version=1)
    check(lambda **given: log(tmp_path).head(**given), version=1)
    check(lambda **given: list(log(tmp_path).versions(**given)), after=0, upto=1)
    check(lambda **given: log(tmp_path).compact(**given), keep=timedelta(days=1))
    with pytest.raises(PalioError, match="keep is a timedelta from 0 on"):
        log(tmp_path).compact(keep=7)  # type: ignore[arg-type]


@pytest.fixture
def ticks(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS x", "timestamp AS t", "'{}' AS j")


def test_a_stream_refuses_wrong_arguments_before_it_starts(ticks: DataFrame, tmp_path: Path) -> None:
    log(tmp_path)
    right: dict[str, Any] = {
        "events": ticks,
        "subscriptions": tmp_path / "log",
        "sink": ParquetSink(tmp_path / "matches"),
        "checkpoint": tmp_path / "checkpoint",
        "dead_letters": ParquetSink(tmp_path / "dead"),
    }
    refused = {
        "events": WRONG,
        "subscriptions": WRONG,
        "sink": WRONG,
        "columns": [-1, "x", [1], {"x": 1}, float("nan"), object(), True],
        "json": [None, -1, "x", [1], {"x": 1}, object(), True],
        "event_time": [-1, "nonsense", b"x", [1]],
        "lateness": [-1, 1.5, "1 day", timedelta(seconds=-1), object()],
        "malformed": [-1, "x IS NULL", ["x IS NULL"], {1: 2}, {"no": 1}, True],
        "trigger": [None, "1 second", {}, {1: 2}, {"nonsense": 1}, {"once": True, "availableNow": True}, True],
        "name": [-1, b"x", "\ud800", True, object()],
        "checkpoint": [None, -1, b"x", "\ud800", object()],
    }
    for name, values in refused.items():
        for value in values:
            try:
                pipeline.stream(**{**right, "event_time": "t", name: value}).stop()
            except PalioError as error:
                assert str(error)
                continue
            pytest.fail(f"{name}={value!r} was taken")
    assert not (tmp_path / "checkpoint").exists()


def test_the_progress_of_a_stream_is_asked_for_by_its_checkpoint(tmp_path: Path) -> None:
    check(pipeline.progress, checkpoint=tmp_path / "checkpoint")
