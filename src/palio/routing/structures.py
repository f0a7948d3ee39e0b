"""Data structures of a broker, by the names that its options give them.

What a broker decides does not depend on them, only what it costs: the structures of the literature stand beside those
that brokers run by default, so that they can be compared in whole networks. Two say otherwise: the `lazy` graph and a
curve with an `epsilon` or a `budget` forward some filters in vain, never too few.

They are options of one broker, and neighbours may have others. Modules are imported when their structure is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from palio.covering.covering_index import AdaptiveIndex, ColumnarIndex, CoveringIndex, LinearIndex
from palio.covering.relation_graph import FlatGraph, LazyFlatGraph, RelationGraph
from palio.errors import InvalidArgument
from palio.routing.strategies import Covering

if TYPE_CHECKING:
    from palio.matching.classical.brute_force import LazyMatcher

_FLAT_GRAPHS: Final[dict[str, type[LazyFlatGraph]]] = {"flat": FlatGraph, "lazy": LazyFlatGraph}
_INDEXES: Final[dict[str, Callable[[], CoveringIndex]]] = {
    "adaptive": AdaptiveIndex,
    "linear": LinearIndex,
    "columnar": ColumnarIndex,
}


def relation_graph_of(chosen: Covering) -> Callable[[], RelationGraph]:
    """The constructor of the relation graph for one neighbour: `graph`, with `parents` and the `index` that it
    searches."""
    name = chosen.graph
    if name in _FLAT_GRAPHS:
        return partial(_FLAT_GRAPHS[name], chosen.parents or 1, _covering_index_of(chosen))
    for option in ("parents", "index"):
        if getattr(chosen, option) is not None:
            raise InvalidArgument(f"{option} is an option of the graphs flat and lazy, not of {name}")
    from palio.covering.classical.posets import DenseGraph, PosetForest, SienaPoset

    graphs: dict[str, Callable[[], RelationGraph]] = {"dense": DenseGraph, "forest": PosetForest, "poset": SienaPoset}
    return graphs[name]


def _covering_index_of(chosen: Covering) -> Callable[[], CoveringIndex]:
    name = chosen.index or "adaptive"
    if name != "curve":
        for option in ("domains", "curve", "epsilon", "budget"):
            if getattr(chosen, option) is not None:
                raise InvalidArgument(f"{option} is an option of the index curve, not of {name}")
    if name == "kdtree":
        from palio.covering.classical.kdtree import KdTreeIndex

        return KdTreeIndex
    if name == "counting":
        from palio.covering.classical.counting import CountingIndex

        return CountingIndex
    if name == "curve":
        from palio.covering.classical.zcurve import ZCurveIndex

        made = partial(
            ZCurveIndex,
            parse_domains(chosen.domains or ""),
            epsilon=float(chosen.epsilon or 0.0),
            budget=chosen.budget,
            curve=chosen.curve or "z",
        )
        made()  # refuses what makes no curve before a broker starts
        return made
    return _INDEXES[name]


def parse_domains(text: str) -> dict[str, tuple[float, float]]:
    """Attributes with the ranges of their values.

    >>> parse_domains("price=0:1000 quantity=1:50")
    {'price': (0.0, 1000.0), 'quantity': (1.0, 50.0)}
    """
    domains = {}
    for each in str(text).split():
        name, _, ends = each.partition("=")
        low, _, high = ends.partition(":")
        try:
            domains[name] = float(low), float(high)
        except ValueError:
            raise InvalidArgument(f"domains are NAME=LOW:HIGH, separated by blanks, not {each!r}") from None
    return domains


def classical_matcher_of(name: str) -> Callable[[], LazyMatcher] | None:
    """The constructor of a matcher for events; None for the columnar one."""
    match name:
        case "counting":
            from palio.matching.classical.counting import CountingMatcher

            return CountingMatcher
        case "kdtree":
            from palio.matching.classical.kdtree import KdTreeMatcher

            return KdTreeMatcher
    return None
