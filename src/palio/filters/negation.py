"""The two opposites of a tree: SQL's NOT, where the condition as written is not at hand, and everything else.

A condition on one attribute is FALSE within the kinds it names, outside its set: `x > 5` names numbers, so its
NOT is "x is a number and not above 5", and a missing `x` satisfies neither. Languages of two truth values want the
complement instead, in which a missing `x` is.
"""

from __future__ import annotations

from dataclasses import replace

from palio.filters.computed import computed
from palio.filters.expressions.tree import Call, Expression
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


def complement(node: Node) -> Node:
    """Where a tree does not hold; of attributes with several values, for each choice of them."""
    match node:
        case And(children):
            return Or(tuple(complement(child) for child in children))
        case Or(children):
            return And(tuple(complement(child) for child in children))
        case Residual(expression, wants, timezone):
            return _unlike(expression, wants, timezone)
        case Leaf(attribute, values):
            failed = [_failing(attribute, test) for test in values.tests]
            return Or((Leaf(attribute, ValueSet(values.parts).complement()), *failed))


def _failing(attribute: str, test: Test) -> Node:
    if isinstance(test.pattern, Computed):
        return _unlike(test.pattern.expression, test.pattern.wants, test.pattern.timezone)
    other = opposite(test)
    return Leaf(attribute, domain_of(other).where([other]))


def _unlike(expression: Expression, wants: bool, timezone: str) -> Node:
    """Where a computed condition is not as wanted: the other truth value, or NULL."""
    match expression:
        case Call("istrue" | "isfalse" as function, (Call() as inner,)) if not wants:
            return computed(inner, function == "istrue", timezone)
        case Call("isnull" | "isnotnull" | "istrue" | "isfalse") as never_null:
            return computed(never_null, not wants, timezone)
    return computed(Call("istrue" if wants else "isfalse", (expression,)), False, timezone)


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
