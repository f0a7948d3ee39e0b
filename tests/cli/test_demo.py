"""`palio demo`: flights against subscriptions, at any width of the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from palio.cli.main import palio
from palio.workloads.flights import SUBSCRIPTIONS


def demo(*arguments: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(
        palio, ["demo", "--subscriptions", "200", "--events", "3000", *arguments]
    )


@pytest.mark.parametrize("columns", [80, 140])
def test_it_shows_who_hears_of_what_and_how_fast(columns: int) -> None:
    answer = demo(columns=columns)
    assert answer.exit_code == 0, answer.stderr
    for each in SUBSCRIPTIONS:
        assert each.subscriber in answer.stdout
    for fact in [
        "3,000 real flights",
        "212 subscriptions",
        "events/s",
        "matches/s",
        "indexed",
        "→HNL",
        "Try next",
    ]:
        assert fact in answer.stdout
    # The hints are commands to copy, and are not cut.
    lines = [line for line in answer.stdout.splitlines() if not line.startswith("  $ ")]
    assert max(map(cell_len, lines)) <= columns
    assert "\x1b" not in answer.stdout


def test_what_it_counts_is_what_the_filters_say() -> None:
    from palio import Filter
    from palio.workloads.flights import sample

    flights = sample().to_pylist()
    honolulu = next(each for each in SUBSCRIPTIONS if each.subscriber == "honolulu")
    expected = sum(Filter.parse(honolulu.where).matches(flight) for flight in flights[:3000])
    [line] = [line for line in demo(columns=140).stdout.splitlines() if line.startswith("honolulu")]
    assert f" {expected} " in line


def test_more_flights_than_there_are_come_again() -> None:
    answer = CliRunner().invoke(palio, ["demo", "--subscriptions", "0", "--events", "12000"])
    assert answer.exit_code == 0
    assert "12,000 real flights" in answer.stdout
    assert "generated" not in answer.stdout


def test_what_it_saves_can_be_matched_and_checked(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "flights"
    saved = demo("--save", str(folder))
    assert f"palio match {folder}/wants.jsonl {folder}/flights.parquet" in saved.stdout
    matched = CliRunner().invoke(palio, ["match", str(folder / "wants.jsonl"), str(folder / "flights.parquet")])
    assert matched.exit_code == 0
    [matches] = [line for line in saved.stdout.splitlines() if line.startswith("answered")]
    assert matches.split()[1] in matched.stdout
    assert CliRunner().invoke(palio, ["check", str(folder / "wants.jsonl")]).exit_code == 0


def test_on_spark_the_answers_are_the_same() -> None:
    """In a process of its own: this one has its session already."""
    tables = []
    for options in ([], ["--spark"]):
        command = [sys.executable, "-m", "palio", "demo", "--subscriptions", "50", "--events", "2000", *options]
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "COLUMNS": "140"}
        )
        assert answer.returncode == 0, answer.stderr
        tables.append(answer.stdout.partition("heard")[2].partition("\n\n ")[0])
        assert "events/s" in answer.stdout
    assert tables[0] == tables[1]
    assert len(tables[0]) > 1_000
