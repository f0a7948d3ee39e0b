"""On a cluster that loses a worker in the middle of a job, the answer is the answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from palio import Filter
from tests.spark.cluster import HANG_GUARD_SECONDS, PARTITIONS, ROWS, SUBSCRIPTIONS, Cluster
from tests.spark_session import spark_environment

pytestmark = [pytest.mark.spark, pytest.mark.deep]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        made.start(workers=2)
        yield made
    finally:
        made.stop()


def expected() -> Counter[tuple[int, str | None]]:
    filters = {id: Filter.parse(where) for id, where in SUBSCRIPTIONS.items()}
    rows = [{"id": id, "price": id * 7 % 13, "symbol": f"s{id % 3}"} for id in range(ROWS)]
    return Counter((row["id"], id) for row in rows for id, each in filters.items() if each.matches(row))


@pytest.mark.parametrize("plan", ["broadcast", "rendezvous", "per event"])
def test_a_worker_that_dies_in_the_middle_of_a_job_changes_nothing(tmp_path: Path, cluster: Cluster, plan: str) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    command = [sys.executable, "-m", "tests.spark.cluster", cluster.address, str(tmp_path), plan]
    with (tmp_path / "job.log").open("wb") as output:
        job = subprocess.Popen(command, env={**os.environ, **spark_environment()}, stdout=output, stderr=output)
    try:
        end = time.monotonic() + HANG_GUARD_SECONDS
        while len(seen := list(begun.iterdir())) < PARTITIONS // 3:
            assert job.poll() is None, (tmp_path / "job.log").read_text()[-3000:]
            assert time.monotonic() < end
            time.sleep(0.05)
        cluster.kill("worker 0")
        assert job.wait(HANG_GUARD_SECONDS) == 0, (tmp_path / "job.log").read_text()[-3000:]
    finally:
        job.kill()
    assert len(seen) < PARTITIONS
    wanted = expected()
    if plan == "per event":
        wanted.update((id, None) for id in range(ROWS) if not any((id, each) in wanted for each in SUBSCRIPTIONS))
    # Somebody began again with what died: in one stage, one partition twice.
    assert max(Counter(each.name.rpartition("-")[0] for each in begun.iterdir()).values()) > 1
    table = pq.read_table(tmp_path / "hits", columns=["id", "subscription_id"])
    assert Counter(zip(*table.to_pydict().values(), strict=True)) == wanted
