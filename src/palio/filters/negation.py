"""SQL's NOT of a canonical tree, for filters whose condition as written is not at hand.

A condition on one attribute is FALSE within the kinds it names, outside its set: `x > 5` names numbers, so its
NOT is "x is a number and not above 5", and a missing `x` satisfies neither.
"""

from __future__ import annotations

from dataclasses import replace

from palio.filters.kinds import KINDS, Kind
from palio.filters.patterns import Computed, Test
from palio.filters.printing import domain_of
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.values import ValueSet


def negation(node: Node) -> Node:
    """Where a tree is FALSE."""
    match node:
        case And(children):
            return Or(tuple(negation(child) for child in children))
        case Or(children):
            return And(tuple(negation(child) for child in children))
        case Residual(expression, wants, timezone):
            return Residual(expression, not wants, timezone)
        case Leaf(attribute, values):
            outside = ValueSet(values.parts).complement().intersect(_named(values))
            failed = [domain_of(test).where([opposite(test)]) for test in values.tests]
            return Or(tuple(Leaf(attribute, each) for each in (outside, *failed)))


def opposite(test: Test) -> Test:
    """The test that passes where the condition of this one is FALSE."""
    if isinstance(test.pattern, Computed):
        return Test(replace(test.pattern, wants=not test.pattern.wants))
    return Test(test.pattern, not test.wanted)


def _named(values: ValueSet) -> ValueSet:
    """All values of the kinds a set names; one that speaks of null speaks of every kind."""
    if not (values.parts[Kind.NULL].is_empty and values.parts[Kind.MISSING].is_empty):
        return ValueSet.kinds(*KINDS)
    return ValueSet.kinds(*(kind for kind in KINDS if not values.parts[kind].is_empty))
