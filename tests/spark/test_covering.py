"""Covering on Spark is covering by comparing every pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.spark import covering
from palio.workloads import mix
from palio.workloads.flights import SUBSCRIPTIONS, generated_subscriptions
from tests.covering.test_redundancy import compared_pairwise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(spark: SparkSession, wheres: dict[str, str]) -> None:
    found = {row["id"]: row["covered_by"] for row in covering(spark, _rows(wheres), partitions=3).collect()}
    ids = list(wheres)
    filters = [Filter.parse(where) for where in wheres.values()]
    covered = {ids[number] for number in compared_pairwise(filters, [""] * len(filters))}
    assert {id for id, by in found.items() if by is not None} == covered
    assert set(found) == set(ids)
    for id, by in found.items():
        if by is not None:
            assert found[by] is None
            assert Filter.parse(wheres[by]).covers(Filter.parse(wheres[id]))


def _rows(wheres: dict[str, str]) -> list[dict[str, str]]:
    return [{"id": id, "where": where} for id, where in wheres.items()]


def test_it_agrees_on_flights(spark: SparkSession) -> None:
    check(spark, {f"s{n}": each.where for n, each in enumerate((*SUBSCRIPTIONS, *generated_subscriptions(150)))})


def test_it_agrees_on_a_workload(spark: SparkSession) -> None:
    made = mix(attributes=4, conditions=(1, 3), present=(1, 4), vocabulary=5).subscriptions(300)
    check(spark, dict(zip(made["id"].to_pylist(), made["where"].to_pylist(), strict=True)))


def test_chains_lead_to_their_end_and_what_cannot_be_read_is_left_out(spark: SparkSession) -> None:
    rows = [{"id": f"x{n}", "where": f"x > {n}"} for n in range(30)] + [{"id": "typo", "where": "x >"}]
    found = {row["id"]: row["covered_by"] for row in covering(spark, rows).collect()}
    assert found == {"x0": None, **{f"x{n}": "x0" for n in range(1, 30)}}


def test_what_was_removed_covers_nobody(spark: SparkSession) -> None:
    wants = Matcher()
    wants.add_many(["wide", "narrow", "like"], ["x > 1", "x > 2", "y LIKE '%a%'"])
    wants.remove("wide")
    assert {row["id"]: row["covered_by"] for row in covering(spark, wants).collect()} == {"narrow": None, "like": None}


@pytest.mark.connect
def test_none_are_none(spark: SparkSession) -> None:
    assert covering(spark, []).collect() == []


def test_numeric_ids_keep_their_type(spark: SparkSession) -> None:
    found = covering(spark, spark.sql("SELECT * FROM VALUES (7, 'x > 1'), (8, 'x > 5') AS rules(id, where)"))
    assert found.dtypes == [("id", "int"), ("covered_by", "int")]
    assert sorted(map(tuple, found.collect())) == [(7, None), (8, 7)]
