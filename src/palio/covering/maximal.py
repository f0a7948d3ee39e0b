"""Which of many filters are covered, and by whom? Exactly, without comparing all pairs.

Candidates come from a matcher that holds all filters and is asked by events that each filter matches (`witnesses`);
where none is found, from shelves by attributes and values (`shelves`). Whether a candidate covers is decided by
`Filter.covers` alone. Of filters that cover each other the one with the lowest number stays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.covering.shelves import Shelves
from palio.covering.witnesses import Corner, corners_of, witnesses
from palio.events import Event
from palio.filters import relations
from palio.filters.tree import NOTHING, And, Leaf, Node, Or, attributes_in
from palio.filters.values import ValueSet
from palio.matching.matcher import Matcher
from palio.matching.plain import PlainCondition
from palio.matching.subscription import Subscription

_KNOWN: Final = 100_000  # conditions that are remembered
_AT_ONCE: Final = 4_096  # filters whose witnesses are matched together


class Condition:
    """A condition as a tree, as cheaply as it can be had: a plain one without making a filter."""

    __slots__ = ("_subscription", "_values", "tree")

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._values: dict[str, ValueSet] | None = None
        if subscription.language == "sql" and isinstance(subscription.where, str):
            plain = PlainCondition.read(subscription.where)
            if plain is not None:
                self._values = plain.values()
        self.tree: Node = subscription.filter.tree if self._values is None else _conjunction(self._values)

    def covers(self, other: Condition) -> bool:
        """As `Filter.covers`."""
        return relations.covers(self.tree, other.tree)

    def corners(self) -> tuple[Corner, Corner] | None:
        return witnesses(self._subscription.filter) if self._values is None else corners_of(self._values)


def _conjunction(values: Mapping[str, ValueSet]) -> Node:
    found = [Leaf(name, values[name]) for name in sorted(values)]
    return found[0] if len(found) == 1 else And(tuple(found))


class CoveringSearch:
    """Finds for filters one that covers them, among all that a matcher holds, by number."""

    def __init__(self, matcher: Matcher, subscription: Callable[[int], Subscription]) -> None:
        self._matcher = matcher
        self._subscription = subscription
        self._known: OrderedDict[int, Condition] = OrderedDict()

    def covered_by(self, numbers: Sequence[int]) -> list[int]:
        """For each of these filters the number of one that covers it, or -1.

        Costs two matches and a comparison with each that has both for a filter of which events are known; for others,
        comparisons with all that look at no other attributes, which are gathered once for each call.
        """
        found: list[int] = []
        unseen: dict[int, int] = {}  # places of those that no event is known of, by number
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            corners = [self._condition(number).corners() for number in some]
            candidates = self._candidates([each for each in corners if each is not None])
            for number, own in zip(some, corners, strict=True):
                if own is None:
                    unseen[number] = len(found)
                found.append(-1 if own is None else self._first(number, next(candidates)))
        if unseen:
            for number, by in self._on_shelves(list(unseen)):
                found[unseen[number]] = by
        return found

    def _first(self, number: int, candidates: Iterable[int]) -> int:
        """The first that covers a filter; of those that cover each other, one with a lower number."""
        condition = self._condition(number)
        for candidate in candidates:
            if candidate == number:
                continue
            other = self._condition(candidate)
            if other.covers(condition) and not (candidate > number and condition.covers(other)):
                return candidate
        return -1

    def _candidates(self, corners: Sequence[tuple[Corner, Corner]]) -> Iterator[list[int]]:
        """For each pair of events the numbers of the filters that match both."""
        if not corners:
            return
        low, high = (_matches(self._matcher, [each[end] for each in corners]) for end in (0, 1))
        for one, other in zip(low, high, strict=True):
            yield np.intersect1d(one, other, assume_unique=True).tolist()

    def _on_shelves(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        wanted = {number: self._condition(number).tree for number in numbers}
        wanted = {number: tree for number, tree in wanted.items() if tree != NOTHING}
        looked_at = {attributes_in(tree) for tree in wanted.values()}
        trees = {}
        for number in range(len(self._matcher.numbered_ids())):
            tree = self._condition(number).tree
            alternatives = tree.children if isinstance(tree, Or) else (tree,)
            if any(attributes_in(one) <= names for one in alternatives for names in looked_at):
                trees[number] = tree
        shelves = Shelves(trees)
        for number, tree in wanted.items():
            yield number, self._first(number, shelves.candidates(number, tree))

    def _condition(self, number: int) -> Condition:
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = Condition(self._subscription(number))
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return known


def _matches(matcher: Matcher, corners: Sequence[Corner]) -> list[npt.NDArray[np.int32]]:
    """The numbers of the filters that match each event."""
    batch = _as_columns(corners)
    if batch is None:
        present = [{name: value for name, value in each.items() if value is not None} for each in corners]
        rows, numbers = matcher.match_events([Event(each) for each in present])
    else:
        rows, numbers = matcher.match_columns(batch)
    return np.split(numbers, np.cumsum(np.bincount(rows, minlength=len(corners)))[:-1])


def _as_columns(corners: Sequence[Corner]) -> pa.RecordBatch | None:
    """Events as columns, where each attribute has values of one type."""
    columns: dict[str, list[Any]] = {}
    for row, corner in enumerate(corners):
        for name, value in corner.items():
            columns.setdefault(name, [None] * len(corners))[row] = value
    arrays = []
    for values in columns.values():
        if len({type(value) for value in values if value is not None}) > 1:
            return None
        arrays.append(pa.array(values))
    if not arrays:
        return None
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def widest(covered_by: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """From who covers each, to who covers it and is covered by nobody: covering is transitive and goes in no circle."""
    found = covered_by
    while True:
        further = np.where(found >= 0, found[found], -1)
        if (further < 0).all():
            return found
        found = np.where(further >= 0, further, found)
