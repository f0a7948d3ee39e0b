"""Postings whose numbers were changed are the postings that are built from the changed numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from palio.matching.columnar.postings import Postings
from palio.matching.columnar.renumbering_kernels import renumber_blocks, renumber_records
from tests.matching.columnar.twin import Inputs, Row, flat


def check(rows: list[Row], sizes: list[int], more: int, seed: int) -> None:
    own = np.array(sizes, np.int32)
    given = Postings.build(flat(rows, random.Random(seed)), own).arrays
    moved = [replace(row, number=row.number + more) for row in rows]
    expected = Postings.build(flat(moved, random.Random(seed)), own).arrays
    renumber_blocks(given["starts"], given["blocks"], more)
    renumber_records(given["records"], more)
    assert np.array_equal(given["blocks"], expected["blocks"])
    assert np.array_equal(given["records"], expected["records"])


@pytest.mark.parametrize("seed", range(30))
def test_renumbered_postings_are_those_of_the_new_numbers(seed: int) -> None:
    inputs = Inputs(seed)
    rows = inputs.rows(inputs.random.choice([0, 1, 9, 300]))
    check(rows, inputs.sizes, inputs.random.choice([0, 1, 65_535, 65_536, 9_000_000]), seed)


def test_large_postings_that_are_grouped_are_renumbered() -> None:
    choose = random.Random(1)
    # One slot of the first axis holds all rows: by points of one axis, by ranges of another, and by nothing else.
    seconds = [(1, 5, 5), (1, 7, 7), (2, 3, 9), (2, 4, 4), None]
    rows = [
        Row(number, [(0, 3, 3), *([second] if (second := choose.choice(seconds)) else [])]) for number in range(999)
    ]
    check(rows, [9, 60, 60], 70_000, 1)
