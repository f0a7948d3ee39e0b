"""A writer that is killed at any point: all it confirmed is there, and nothing is damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def kill(path: Path, seed: int, kills: int) -> str:
    command = [sys.executable, "-m", "tests.network.store.crashing", str(path), str(seed), str(kills)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"seed {seed}: {ended.stderr}"
    return ended.stdout


def test_what_was_confirmed_survives_a_kill_at_any_point(tmp_path: Path) -> None:
    assert "25 kills" in kill(tmp_path, 1, 25)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 12))
def test_what_was_confirmed_survives_hundreds_of_kills(tmp_path: Path, seed: int) -> None:
    assert "60 kills" in kill(tmp_path, seed, 60)
