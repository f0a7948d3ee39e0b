"""Which of many filters are covered, and by whom? Exactly, without comparing all pairs.

Candidates come from a matcher that holds all filters and is asked by events that each filter matches (`witnesses`);
where none is found, from shelves by attributes and values (`shelves`). Whether a candidate covers is decided by
`Filter.covers` alone. Of filters that cover each other the one with the lowest number stays.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.covering.shelves import Shelves
from palio.covering.witnesses import Corner, witnesses
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import NOTHING, Or, attributes_in, leaves
from palio.matching.matcher import Matcher

_KNOWN: Final = 100_000  # filters that are remembered
_AT_ONCE: Final = 4_096  # filters whose witnesses are matched together
_LOOKS: Final = 3  # candidates on shelves that may be looked at for a pair that is compared


class CoveringSearch:
    """Finds for filters one that covers them, among all of some, by number.

    With a matcher that holds the same filters under the same numbers, each costs two matches and a comparison with
    those that have both; without one, or where no event is known that a filter matches, comparisons with all that look
    at no other attributes. `most_pairs` bounds the pairs of conditions that are compared for one filter; `cut_short`
    counts those for which that was not enough to tell.
    """

    def __init__(
        self, filter_of: Callable[[int], Filter], count: int, matcher: Matcher | None, most_pairs: int | None = None
    ) -> None:
        self._filter_of = filter_of
        self._count = count
        self._matcher = matcher
        self._most_pairs = sys.maxsize if most_pairs is None else most_pairs
        self._known: OrderedDict[int, Filter] = OrderedDict()
        self.cut_short = 0

    def covered_by(self, numbers: Sequence[int]) -> list[int]:
        """For each of these filters the number of one that covers it, or -1."""
        found: list[int] = []
        unseen: dict[int, int] = {}  # places of those that no event is known of, by number
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            corners = [None if self._matcher is None else witnesses(self._filter(number)) for number in some]
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
        filter = self._filter(number)
        size = _size(filter)
        allowed = self._most_pairs
        for candidate in candidates:
            if candidate == number:
                continue
            other = self._filter(candidate)
            allowed -= size * _size(other)
            if allowed < 0:
                self.cut_short += 1
                break
            if other.covers(filter) and not (candidate > number and filter.covers(other)):
                return candidate
        return -1

    def _candidates(self, corners: Sequence[tuple[Corner, Corner]]) -> Iterator[list[int]]:
        """For each pair of events the numbers of the filters that match both."""
        if self._matcher is None or not corners:
            return
        low, high = (_matches(self._matcher, [each[end] for each in corners]) for end in (0, 1))
        for one, other in zip(low, high, strict=True):
            yield np.intersect1d(one, other, assume_unique=True).tolist()

    def _on_shelves(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        wanted = {number: self._filter(number).tree for number in numbers}
        never = [number for number, tree in wanted.items() if tree == NOTHING]
        if never:  # whoever matches nothing is covered by anybody
            by = next((each for each in range(self._count) if self._filter(each).tree != NOTHING), 0)
            yield from ((number, by if number != by else -1) for number in never)
            wanted = {number: tree for number, tree in wanted.items() if tree != NOTHING}
        looked_at = {attributes_in(tree) for tree in wanted.values()}
        trees = {}
        for number in range(self._count):
            tree = self._filter(number).tree
            alternatives = tree.children if isinstance(tree, Or) else (tree,)
            if any(attributes_in(one) <= names for one in alternatives for names in looked_at):
                trees[number] = tree
        shelves = Shelves(trees)
        most_looks = min(sys.maxsize, self._most_pairs * _LOOKS)
        for number, tree in wanted.items():
            yield number, self._first(number, shelves.candidates(number, tree, most_looks))

    def _filter(self, number: int) -> Filter:
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._filter_of(number)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return known


def _size(filter: Filter) -> int:
    return sum(1 for _ in leaves(filter.tree))


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
