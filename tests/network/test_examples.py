"""The examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_events_cross_three_brokers_and_tell_how_old_they_are() -> None:
    done = subprocess.run(
        [sys.executable, "examples/latency.py", "--ports", "0", "0", "0", "--events", "5", "--pause", "0.01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [re.fullmatch(r"(\d+)  (\d+\.\d{3}) ms", line) for line in done.stdout.splitlines()]
    assert [int(line.group(1)) for line in lines if line] == [1, 2, 3, 4, 5]
