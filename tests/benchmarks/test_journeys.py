"""Journeys: the bounds on how many files a reader follows, by the profiler."""

from __future__ import annotations

import json

import journeys
import pytest

# An event may meet a timer (retention, a checkpoint) on its way; a condition and a batch meet none.
BOUNDS = {"condition": 14, "batch": 14, "event": 33}


@pytest.mark.parametrize("journey", BOUNDS)
def test_a_journey_crosses_few_files(journey: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert journeys.main(["--only", journey, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 5 < found["files"] <= BOUNDS[journey], sorted(found["calls"])
