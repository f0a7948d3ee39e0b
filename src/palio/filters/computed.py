"""Computed conditions: expressions, and conditions of other languages, as nodes of a condition tree."""

from __future__ import annotations

from palio.filters.expressions.ast import Array, Attribute, Call, Literal, attributes_of, walk
from palio.filters.expressions.extension_functions import reads_whole_event
from palio.filters.expressions.static_analysis import required_attributes
from palio.filters.registry import condition_in
from palio.filters.rewriting import plain_range
from palio.filters.tree import And, Leaf, Node, Residual, domain_of
from palio.filters.value_predicates import Computed, Test
from palio.filters.value_sets import PRESENT


def computed_condition(expression: Call, wants: bool = True, timezone: str = "UTC") -> Node:
    """The condition that an expression is TRUE, or FALSE: on one attribute a set or a test, on several a residual.

    The required attributes of a residual become leaves, so that an index can reject events without them.
    """
    names = attributes_of(expression)
    whole = reads_whole_event(expression) or any(isinstance(node, Array) for node in walk(expression))
    if len(names) == 1 and not whole:
        if (plain := plain_range(expression, wants, timezone)) is not None:
            return Leaf(*plain)
        test = Test(Computed(expression, wants, timezone))
        return Leaf(next(iter(names)), domain_of(test).where([test]))
    needed = [] if whole else [Leaf(name, PRESENT) for name in required_attributes(expression)]
    return And((*needed, Residual(expression, wants, timezone)))


def foreign(language: str, text: str, wants: bool = True) -> Node:
    """The condition that a text in another language is TRUE, or FALSE, evaluated by that language."""
    names = sorted(condition_in(language, text).attributes)
    return computed_condition(Call("condition_in", (Literal(language), Literal(text), *map(Attribute, names))), wants)
