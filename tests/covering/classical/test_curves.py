"""Space filling curves: bijections that visit the cells of each standard cube one after the other."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from palio.covering.classical.curves import CURVES, CurveName

every_curve = pytest.mark.parametrize("name", CURVES)
every_universe = pytest.mark.parametrize(("dimensions", "bits"), [(1, 4), (2, 3), (3, 2), (4, 2), (5, 1)])


@every_curve
@every_universe
def test_each_cell_has_a_key_of_its_own(name: CurveName, dimensions: int, bits: int) -> None:
    cells = list(product(range(1 << bits), repeat=dimensions))
    keys = [CURVES[name].key(cell, bits) for cell in cells]
    assert sorted(keys) == list(range(len(cells)))
    assert [CURVES[name].corner(key, dimensions, bits) for key in keys] == cells


@every_curve
@every_universe
def test_the_key_of_a_cube_is_what_the_keys_of_its_cells_begin_with(
    name: CurveName, dimensions: int, bits: int
) -> None:
    for cell in product(range(1 << bits), repeat=dimensions):
        for level in range(bits):
            cube = [coordinate >> level for coordinate in cell]
            assert CURVES[name].key(cube, bits - level) == CURVES[name].key(cell, bits) >> (level * dimensions)


@every_universe
def test_steps_of_the_hilbert_curve_lead_to_the_next_cell_and_those_of_the_gray_curve_along_one_axis(
    dimensions: int, bits: int
) -> None:
    cells = [
        {name: CURVES[name].corner(key, dimensions, bits) for name in CURVES} for key in range(1 << (dimensions * bits))
    ]
    for one, other in pairwise(cells):
        moved = [abs(a - b) for a, b in zip(one["hilbert"], other["hilbert"], strict=True)]
        assert sum(moved) == 1
        assert sum(a != b for a, b in zip(one["gray"], other["gray"], strict=True)) == 1
