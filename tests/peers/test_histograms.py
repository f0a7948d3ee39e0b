"""Histograms: a value's cell lies in the runs of every set that contains it; cells are as full as their weights say."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet
from palio.peers.histograms import Histogram, merge_runs, on_ring
from tests.filters.set_strategies import plain_sets
from tests.strategies import values


def values_of(condition: str) -> ValueSet:
    tree = Filter.parse(condition).tree
    assert isinstance(tree, Leaf)
    return tree.values


def contains(runs: list[tuple[int, int]], cell: int) -> bool:
    return any(first <= cell <= last for first, last in runs)


@given(st.lists(values()), st.integers(1, 40), st.booleans(), st.lists(plain_sets(), max_size=4), values())
def test_the_cell_of_a_value_is_among_those_of_every_set_that_has_it(
    sample: list[object], cells: int, hashed: bool, sets: list[ValueSet], value: object
) -> None:
    scale = Histogram.of(sample, cells, sets, hashed=hashed)
    assert abs(sum(scale.weights) - bool(sample)) < 1e-9
    for each in (value, *sample):
        assert 0 <= scale.cell(each) < scale.cells
    for wanted in sets:
        runs = scale.runs(wanted)
        assert all(0 <= first <= last < scale.cells for first, last in runs)
        for each in (value, *sample):
            assert not wanted.contains(each) or contains(runs, scale.cell(each))


@given(st.lists(values(), min_size=1), st.integers(1, 40))
def test_order_is_kept_within_a_kind(sample: list[object], cells: int) -> None:
    scale = Histogram.of(sample, cells)
    numbers = sorted(each for each in sample if isinstance(each, int | str) and type(each) is type(sample[0]))
    found = [scale.cell(each) for each in numbers]
    assert found == sorted(found)


def test_cells_are_about_equally_full() -> None:
    choice = Random(1)
    scale = Histogram.of([choice.gauss(0, 1) for _ in range(10_000)], 50)
    assert 45 <= scale.cells - 7 <= 51
    assert max(scale.weights) < 1.5 / 50


def test_a_frequent_value_has_a_cell_of_its_own() -> None:
    choice = Random(1)
    rare = [f"{choice.choice('aw')}{choice.randrange(10_000)}" for _ in range(900)]
    scale = Histogram.of([*rare, *["often"] * 100], 20)
    (run,) = scale.runs(values_of("x = 'often'"))
    assert scale.weight([run]) == pytest.approx(0.1)
    assert scale.cell("ofteN") != scale.cell("often") != scale.cell("oftenn")


def test_constants_that_no_sampled_event_has_are_told_apart() -> None:
    conditions = [values_of(f"x = 'user{number}'") for number in range(1_000)]
    scale = Histogram.of(["nobody"] * 100, 64, conditions)
    assert len({scale.cell(f"user{number}") for number in range(1_000)}) > 25


def test_a_prefix_is_one_run_unless_strings_are_scattered() -> None:
    words = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    ordered, scattered = Histogram.of(words, 64), Histogram.of(words, 64, hashed=True)
    (run,) = ordered.runs(values_of("x LIKE 'c%'"))
    assert run[1] - run[0] <= 9
    (run,) = scattered.runs(values_of("x LIKE 'c%'"))
    assert run[1] - run[0] == 63
    assert sum(last - first + 1 for first, last in scattered.runs(values_of("x IN ('aa', 'bb')"))) == 2
    assert scattered.runs(values_of("x <> 'aa'")) == [run]


def test_one_set_of_cuts_parts_all_numbers() -> None:
    scale = Histogram.of(list(range(100)), 10)
    for number in (0, 17, 50, 99):
        assert scale.cell(number) == scale.cell(float(number))
    assert scale.cell(float("nan")) == scale.cell(10**6)
    assert scale.cell(MISSING) == scale.cell(None) == 0


@pytest.mark.parametrize(("first", "last", "keys", "printed"), [(0, 1, 1, 1), (4, 6, 2, 2), (1, 2, 2, 1), (3, 4, 2, 1)])
def test_the_printed_number_of_keys_may_be_one_too_few(first: int, last: int, keys: int, printed: int) -> None:
    """Eight values on four keys: ⌈r · 2^l / |Ω|⌉ is right only for ranges that begin where a key does."""
    ((low, high),) = Histogram.even(8, 4).runs(values_of(f"x BETWEEN {first} AND {last}"))
    assert (high - low + 1, -(-(last - first + 1) * 4 // 8)) == (keys, printed)


@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 30), st.data())
def test_discretisation_shares_cells_among_neighbours_and_moves_no_more_than_one_end(
    size: int, cells: int, width: int, data: st.DataObject
) -> None:
    plain, wide = Histogram.even(size, cells), Histogram.even(size, cells, width)
    for x in range(size):
        assert plain.cell(x) == len({each * cells // size for each in range(x + 1)}) - 1
        assert wide.cell(x) == wide.cell(x // width * width)
    if width == 1:
        assert plain == wide
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first, size - 1))
    ranged = values_of(f"x BETWEEN {first} AND {last}")
    count = [sum(high - low + 1 for low, high in scale.runs(ranged)) for scale in (plain, wide)]
    assert count[1] <= count[0] + 1  # a range that begins just before a cut that moved gets one more


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda pair: (pair[0], sum(pair)))))
def test_merged_runs_are_the_same_cells_apart_and_in_order(runs: list[tuple[int, int]]) -> None:
    found = merge_runs(runs)
    assert {cell for first, last in found for cell in range(first, last + 1)} == {
        cell for first, last in runs for cell in range(first, last + 1)
    }
    assert all(found[i][1] + 1 < found[i + 1][0] for i in range(len(found) - 1))


def test_a_ring_keeps_the_order_of_cells() -> None:
    assert [on_ring(cell, 8, 4) for cell in range(8)] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [on_ring(cell, 8, 3) for cell in range(8)] == list(range(8))
    assert [on_ring(cell, 8, 2) for cell in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
