"""Progress of a Spark job on a terminal: rows, rows a second, matches, tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from palio.cli.spark.job import JobProgress, run
from palio.spark import Rendezvous, estimate, generate, match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WANTS = [{"id": "low", "where": "price < 30"}, {"id": "high", "where": "price >= 90"}]


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> DataFrame:
    for part in range(4):
        prices = pa.table({"price": list(range(part * 25, part * 25 + 25)), "text": ["…"] * 25})
        pyarrow.parquet.write_table(prices, tmp_path / f"{part}.parquet")
    return spark.read.parquet(str(tmp_path))


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["price"]},
        {"per_event": True},
        {"plan": Rendezvous(mapping="attribute-split", buckets=3), "columns": ["price"]},
    ],
    ids=["through Python", "beside Python", "rendezvous"],
)
def test_rows_and_matches_are_counted_while_a_job_runs(
    spark: SparkSession, events: DataFrame, options: dict[str, Any]
) -> None:
    seen = JobProgress()
    run(spark, "Matching", lambda: match(events, WANTS, **options).collect(), seen)
    assert seen.matches == 40
    # The rendezvous plan looks at a sample before.
    assert seen.rows >= 100
    assert seen.completed == seen.tasks > 0
    assert seen.points[-1].value == seen.rows
    for said in ("rows", "/s", "40 matches", "tasks"):
        assert said in str(seen)


def test_jobs_that_match_nothing_or_inside_are_counted_too(spark: SparkSession, events: DataFrame) -> None:
    made, estimated = JobProgress(), JobProgress()
    run(spark, "Making events", lambda: generate(spark, "mix", "events", 300).collect(), made)
    assert (made.rows, made.matches) == (300, 0)
    found = run(spark, "Estimating", lambda: estimate(events, "price < 30"), estimated)
    assert (found.matches, estimated.matches) == (30, 30)


def test_who_does_not_watch_does_not_count(spark: SparkSession, events: DataFrame) -> None:
    seen = JobProgress()
    run(spark, "Nothing", lambda: None, seen)
    match(events, WANTS).collect()
    assert (seen.rows, seen.matches, str(seen)) == (0, 0, "starting")


@pytest.mark.deep
@pytest.mark.spark
def test_a_terminal_shows_it(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"price": list(range(100_000))}), tmp_path / "events.parquet")
    (tmp_path / "wants.jsonl").write_text('{"id": "low", "where": "price < 30"}\n')
    command = ["match", "--master", "local[1]", "--events", "events.parquet", "--subscriptions", "wants.jsonl"]
    ours, theirs = os.openpty()
    line = [sys.executable, "-m", "palio", "spark", *command]
    shown = b""
    with subprocess.Popen(line, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        # A terminal says by an error that nobody is there any more.
        with os.fdopen(ours, "rb", buffering=0) as screen, suppress(OSError):
            while said := screen.read(4096):
                shown += said
    assert process.returncode == 0, shown
    for text in ("Matching", "task", "most matched", "starting"):
        assert text in shown.decode()
