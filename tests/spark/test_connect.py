"""Tests marked `connect`, through Spark Connect against a real server."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from pathlib import Path

import pytest

from palio.errors import PipelineError
from palio.spark.session import open_session


@pytest.mark.spark
def test_the_marked_share_passes_through_spark_connect(project_folder: Path) -> None:
    # The guard against a hanging test is for one test. This is a whole run, which has the guard for each of its own.
    faulthandler.cancel_dump_traceback_later()
    # A process is for one kind of session: pyspark's functions are of the one kind or of the other.
    share = [sys.executable, "-m", "pytest", "-q", "--connect", "-m", "connect and not deep", "tests/spark"]
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SPARK_", "COV_"))}
    ended = subprocess.run(share, cwd=project_folder, env=settings, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[:3000]  # a hanging test is at the beginning
    assert " passed" in ended.stdout


def test_what_spark_connect_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(PipelineError, match=r"pip install 'palio\[connect\]'"):
        open_session("sc://localhost")
