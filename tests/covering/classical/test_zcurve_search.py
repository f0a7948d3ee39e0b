"""Searches on the Z-curve: sound, complete where exact, and good enough for relation graphs where approximate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.covering.classical.curves import CURVES
from palio.covering.classical.zcurve import (
    Box,
    Cube,
    Search,
    SearchBudget,
    Universe,
    ZCurveIndex,
    count_cubes,
    greedy_search,
    planned_search,
    populated_search,
)
from palio.covering.covering_index import CoveringIndex, LinearIndex
from palio.covering.extents import IndexedFilter
from palio.covering.relation_graph import FlatGraph, LazyFlatGraph
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.workloads.shen import Shen
from tests.covering.graph_suite import Step, any_filters, apply, box, boxes, histories, live_after, maximal
from tests.covering.test_relation_graph import check_laws

SEARCHES: dict[str, Search] = {"greedy": greedy_search, "populated": populated_search, "planned": planned_search}
DOMAINS = {f"x{at}": (0.0, 8.0) for at in (1, 2, 3)}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())


def points(universe: Universe) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(0, (1 << universe.bits) - 1)] * universe.dimensions)


def far_box(universe: Universe, point: tuple[int, ...]) -> Box:
    return Box(point, ((1 << universe.bits) - 1,) * universe.dimensions)


@every_search
@given(st.data())
def test_a_full_search_finds_exactly_what_dominates_a_point(search: Search, data: st.DataObject) -> None:
    curve = data.draw(st.sampled_from(list(CURVES)))
    universe = Universe(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)), curve)
    stored = data.draw(st.lists(points(universe), max_size=20, unique=True))
    asked = data.draw(points(universe))
    by_key = {universe.key(Cube(0, point)): point for point in stored}
    keys = sorted(by_key)
    found = [by_key[keys[place]] for place in search(keys, universe, far_box(universe, asked), SearchBudget())]
    dominating = [point for point in stored if all(a >= b for a, b in zip(point, asked, strict=True))]
    assert sorted(found) == sorted(dominating)


@every_search
@given(st.data())
def test_a_partial_search_finds_only_what_is_there_and_probes_less(search: Search, data: st.DataObject) -> None:
    universe = Universe(2, 5)
    stored = data.draw(st.lists(points(universe), max_size=20, unique=True))
    asked = data.draw(points(universe))
    by_key = {universe.key(Cube(0, point)): point for point in stored}
    keys = sorted(by_key)
    probes = []
    for epsilon in (0.0, 0.1, 0.5):
        allowed = SearchBudget(epsilon)
        for place in search(keys, universe, far_box(universe, asked), allowed):
            assert all(a >= b for a, b in zip(by_key[keys[place]], asked, strict=True))
        probes.append(allowed.probes)
    if search is not planned_search:  # which may choose another way for another share
        assert probes == sorted(probes, reverse=True)
    allowed = SearchBudget(budget=3)
    list(search(keys, universe, far_box(universe, asked), allowed))
    assert allowed.probes <= 3


@given(st.data())
def test_only_a_share_of_the_volume_is_left_unsearched(data: st.DataObject) -> None:
    """Every cell of a full universe holds a point, so what is found is what was searched."""
    universe = Universe(2, 4)
    keys = range(1 << 8)
    asked = data.draw(points(universe))
    volume = np.prod(universe.sides(asked))
    for search in (greedy_search, populated_search):
        for epsilon in (0.0, 0.05, 0.2, 0.5):
            found = list(search(keys, universe, far_box(universe, asked), SearchBudget(epsilon)))
            assert len(set(found)) == len(found)
            assert len(found) >= (1 - epsilon) * volume


def test_empty_space_is_not_visited() -> None:
    universe = Universe(6, 10)
    asked = (300,) * 6
    keys = sorted(universe.key(Cube(0, point)) for point in [(100,) * 6, (5, 900, 7, 800, 9, 700), (299,) * 6])
    allowed = SearchBudget()
    assert list(populated_search(keys, universe, far_box(universe, asked), allowed)) == []
    assert allowed.probes <= len(keys) * universe.bits
    assert sum(count_cubes(universe.sides(asked))) > 10**9


class TestTheIndex:
    def test_the_sources_transform(self) -> None:
        index = ZCurveIndex({"x1": (0, 8)}, bits=3)
        narrow, wide, beside = (IndexedFilter(box(ends), 0) for ends in ((2, 5), (1, 6), (3, 6)))
        # Private: the universe of the index is the source's example, of which only the search is public.
        assert index._universe.sides((5, 5)) == (3, 3)
        for each in (wide, beside):
            index.add(each)
        assert index.covering(narrow, 5) == [wide]
        assert index.covered(wide) == [beside]

    @given(st.lists(boxes() | any_filters(), min_size=1, max_size=15, unique=True))
    def test_it_is_exact_where_nothing_is_left_out(self, filters: list[Filter]) -> None:
        """Ranges are rounded to cells and other conditions are not in them: whoever is found is verified."""
        interests = [IndexedFilter(each, at) for at, each in enumerate(filters) if each != Filter.nothing]
        exact = LinearIndex()
        curves = [
            ZCurveIndex(DOMAINS, bits=2, search=search, curve=curve) for search in SEARCHES.values() for curve in CURVES
        ]
        for index in (exact, *curves):
            for each in interests:
                index.add(each)
        for each in interests:
            for curve in curves:
                assert set(curve.covering(each, 99)) == set(exact.covering(each, 99))
                assert set(curve.covered(each)) == set(exact.covered(each))
                assert len(curve.covering(each, 1)) == len(exact.covering(each, 1))

    def test_more_is_found_the_less_is_left_out(self) -> None:
        """Most coverers are found early: large cubes are probed first, and there lie the points that cover most."""
        found = {epsilon: detected(epsilon) for epsilon in (0.5, 0.1, 0.0)}
        assert found[0.5] <= found[0.1] <= found[0.0]
        assert found[0.0] == 1.0
        assert found[0.5] > 0.8

    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3])
    def test_little_is_overlooked_where_little_may_be_left_out(self, epsilon: float) -> None:
        """Of pairs that cover each other in two attributes, at most twice the share is not found."""
        low, high = Shen("boxes", attributes=2).ranges(np.arange(200))
        rows = [IndexedFilter(box(*zip(low[row], high[row], strict=True)), row) for row in range(200)]
        exact, partly = (ZCurveIndex({"x1": (0, 1), "x2": (0, 1)}, epsilon=share) for share in (0.0, epsilon))
        for each in rows:
            exact.add(each)
            partly.add(each)
        known = sum(len(exact.covering(each, 999)) for each in rows)
        found = sum(len(partly.covering(each, 999)) for each in rows)
        assert known > 300
        assert (1 - 2 * epsilon) * known <= found <= known
        assert partly.comparisons <= exact.comparisons

    @pytest.mark.parametrize(
        "options", [{"domains": {}}, {"domains": {"x": (1, 1)}}, {"bits": 0}, {"epsilon": 1.0}, {"curve": "snake"}]
    )
    def test_what_makes_no_curve_is_refused(self, options: dict[str, object]) -> None:
        with pytest.raises(InvalidArgument):
            ZCurveIndex(**{"domains": {"x": (0, 1)}, **options})  # type: ignore[arg-type]


def detected(epsilon: float) -> float:
    """Of the intervals that one of twenty covers, the share for which the source's search finds one."""
    low, high = Shen("boxes", attributes=1).ranges(np.arange(300))
    interests = [IndexedFilter(box((low[row, 0], high[row, 0])), row) for row in range(300)]
    covered = found = 0
    for first in range(0, 300, 20):
        stored = interests[first : first + 20]
        index = ZCurveIndex({"x1": (0, 1)}, bits=10, epsilon=epsilon, search=greedy_search)
        for each in stored:
            index.add(each)
        asked = [each for each in interests[::3] if any(other.is_above(each) for other in stored)]
        covered += len(asked)
        found += sum(bool(index.covering(each, 1)) for each in asked)
    return found / covered


class Forgetful:
    """An exact index that overlooks what it will, as a partial search may."""

    def __init__(self, choices: Iterator[bool]) -> None:
        self._inner = LinearIndex()
        self._choices = choices
        self.comparisons = 0
        self.add, self.remove = self._inner.add, self._inner.remove

    def covering(self, interest: IndexedFilter, limit: int) -> list[IndexedFilter]:
        return [each for each in self._inner.covering(interest, 99) if next(self._choices)][:limit]

    def covered(self, interest: IndexedFilter) -> list[IndexedFilter]:
        return [each for each in self._inner.covered(interest) if next(self._choices)]


def forgetful(seed: int) -> CoveringIndex:
    random = np.random.default_rng(seed)
    return Forgetful(iter(lambda: bool(random.random() < 0.6), None))


def check_safe(graph: LazyFlatGraph, exact: LazyFlatGraph, steps: Sequence[Step]) -> None:
    """What may be forwarded beyond what is needed never leaves out what is."""
    for at, step in enumerate(steps, 1):
        apply(graph, step)
        apply(exact, step)
        check_laws(graph, 1)
        live = {each for each in live_after(steps[:at]) if each != Filter.nothing}
        assert set(graph.forwarded) >= set(exact.forwarded)
        assert set(graph.forwarded) >= maximal(live)
        assert all(any(wide.covers(each) for wide in graph.forwarded) for each in live)


@given(histories(boxes()), st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([None, 1, 4]))
def test_graphs_over_a_partial_search_forward_more_and_never_less(
    steps: list[Step], epsilon: float, budget: int | None
) -> None:
    for search in SEARCHES.values():

        def index(search: Search = search) -> ZCurveIndex:
            return ZCurveIndex(DOMAINS, bits=3, epsilon=epsilon, budget=budget, search=search)

        check_safe(LazyFlatGraph(index=index), LazyFlatGraph(), steps)
        check_safe(FlatGraph(index=index), FlatGraph(), steps)


@given(histories(), st.integers(0, 1_000))
def test_graphs_over_an_index_that_overlooks_any_forward_more_and_never_less(steps: list[Step], seed: int) -> None:
    check_safe(LazyFlatGraph(index=lambda: forgetful(seed)), LazyFlatGraph(), steps)
    check_safe(FlatGraph(index=lambda: forgetful(seed)), FlatGraph(), steps)
