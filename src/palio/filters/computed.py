"""Conditions that must be evaluated, as nodes of a filter's tree."""

from __future__ import annotations

from palio.filters.expressions.nullness import is_strict
from palio.filters.expressions.own import reads_whole_event
from palio.filters.expressions.tree import Array, Attribute, Call, Literal, attributes_of, walk
from palio.filters.patterns import Computed, Test
from palio.filters.printing import domain_of
from palio.filters.registry import condition_in
from palio.filters.tree import And, Leaf, Node, Residual
from palio.filters.values import PRESENT


def computed(expression: Call, wants: bool = True, timezone: str = "UTC") -> Node:
    """Where an expression is TRUE, or FALSE: on one attribute a test of its values, on several a residual."""
    names = attributes_of(expression)
    whole = reads_whole_event(expression) or any(isinstance(node, Array) for node in walk(expression))
    if len(names) == 1 and not whole:
        test = Test(Computed(expression, wants, timezone))
        return Leaf(next(iter(names)), domain_of(test).where([test]))
    needed = [] if whole else [Leaf(name, PRESENT) for name in is_strict(expression)]
    return And((*needed, Residual(expression, wants, timezone)))


def foreign(language: str, text: str, wants: bool = True) -> Node:
    """Where a condition that only its own language can judge is TRUE, or FALSE."""
    names = sorted(condition_in(language, text).attributes)
    return computed(Call("condition_in", (Literal(language), Literal(text), *map(Attribute, names))), wants)
