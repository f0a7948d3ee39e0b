"""Kernels of digests where Python interprets them, which it does until they are compiled."""

from __future__ import annotations

import numpy as np
import pytest

from palio.matching.columnar.kernel_interpreter import interpreted
from palio.matching.columnar.native import address_of
from palio.routing.forwarding.bloom import digest_kernels

WIDTH = 192
BITS = [63, 0, 127, 64, 191, 31, 32, 95]  # the first and last bits of words and of their halves


@pytest.mark.parametrize("predicates", [[0], [4], list(range(8)), [7, 2, 2, 0]], ids=str)
def test_digests_have_the_bits_of_their_predicates_ascending(predicates: list[int]) -> None:
    own = np.array(BITS, np.int32)
    rows, numbers = np.zeros(len(predicates), np.int64), np.array(predicates, np.int32)
    starts, bits = np.zeros(3, np.int64), np.zeros(len(predicates) + 2, np.int32)
    present = np.zeros(WIDTH // 64, np.int64)
    made = interpreted(digest_kernels.gather_digests)(
        (address_of(rows), address_of(numbers), len(rows), 2),
        (address_of(own), 1),
        address_of(present),
        len(present),
        address_of(starts),
        address_of(bits),
    )
    expected = sorted({BITS[each] for each in predicates})
    assert (bits[:made].tolist(), starts.tolist(), present.any()) == (expected, [0, made, made], False)
