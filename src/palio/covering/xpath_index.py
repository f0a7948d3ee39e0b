"""Covering index for XPath subscriptions: XSearch over a factorisation tree (Chand §5).

A filter that asks for one XPath and nothing else has a place in the tree of its attribute. A search asks the tree for
the patterns that contain one, or are contained in it, and compares only these filters. Pairs of patterns have no extent
that could tell them apart: without the tree every pair is compared.

Filters of any kind can be sought. What their conditions cannot say about a pattern, such as a list of documents or an
expression, leaves all patterns as candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from palio.covering.extents import IndexedFilter, first_above
from palio.filters.filter import Filter
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.value_predicates import XPath
from palio.filters.value_sets import STRINGS
from palio.xml.factorisation_tree import FactorisationTree
from palio.xml.pattern import Pattern


def pattern_of(filter: Filter) -> tuple[str, Pattern] | None:
    """The attribute and the pattern of a filter that asks for one XPath and nothing else."""
    tree = filter.tree
    if not isinstance(tree, Leaf) or len(tree.values.tests) != 1 or tree.values.parts is not STRINGS.parts:
        return None
    [test] = tree.values.tests
    return (tree.attribute, test.pattern.pattern) if test.wanted and isinstance(test.pattern, XPath) else None


class XPathIndex:
    """Holds filters of one XPath each. A search costs about as much as the tree has nodes that fit the pattern."""

    def __init__(self) -> None:
        self.filters: dict[IndexedFilter, None] = {}
        self.comparisons = 0
        self._trees: dict[str, FactorisationTree] = {}
        self._by_pattern: dict[str, dict[Pattern, list[IndexedFilter]]] = {}

    def add(self, filter: IndexedFilter) -> None:
        attribute, pattern = _asked(filter)
        self.filters[filter] = None
        self._trees.setdefault(attribute, FactorisationTree()).add(pattern)
        self._by_pattern.setdefault(attribute, {}).setdefault(pattern, []).append(filter)

    def remove(self, filter: IndexedFilter) -> None:
        attribute, pattern = _asked(filter)
        del self.filters[filter]
        found = self._by_pattern[attribute]
        found[pattern].remove(filter)
        if not found[pattern]:
            del found[pattern]
            self._trees[attribute].discard(pattern)
        if not found:
            del self._by_pattern[attribute], self._trees[attribute]

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        return first_above(self.candidates(filter.filter.tree), filter, limit)

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        if not self.filters:
            return []
        return [each for each in self._compared(self._below(filter.filter.tree)) if filter.is_above(each)]

    def candidates(self, tree: Node) -> Iterator[IndexedFilter]:
        """The filters that may cover one, in the order of their arrival; searched for when the first is asked for."""
        if self.filters:
            yield from self._compared(self._above(tree))

    def _compared(self, found: dict[IndexedFilter, None] | None) -> Iterable[IndexedFilter]:
        """Candidates, in the order of their arrival; all filters for None."""
        candidates = self.filters if found is None else found
        # The sets of the tree have no order that is the same in every process.
        for each in sorted(candidates, key=lambda each: each.arrival):
            self.comparisons += 1
            yield each

    # Both follow the rules of `filters.relations.covers`, with a filter of one XPath on one side.

    def _above(self, tree: Node) -> dict[IndexedFilter, None] | None:
        """The filters that may cover one; None for all."""
        if isinstance(tree, Or):
            # What covers an OR covers each of its alternatives; what never matches is covered by all.
            return self._above(tree.children[0]) if tree.children else None
        if isinstance(tree, And):
            return _union(map(self._above, tree.children))
        if not isinstance(tree, Leaf) or tree.attribute not in self._trees:
            return {}
        if tree.values.parts is not STRINGS.parts:
            return None  # a list of documents, perhaps, of which each may match
        search = self._trees[tree.attribute].containing
        return self._taken(tree.attribute, chain.from_iterable(map(search, _patterns(tree))))

    def _below(self, tree: Node) -> dict[IndexedFilter, None] | None:
        """The filters that one may cover; None for all."""
        if isinstance(tree, Or):
            return _union(map(self._below, tree.children))
        if isinstance(tree, And):
            return self._below(tree.children[0]) if tree.children else None
        if not isinstance(tree, Leaf) or tree.attribute not in self._trees:
            return {}
        for each in _patterns(tree):
            return self._taken(tree.attribute, self._trees[tree.attribute].contained(each))
        return None

    def _taken(self, attribute: str, patterns: Iterable[Pattern]) -> dict[IndexedFilter, None]:
        filters = self._by_pattern[attribute]
        return dict.fromkeys(chain.from_iterable(filters[each] for each in patterns))


def _patterns(leaf: Leaf) -> list[Pattern]:
    """The patterns that a condition on one attribute asks for."""
    return [each.pattern.pattern for each in leaf.values.tests if each.wanted and isinstance(each.pattern, XPath)]


def _asked(filter: IndexedFilter) -> tuple[str, Pattern]:
    asked = pattern_of(filter.filter)
    assert asked is not None, "only filters of one XPath are held here"
    return asked


def _union(found: Iterable[dict[IndexedFilter, None] | None]) -> dict[IndexedFilter, None] | None:
    union: dict[IndexedFilter, None] = {}
    for each in found:
        if each is None:
            return None
        union |= each
    return union
