"""A log of two versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from palio.spark import SubscriptionLog


@pytest.fixture
def log(tmp_path: Path) -> SubscriptionLog:
    made = SubscriptionLog(tmp_path / "log")
    made.add("a", "x = 1")
    made.add("b", "x = 2", subscriber="ada", metadata={"url": "http://here", "tags": [1, None]})
    made.commit()
    made.replace("a", "x = 10")
    made.remove("b")
    made.commit()
    return made
