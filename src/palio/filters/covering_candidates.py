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
        self._bits: dict[str, int] = {}  # each attribute's bit in a mask of attributes
        self._masks: list[int] = []
        self._places: dict[int, list[int]] = {}  # of the trees, by attribute
        self._patterns: dict[int, list[LikePattern]] = {}
        # By attribute, the trees that confine its strings to intervals: a pattern may hold throughout.
        self._confined: dict[int, set[int]] = {}
        for place, tree in enumerate(trees):
            mask = 0
            for condition in (tree,) if isinstance(tree, Leaf) else leaves(tree):
                bit = self._bit(condition)
                mask |= bit
                if isinstance(condition, Leaf):
                    if condition.values.parts[Kind.STRING].cuts:
                        self._confined.setdefault(bit, set()).add(place)
                    for test in condition.values.tests:
                        if test.wanted and isinstance(test.pattern, Like):
                            self._patterns.setdefault(bit, []).append(test.pattern.pattern)
                if place not in self._places.setdefault(bit, [])[-1:]:
                    self._places[bit].append(place)
            self._masks.append(mask)
        # A tree without attributes is everything, or nothing: no condition is necessary.
        self._without_attributes = {place for place, mask in enumerate(self._masks) if not mask}
        self._texts: dict[int, PatternTexts] = {}

    def covered_by(self, place: int) -> Collection[int]:
        """The places of the trees that the one at `place` may cover, and maybe its own."""
        wide = self._trees[place]
        conjuncts = wide.children if isinstance(wide, And) else (wide,)
        needed: set[int] = set()  # of ten thousand conjuncts, most have the same attributes
        nearest: Sequence[int] = range(len(self._trees))
        for each in conjuncts:
            if isinstance(each, Leaf):
                bit = self._bit(each)
                if self._is_implied_by_no_pattern(bit, each.values):
                    return self._confined.get(bit, set()) | self._without_attributes
                places = self._places[bit]
                if len(places) < len(nearest):
                    nearest = places
            else:
                bit = 0
                for condition in leaves(each):
                    bit |= self._bit(condition)
            needed.add(bit)
        if len(needed) == 1 and nearest is self._places.get(min(needed)):
            found = list(nearest)
        else:
            masks = self._masks
            found = [other for other in nearest if all(masks[other] & each for each in needed)]
        return [*found, *self._without_attributes] if self._without_attributes else found

    def _bit(self, condition: Node) -> int:
        name = condition.attribute if isinstance(condition, Leaf) else _RESIDUALS
        bit = self._bits.get(name)
        if bit is None:
            bit = self._bits[name] = 1 << len(self._bits)
        return bit

    def _is_implied_by_no_pattern(self, bit: int, values: ValueSet) -> bool:
        """Whether a set is all strings that match one pattern, and no other pattern of the attribute implies it."""
        if len(values.tests) != 1 or not values.parts[Kind.STRING].is_full:
            return False
        (test,) = values.tests
        if not test.wanted or not isinstance(test.pattern, Like):
            return False
        texts = self._texts.get(bit)
        if texts is None:
            texts = self._texts[bit] = PatternTexts(self._patterns[bit])
        return not texts.may_be_implied(test.pattern.pattern)
