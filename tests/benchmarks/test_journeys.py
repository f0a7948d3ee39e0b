"""Journeys: the bounds on how many files a reader follows, by the profiler."""

from __future__ import annotations

import json

import journeys
import pytest

BOUNDS = {"condition": 15, "batch": 14, "event": 41}
# What timers do while an event is under way is no part of its journey, nor is what is measured on the way, nor a link
# that is made meanwhile.
FILES_BESIDE = {
    "network/addresses.py",
    "network/backoff.py",
    "network/links/neighbours.py",
    "network/server/leases.py",
    "network/server/matching_costs.py",
    "network/server/process_metrics.py",
    "network/store/disk_space.py",
    "network/store/wal_checkpoint.py",
    "routing/spanning_tree.py",
}


@pytest.mark.parametrize("journey", BOUNDS)
def test_a_journey_crosses_few_files(journey: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert journeys.main(["--only", journey, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    files = set(found["calls"]) - FILES_BESIDE
    assert 5 < len(files) <= BOUNDS[journey], sorted(files)
