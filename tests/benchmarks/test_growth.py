"""Growth: the workload really holds the matches per event equal, and the points come out in order."""

from __future__ import annotations

import growth
import pytest
from harness import adapter

from tests.benchmarks.stand_in import StandIn


def test_matches_per_event_stay_equal_while_subscriptions_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "new_matcher", StandIn)
    monkeypatch.setattr(growth, "BATCH", 400)
    points = growth.measure(base=20, sizes=[500, 2000], events=400, rounds=1)
    assert [point.vocabulary for point in points] == [4, 9]
    assert points[0].growth == 1
    assert 0.5 < points[1].matches_per_event / points[0].matches_per_event < 2
    assert points[1].growth > 1
