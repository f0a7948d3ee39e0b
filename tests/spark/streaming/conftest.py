"""Events that have come already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.streaming.scenario import StreamScenario

if TYPE_CHECKING:
    pass


@pytest.fixture
def flow(tmp_path: Path) -> StreamScenario:
    made = StreamScenario(tmp_path)
    for name in range(3):
        made.add_events(name)
    return made
