"""Dicts: batches are compared with single events, and every row has its figures."""

from __future__ import annotations

from typing import Any

import dicts
import pytest
from harness import adapter

from palio import Matcher


@pytest.mark.parametrize("shape", dicts.SHAPES)
def test_rows_of_a_shape(shape: str) -> None:
    rows = dicts.measure(shape, [1, 50], subscriptions=100, events=200, rounds=1)
    assert [row.batch for row in rows] == [1, 50]
    assert all(row.events_per_second > 0 and row.one_by_one > 0 for row in rows)


def test_other_matches_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Matcher):
        def match(self, event: Any) -> set[str]:
            return {"nobody"}

    monkeypatch.setattr(adapter, "new_matcher", Wrong)
    with pytest.raises(ValueError, match="different matches"):
        dicts.measure("dense", [1], subscriptions=10, events=10, rounds=1)
