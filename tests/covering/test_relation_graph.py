"""Relation graphs: every exact one forwards the maximal filters, in an order that loses nothing.

The lazy flat graph is the source's own: equal for every k, and with the costs of its lemmas (Shen §4.3.4, §4.4).
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.covering.relation_graph import NO_CHANGES, Changes, FlatGraph, LazyFlatGraph, RelationGraph
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.workloads.shen import Shen
from tests.covering.graph_suite import (
    EXACT,
    Neighbour,
    Step,
    any_filters,
    apply,
    box,
    histories,
    live_after,
    maximal,
    stands_above,
)

every_exact_graph = pytest.mark.parametrize("make", EXACT.values(), ids=EXACT.keys())


@given(histories())
def test_all_exact_graphs_forward_the_maximal_filters(steps: list[Step]) -> None:
    graphs = {name: make() for name, make in EXACT.items()}
    neighbours = {name: Neighbour() for name in graphs}
    for at, step in enumerate(steps, 1):
        expected = maximal(live_after(steps[:at]))
        said = {name: apply(graph, step) for name, graph in graphs.items()}
        for name, graph in graphs.items():
            assert set(graph.forwarded) == expected, name
            neighbours[name].apply(said[name])
            assert neighbours[name].table == expected, name
            assert len(graph) == len(live_after(steps[:at])), name
        # The same words in the same order, whichever graph speaks.
        assert len(set(said.values())) == 1, said


@given(st.lists(any_filters(), max_size=12), st.randoms(use_true_random=False))
def test_what_is_forwarded_depends_on_the_set_alone(filters: list[Filter], random: object) -> None:
    graphs = [make() for make in EXACT.values()]
    for graph in graphs:
        shuffled = list(filters)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        for each in shuffled:
            graph.insert(each)
        assert set(graph.forwarded) == maximal(filters)
        for each in filters:
            graph.remove(each)
        assert not graph.forwarded
        assert len(graph) == 0


@every_exact_graph
class TestEveryExactGraph:
    def test_replacements_come_with_the_withdrawal(self, make: type[RelationGraph]) -> None:
        a, b, c, d, e = box((0, 10)), box((2, 8)), box((3, 7)), box((4, 6)), box((1, 5))
        graph = make()
        assert [graph.insert(each) for each in (a, b, c, d, e)] == [Changes((a,)), *[NO_CHANGES] * 4]
        assert graph.remove(a) == Changes((b, e), (a,))
        assert list(graph.forwarded) == [b, e]

    def test_what_a_later_filter_covers_is_retracted(self, make: type[RelationGraph]) -> None:
        graph = make()
        narrow = [box((3, 4)), box((5, 6)), box((20, 30))]
        for each in narrow:
            graph.insert(each)
        assert graph.insert(box((0, 10))) == Changes((box((0, 10)),), (narrow[0], narrow[1]))
        assert set(graph.forwarded) == {narrow[2], box((0, 10))}

    def test_equal_filters_are_one_until_the_last_has_gone(self, make: type[RelationGraph]) -> None:
        graph = make()
        wanted, again = Filter.parse("x >= 5 AND x <= 5"), Filter.parse("x = 5")
        assert graph.insert(wanted) == Changes((wanted,))
        assert graph.insert(again) == NO_CHANGES
        assert graph.remove(wanted) == NO_CHANGES
        assert set(graph.forwarded) == {again}
        assert graph.remove(wanted) == Changes((), (wanted,))
        assert again not in graph

    def test_what_never_matches_is_never_forwarded(self, make: type[RelationGraph]) -> None:
        graph = make()
        assert graph.insert(Filter.nothing) == NO_CHANGES
        assert len(graph) == 1
        assert graph.insert(Filter.everything).forward == (Filter.everything,)
        assert graph.remove(Filter.nothing) == NO_CHANGES

    def test_everything_covers_all(self, make: type[RelationGraph]) -> None:
        graph = make()
        wanted = [Filter.parse(each) for each in ("x > 1", "y LIKE '%a%'", "x < y", "z IS NULL")]
        for each in wanted:
            graph.insert(each)
        assert graph.insert(Filter.everything) == Changes((Filter.everything,), tuple(wanted))
        assert graph.remove(Filter.everything) == Changes(tuple(wanted), (Filter.everything,))

    def test_what_is_not_there_cannot_be_removed(self, make: type[RelationGraph]) -> None:
        graph = make()
        graph.insert(Filter.parse("x > 1"))
        with pytest.raises(InvalidArgument, match="x > 2"):
            graph.remove(Filter.parse("x > 2"))

    def test_of_two_that_cover_each_other_the_first_in_order_stays(self, make: type[RelationGraph]) -> None:
        # An OR of very many alternatives is not searched for superfluous ones.
        one, other = large_filters_that_cover_each_other()
        assert one != other
        assert one.covers(other)
        assert other.covers(one)
        first, second = sorted((one, other), key=lambda each: each.digest)
        for order in ((first, second), (second, first)):
            graph = make()
            for each in order:
                graph.insert(each)
            assert set(graph.forwarded) == {first}
            assert graph.remove(first) == Changes((second,), (first,))


def large_filters_that_cover_each_other() -> tuple[Filter, Filter]:
    alternatives = [f"a > {at} AND b < {at}" for at in range(90)]
    return tuple(Filter.parse(" OR ".join([*alternatives, *more])) for more in ([], ["a > 89 AND b < 88"]))


def what_is_said() -> str:
    """A digest of all that every exact graph says of one history, and of what it costs."""
    workload = Shen("boxes", attributes=2)
    low, high = workload.ranges(np.arange(90))
    filters = [box(*zip(a, b, strict=True)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    said: list[object] = []
    for make in EXACT.values():
        graph = make()
        for operation in workload.operations(90):
            change = graph.insert if operation.kind == "add" else graph.remove
            said.append(change(filters[operation.subscription]))
        said.append((list(graph.forwarded), graph.comparisons))
    return sha256(repr(said).encode()).hexdigest()


def test_what_is_said_and_what_it_costs_does_not_depend_on_how_python_hashes(project_folder: Path) -> None:
    path = f"{project_folder}{os.pathsep}{project_folder / 'src'}"
    elsewhere = subprocess.run(
        [sys.executable, "-c", "from tests.covering.test_relation_graph import what_is_said; print(what_is_said())"],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == what_is_said()


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
