"""Which of two filters stands above the other, and how is that told fast?

One filter stands above another when it covers it; of two that cover each other without being equal, the one that has
the lower digest. That is a strict order whatever the filters, because covering is reflexive and transitive; every
relation graph is a picture of it, and what is maximal in it is what is forwarded.

`Filter.covers` costs tens of microseconds, and of the pairs a graph asks about hardly one in a thousand is a yes. So
an interest keeps the *extent* of its filter, from where to where each attribute reaches (Shen §4.6.1: a subscription is
a point of twice the dimensions). Extents follow a filter's tree, AND meets and OR joins them, exactly as the rules of
`covers` do; hence who covers has at least the extent in every direction, and the filters themselves are compared only
then. That holds for filters of any shape: conditions an extent cannot hold leave it wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.filters.filter import Filter
from palio.filters.hulls import hull_of
from palio.filters.tree import And, Leaf, Node, Or

Floats: TypeAlias = npt.NDArray[np.float64]
Range: TypeAlias = tuple[float, float]
Extent: TypeAlias = Mapping[str, Range]
"""From where to where attributes reach, by attribute and group of kinds; what is not named reaches everywhere."""

_EVERYWHERE: Final[Range] = (-inf, inf)


class Interest:
    """A filter as relation graphs and their indexes hold it, with its number in the order of arrival."""

    __slots__ = ("_axes", "_corner", "arrival", "extent", "filter", "wanted")

    def __init__(self, filter: Filter, arrival: int) -> None:
        self.filter = filter
        self.arrival = arrival
        self.extent = extent_of(filter)
        self.wanted = 1  # how many times it was inserted and not yet removed
        self._axes: tuple[str, ...] | None = None
        self._corner: Floats

    def is_above(self, other: Interest) -> bool:
        """Whether this one covers the other, and is the one to stay where they cover each other."""
        if self is other or not reaches_beyond(self.extent, other.extent) or not self.filter.covers(other.filter):
            return False
        # Who cover each other have equal extents.
        if self.extent != other.extent or not other.filter.covers(self.filter):
            return True
        return self.filter.digest < other.filter.digest

    def corner(self, axes: tuple[str, ...]) -> Floats:
        """How far the filter reaches down and up each of some axes: (-l1, r1, …), everywhere where it does not say.

        It is remembered for the axes that were asked for last, which are nearly always the same.
        """
        if self._axes != axes:
            corner: list[float] = []
            for axis in axes:
                low, high = self.extent.get(axis, _EVERYWHERE)
                corner += (-low, high)
            self._axes, self._corner = axes, np.array(corner)
        return self._corner

    def __repr__(self) -> str:
        return f"Interest({str(self.filter)!r}, {self.arrival})"


def some_above(candidates: Iterable[Interest], interest: Interest, limit: int) -> list[Interest]:
    """Those of some candidates that stand above one, `limit` of them at most; no more are looked at than need be."""
    return list(islice((each for each in candidates if each.is_above(interest)), limit))


@lru_cache(maxsize=4_096)  # a broker has a graph for each link, and puts a filter into most of them
def extent_of(filter: Filter) -> Extent:
    """How far a filter reaches; costs time in the number of its conditions."""
    return _extent(filter.tree)


def axis_of(attribute: str, group: str = "") -> str:
    """What an attribute's values of one group of kinds are called in an extent; numbers where no group is named."""
    return f"{attribute}\0{group}"


def reaches_beyond(wide: Extent, narrow: Extent) -> bool:
    """Whether one extent has all of another; a filter covers none for which it has not."""
    for axis, (low, high) in wide.items():
        known = narrow.get(axis)
        if known is None or known[0] < low or known[1] > high:
            return False
    return True


def _extent(node: Node) -> dict[str, Range]:
    match node:
        case Leaf(attribute, values):
            hull = hull_of(values)
            return {} if hull is None else {axis_of(attribute, hull.group): (hull.low, hull.high)}
        case And(children):
            met: dict[str, Range] = {}
            for child in children:
                for axis, (low, high) in _extent(child).items():
                    known = met.get(axis)
                    met[axis] = (low, high) if known is None else (max(low, known[0]), min(high, known[1]))
            return met
        case Or(children):
            return _joined([_extent(child) for child in children])
    return {}


def _joined(extents: list[dict[str, Range]]) -> dict[str, Range]:
    """The least extent that has all of several."""
    joined = {}
    for axis in extents[0] if extents else ():
        ranges = [each[axis] for each in extents if axis in each]
        if len(ranges) == len(extents):
            joined[axis] = min(low for low, _ in ranges), max(high for _, high in ranges)
    return joined
