"""Extent of a filter: its bounding box, and the strict order of filters that relation graphs draw.

One filter stands above another when it covers it; of two that cover each other without being equal, the one with the
lower digest. That is a strict order whatever the filters, because covering is reflexive and transitive; every relation
graph is a picture of it, and its maximal elements are forwarded.

`Filter.covers` costs tens of microseconds, and of the pairs that a graph asks about hardly one in a thousand is a yes.
So the bounding box is compared first (Shen §4.6.1: a subscription is a point of twice the dimensions). Extents follow a
filter's tree, AND intersects and OR unites them, exactly as the rules of `covers` do; hence a filter that covers
another has at least its extent in every direction. That holds for any filter: conditions an extent cannot hold leave it
wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.covering.corner_events import matching_event
from palio.filters.filter import Filter
from palio.filters.interval_hull import hull_of
from palio.filters.tree import And, Attributes, Leaf, Node, Or, Residual, leaves
from palio.filters.value_predicates import Computed

Floats: TypeAlias = npt.NDArray[np.float64]
Range: TypeAlias = tuple[float, float]
Extent: TypeAlias = Mapping[str, Range]
"""Ranges by attribute and group of kinds; an axis that is not named is unbounded."""

_UNBOUNDED: Final[Range] = (-inf, inf)


class IndexedFilter:
    """A filter in a relation graph or index, with its extent and its number in the order of arrival."""

    __slots__ = ("_axes", "_corner", "_matched", "arrival", "extent", "filter", "uses")

    def __init__(self, filter: Filter, arrival: int) -> None:
        self.filter = filter
        self.arrival = arrival
        self.extent, self._matched = _bounds(filter)
        self.uses = 1  # insertions of equal filters that were not removed yet
        self._axes: tuple[str, ...] | None = None
        self._corner: Floats

    def is_above(self, other: IndexedFilter) -> bool:
        """Whether this filter covers the other, and is the one to stay where they cover each other."""
        if self is other or not extent_contains(self.extent, other.extent):
            return False
        if other._matched is not None and not self.filter.matches_attributes(other._matched):
            return False
        if not self.filter.covers(other.filter):
            return False
        # Filters that cover each other have equal extents.
        if self.extent != other.extent or not other.filter.covers(self.filter):
            return True
        # Equivalent but different filters: any fixed choice makes the order strict; digests agree in every process.
        return self.filter.digest < other.filter.digest

    def corner(self, axes: tuple[str, ...]) -> Floats:
        """The extent as a point (-l1, r1, …): a covering filter is at least as great in every coordinate.

        Cached for the axes that were asked for last, which are nearly always the same.
        """
        if self._axes != axes:
            corner: list[float] = []
            for axis in axes:
                low, high = self.extent.get(axis, _UNBOUNDED)
                corner += (-low, high)
            self._axes, self._corner = axes, np.array(corner)
        return self._corner

    def __repr__(self) -> str:
        return f"IndexedFilter({str(self.filter)!r}, {self.arrival})"


def first_above(candidates: Iterable[IndexedFilter], filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
    """The first `limit` candidates that stand above a filter; later ones are not examined."""
    return list(islice((each for each in candidates if each.is_above(filter)), limit))


@lru_cache(maxsize=4_096)  # a broker has a graph for each link, and inserts a filter into most of them
def _bounds(filter: Filter) -> tuple[Extent, Attributes | None]:
    """The extent of a filter, and an event that it matches where the extent does not hold all of its conditions."""
    # Of conditions on expressions the extent knows nothing; such an event tells some apart.
    return extent_of(filter), matching_event(filter) if _has_expressions(filter.tree) else None


def _has_expressions(tree: Node) -> bool:
    return any(
        isinstance(each, Residual) or any(isinstance(test.pattern, Computed) for test in each.values.tests)
        for each in leaves(tree)
    )


def extent_of(filter: Filter) -> Extent:
    """The extent of a filter; costs time in the number of its conditions."""
    return _extent(filter.tree)


def axis_of(attribute: str, group: str = "") -> str:
    """The name of an attribute in an extent, for one group of value kinds; numbers where none is given."""
    return f"{attribute}\0{group}"


def extent_contains(wide: Extent, narrow: Extent) -> bool:
    """Whether one extent contains another: necessary for covering."""
    for axis, (low, high) in wide.items():
        known = narrow.get(axis)
        # An axis that is not named is unbounded, and so not contained.
        if known is None or known[0] < low or known[1] > high:
            return False
    return True


def _extent(node: Node) -> dict[str, Range]:
    match node:
        case Leaf(attribute, values):
            hull = hull_of(values)
            return {} if hull is None else {axis_of(attribute, hull.group): (hull.low, hull.high)}
        case And(children):
            intersection: dict[str, Range] = {}
            for child in children:
                for axis, (low, high) in _extent(child).items():
                    known = intersection.get(axis)
                    intersection[axis] = (low, high) if known is None else (max(low, known[0]), min(high, known[1]))
            return intersection
        case Or(children):
            return _union([_extent(child) for child in children])
    return {}


def _union(extents: list[dict[str, Range]]) -> dict[str, Range]:
    """The least extent that contains all of several."""
    union = {}
    for axis in extents[0] if extents else ():
        # Unbounded in one alternative is unbounded in the union: such an axis is left out.
        ranges = [each[axis] for each in extents if axis in each]
        if len(ranges) == len(extents):
            union[axis] = min(low for low, _ in ranges), max(high for _, high in ranges)
    return union
