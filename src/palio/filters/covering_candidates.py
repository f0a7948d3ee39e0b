"""Candidates for covering among many alternatives: a cheap necessary condition before trees are compared.

A tree covers another only if each of its conjuncts has an attribute in common with it. And the set of strings that
match one LIKE pattern covers only sets that are confined to intervals of strings, and patterns that imply it, of which
there are hardly any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from palio.filters.kinds import Kind
from palio.filters.like import LikePattern
from palio.filters.pattern_texts import PatternTexts
from palio.filters.tree import And, Leaf, Node, leaves
from palio.filters.value_predicates import Like
from palio.filters.value_sets import STRINGS, ValueSet

_RESIDUALS = "\0residual"  # in place of an attribute: a residual covers nothing but residuals


def are_unrelated_patterns(trees: Iterable[Node]) -> bool:
    """Whether all trees are LIKE patterns, as in most rules, of which none implies another."""
    patterns: dict[str, list[LikePattern]] = {}
    for tree in trees:
        if not isinstance(tree, Leaf) or tree.values.parts is not STRINGS.parts or len(tree.values.tests) != 1:
            return False
        (test,) = tree.values.tests
        if not test.wanted or not isinstance(test.pattern, Like):
            return False
        patterns.setdefault(tree.attribute, []).append(test.pattern.pattern)
    for alike in patterns.values():
        if len(alike) > 1:
            texts = PatternTexts(alike)
            if any(map(texts.may_be_implied, alike)):
                return False
    return True


class CoveringCandidates:
    """For each of some canonical trees, the others that it may cover."""

    def __init__(self, trees: Sequence[Node]) -> None:
        self._trees = trees
        self._numbers: dict[str, int] = {}  # of attributes
        # Of each tree. Sets of numbers, and no masks of bits: among fifty thousand attributes a mask has six kilobytes.
        self._attributes: list[frozenset[int]] = []
        self._places: dict[int, list[int]] = {}  # of the trees, by attribute
        self._patterns: dict[int, list[LikePattern]] = {}
        # By attribute, the trees that confine its strings to intervals: a pattern may hold throughout.
        self._confined: dict[int, set[int]] = {}
        for place, tree in enumerate(trees):
            attributes: set[int] = set()
            for condition in (tree,) if isinstance(tree, Leaf) else leaves(tree):
                number = self._number(condition)
                if isinstance(condition, Leaf):
                    if condition.values.parts[Kind.STRING].cuts:
                        self._confined.setdefault(number, set()).add(place)
                    for test in condition.values.tests:
                        if test.wanted and isinstance(test.pattern, Like):
                            self._patterns.setdefault(number, []).append(test.pattern.pattern)
                if number not in attributes:
                    attributes.add(number)
                    self._places.setdefault(number, []).append(place)
            self._attributes.append(frozenset(attributes))
        # A tree without attributes is everything, or nothing: no condition is necessary.
        self._without_attributes = {place for place, found in enumerate(self._attributes) if not found}
        self._texts: dict[int, PatternTexts] = {}

    def covered_by(self, place: int) -> Collection[int]:
        """The places of the trees that the one at `place` may cover, and maybe its own."""
        wide = self._trees[place]
        conjuncts = wide.children if isinstance(wide, And) else (wide,)
        needed: set[frozenset[int]] = set()  # of ten thousand conjuncts, most have the same attributes
        nearest: Sequence[int] = range(len(self._trees))
        for each in conjuncts:
            if isinstance(each, Leaf):
                number = self._number(each)
                if self._is_implied_by_no_pattern(number, each.values):
                    return self._confined.get(number, set()) | self._without_attributes
                places = self._places[number]
                if len(places) < len(nearest):
                    nearest = places
                if len(conjuncts) == 1:
                    return [*places, *self._without_attributes] if self._without_attributes else places
                needed.add(frozenset((number,)))
            else:
                needed.add(frozenset(map(self._number, leaves(each))))
        of_trees = self._attributes
        found = [other for other in nearest if not any(map(of_trees[other].isdisjoint, needed))]
        return [*found, *self._without_attributes] if self._without_attributes else found

    def _number(self, condition: Node) -> int:
        name = condition.attribute if isinstance(condition, Leaf) else _RESIDUALS
        return self._numbers.setdefault(name, len(self._numbers))

    def _is_implied_by_no_pattern(self, number: int, values: ValueSet) -> bool:
        """Whether a set is all strings that match one pattern, and no other pattern of the attribute implies it."""
        if len(values.tests) != 1 or not values.parts[Kind.STRING].is_full:
            return False
        (test,) = values.tests
        if not test.wanted or not isinstance(test.pattern, Like):
            return False
        texts = self._texts.get(number)
        if texts is None:
            texts = self._texts[number] = PatternTexts(self._patterns[number])
        return not texts.may_be_implied(test.pattern.pattern)
