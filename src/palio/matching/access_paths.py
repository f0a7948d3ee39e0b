"""Access paths: by which part of the index each condition of a subscription is decided.

An attribute has an index of its values, and so has an expression that is worth computing for every event. Patterns on
an attribute are found by a text that they need, members of arrays by their elements. What is left is a residual: it is
evaluated on the candidates that the other conditions leave, and on every event where they leave all.

This is read off the conditions and the names of what an index holds, without a search.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from palio.filters.explanation import AccessPath
from palio.filters.expressions.extension_functions import reads_whole_event
from palio.filters.kinds import KINDS, Kind, cut_after, float_position
from palio.filters.like import LikePattern
from palio.filters.tree import And, Leaf, Node, Or, Residual, leaves
from palio.filters.value_predicates import Computed, Like, Rlike, XPath, common_prefix
from palio.filters.value_sets import PRESENT
from palio.matching.columnar.array_members import membership_in
from palio.matching.columnar.computed_attributes import (
    ExpressionUses,
    expression_text,
    is_computable,
    is_computed,
    lift_tree,
    names_restricted,
    of_any_kind,
)
from palio.matching.columnar.pattern_costs import pattern_cost
from palio.matching.relative_costs import ASKED_ALWAYS_COST, RESIDUAL_COST, rounded_cost


class AccessPaths:
    """The access paths of the conditions of one filter."""

    def __init__(self, tree: Node, indexed: Collection[str]) -> None:
        """Of a tree in an index that holds attributes of these names, those of expressions among them."""
        self._indexed = set(map(of_any_kind, indexed))
        self._is_always_candidate = is_always_candidate(tree)
        self._only_excludes = not self._is_always_candidate and only_excludes(tree)

    @classmethod
    def alone(cls, tree: Node) -> AccessPaths:
        """Of a tree in an index that holds nothing else."""
        return cls(tree, ExpressionUses([tree]).indexed(tree))

    def of(self, condition: Leaf | Residual) -> AccessPath:
        """The access path of a condition."""
        if isinstance(condition, Residual):
            return self._of_residual(condition)
        if any(isinstance(test.pattern, Computed) for test in condition.values.tests):
            return self._of_expression(condition)
        if self._is_always_candidate and _holds_without_value(condition):
            return AccessPath("every event", condition.attribute, times_equality=ASKED_ALWAYS_COST)
        for test in condition.values.tests:
            if isinstance(test.pattern, XPath):
                return AccessPath("document pattern", condition.attribute)
            if test.wanted and isinstance(test.pattern, Like | Rlike):
                cost = pattern_cost(test.pattern)
                times = rounded_cost(cost.times) if cost.is_slow else 0
                return AccessPath("pattern", condition.attribute, _text_needed(test.pattern), times)
        is_slow = self._only_excludes and _is_negation(condition)
        return AccessPath("attribute", condition.attribute, times_equality=ASKED_ALWAYS_COST if is_slow else 0)

    def _of_residual(self, residual: Residual) -> AccessPath:
        member = membership_in(residual)
        if member is not None:
            return AccessPath("array elements", member[0])
        if is_computable(residual):
            return self._of_expression(residual)
        if reads_whole_event(residual.expression):
            return AccessPath("event search", "")
        return self._residual()

    def _of_expression(self, condition: Leaf | Residual) -> AccessPath:
        for name in names_restricted(condition):
            if name in self._indexed:
                times = self._cost_of_lookup(condition)
                is_expression = is_computed(name)
                return AccessPath(
                    "computed attribute" if is_expression else "attribute", expression_text(name), "", times
                )
        return self._residual()

    def _cost_of_lookup(self, condition: Leaf | Residual) -> int:
        """How many equalities the patterns on an expression's value cost, or that nearly every value is wanted."""
        for leaf in leaves(lift_tree(condition)):
            assert isinstance(leaf, Leaf)
            for test in leaf.values.tests:
                cost = pattern_cost(test.pattern)
                if test.wanted and cost.is_slow:
                    return rounded_cost(cost.times)
            if self._only_excludes and _is_negation(leaf):
                return ASKED_ALWAYS_COST
        return 0

    def _residual(self) -> AccessPath:
        if self._is_always_candidate:
            return AccessPath("every event", "", times_equality=ASKED_ALWAYS_COST)
        return AccessPath("residual", "", times_equality=RESIDUAL_COST)


def _text_needed(pattern: Like | Rlike) -> str:
    """The longest text that a value needs to match a pattern."""
    if isinstance(pattern, Rlike):
        return pattern.regex.required
    parsed: LikePattern = pattern.pattern
    return max(parsed.literals, key=len, default="")


def _holds_without_value(leaf: Leaf) -> bool:
    return not leaf.values.parts[Kind.MISSING].is_empty and not any(test.wanted for test in leaf.values.tests)


def is_always_candidate(node: Node) -> bool:
    """Whether no condition is one that every match satisfies, so that every event is a candidate."""
    return _is_always_candidate(lift_tree(node))


def _is_always_candidate(node: Node) -> bool:
    match node:
        case Leaf():
            return _holds_without_value(node)
        case And(children):
            return all(_is_always_candidate(child) for child in children)
        case Or(children):
            return any(_is_always_candidate(child) for child in children)
        case Residual():
            return membership_in(node) is None


def only_excludes(node: Node) -> bool:
    """Whether a tree only says what is not wanted, so that nearly every event with its attributes matches."""
    return _only_excludes(lift_tree(node))


def _only_excludes(node: Node) -> bool:
    match node:
        case And(children):
            wholly = [each for each in children if not _is_any(each)]
            return bool(wholly) and all(map(_only_excludes, wholly))
        case Or(children):
            return any(map(_only_excludes, children))
        case Leaf():
            return _is_negation(node)
    return False


def _is_any(node: Node) -> bool:
    return isinstance(node, Leaf) and node.values == PRESENT


def _is_negation(leaf: Leaf) -> bool:
    """Whether a condition admits all values of a kind but a few, or but those of a pattern.

    Whether a range of numbers or times leaves out much or little is not known.
    """
    if any(test.wanted for test in leaf.values.tests):
        return False
    parts = [(kind, part) for kind, part in zip(KINDS, leaf.values.parts, strict=True) if not part.is_empty]
    # Inside at the lowest value and an even number of cuts: unbounded at both ends, with gaps in between.
    if not all(part.inside and len(part.cuts) % 2 == 0 for _, part in parts):
        return False
    # Two integers in a row are one gap of integers, and two of decimals.
    judged = [(kind, part) for kind, part in parts if kind is not Kind.INTEGER] or parts
    if not all(
        _is_narrow(kind, *gap) for kind, part in judged for gap in zip(part.cuts[::2], part.cuts[1::2], strict=True)
    ):
        return False
    return bool(leaf.values.tests) or any(part.cuts for _, part in parts)


def _is_narrow(kind: Kind, low: Any, high: Any) -> bool:
    """Whether there is about one value between two cuts, or the strings of one prefix."""
    match kind:
        case Kind.STRING:
            return bool(common_prefix(low, high))
        case Kind.DECIMAL:  # those of one float
            return float_position(float(high[0])) - float_position(float(low[0])) <= _MAX_FLOATS
        case Kind.FLOAT:
            return bool(high - low <= _MAX_FLOATS)
    return bool(cut_after(kind, low) == high)


_MAX_FLOATS: Final = 16  # which may have one difference with a constant
