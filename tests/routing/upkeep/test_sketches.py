"""Sketches of tables: the laws of their algebra, and how often unequal tables look equal."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.routing.strategies import Stabilising
from palio.routing.upkeep.sketches import (
    ENTRY_BYTES,
    MAX_SKETCH_BYTES,
    CountingSketch,
    SketchShape,
    elements_of,
    false_equality,
    false_equality_of_independent_bits,
    is_equal,
    sketch_of,
    union_of,
)

entry_sets = st.sets(st.binary(min_size=ENTRY_BYTES, max_size=ENTRY_BYTES), max_size=30)
SHAPE = SketchShape(256, 3)


def drawn(random: Random, count: int) -> list[bytes]:
    return [random.randbytes(ENTRY_BYTES) for _ in range(count)]


def counted(entries: set[bytes], seed: int = 7) -> CountingSketch:
    sketch = CountingSketch(SHAPE, seed)
    sketch.add(elements_of(b"".join(sorted(entries))))
    return sketch


@given(entry_sets, entry_sets)
def test_the_sketch_of_a_union_is_the_union_of_the_sketches(one: set[bytes], other: set[bytes]) -> None:
    assert counted(one | other).vector == union_of([counted(one).vector, counted(other).vector])


@given(entry_sets, entry_sets)
def test_what_is_added_and_removed_leaves_no_trace(kept: set[bytes], removed: set[bytes]) -> None:
    sketch = counted(kept)
    before = sketch.message()
    elements = elements_of(b"".join(removed))
    sketch.add(elements)
    sketch.remove(elements)
    assert sketch.message() == before


@given(entry_sets, st.integers(0, 2**53))
def test_equal_tables_have_equal_sketches_whatever_their_order(entries: set[bytes], seed: int) -> None:
    there = sketch_of(b"".join(sorted(entries)), SHAPE, seed)
    assert is_equal(b"".join(sorted(entries, reverse=True)), there, seed)


def test_an_entry_that_is_not_there_cannot_be_removed() -> None:
    sketch = counted(set())
    with pytest.raises(KeyError):
        sketch.remove(elements_of(bytes(ENTRY_BYTES)))


def test_tables_of_different_length_never_look_equal() -> None:
    entries = drawn(Random(1), 40)
    there = sketch_of(b"".join(entries), SketchShape(8, 1), 0)
    assert not is_equal(b"".join(entries[:-1]), there, 0)


# Formulas


@pytest.mark.parametrize(
    ("only_one", "only_other", "expected"), [(1, 0, 0.297), (3, 0, 0.0262), (1, 1, 0.0884), (3, 3, 6.90e-4)]
)
def test_theorem_6_gives_the_values_of_the_source(only_one: int, only_other: int, expected: float) -> None:
    other = 1000 - only_one + only_other
    rate = false_equality_of_independent_bits(SketchShape(4000, 2), 1000, other, only_one, only_other)
    assert rate == pytest.approx(expected, rel=0.02)


def test_false_equality_falls_with_the_difference_the_hashes_and_the_bits() -> None:
    """Figure 5.1 of the source: roughly exponentially with the entries that are in one table only."""
    for bits, hashes in ((4000, 2), (8000, 2), (8000, 4)):
        rates = [false_equality_of_independent_bits(SketchShape(bits, hashes), 1000, 1000, d, 0) for d in range(1, 9)]
        ratios = [later / rate for rate, later in pairwise(rates)]
        assert max(ratios) < 1
        assert max(ratios) - min(ratios) < 0.02
    few, more_bits, more_hashes = (
        false_equality_of_independent_bits(SketchShape(*shape), 1000, 1000, 3, 0)
        for shape in ((4000, 2), (8000, 2), (8000, 4))
    )
    assert few > more_bits > more_hashes


@pytest.mark.parametrize(("only_one", "only_other", "expected"), [(1, 0, 0.155), (1, 1, 0.0239), (3, 0, 0.0037)])
def test_the_accurate_rate_is_below_that_of_theorem_6(only_one: int, only_other: int, expected: float) -> None:
    shape, other = SketchShape(4000, 2), 1000 - only_one + only_other
    rate = false_equality(shape, 1000, other, only_one, only_other)
    assert rate == pytest.approx(expected, rel=0.03)
    assert rate < false_equality_of_independent_bits(shape, 1000, other, only_one, only_other)


@pytest.mark.parametrize(("only_one", "only_other"), [(1, 0), (1, 1), (3, 0)])
def test_the_measured_rate_is_the_accurate_one(only_one: int, only_other: int) -> None:
    random = Random(18)
    runs, shape = 1500, SketchShape(4000, 2)
    shared = drawn(random, 1000 - only_one)
    elements, equal = elements_of(b"".join(shared)), 0
    for seed in range(runs):  # another seed each time, as in rounds
        one, other = CountingSketch(shape, seed), CountingSketch(shape, seed)
        for sketch, count in ((one, only_one), (other, only_other)):
            sketch.add(elements)
            sketch.add(elements_of(b"".join(drawn(random, count))))
        equal += one.vector == other.vector
    expected = false_equality(shape, 1000, 1000 - only_one + only_other, only_one, only_other)
    deviation = (expected * (1 - expected) / runs) ** 0.5
    assert abs(equal / runs - expected) < 4 * deviation + 0.002


def test_a_difference_that_one_seed_hides_another_one_shows() -> None:
    random, shape = Random(3), SketchShape(64, 1)
    shared = drawn(random, 60)
    one, other = b"".join([*shared, *drawn(random, 1)]), b"".join([*shared, *drawn(random, 1)])
    hidden = [seed for seed in range(200) if is_equal(one, sketch_of(other, shape, seed), seed)]
    assert hidden
    assert len(hidden) < 200


@pytest.mark.parametrize("rate", [1e-2, 1e-6, 1e-9])
def test_a_sketch_for_a_rate_has_that_rate_between_tables_of_equal_length(rate: float) -> None:
    shape = SketchShape.for_rate(1000, rate)
    assert false_equality(shape, 1000, 1000, 1, 1) <= rate * 1.1


def test_four_bits_an_entry_are_a_hundredth_of_the_table() -> None:
    entries = drawn(Random(0), 1000)
    sketch = sketch_of(b"".join(entries), SketchShape.of(Stabilising(sketch_bits=4, sketch_hashes=2), 1000), 1)
    assert len(sketch.vector) == 500
    assert 100 * len(sketch.vector) == 1000 * 50  # 50 bytes are those of a subscription as text


def test_a_sketch_is_bounded_and_hashes_need_bits() -> None:
    assert SketchShape.for_rate(10**9, 1e-9).bits == 8 * MAX_SKETCH_BYTES
    with pytest.raises(InvalidArgument, match="sketch_hashes goes with sketch_bits"):
        SketchShape.of(Stabilising(sketch_hashes=3), 10)


def test_elements_are_spread_over_all_bits() -> None:
    sketch = CountingSketch(SketchShape(1024, 4), 5)
    sketch.add(elements_of(b"".join(drawn(Random(9), 2000))))
    assert np.unpackbits(np.frombuffer(sketch.vector, np.uint8)).mean() > 0.99
