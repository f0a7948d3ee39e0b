"""Covering search: which of many filters are covered, and by which others; exact, without comparing all pairs.

Candidates come from a matcher that holds all filters and is given events that each filter matches (`corner_events`);
where no such event is found, from an index by attributes and values (`attribute_set_index`), and for XPaths from a tree
of all of them (`xpath_index`). Whether a candidate covers is decided by `Filter.covers` alone. Of filters that cover
each other the one with the lowest number stays.

`find_redundant` looks for redundant subscriptions of one subscriber: those that equal another, found by hashing, and
those that another covers. Where candidates are too many a search is cut short: what is reported is true, and the number
of such searches is reported too.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.covering.attribute_set_index import AttributeSetIndex
from palio.covering.corner_events import CornerEvent, corner_events
from palio.covering.extents import IndexedFilter
from palio.covering.xpath_index import XPathIndex, pattern_of
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import NOTHING, Node, Or, attributes_in, leaves
from palio.matching.columnar.computed_attributes import has_computed_conditions
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

_MAX_CACHED_FILTERS: Final = 100_000
_BATCH_FILTERS: Final = 4_096  # whose corner events are matched together
_LOOKS_PER_PAIR: Final = 3  # candidates of the attribute set index examined for each pair of conditions compared


class CoveringSearch:
    """Finds for each of some filters one that covers it, by number.

    With a matcher that holds the same filters under the same numbers, each costs two matches and a comparison with the
    filters that have both; without one, or where no event is known that a filter matches, comparisons with all that
    constrain no other attributes. `max_pairs` bounds the pairs of conditions that are compared for one filter;
    `cut_short` counts the filters for which that was not enough to tell.
    """

    def __init__(
        self, filter_of: Callable[[int], Filter], count: int, matcher: Matcher | None, max_pairs: int | None = None
    ) -> None:
        self._filter_of = filter_of
        self._count = count
        self._matcher = matcher
        self._max_pairs = sys.maxsize if max_pairs is None else max_pairs
        self._known: OrderedDict[int, Filter] = OrderedDict()
        self.cut_short = 0

    def covered_by(self, numbers: Sequence[int]) -> list[int]:
        """For each of these filters the number of one that covers it, or -1."""
        found: list[int] = []
        without_events: dict[int, int] = {}  # positions in `found`, by number
        for start in range(0, len(numbers), _BATCH_FILTERS):
            some = numbers[start : start + _BATCH_FILTERS]
            corners = [None if self._matcher is None else corner_events(self._filter(number)) for number in some]
            candidates = self._candidates([each for each in corners if each is not None])
            for number, own in zip(some, corners, strict=True):
                if own is None:
                    without_events[number] = len(found)
                found.append(-1 if own is None else self._first_coverer(number, next(candidates)))
        if without_events:
            for number, by in self._search_by_attributes(list(without_events)):
                found[without_events[number]] = by
        return found

    def _first_coverer(self, number: int, candidates: Iterable[int]) -> int:
        """The first candidate that covers a filter, or -1; of two that cover each other, the lower number covers."""
        filter = self._filter(number)
        size = _size(filter)
        allowed = self._max_pairs
        for candidate in candidates:
            if candidate == number:
                continue
            other = self._filter(candidate)
            allowed -= size * _size(other)
            if allowed < 0:
                self.cut_short += 1
                break
            # Of filters that cover each other only the lowest number stays uncovered: no two may remove each other.
            if other.covers(filter) and not (candidate > number and filter.covers(other)):
                return candidate
        return -1

    def _candidates(self, corners: Sequence[tuple[CornerEvent, CornerEvent]]) -> Iterator[list[int]]:
        """For each pair of events the numbers of the filters that match both."""
        if self._matcher is None or not corners:
            return
        # A filter that covers matches both events; one that matches both need not cover, and is compared.
        low, high = (_match_batch(self._matcher, [each[end] for each in corners]) for end in (0, 1))
        for one, other in zip(low, high, strict=True):
            yield np.intersect1d(one, other, assume_unique=True).tolist()

    def _search_by_attributes(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        wanted = {number: self._filter(number).tree for number in numbers}
        never = [number for number, tree in wanted.items() if tree == NOTHING]
        if never:  # what matches nothing is covered by every filter
            by = next((each for each in range(self._count) if self._filter(each).tree != NOTHING), 0)
            yield from ((number, by if number != by else -1) for number in never)
            wanted = {number: tree for number, tree in wanted.items() if tree != NOTHING}
        # A filter with a condition on an attribute that another lacks cannot cover it: such filters are left out.
        looked_at = {attributes_in(tree) for tree in wanted.values()}
        trees = {}
        # Those that were found to cover others are few, cover most, and are asked first.
        patterns, wide, indexed = XPathIndex(), XPathIndex(), dict[int, IndexedFilter]()
        for number in range(self._count):
            filter = self._filter(number)
            tree = filter.tree
            if pattern_of(filter) is not None:
                indexed[number] = IndexedFilter(filter, number)
                patterns.add(indexed[number])
                continue
            alternatives = tree.children if isinstance(tree, Or) else (tree,)
            if any(attributes_in(one) <= names for one in alternatives for names in looked_at):
                trees[number] = tree
        index = AttributeSetIndex(trees)
        max_looks = min(sys.maxsize, self._max_pairs * _LOOKS_PER_PAIR)
        for number, tree in wanted.items():
            by_pattern = (each.arrival for each in chain(wide.candidates(tree), patterns.candidates(tree)))
            by = self._first_coverer(number, chain(by_pattern, index.candidates(number, tree, max_looks)))
            if by in indexed and indexed[by] not in wide.filters:
                wide.add(indexed[by])
            yield number, by

    def _filter(self, number: int) -> Filter:
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._filter_of(number)
            if len(self._known) > _MAX_CACHED_FILTERS:
                self._known.popitem(last=False)
        return known


def _size(filter: Filter) -> int:
    return sum(1 for _ in leaves(filter.tree))


def _match_batch(matcher: Matcher, corners: Sequence[CornerEvent]) -> list[npt.NDArray[np.int32]]:
    """The numbers of the filters that match each event."""
    batch = _as_columns(corners)
    if batch is None:
        present = [{name: value for name, value in each.items() if value is not None} for each in corners]
        rows, numbers = matcher.match_events([Event(each) for each in present])
    else:
        rows, numbers = matcher.match_columns(batch)
    return np.split(numbers, np.cumsum(np.bincount(rows, minlength=len(corners)))[:-1])


def _as_columns(corners: Sequence[CornerEvent]) -> pa.RecordBatch | None:
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


def maximal_coverers(covered_by: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each filter a maximal one that covers it, from any that does: covering is transitive and has no cycle."""
    found = covered_by
    while True:
        further = np.where(found >= 0, found[found], -1)
        if (further < 0).all():
            return found
        found = np.where(further >= 0, further, found)


_TOTAL_PAIRS: Final = 16_000_000  # of conditions, compared for all filters together
_MIN_PAIRS_PER_FILTER: Final = 512  # however many filters there are
_MIN_INDEXED_FILTERS: Final = 500  # fewer filters are not worth a matcher
_MIN_INDEXED_EXPRESSIONS: Final = 50  # but for those with conditions on expressions, which are compared pair by pair


class Redundant(NamedTuple):
    """Filter `number` is redundant because of filter `by`."""

    number: int
    by: int
    is_equal: bool


@dataclass(slots=True)
class Redundancies:
    """Redundant filters, and the number of searches that were cut short."""

    found: list[Redundant] = field(default_factory=list)
    cut_short: int = 0


def find_redundant(
    filters: Sequence[Filter], subscribers: Sequence[Hashable], max_pairs: int | None = None
) -> Redundancies:
    """The redundant ones among filters, each with its subscriber; ascending by number.

    Costs a hash for each filter, and comparing at most `max_pairs` pairs of a condition of it and one of
    another; by default sixteen million pairs for all of them, or 512 for each.
    """
    result = Redundancies()
    groups: defaultdict[Hashable, dict[Node, int]] = defaultdict(dict)
    for number, (filter, subscriber) in enumerate(zip(filters, subscribers, strict=True)):
        if filter == Filter.nothing:
            continue
        first = groups[subscriber].setdefault(filter.tree, number)
        if first != number:
            result.found.append(Redundant(number, first, True))
    pairs = max_pairs or max(_MIN_PAIRS_PER_FILTER, _TOTAL_PAIRS // max(1, len(filters)))
    for distinct in groups.values():
        if len(distinct) > 1:
            _find_covered({number: filters[number] for number in distinct.values()}, pairs, result)
    result.found.sort()
    return result


def _find_covered(filters: Mapping[int, Filter], max_pairs: int, result: Redundancies) -> None:
    numbers = list(filters)
    computed = sum(has_computed_conditions(each.tree) for each in filters.values())
    is_indexed = len(numbers) >= _MIN_INDEXED_FILTERS or computed >= _MIN_INDEXED_EXPRESSIONS
    search = CoveringSearch(
        lambda place: filters[numbers[place]],
        len(numbers),
        _matcher(filters) if is_indexed else None,
        max_pairs,
    )
    for place, by in enumerate(search.covered_by(range(len(numbers)))):
        if by >= 0:
            result.found.append(Redundant(numbers[place], numbers[by], False))
    result.cut_short += search.cut_short


def _matcher(filters: Mapping[int, Filter]) -> Matcher:
    matcher = Matcher()
    matcher.add_subscriptions([Subscription(str(number), filter) for number, filter in filters.items()])
    return matcher
