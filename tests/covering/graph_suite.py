"""Shared suite of relation graphs: the oracle, all graphs and indexes, and random histories of changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from palio.covering.classical.counting import CountingIndex
from palio.covering.classical.kdtree import KdTreeIndex
from palio.covering.classical.posets import DenseGraph, PosetForest, SienaPoset
from palio.covering.covering_index import AdaptiveIndex, ColumnarIndex, CoveringIndex, LinearIndex
from palio.covering.relation_graph import Changes, FlatGraph, RelationGraph
from palio.filters.filter import Filter
from tests.covering.test_redundancy import conditions
from tests.strategies import readable_conditions


class SmallKdTreeIndex(KdTreeIndex):
    """A k-d tree that makes trees of very few points."""

    recent = 4


INDEXES: dict[str, Callable[[], CoveringIndex]] = {
    "linear": LinearIndex,
    "columnar": ColumnarIndex,
    "growing": AdaptiveIndex,
    "counting": CountingIndex,
    "k-d tree": KdTreeIndex,
    "k-d tree of few points": SmallKdTreeIndex,
}
EXACT: dict[str, Callable[[], RelationGraph]] = {
    "dense": DenseGraph,
    "poset": SienaPoset,
    "forest": PosetForest,
    "flat, k = 1": FlatGraph,
    "flat, k = 3": lambda: FlatGraph(k=3),
    "flat, columnar": lambda: FlatGraph(index=ColumnarIndex),
    "flat, counting": lambda: FlatGraph(k=2, index=CountingIndex),
    "flat, k-d tree": lambda: FlatGraph(k=2, index=SmallKdTreeIndex),
}


def stands_above(one: Filter, other: Filter) -> bool:
    """The order of filters, by nothing but pairwise containment."""
    if one == other or not one.covers(other):
        return False
    return not other.covers(one) or one.digest < other.digest


def maximal(filters: Iterable[Filter]) -> set[Filter]:
    """The oracle: those that no other one stands above."""
    live = [each for each in set(filters) if each != Filter.nothing]
    return {each for each in live if not any(stands_above(other, each) for other in live)}


class Step(NamedTuple):
    """A filter comes or, where it is there, goes."""

    filter: Filter
    comes: bool


def box(*ranges: tuple[float, float]) -> Filter:
    return Filter.parse(" AND ".join(f"x{at} BETWEEN {low} AND {high}" for at, (low, high) in enumerate(ranges, 1)))


def boxes(most_attributes: int = 3, largest: int = 7) -> st.SearchStrategy[Filter]:
    """Boxes of few whole numbers, so that one often covers another."""
    sides = st.lists(st.tuples(*[st.integers(0, largest)] * 2).map(sorted), min_size=1, max_size=most_attributes)
    return sides.map(lambda ranges: box(*((low, high) for low, high in ranges)))


def any_filters() -> st.SearchStrategy[Filter]:
    return boxes() | (conditions | readable_conditions(["x", "y"], depth=2)).map(Filter.parse)


@st.composite
def histories(draw: Callable[..., Any], filters: st.SearchStrategy[Filter] | None = None, most: int = 30) -> list[Step]:
    """Filters that come, come again, and go; none goes that is not there."""
    pool = draw(st.lists(any_filters() if filters is None else filters, min_size=1, max_size=10))
    steps: list[Step] = []
    live: Counter[Filter] = Counter()
    for _ in range(draw(st.integers(1, most))):
        chosen = draw(st.sampled_from(pool))
        comes = not live[chosen] or draw(st.integers(0, 2)) == 0
        live[chosen] += 1 if comes else -1
        steps.append(Step(chosen, comes))
    return steps


class Neighbour:
    """Applies what a graph says in the order in which it says it, and checks that this can be done."""

    def __init__(self) -> None:
        self.table: set[Filter] = set()

    def apply(self, changes: Changes) -> None:
        assert not self.table.intersection(changes.forward)
        assert len(set(changes.forward)) == len(changes.forward)
        self.table.update(changes.forward)
        assert self.table.issuperset(changes.retract)
        self.table.difference_update(changes.retract)


def apply(graph: RelationGraph, step: Step) -> Changes:
    return graph.insert(step.filter) if step.comes else graph.remove(step.filter)


def live_after(steps: Sequence[Step]) -> set[Filter]:
    live: Counter[Filter] = Counter()
    for step in steps:
        live[step.filter] += 1 if step.comes else -1
    return {filter for filter, count in live.items() if count}
