"""On events and subscriptions that nobody here made up, both plans find what asking one by one finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palio.errors import PalioError
from palio.filters.filter import Filter
from palio.spark import Rendezvous, match
from palio.spark.physical_plan import Plan
from palio.workloads.padres import read_quotes, read_subscriptions, to_sql
from tests.matching.test_real_data import LOGS, every, lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLANS: list[Plan] = ["broadcast", Rendezvous(buckets=3)]
Pairs = set[tuple[int, str]]


@pytest.fixture(autouse=True)
def names_as_they_are_written(spark: SparkSession) -> Iterator[None]:
    """Logs have `ProcessId` and `ProcessID`, which Spark takes for one unless it is told."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def frame(spark: SparkSession, folder: Path, events: list[dict[str, Any]]) -> DataFrame:
    """The events as Spark reads them from JSON, each with the number of its row."""
    with open(folder / "events.jsonl", "w", encoding="utf-8") as file:
        for number, event in enumerate(events):
            file.write(json.dumps({"palio_row": number, **event}) + "\n")
    return spark.read.json(str(folder / "events.jsonl"))


def asked_one_by_one(events: list[dict[str, Any]], wanted: dict[str, Filter]) -> Pairs:
    return {(row, id) for row, event in enumerate(events) for id, each in wanted.items() if each.matches(event)}


def found(events: DataFrame, wanted: list[dict[str, Any]], plan: Plan) -> Pairs:
    rows = match(events, wanted, plan=plan, columns=["palio_row"]).collect()
    pairs = {(row["palio_row"], row["subscription_id"]) for row in rows}
    assert len(pairs) == len(rows)
    return pairs


@pytest.mark.parametrize("plan", PLANS, ids=["broadcast", "rendezvous"])
@pytest.mark.parametrize("log", ["wikipedia", "cloudtrail"])
def test_logs(spark: SparkSession, data_folder: Path, tmp_path: Path, log: str, plan: Plan) -> None:
    name, step, wheres = LOGS[log]
    events = [json.loads(line) for line in every(step, lines(data_folder / "events" / name), 250)]
    wanted = {str(number): where for number, where in enumerate(wheres)}
    expected = asked_one_by_one(events, {id: Filter.parse(where) for id, where in wanted.items()})
    assert len(expected) > 50
    rows = [{"id": id, "where": where} for id, where in wanted.items()]
    assert found(frame(spark, tmp_path, events), rows, plan) == expected


@pytest.mark.parametrize("plan", PLANS, ids=["broadcast", "rendezvous"])
def test_padres(spark: SparkSession, data_folder: Path, tmp_path: Path, plan: Plan) -> None:
    texts = read_subscriptions(data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz")
    quotes = every(37, read_quotes(data_folder / "events" / "padres_stockquotes_245k.txt.xz"), 60)
    wanted = {str(number): to_sql(text) for number, text in enumerate(texts[::11])}
    filters = {where: Filter.parse(where) for where in wanted.values()}
    expected = asked_one_by_one(quotes, {id: filters[where] for id, where in wanted.items()})
    assert len(expected) > 500
    rows = [{"id": id, "where": where} for id, where in wanted.items()]
    assert found(frame(spark, tmp_path, quotes), rows, plan) == expected


@pytest.mark.parametrize("plan", PLANS, ids=["broadcast", "rendezvous"])
def test_sigma_over_recorded_attacks(spark: SparkSession, data_folder: Path, tmp_path: Path, plan: Plan) -> None:
    pytest.importorskip("sigma")
    from palio.languages.sigma.rule_files import rule_files

    file = data_folder / "events" / "otrf_windows_956701.jsonl.xz"
    events = [json.loads(line) for line in islice(lines(file), 0, 40_000, 80)]
    archive = data_folder / "subscriptions" / "sigma_rules.tar.xz"
    rules = [each.text for each in rule_files(archive, folders=("rules",)) if "product: windows" in each.text][8::48]
    wanted = {str(number): each for number, text in enumerate(rules) if (each := _filter(text)) is not None}
    expected = asked_one_by_one(events, wanted)
    assert expected
    rows = [{"id": id, "where": rules[int(id)], "language": "sigma"} for id in wanted]
    assert found(frame(spark, tmp_path, events), rows, plan) == expected


def _filter(rule: str) -> Filter | None:
    try:
        return Filter.parse(rule, language="sigma")
    except PalioError:
        return None
