"""The source's own graph: lazy, the same for every k, and with the costs of its lemmas (Shen §4.3.4, §4.4)."""

from __future__ import annotations

import pytest
from hypothesis import given

from palio.covering.flat import FlatGraph, LazyFlatGraph
from palio.covering.graph import NO_CHANGES, Changes
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.workloads.shen import Shen
from tests.covering.suite import Neighbour, Step, apply, box, histories, live_after, maximal, stands_above

A, B, C, D, E = box((0, 10)), box((2, 8)), box((3, 7)), box((4, 6)), box((1, 5))


class TestTheSourcesExample:
    @pytest.mark.parametrize(
        ("k", "parents", "searches"),
        [
            (1, {A: [], B: [A], C: [A], D: [A], E: [A]}, 4),
            (2, {A: [], B: [A], C: [A, B], D: [A, B], E: [A]}, 2),
        ],
    )
    @pytest.mark.parametrize("graph", [LazyFlatGraph, FlatGraph])
    def test_five_intervals(
        self, graph: type[LazyFlatGraph], k: int, parents: dict[Filter, list[Filter]], searches: int
    ) -> None:
        made = graph(k)
        assert [made.insert(each) for each in (A, B, C, D, E)] == [Changes((A,)), *[NO_CHANGES] * 4]
        assert made.parents == parents
        assert made.searches == 5
        assert made.remove(A) == Changes((B, E), (A,))
        assert made.searches == 5 + searches
        assert made.parents[C] == [B]
        assert made.parents[D] == [B]

    def test_a_filter_forwarded_before_what_covers_it_came_stays_so(self) -> None:
        graph = LazyFlatGraph()
        for each in (D, C, B, A):
            assert graph.insert(each) == Changes((each,))
        assert graph.remove(A) == Changes((), (A,))


@given(histories())
def test_which_filters_the_lazy_graph_forwards_does_not_depend_on_k(steps: list[Step]) -> None:
    graphs = {k: LazyFlatGraph(k) for k in (1, 2, 5)}
    neighbour = Neighbour()
    for at, step in enumerate(steps, 1):
        said = [apply(graph, step) for graph in graphs.values()]
        assert len(set(said)) == 1
        neighbour.apply(said[0])
        for k, graph in graphs.items():
            check_laws(graph, k)
            assert set(graph.forwarded) == neighbour.table
        live = {each for each in live_after(steps[:at]) if each != Filter.nothing}
        assert neighbour.table >= maximal(live)
        assert all(any(wide.covers(each) for wide in neighbour.table) for each in live)


def check_laws(graph: LazyFlatGraph, k: int) -> None:
    parents = graph.parents
    for child, found in parents.items():
        assert len(found) <= k
        assert all(stands_above(parent, child) for parent in found)
        assert (child in graph.forwarded) == (not found)


@given(histories())
def test_the_retracting_graph_keeps_the_same_laws(steps: list[Step]) -> None:
    graph = FlatGraph(k=2)
    for step in steps:
        apply(graph, step)
        check_laws(graph, 2)


class TestCosts:
    """Lemma 1 and Theorem 1, on boxes that come and go at random (Shen §4.4.2, §4.4.3)."""

    def run(self, k: int, removals: float) -> tuple[LazyFlatGraph, int, int]:
        workload = Shen("boxes", attributes=3)
        wheres = workload.subscriptions(700)["where"].to_pylist()
        graph = LazyFlatGraph(k)
        inserted = 0
        filters: dict[int, Filter] = {}
        for operation in workload.operations(1_000, removals):
            if operation.kind == "add":
                filters[operation.subscription] = box_filter = Filter.parse(wheres[operation.subscription])
                graph.insert(box_filter)
                inserted += 1
            else:
                graph.remove(filters.pop(operation.subscription))
        return graph, inserted, 1_000 - inserted

    def test_one_parent_costs_no_more_than_a_search_for_a_removal(self) -> None:
        searches = {}
        forwarded = {}
        for k in (1, 2, 5):
            graph, inserted, removed = self.run(k, 0.4)
            searches[k] = graph.searches - inserted
            forwarded[k] = set(graph.forwarded)
            assert searches[k] <= removed
        assert searches[1] >= searches[2] >= searches[5] > 0
        assert forwarded[1] == forwarded[2] == forwarded[5]


def test_a_filter_keeps_at_least_one_parent() -> None:
    with pytest.raises(InvalidArgument):
        FlatGraph(k=0)
