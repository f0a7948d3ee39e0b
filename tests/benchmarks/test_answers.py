"""Answers are compared by checksum: the sketch's, event by event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from harness.answers import Answers, mix64, pairs_of_table


def plain_mix(x: int) -> int:
    """The sketch's function on Python's integers."""
    mask = 2**64 - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
    return x ^ x >> 31


def test_mixing_is_the_sketch_s() -> None:
    numbers = np.random.default_rng(1).integers(0, 2**64, size=500, dtype=np.uint64)
    assert mix64(numbers).tolist() == [plain_mix(int(x)) for x in numbers]


def test_the_sum_does_not_depend_on_the_order_of_pairs() -> None:
    rows, subscriptions = np.array([0, 0, 2, 3]), np.array([5, 7, 5, 1])
    answers = Answers.of_pairs(rows, subscriptions, 5)
    assert answers.matches.tolist() == [2, 0, 1, 1, 0]
    expected = sum(plain_mix(r << 32 | s) for r, s in zip(rows.tolist(), subscriptions.tolist(), strict=True))
    assert answers.sum() == expected % 2**64
    shuffled = np.array([2, 3, 1, 0])
    assert answers.agrees_with(Answers.of_pairs(rows[shuffled], subscriptions[shuffled], 5))
    assert answers.agrees_with(Answers.of_lists([[7, 5], [], [5]]))


def test_a_missing_an_extra_and_a_wrong_pair_are_noticed() -> None:
    right = Answers.of_lists([[1, 2], [3]])
    for wrong in ([[1], [3]], [[1, 2], [3, 4]], [[1, 2], [4]], [[1, 2, 2], [3]], [[1, 2]] * 2):
        assert not right.agrees_with(Answers.of_lists(wrong))


def test_nothing_in_common_is_no_agreement() -> None:
    assert not Answers.of_lists([]).agrees_with(Answers.of_lists([[1]]))


def test_pairs_are_read_from_every_chunk_with_its_own_dictionary() -> None:
    chunks = [pa.array(ids).dictionary_encode() for ids in (["7", "3", "7"], ["11"])]
    column = pa.chunked_array(chunks)
    rows, subscriptions = pairs_of_table(pa.table({"row": [0, 0, 1, 4], "subscription": column}))
    assert rows.tolist() == [0, 0, 1, 4]
    assert subscriptions.tolist() == [7, 3, 7, 11]
