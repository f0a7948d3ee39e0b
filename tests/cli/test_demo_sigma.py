"""`palio demo sigma`: which rules fire, and the message without rules and logs."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from palio.cli.main import palio

RULE = """
title: Somebody asks who they are
id: 3f6f9b60-2b1c-4f57-8f5e-1f6f0c9f1a01
level: low
logsource: {category: process_creation, product: windows}
detection:
  selection: {Image|endswith: '\\whoami.exe'}
  condition: selection
"""
RULES = {
    "rules/whoami.yml": RULE,
    "rules/quiet.yml": RULE.replace("a01", "a02").replace("whoami", "never").replace("low", "critical"),
    "rules/count.yml": RULE.replace("a01", "a03").replace("condition: selection", "condition: selection | count() > 5"),
    "rules/linux.yml": RULE.replace("a01", "a04").replace("product: windows", "product: linux"),
    "deprecated/old.yml": RULE.replace("a01", "a05"),
}
EVENT = (
    '{"Channel": "Security", "EventID": 4688, "NewProcessName": "C:\\\\whoami.exe"}\n'
    '{"Channel": "System", "EventID": 7}\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "subscriptions").mkdir()
    (tmp_path / "events").mkdir()
    with tarfile.open(tmp_path / "subscriptions" / "sigma_rules.tar.xz", "w:xz") as archive:
        for name, text in RULES.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    with lzma.open(tmp_path / "events" / "otrf_windows_956701.jsonl.xz", "wt") as file:
        file.write(EVENT * 10)
    return tmp_path


def demo(folder: Path, *arguments: str, columns: int = 80) -> Result:
    environment = {"COLUMNS": str(columns), "PALIO_DATA": str(folder)}
    return CliRunner(env=environment).invoke(palio, ["demo", "sigma", *arguments])


@pytest.mark.parametrize("columns", [80, 140])
def test_it_shows_which_rules_fire_and_how_fast(folder: Path, columns: int) -> None:
    answer = demo(folder, columns=columns)
    assert answer.exit_code == 0, answer.stderr
    for fact in ["20 events", "2 Sigma rules", "Somebody asks", "low", "10", "events/s", "1 refused", "1 rule fired"]:
        assert fact in answer.stdout
    assert "critical" not in answer.stdout
    assert max(map(cell_len, answer.stdout.splitlines())) <= columns


def test_events_and_rules_may_be_fewer_or_more(folder: Path) -> None:
    answer = demo(folder, "--events", "5", "--all-products")
    assert "5 events" in answer.stdout
    assert "3 Sigma rules" in answer.stdout


def test_without_the_data_it_says_what_to_do(tmp_path: Path) -> None:
    answer = demo(tmp_path)
    assert answer.exit_code == 2
    assert "set PALIO_DATA to the folder that has them" in answer.stderr


def test_flights_are_still_the_first_thing_to_see() -> None:
    answer = CliRunner().invoke(palio, ["demo", "--help"])
    assert "real flights" in answer.stdout
    assert "sigma" in answer.stdout
