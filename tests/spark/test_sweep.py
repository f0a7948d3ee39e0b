"""A sweep computes every point once, goes on where it was stopped, and loses nothing to a point that fails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palio.errors import InvalidArgument, PipelineError
from palio.spark import sweep
from palio.spark.experiment_jobs import grid_points

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_every_point_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    found = sweep(
        spark,
        lambda a, b, seed: {"sum": a + b + seed, "name": f"{a}{b}"},
        {"a": [1, 2], "b": [10.5]},
        tmp_path,
        seeds=2,
    )
    assert rows(found) == [
        {"a": 1, "b": 10.5, "seed": 0, "sum": 11.5, "name": "110.5"},
        {"a": 1, "b": 10.5, "seed": 1, "sum": 12.5, "name": "110.5"},
        {"a": 2, "b": 10.5, "seed": 0, "sum": 12.5, "name": "210.5"},
        {"a": 2, "b": 10.5, "seed": 1, "sum": 13.5, "name": "210.5"},
    ]


def test_what_is_known_is_not_computed_again(spark: SparkSession, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()

    def point(a: int, seed: int) -> dict[str, int]:
        (calls / f"{a}-{seed}-{len(list(calls.glob(f'{a}-{seed}-*')))}").touch()
        return {"square": a * a}

    sweep(spark, point, {"a": [1, 2]}, tmp_path / "results", seeds=[7])
    wider = sweep(spark, point, {"a": [3, 2, 1]}, tmp_path / "results", seeds=[7])
    assert [(row["a"], row["square"]) for row in rows(wider)] == [(3, 9), (2, 4), (1, 1)]
    assert sorted(each.name for each in calls.iterdir()) == ["1-7-0", "2-7-0", "3-7-0"]


def test_a_point_that_fails_stops_no_other_and_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    def fragile(a: int, seed: int) -> dict[str, float]:
        if a == 0 and not (tmp_path / "mended").exists():
            raise ZeroDivisionError("a is 0")
        return {"inverse": 1 / (a or 1)}

    with pytest.raises(PipelineError, match=r"1 of 3 points failed.*'a': 0.*ZeroDivisionError: a is 0"):
        sweep(spark, fragile, {"a": [2, 0, 4]}, tmp_path / "results")
    left = sweep(spark, fragile, {"a": [2, 0, 4]}, tmp_path / "results", on_error="skip")
    assert [row["inverse"] for row in rows(left)] == [0.5, 0.25]
    (tmp_path / "mended").touch()
    assert [row["inverse"] for row in rows(sweep(spark, fragile, {"a": [2, 0, 4]}, tmp_path / "results"))] == [
        0.5,
        1,
        0.25,
    ]


def test_a_point_may_have_many_rows_and_none(spark: SparkSession, tmp_path: Path) -> None:
    found = sweep(spark, lambda a, seed: [{"step": n, "x": n if n else 0.5} for n in range(a)], {"a": [0, 2]}, tmp_path)
    assert rows(found) == [{"a": 2, "seed": 0, "step": 0, "x": 0.5}, {"a": 2, "seed": 0, "step": 1, "x": 1.0}]


def test_what_makes_no_sense_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no parameter `seed`"):
        grid_points({"seed": [1]})
    with pytest.raises(InvalidArgument, match="what JSON can say"):
        sweep(spark, lambda a, seed: {}, {"a": [object()]}, tmp_path)
    with pytest.raises(PipelineError, match="name of the parameter 'a'"):
        sweep(spark, lambda a, seed: {"a": 1}, {"a": [1]}, tmp_path)
    with pytest.raises(PipelineError, match="'fail' or 'skip'"):
        sweep(spark, lambda a, seed: {}, {"a": [1]}, tmp_path, on_error="ignore")


def test_results_that_make_no_table_and_files_that_are_damaged_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="the results called 'x' make no column: int and str"):
        sweep(spark, lambda a, seed: {"x": "t" if a else 1}, {"a": [0, 1]}, tmp_path)
    [first, _] = sorted((tmp_path / "points").iterdir())
    first.write_text('[{"a')
    with pytest.raises(PipelineError, match=rf"{first.name} is damaged .*remove it"):
        sweep(spark, lambda a, seed: {}, {"a": [0, 1]}, tmp_path)
