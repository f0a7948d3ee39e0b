"""Shapes: each makes conditions of which an event matches a few, and wrong answers are found out."""

from __future__ import annotations

import json
from typing import Any

import pytest
import shapes
from harness import adapter, shape_worker
from harness.condition_shapes import SHAPES, Shape
from harness.engines import duckdb_conditions

from palio import Filter, Matcher
from tests.benchmarks.stand_in import Forgetful

CONDITIONS = 600
PLAIN = SHAPES[0]
by_title = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.title)


@pytest.fixture(autouse=True)
def _not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark keeps its process on one core; the tests that share this process go on using all."""
    monkeypatch.setattr(shapes, "pin_to_one_core", lambda: None)


@by_title
def test_a_shape_makes_equal_conditions_and_events_for_equal_seeds(shape: Shape) -> None:
    assert shape.wheres(20) == shape.wheres(20) != shape.wheres(20, 1)
    assert shape.events(20, 100).equals(shape.events(20, 100))
    assert not shape.events(20, 100).equals(shape.events(20, 100, [0, 1]))


@by_title
def test_an_event_matches_a_few_conditions_at_every_number_of_them(shape: Shape) -> None:
    for size in (CONDITIONS, 4 * CONDITIONS):
        count = size // shape.fewer
        matcher = Matcher()
        matcher.add_many(map(str, range(count)), shape.wheres(count))
        events = 1_000 if shape.title == "a < b" else 100  # whose matches are rare, and many at once
        found = matcher.match_batch(shape.events(events, count)).num_rows / events
        assert found == 0 if shape.matches_nothing else 0.5 < found < 50, size


@by_title
def test_duckdb_counts_the_matches_of_brute_force(shape: Shape) -> None:
    wheres, batch = shape.wheres(30), shape.events(200, 30)
    counted = duckdb_conditions.run(shape, wheres, batch, 200, seconds=30)
    rows = [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]
    assert counted.note == ""
    assert counted.sample == [sum(map(Filter.parse(where).matches, rows)) for where in wheres]


def small_run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = shapes.main(
        ["--sizes", "100", "--seconds", "0.02", "--duckdb-seconds", "20", "--rounds", "1", "--json", *arguments]
    )
    return status, json.loads(capsys.readouterr().out)


def test_a_small_run_measures_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = small_run(capsys, "--only", "BETWEEN", "lower")
    assert status == 0
    assert [line["now"]["shape"] for line in found["lines"]] == [PLAIN.title, "lower(name) = 'x'"]
    for line in found["lines"]:
        assert line["error"] == ""
        assert line["baseline"] is None
        assert line["now"]["subscriptions"] == line["duckdb"]["conditions"] == 100
        for name in ("events_per_second", "microseconds_single", "adds_per_second", "matches_per_event"):
            assert line["now"][name] > 0


def test_a_commit_that_is_not_there_is_no_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--sizes", "50", "--seconds", "0.01", "--duckdb-seconds", "0", "--only", "BETWEEN"]
    assert shapes.main([*arguments, "--baseline", "no-such-commit"]) == 0
    printed = capsys.readouterr()
    assert "no baseline" in printed.err
    assert PLAIN.title in printed.out


@pytest.mark.deep
def test_another_commit_is_measured_beside(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = small_run(capsys, "--only", "BETWEEN", "--baseline", "HEAD")
    assert status == 0
    if found["lines"][0]["baseline"] is None:
        pytest.skip("no repository here")
    assert found["lines"][0]["baseline"]["events_per_second"] > 0


def test_a_matcher_that_loses_matches_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_worker, "BATCH", 64)
    assert shape_worker.measure(PLAIN, 300, 0.01).error == ""
    monkeypatch.setattr(adapter, "new_matcher", Forgetful)
    assert "matches otherwise alone" in shape_worker.measure(PLAIN, 300, 0.01).error
