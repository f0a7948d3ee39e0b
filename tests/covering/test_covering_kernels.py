"""Kernels of covering where Python interprets them, which it does until they are compiled."""

from __future__ import annotations

import numpy as np
import pytest

from palio.covering.covering_kernels import DOMINATED, DOMINATING, find_in_columns
from palio.matching.columnar.kernel_interpreter import interpreted


@pytest.mark.parametrize("direction", [DOMINATING, DOMINATED])
@pytest.mark.parametrize("points", [255, 256, 257, 512])
def test_however_many_points_of_a_block_pass_all_are_found(points: int, direction: int) -> None:
    found = np.empty(600, np.int64)
    columns, corner = np.zeros((2, 1024)), np.zeros(2)
    assert interpreted(find_in_columns)(columns, points, corner, direction, 0, found) == (points, points)
    assert found[:points].tolist() == list(range(points))
