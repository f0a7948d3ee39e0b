"""Digests: bits of predicates are reproducible, distinct, and collide as rarely as computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.matching.columnar.kernel_interpreter import interpreted
from palio.matching.columnar.native import address_of
from palio.routing.forwarding.bloom import digest_kernels
from palio.routing.forwarding.bloom.classical import CountingBloom, has_all, is_smaller_sparse
from palio.routing.forwarding.bloom.digest import (
    MAX_TWO_BYTE_WIDTH,
    BloomShape,
    expected_fill,
    false_positive_rate,
    from_bitmap,
    predicate_text,
    to_bitmap,
    union,
)

WIDTHS = st.sampled_from([64, 256, 1 << 12, 1 << 14, 1 << 16])


def text_of(condition: str) -> str:
    tree = Filter.parse(condition).tree
    assert isinstance(tree, Leaf)
    return predicate_text(tree)


def test_the_formula_gives_what_the_source_computes() -> None:
    assert false_positive_rate(4096, 5000, 4) == pytest.approx(0.970, abs=5e-4)
    assert false_positive_rate(1 << 14, 5000, 2) == pytest.approx(0.209, abs=5e-4)
    assert false_positive_rate(1 << 16, 5000, 4) == pytest.approx(0.00478, abs=5e-6)


def test_two_hundred_bits_seldom_satisfy_a_predicate_they_are_not_of() -> None:
    assert expected_fill(1 << 14, 100, 2) == pytest.approx(0.0122, abs=1e-4)
    assert false_positive_rate(1 << 14, 100, 2) == pytest.approx(1.5e-4, rel=0.02)
    assert false_positive_rate(1 << 16, 100, 2) == pytest.approx(9.3e-6, rel=0.02)


def test_indices_are_smaller_than_a_bitmap_up_to_a_share_of_its_width() -> None:
    assert is_smaller_sparse(1 << 14, 1170)
    assert not is_smaller_sparse(1 << 14, 1171)


@given(st.floats(1e-9, 0.5), st.integers(1, 1000))
def test_a_shape_for_a_rate_keeps_it_and_no_narrower_one_would(rate: float, satisfied: int) -> None:
    shape = BloomShape.for_rate(rate, satisfied)
    assert false_positive_rate(shape.width, satisfied, shape.hashes) <= rate
    assert (
        shape.width == 2
        or shape.hashes > shape.width // 2
        or (false_positive_rate(shape.width // 2, satisfied, shape.hashes) > rate)
    )


@given(st.floats(1e-9, 0.5), st.integers(1, 1000))
def test_a_shape_for_a_rate_has_as_few_hashes_as_short_indices_allow(rate: float, satisfied: int) -> None:
    shape = BloomShape.for_rate(rate, satisfied)
    assert shape.width <= MAX_TWO_BYTE_WIDTH
    for hashes in range(1, shape.hashes):
        assert false_positive_rate(MAX_TWO_BYTE_WIDTH, satisfied, hashes) > rate


def test_where_no_short_index_is_enough_the_digest_is_as_narrow_as_it_can_be() -> None:
    shape = BloomShape.for_rate(1e-6, 100_000)
    assert shape.width > MAX_TWO_BYTE_WIDTH
    assert false_positive_rate(shape.width, 100_000, shape.hashes) <= 1e-6


@pytest.mark.parametrize(("width", "hashes"), [(1000, 2), (1, 1), (64, 0), (64, 65), (1 << 31, 2)])
def test_a_shape_that_makes_no_sense_is_refused(width: int, hashes: int) -> None:
    with pytest.raises(InvalidArgument):
        BloomShape(width, hashes)


def test_a_rate_that_makes_no_sense_is_refused() -> None:
    for rate, satisfied in ((0.0, 1), (1.0, 1), (0.1, 0)):
        with pytest.raises(InvalidArgument):
            BloomShape.for_rate(rate, satisfied)
    with pytest.raises(InvalidArgument):
        BloomShape(key=bytes(65))


@given(st.text(), WIDTHS, st.integers(1, 16))
def test_a_predicate_sets_as_many_bits_as_there_are_hashes(text: str, width: int, hashes: int) -> None:
    bits = BloomShape(width, hashes).bits_of(text)
    assert len(bits) == hashes
    assert list(bits) == sorted(set(bits))
    assert 0 <= bits[0] <= bits[-1] < width


def test_bits_are_the_same_in_every_process_and_version() -> None:
    shape = BloomShape(1 << 14, 4, b"palio")
    assert shape.bits_of("price > 100") == (238, 1671, 13756, 15189)


def test_another_key_gives_other_bits() -> None:
    assert BloomShape(key=b"ours").bits_of("x > 1") != BloomShape(key=b"theirs").bits_of("x > 1")


@pytest.mark.parametrize(
    ("one", "other"), [("x > 5", "NOT x <= 5"), ("x IN (1, 2)", "x = 2 OR x = 1"), ("x >= 5 AND x <= 5", "x = 5")]
)
def test_equal_conditions_have_one_text(one: str, other: str) -> None:
    assert text_of(one) == text_of(other)


def test_unlike_conditions_have_unlike_texts() -> None:
    conditions = [
        "x > 5",
        "x >= 5",
        "NOT x = 5",
        "x = 'a,b'",
        "x IN ('a', 'b')",
        "x = x'61'",
        "x = 'a'",
        "y > 5",
        "x = '5'",
        "x = 5",
        "x IS NULL",
        "x < 5.0",
        "x < 5.5D",
        "x LIKE 'a%'",
        "x = 5.5",
        "x = DATE'2024-01-01'",
    ]
    assert len({text_of(each) for each in conditions}) == len(conditions)


@given(st.sets(st.integers(0, 255)))
def test_sparse_and_dense_agree(bits: set[int]) -> None:
    given_bits = tuple(sorted(bits))
    assert from_bitmap(to_bitmap(256, given_bits)) == given_bits


def test_bit_64_is_the_first_of_the_ninth_byte() -> None:
    assert to_bitmap(128, (64,)) == bytes(8) + b"\1" + bytes(7)


ELEMENTS = st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=4).map(lambda bits: tuple(sorted(bits))))


@given(ELEMENTS, ELEMENTS)
def test_a_counting_filter_forgets_what_is_removed_and_nothing_else(
    kept: list[tuple[int, ...]], gone: list[tuple[int, ...]]
) -> None:
    counting, fresh = CountingBloom(), CountingBloom()
    for each in kept + gone:
        counting.add(each)
    assert all(has_all(counting.bits, each) for each in kept + gone)
    for each in gone:
        counting.remove(each)
    for each in kept:
        fresh.add(each)
    assert counting == fresh
    assert counting.bits == union(kept)


def test_what_was_added_twice_must_be_removed_twice() -> None:
    counting = CountingBloom()
    counting.add((1, 2))
    counting.add((1, 2))
    counting.remove((1, 2))
    assert counting.bits == (1, 2)
    counting.remove((1, 2))
    assert counting.bits == ()
    with pytest.raises(KeyError):
        counting.remove((1, 2))


def test_the_last_bit_of_a_word_is_gathered_before_kernels_are_compiled_too() -> None:
    rows, numbers = np.array([0, 0, 1], np.int64), np.array([0, 1, 1], np.int32)
    bits_of = np.array([[63, 5], [127, 63]], np.int32)
    for gather in (digest_kernels.gather_digests, interpreted(digest_kernels.gather_digests)):
        starts, bits, present = np.zeros(3, np.int64), np.zeros(64, np.int32), np.zeros(2, np.int64)
        matches = (address_of(rows), address_of(numbers), 3, 2)
        made = gather(matches, (address_of(bits_of), 2), address_of(present), 2, address_of(starts), address_of(bits))
        assert (starts.tolist(), bits[:made].tolist()) == ([0, 3, 5], [5, 63, 127, 63, 127])
