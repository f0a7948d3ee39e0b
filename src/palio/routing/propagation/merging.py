"""Merging reduction: one filter in place of several (Jerzak §2.5.5, Figure 2.17).

Filters that agree in all conditions but those on one attribute are one filter with the union of that attribute's
values, exactly, because sets of values may have gaps. All that agree are merged at once, attribute by attribute in the
order of names, until nothing changes: what comes out depends on the set alone, never on the order in which it came to
be. Imperfect merging then closes gaps of at most `slack` of an attribute's extent.

A merger of very many filters would be longer than any neighbour reads, and slow to parse: it is split into several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, Final

from palio.covering.relation_graph import FlatGraph
from palio.filters.filter import Filter
from palio.filters.tree import And, Leaf, Node
from palio.routing.messages import Key
from palio.routing.propagation.reductions import Change, Covering

MAX_MERGER_CHARACTERS: Final = 256 * 1024  # about; a quarter of the longest filter that a neighbour reads


class Merging:
    """Mergers of the filters that no other covers, each under its digest."""

    __slots__ = ("_known", "_maximal", "_slack")

    def __init__(self, slack: float = 0.0) -> None:
        self._maximal = Covering()
        self._slack = slack
        self._known: dict[Key, Filter] = {}

    def add(self, key: Key, wanted: Filter) -> None:
        self._maximal.add(key, wanted)

    def remove(self, key: Key) -> None:
        self._maximal.remove(key)

    def change(self) -> Change:
        if not any(self._maximal.change()):
            return Change({}, ())
        desired = {each.digest: each for each in mergers(self._maximal.known, self._slack)}
        additions = {key: desired[key] for key in sorted(desired.keys() - self._known.keys())}
        withdrawals = tuple(sorted(self._known.keys() - desired.keys()))
        self._known = desired
        return Change(additions, withdrawals)


def mergers(filters: Iterable[Filter], slack: float = 0.0) -> list[Filter]:
    """The fewest filters that merging attribute by attribute gives; none covers another."""
    merged = _maximal(filters)
    # A merger by one attribute may make filters agree that differed in another: repeated until nothing merges.
    while True:
        count = len(merged)
        for attribute in sorted({name for each in merged for name in each.attributes}):
            merged = _merge_by(attribute, merged, slack)
        merged = _maximal(merged)
        if len(merged) == count:
            return merged


def _maximal(filters: Iterable[Filter]) -> list[Filter]:
    graph = FlatGraph()
    for each in filters:
        graph.insert(each)
    return sorted(graph.forwarded, key=lambda each: each.digest)


def _merge_by(attribute: str, filters: list[Filter], slack: float) -> list[Filter]:
    """Merge those that differ in their conditions on one attribute only."""
    alike: dict[Any, list[Filter]] = {}
    for each in filters:
        alike.setdefault(_rest(each, attribute), []).append(each)
    found: list[Filter] = []
    for several in (piece for each in alike.values() for piece in _bounded(each)):
        merger = reduce(_merge, several[1:], [several[0]])
        found += [each.merge(each, slack) for each in merger] if len(several) > len(merger) and slack else merger
    return found


def _bounded(filters: list[Filter]) -> Iterator[list[Filter]]:
    """Pieces whose mergers are not too long; a merger is hardly longer than all that it is made of."""
    piece: list[Filter] = []
    length = 0
    for each in filters:
        if piece and length + len(str(each)) > MAX_MERGER_CHARACTERS:
            yield piece
            piece, length = [], 0
        piece.append(each)
        length += len(str(each))
    yield piece


def _merge(merged: list[Filter], further: Filter) -> list[Filter]:
    """Into the first that it merges with, exactly."""
    for place, each in enumerate(merged):
        both = each.merge_perfect(further)
        if both is not None:
            return [*merged[:place], both, *merged[place + 1 :]]
    return [*merged, further]


def _rest(wanted: Filter, attribute: str) -> Any:
    """What two filters must share to be merged by an attribute; those without a condition on it share nothing."""
    tree = wanted.tree
    parts: tuple[Node, ...] = tree.children if isinstance(tree, And) else (tree,)
    if not any(isinstance(part, Leaf) and part.attribute == attribute for part in parts):
        return wanted.digest
    return tuple(part for part in parts if not (isinstance(part, Leaf) and part.attribute == attribute))
