"""Ctrl-C on a command of Spark, as a terminal sends it: to the whole group of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_HANG_GUARD_SECONDS = 300.0  # for a test that would never end; no test depends on it


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "palio", "spark", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], folder: Path, pattern: str) -> None:
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_a_job_ends_in_a_line_and_leaves_no_half(tmp_path: Path) -> None:
    out = tmp_path / "new" / "work"
    with running("generate", "eq", "--events", "1000000000", "--out", str(out), "--master", "local[2]") as process:
        wait_for(process, tmp_path, "new/work/events/_draft-*/_temporary/0/_temporary/*/part-*.parquet")
        os.killpg(process.pid, signal.SIGINT)
        said, faults = process.communicate(timeout=_HANG_GUARD_SECONDS)
    assert process.returncode == 130
    assert faults == f"interrupted; nothing was written to {out}/events\n"
    assert said == ""
    assert not (tmp_path / "new").exists()


def test_nor_does_one_that_is_starting_say_more(tmp_path: Path) -> None:
    out = tmp_path / "work"
    with running("generate", "eq", "--events", "1000", "--out", str(out), "--master", "local[2]") as process:
        while b"java" not in children_of(process.pid):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said, faults = process.communicate(timeout=_HANG_GUARD_SECONDS)
    assert (process.returncode, said, faults) == (130, "", f"interrupted; nothing was written to {out}/events\n")
    assert not out.exists()


def children_of(pid: int) -> bytes:
    """The commands of the processes that a process has started."""
    return subprocess.run(["ps", "-o", "args=", "--ppid", str(pid)], capture_output=True, check=False).stdout
