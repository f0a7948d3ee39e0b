"""The benchmark of Sigma rules: a small run of it ends well, and without the data it says so."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "sigma.py"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """By its path: its name is pySigma's too."""
    spec = importlib.util.spec_from_file_location("sigma_benchmark", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where its data classes look up their types
    spec.loader.exec_module(module)
    return module


def test_without_the_data_it_says_so(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALIO_DATA", str(tmp_path))
    assert benchmark.main([]) == 0
    assert "skipped: the rules and events are not here" in capsys.readouterr().err


@pytest.mark.deep
def test_a_small_run_compares_all_engines(
    benchmark: ModuleType, data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALIO_DATA", str(data_folder))
    arguments = [
        "--events",
        "2000",
        "--rules",
        "150",
        "--json-events",
        "500",
        "--sqlite-events",
        "300",
        "--rounds",
        "1",
    ]
    assert benchmark.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    lines: dict[str, Any] = {line["engine"]: line for line in found["lines"]}
    assert list(lines) == ["Palio, Arrow batches", "Palio, JSON lines", "DuckDB", "SQLite"]
    assert all(line["events_per_second"] > 0 for line in lines.values())
    assert all("equal on" in lines[engine]["note"] for engine in list(lines)[1:])
    assert benchmark.main(arguments) == 0
    assert "× DuckDB" in capsys.readouterr().out
