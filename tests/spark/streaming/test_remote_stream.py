"""Streams on a cluster and through Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from palio.spark import progress
from tests.spark.streaming.scenario import StreamScenario
from tests.spark_session import spark_environment


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["cluster", "connect"])
def test_a_stream_elsewhere_does_the_same(tmp_path: Path, project_folder: Path, kind: str) -> None:
    if kind == "connect":
        pytest.importorskip("grpc", reason="Spark Connect needs the packages of pyspark[connect]")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.streaming.remote_stream", str(tmp_path / "flow"), kind],
        cwd=tmp_path,
        env={**os.environ, **spark_environment(), "SPARK_LOCAL_DIRS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    flow = StreamScenario(tmp_path / "flow")
    assert flow.versions() == [1, 1, 2]
    past = Counter((id, "new") for batch in range(2) for id in range(batch * 1000, batch * 1000 + 10) if id % 3 == 2)
    assert flow.parquet() == flow.expected() + past
    assert [each.events for each in progress(flow.checkpoint, 3)] == [10, 10, 10]
