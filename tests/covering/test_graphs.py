"""Every exact graph forwards the maximal filters, after every change, and says so in an order that loses nothing."""

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

from palio.covering.graph import NO_CHANGES, Changes, RelationGraph
from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.workloads.shen import Shen
from tests.covering.suite import EXACT, Neighbour, Step, any_filters, apply, box, histories, live_after, maximal

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
    alternatives = [f"a{at} > 1 AND b{at} > 1" for at in range(70)]
    return tuple(Filter.parse(" OR ".join([*alternatives, *more])) for more in ([], ["a0 > 2 AND b0 > 1"]))


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
        [sys.executable, "-c", "from tests.covering.test_graphs import what_is_said; print(what_is_said())"],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == what_is_said()
