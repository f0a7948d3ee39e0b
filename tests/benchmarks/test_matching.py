"""The benchmark measures every engine and holds their answers against each other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matching
import pytest
from harness import adapter, clock
from harness.engines import sketch
from harness.report import figure, short

from tests.benchmarks.stand_in import Forgetful, StandIn

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "matching.py"
ENGINES = [
    "Palio, batches of 8,192",
    "Palio, batches of 250",
    "Palio, one event at a time",
    "C++ sketch",
    "Python loop",
    "rule-engine",
    "DuckDB join",
    "Polars join",
]


@pytest.fixture(autouse=True)
def _not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark keeps its process on one core; the tests that share this process go on using all."""
    monkeypatch.setattr(matching, "pin_to_one_core", lambda: None)


def small_run(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[dict[str, Any]]]:
    arguments = ["--quick", "--json", "--seconds", "0.1", *more]
    if "--sizes" not in more:
        arguments += ["--sizes", "200"]
    status = matching.main(arguments)
    return status, json.loads(capsys.readouterr().out)["rows"]


def test_every_engine_gives_the_answers_of_the_stand_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapter, "new_matcher", StandIn)
    status, rows = small_run(capsys)
    assert status == 0
    assert [row["engine"] for row in rows] == ENGINES * 2
    for row in rows:
        assert not row["differs"]
        if row["engine"] == "C++ sketch" and shutil.which("g++") is None:
            continue
        assert row["events_per_second"] > 0
        assert row["checked_events"] > 0
    for row in rows[0], rows[8]:
        assert row["index_bytes_per_subscription"] == 100
        assert row["bulk_adds_per_second"] > 0
    for row in rows[2], rows[10]:
        assert row["adds_per_second"] > 0
        assert row["removals_per_second"] > 0


def test_a_matcher_that_loses_matches_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapter, "new_matcher", Forgetful)
    status, rows = small_run(capsys, "--workloads", "mix", "--engines", "DuckDB join")
    assert status == 1
    assert any(row["differs"] for row in rows)


def test_a_matcher_that_forgets_what_was_added_is_found_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Deaf(StandIn):
        def add(self, id: str, where: str) -> None:
            super().add(id, "s00 = 'never'")

        def add_many(self, ids: Any, wheres: Any) -> None:
            for id, where in zip(ids, wheres, strict=True):
                super().add(id, where)

    monkeypatch.setattr(adapter, "new_matcher", Deaf)
    status, rows = small_run(capsys, "--workloads", "mix", "--sizes", "600", "--events", "300", "--engines")
    assert status == 1
    assert [row["note"] for row in rows if row["differs"]] == ["after changes"]


def test_what_cannot_run_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object) -> None:
        raise clock.OutOfTime

    monkeypatch.setattr(adapter, "new_matcher", StandIn)
    monkeypatch.setattr(sketch.shutil, "which", lambda _: None)
    monkeypatch.setitem(matching.ALTERNATIVES, "Python loop", never)
    sizes = ("--sizes", "100", "200", "--events", "250")
    status, rows = small_run(capsys, "--workloads", "eq", "--engines", "Python loop", *sizes)
    assert status == 0
    assert [row["note"] for row in rows if row["engine"] in ("C++ sketch", "Python loop")] == [
        "skipped: no g++ here",
        "skipped: not built in 0.4 s",
        "skipped: no g++ here",
        "skipped: too slow at a smaller size",
    ]


@pytest.mark.deep
def test_padres_is_a_task_that_every_engine_but_the_sketch_can_do(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapter, "new_matcher", StandIn)
    monkeypatch.setattr(matching, "warm_up", lambda _: 0.0)
    monkeypatch.setenv("PALIO_DATA", str(data_folder))
    status, rows = small_run(capsys, "--workloads", "padres", "--events", "60", "--seconds", "2")
    assert status == 0
    assert [row["engine"] for row in rows] == ENGINES
    checked = {row["engine"]: row["checked_events"] for row in rows}
    assert checked.pop("C++ sketch") is None
    assert all(events for engine, events in checked.items() if engine != ENGINES[0])


def test_the_quick_run_of_palio_itself_is_verified_and_prints_one_table() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DIFFERS" not in done.stdout
    for engine in ENGINES:
        assert done.stdout.count(engine) == 2


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "–"), (0.12345, "0.123"), (45.678, "45.7"), (678.9, "679"), (4321, "4.3 k"), (2.5e6, "2.50 M")],
)
def test_figures_have_the_digits_a_benchmark_deserves(number: float | None, text: str) -> None:
    assert figure(number) == text


def test_sizes_are_written_short_and_read_back() -> None:
    for size, text in ((500, "500"), (1_000, "1k"), (250_000, "250k"), (3_000_000, "3M")):
        assert short(size) == text
        # The reader of `--sizes`, without running the benchmark.
        assert matching._count(text) == size
