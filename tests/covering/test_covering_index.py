"""Covering indexes: every exact one finds what a linear scan finds; kernels agree with their plain Python twins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.covering.classical.kdtree import KdTreeIndex
from palio.covering.classical.kdtree_kernels import LEAF_POINTS, build_tree, find_in_tree
from palio.covering.covering_index import MAX_COLUMN_AXES, ColumnarIndex, CoveringIndex
from palio.covering.covering_kernels import BLOCK_POINTS, DOMINATED, DOMINATING, find_in_columns
from palio.covering.extents import IndexedFilter
from palio.covering.relation_graph import FlatGraph
from palio.filters.filter import Filter
from palio.workloads.shen import Shen
from tests.covering.graph_suite import INDEXES, any_filters, box

Make = Callable[[], CoveringIndex]
every_index = pytest.mark.parametrize("make", INDEXES.values(), ids=INDEXES.keys())


@given(
    st.lists(any_filters().filter(lambda each: each != Filter.nothing), min_size=1, max_size=20, unique=True), st.data()
)
def test_every_index_finds_all_that_cover_and_are_covered(filters: list[Filter], data: st.DataObject) -> None:
    interests = [IndexedFilter(each, number) for number, each in enumerate(filters)]
    gone = data.draw(st.sets(st.sampled_from(interests)))
    there = [each for each in interests if each not in gone]
    for make in INDEXES.values():
        index = make()
        for each in interests:
            index.add(each)
        for each in sorted(gone, key=lambda each: each.arrival):
            index.remove(each)
        for each in interests:
            above = {other for other in there if other.is_above(each)}
            below = {other for other in there if each.is_above(other)}
            assert set(index.covering(each, len(filters))) == above
            assert set(index.covered(each)) == below
            for limit in (1, 2):
                some = index.covering(each, limit)
                assert len(some) == min(limit, len(above))
                assert above.issuperset(some)


@cache
def many_boxes(attributes: int, count: int) -> tuple[np.ndarray, np.ndarray, list[IndexedFilter]]:
    low, high = Shen("boxes", attributes=attributes).ranges(np.arange(count))
    sides = [list(zip(*ends, strict=True)) for ends in zip(low.tolist(), high.tolist(), strict=True)]
    return low, high, [IndexedFilter(box(*each), row) for row, each in enumerate(sides)]


@every_index
def test_thousands_of_boxes(make: Make) -> None:
    """Boxes of three attributes that come and go: each is found to be covered exactly where one of the others does."""
    low, high, interests = many_boxes(3, 1_500)
    index = make()
    for each in interests:
        index.add(each)
    for each in interests[::3]:
        index.remove(each)
    alive = np.arange(1_500) % 3 != 0
    for row in range(0, 1_500, 31):
        beyond = (low <= low[row]).all(axis=1) & (high >= high[row]).all(axis=1) & alive
        before = (low >= low[row]).all(axis=1) & (high <= high[row]).all(axis=1) & alive
        beyond[row] = before[row] = False
        assert {each.arrival for each in index.covering(interests[row], 1_500)} == set(np.flatnonzero(beyond))
        assert {each.arrival for each in index.covered(interests[row])} == set(np.flatnonzero(before))
        assert len(index.covering(interests[row], 1)) == beyond.any()


@every_index
def test_filters_of_more_attributes_than_there_are_columns(make: Make) -> None:
    graph = FlatGraph(index=make)
    wide = [Filter.parse(f"a{number} > 1") for number in range(2 * MAX_COLUMN_AXES)]
    narrow = [Filter.parse(f"a{number} > 2 AND a{number + 1} > 2") for number in range(2 * MAX_COLUMN_AXES - 1)]
    for each in (*narrow, *wide):
        graph.insert(each)
    assert list(graph.forwarded) == wide


@every_index
def test_filters_that_no_number_tells_apart(make: Make) -> None:
    graph = FlatGraph(index=make)
    patterns = [Filter.parse(f"x < y AND z LIKE '%{number:03}%'") for number in range(80)]
    for each in patterns:
        graph.insert(each)
    assert len(graph.forwarded) == 80
    assert graph.insert(Filter.parse("x < y")).retract == tuple(patterns)
    graph = FlatGraph(index=make)
    computed = [Filter.parse(f"x + {number} * y > 0") for number in range(20)]
    for each in computed:
        graph.insert(each)
    assert list(graph.forwarded) == computed


def test_a_tree_leaves_most_points_alone() -> None:
    _, _, interests = many_boxes(3, 1_500)
    tree, columns = KdTreeIndex(), ColumnarIndex()
    for each in interests:
        tree.add(each)
        columns.add(each)
    for each in interests[::20]:
        tree.covering(each, 1)
        columns.covering(each, 1)
    assert tree.comparisons < columns.comparisons / 2


class TestKernels:
    @given(
        st.integers(0, 2**32), st.sampled_from([1, 31, 33, BLOCK_POINTS, BLOCK_POINTS + 1, 2_500]), st.integers(1, 6)
    )
    def test_both_find_what_a_comparison_of_all_finds(self, seed: int, count: int, dimensions: int) -> None:
        random = np.random.default_rng(seed)
        points = random.integers(0, 12, (count, dimensions)).astype(np.float64)
        points[random.random(points.shape) < 0.1] = np.inf
        alive = random.random(count) < 0.8
        corner = points[random.integers(count)].copy()
        for direction, sign in ((DOMINATING, 1), (DOMINATED, -1)):
            expected = (sign * points >= sign * corner).all(axis=1)
            assert columns_find(points, corner, direction) == list(np.flatnonzero(expected))
            found, order = tree_finds(points, alive, sign * corner, direction)
            assert sorted(order[found]) == list(np.flatnonzero(expected & alive))

    def test_a_search_goes_on_where_there_was_no_more_room(self) -> None:
        points = np.zeros((3 * BLOCK_POINTS, 2))
        columns, corner, found = np.ascontiguousarray(points.T), np.zeros(2), np.empty(7, np.int64)
        rows: list[int] = []
        following = 0
        while following < len(points):
            count, following = find_in_columns(columns, len(points), corner, DOMINATING, following, found)
            rows += found[:count].tolist()
        assert rows == list(range(3 * BLOCK_POINTS))


def columns_find(points: np.ndarray, corner: np.ndarray, direction: int) -> list[int]:
    found = np.empty(len(points), np.int64)
    count, following = find_in_columns(np.ascontiguousarray(points.T), len(points), corner, direction, 0, found)
    assert following == len(points)
    return found[:count].tolist()


def tree_finds(
    points: np.ndarray, alive: np.ndarray, corner: np.ndarray, direction: int
) -> tuple[np.ndarray, np.ndarray]:
    leaves = 1
    while leaves * LEAF_POINTS < len(points):
        leaves *= 2
    starts, ends = np.zeros((2, 2 * leaves - 1), np.int64)
    bounds = np.empty((2, 2 * leaves - 1, points.shape[1]))
    order = np.arange(len(points))
    build_tree(points, order, starts, ends, bounds)
    assert sorted(order) == list(range(len(points)))
    found = np.empty(len(points), np.int64)
    count, looks = find_in_tree(points[order], alive[order], starts, ends, bounds, corner, direction, found)
    assert looks <= len(points) + len(starts)
    return found[:count], order
