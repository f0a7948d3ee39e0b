"""The k-d tree matcher: a subscription is a point, an event is a corner, and matches lie beyond it.

Shen §3.4.3: over k numeric attributes a subscription with the ranges [l1, r1] … [lk, rk] becomes the point
(-l1, r1, …, -lk, rk) of 2k dimensions, and an event with the values x1 … xk asks for all points that are at
least (-x1, x1, …, -xk, xk) in every coordinate: an orthant, which a k-d tree searches. `find_any` and
`find_up_to` stop as soon as they have enough, which is what makes the structure cheap where one match is all
that is needed.

The tree only narrows down; every point in the orthant is verified with its filter, so that the matcher is
right for all filters. A range in the tree is the hull of the numbers an attribute may take, rounded to
floats; rounding keeps the order, so no match is lost. An attribute without a condition, or with one that also
accepts something else than a number, has the coordinate +∞, and so accepts every event; an event without a
number there asks for +∞. Conditions on strings, patterns, computed ones and those on several attributes are
left to the verification, and a filter with OR is a point for each of its conjunctions, or one wider point
where they would be too many.

Points are added to a forest of trees of doubling sizes (Bentley and Saxe), so that adding costs log² n
amortised and an event visits log n trees; removed points are skipped, and all trees are made anew when half
are such. Few attributes make a tree useful: at most `MAX_ATTRIBUTES`, those that most points of a tree
constrain, are in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from math import inf
from typing import Any, Final, TypeAlias

from palio.filters.filter import Filter
from palio.filters.interval_hull import clamp_to_finite, hull_of
from palio.filters.normal_form import covering_conjunction, expand
from palio.filters.tree import Attributes
from palio.filters.value_sets import ValueSet
from palio.matching.classical.brute_force import LazyMatcher

MAX_CONJUNCTIONS: Final = 16
MAX_ATTRIBUTES: Final = 8
_BUCKET: Final = 16  # points in a leaf, and new points that are looked at one by one

Corner: TypeAlias = tuple[float, ...]


@dataclass(slots=True, eq=False)
class _Point:
    """One conjunction of a subscription: its numeric ranges by attribute."""

    id: str
    filter: Filter
    ranges: Mapping[str, tuple[float, float]]
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class _Node:
    """Part of a tree: the corners of a box that holds its points, and the points or two parts."""

    least: Corner
    most: Corner
    points: Sequence[tuple[Corner, _Point]]
    children: tuple[_Node, ...]


class _KdTree:
    """Points in a k-d tree over the attributes that most of them constrain; never changed once made."""

    def __init__(self, points: Sequence[_Point]) -> None:
        uses = Counter(name for point in points for name in point.ranges)
        self.names = [name for name, _ in uses.most_common(MAX_ATTRIBUTES)]
        self.points = points
        self._root = _build([(self._place(point), point) for point in points])

    def __len__(self) -> int:
        return len(self.points)

    def _place(self, point: _Point) -> Corner:
        corner: list[float] = []
        for name in self.names:
            low, high = point.ranges.get(name, (-inf, inf))
            corner += (-low, high)
        return tuple(corner)

    def find(self, query: Mapping[str, tuple[float, float]]) -> Iterator[_Point]:
        """The points beyond the corner of a query: by attribute, the latest begin and the earliest end of a range."""
        corner: list[float] = []
        for name in self.names:
            latest, earliest = query[name]
            corner += (-latest, earliest)
        stack = [self._root]
        while stack:
            node = stack.pop()
            if not _is_beyond(node.most, corner):
                continue
            if _is_beyond(node.least, corner):
                yield from _all_points(node)
            elif node.children:
                stack.extend(node.children)
            else:
                yield from (point for place, point in node.points if _is_beyond(place, corner))


class KdTreeMatcher(LazyMatcher):
    """Subscriptions as points, for conditions that are mostly ranges of few numeric attributes.

    >>> wants = KdTreeMatcher()
    >>> wants.add("delays", "delay BETWEEN 60 AND 180 AND distance < 500")
    >>> wants.match({"delay": 75, "distance": 200})
    {'delays'}
    """

    def __init__(self) -> None:
        self._points: dict[str, list[_Point]] = {}
        self._trees: list[_KdTree] = []
        self._new: list[_Point] = []
        self._removed = 0

    def __len__(self) -> int:
        return len(self._points)

    def __contains__(self, id: object) -> bool:
        return id in self._points

    def _file(self, id: str, filter: Filter) -> None:
        alternatives = expand(filter.tree, MAX_CONJUNCTIONS)
        if alternatives is None:
            wider = covering_conjunction(filter.tree)
            alternatives = [] if wider is None else [wider]
        points = [_Point(id, filter, _ranges(each.leaves)) for each in alternatives]
        self._points[id] = points
        self._new += points
        if len(self._new) >= _BUCKET:
            self._plant(self._new)
            self._new = []

    def _unfile(self, id: str) -> None:
        points = self._points.pop(id)
        for point in points:
            point.is_removed = True
        self._removed += len(points)
        if self._removed > _BUCKET and 2 * self._removed > sum(map(len, self._trees)) + len(self._new):
            self._make_anew()

    def _plant(self, points: list[_Point]) -> None:
        """Make a tree of new points and of all trees that are no larger."""
        while self._trees and len(self._trees[-1]) <= len(points):
            points = [*points, *(point for point in self._trees.pop().points if not self._is_gone(point))]
        if points:
            self._trees.append(_KdTree(points))

    def _is_gone(self, point: _Point) -> bool:
        self._removed -= point.is_removed
        return point.is_removed

    def _make_anew(self) -> None:
        self._new, self._trees, self._removed = [], [], 0
        points = [point for points in self._points.values() for point in points]
        if points:
            self._trees.append(_KdTree(points))

    def _find(self, attributes: Attributes) -> Iterator[str]:
        """The ids of those that match, none twice, as they are found."""
        found: set[str] = set()
        for point in self._candidates(attributes):
            if point.is_removed or point.id in found:
                continue
            if point.filter.matches_attributes(attributes):
                found.add(point.id)
                yield point.id

    def _candidates(self, attributes: Attributes) -> Iterator[_Point]:
        yield from self._new
        if self._trees:
            names = {name for tree in self._trees for name in tree.names}
            query = {name: _numbers_of(attributes.get(name)) for name in names}
            for tree in self._trees:
                yield from tree.find(query)


def _build(points: list[tuple[Corner, _Point]]) -> _Node:
    least = tuple(map(min, zip(*(place for place, _ in points), strict=True)))
    most = tuple(map(max, zip(*(place for place, _ in points), strict=True)))
    if len(points) <= _BUCKET or least == most:
        return _Node(least, most, points, ())
    axis = _widest_axis(points)
    points = sorted(points, key=lambda pair: pair[0][axis])
    middle = len(points) // 2
    return _Node(least, most, (), (_build(points[:middle]), _build(points[middle:])))


def _widest_axis(points: Sequence[tuple[Corner, _Point]]) -> int:
    """The coordinate that takes the most values in a sample: ranges in miles and in millions split alike."""
    sample = [place for place, _ in islice(points, 0, None, max(1, len(points) // 64))]
    return max(range(len(sample[0])), key=lambda axis: len({place[axis] for place in sample}))


def _is_beyond(place: Corner, corner: Sequence[float]) -> bool:
    return all(have >= least for have, least in zip(place, corner, strict=True))


def _all_points(node: _Node) -> Iterator[_Point]:
    stack = [node]
    while stack:
        each = stack.pop()
        yield from (point for _, point in each.points)
        stack.extend(each.children)


def _ranges(leaves: Mapping[str, ValueSet]) -> dict[str, tuple[float, float]]:
    """The hull of the numbers each attribute may take, for those that must be numbers."""
    hulls = {name: hull_of(values) for name, values in leaves.items()}
    return {name: (hull.low, hull.high) for name, hull in hulls.items() if hull is not None and hull.group == ""}


def _numbers_of(value: Any) -> tuple[float, float]:
    """The query of an event on one attribute: where a range begins at the latest, and ends at the earliest.

    Both are its value. Of several values some one must do, so the query is the greatest and the least; where there is
    no number, the range must be none at all.
    """
    elements: Iterable[Any] = value if isinstance(value, tuple) else (value,)
    numbers = [clamp_to_finite(each) for each in elements if type(each) in (int, float, Decimal)]
    return (max(numbers), min(numbers)) if numbers else (-inf, inf)
