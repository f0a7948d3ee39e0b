"""Canonical form of tree patterns: simplification, order of branches, and the place of wildcards.

Routing tables and covering graphs take two patterns for one subscription if they are equal, so the spellings of a
meaning should become one pattern:

* conjunctions and disjunctions are flat, sorted, and without members that another member makes redundant:
  `/a[b][b/c]` is `/a/b/c`, `/a[*][b]` is `/a/b`;
* negations stand above branches, names and values: `not(a or b)` is `not(a) and not(b)`;
* a wildcard without conditions takes the descendant edge from what is below it: `/a/*//b` is `/a//*/b`; and since an
  element has a descendant where it has a child, `/a/*` is `/a//*`;
* what is asked of an ancestor right below the document node is asked on the way down: `//x[parent::y]` is `//y/x`.

Two patterns with the same meaning may still differ; then neither is known to equal the other, which costs space in a
table and never an event. The nodes of a pattern are made bottom up by `make_node`, `conjunction`, `disjunction` and
`negation`, each of which expects canonical parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from palio.xml.containment import branch_implies, condition_implies, name_covers, names_exclude, node_implies
from palio.xml.expression import from_document_node
from palio.xml.expression_writer import write_expression
from palio.xml.pattern import (
    ANY_NAME,
    NEVER,
    And,
    Axis,
    Condition,
    Exists,
    FirstValue,
    Name,
    Named,
    NodeKind,
    Not,
    Or,
    Pattern,
    PatternNode,
    Residual,
    ValueTest,
    cover_of,
)
from palio.xml.value_tests import excludes, implies
from palio.xml.xpath_writer import condition_key

Member = TypeVar("Member")

ALWAYS = And(())
"""The condition that every node fulfils."""

_MAX_COMPARED = 32
"""Members of a conjunction or disjunction that are compared pair by pair; longer ones keep what is redundant."""


def canonical_pattern(condition: Condition) -> Pattern:
    """The pattern of a condition on the document node."""
    return Pattern(make_node(Axis.CHILD, NodeKind.DOCUMENT, ANY_NAME, (condition,)))


def conditions_of(node: PatternNode) -> list[Condition]:
    """What a node asks, beside its axis, kind and name."""
    return [*map(Exists, node.branches), *node.tests, *node.others]


def make_node(axis: Axis, kind: NodeKind, name: Name, conditions: Iterable[Condition]) -> PatternNode:
    """The node that asks for all of some conditions; one that is never fulfilled has `NEVER` among its others."""
    members = _resolved(_members(And, conditions), kind, name)
    match members:
        case []:
            return PatternNode(axis, kind, name)
        case [Exists(branch)]:  # a step of a path, as most are
            return PatternNode(axis, kind, name, (branch,))
    for named in [each for each in members if isinstance(each, Named)]:
        if not name.is_single:
            name = Name(
                name.local or named.name.local, named.name.namespace if name.namespace is None else name.namespace
            )
            members = _resolved(members, kind, name)
    if NEVER in members:
        return PatternNode(axis, kind, name, others=(NEVER,))
    tests = _without_redundant([each for each in members if isinstance(each, ValueTest)], implies, condition_key)
    if any(excludes(one, two) for one in tests for two in tests):
        return PatternNode(axis, kind, name, others=(NEVER,))
    branches = _merge_attributes([each.branch for each in members if isinstance(each, Exists)])
    if any(NEVER in branch.others for branch in branches):
        return PatternNode(axis, kind, name, others=(NEVER,))
    branches = _without_redundant(branches, branch_implies, _branch_key)
    node = PatternNode(axis, kind, name, tuple(branches), tuple(tests))
    others = [each for each in members if not isinstance(each, Exists | ValueTest) and not node_implies(node, each)]
    if any(node_implies(node, _opposite(each)) for each in others):
        return PatternNode(axis, kind, name, others=(NEVER,))
    if not others:
        return node
    return replace(node, others=tuple(_without_redundant(others, condition_implies, condition_key)))


def conjunction(conditions: Iterable[Condition]) -> Condition:
    """All of some conditions."""
    members = _members(And, conditions)
    if len(members) == 1:
        return members[0]
    if NEVER in members:
        return NEVER
    members = _without_redundant(members, condition_implies, condition_key)
    return members[0] if len(members) == 1 else And(tuple(members))


def disjunction(conditions: Iterable[Condition]) -> Condition:
    """At least one of some conditions."""
    members = _members(Or, conditions)
    if ALWAYS in members:
        return ALWAYS
    members = _without_redundant(members, lambda one, two: condition_implies(two, one), condition_key)
    return members[0] if len(members) == 1 else Or(tuple(members))


def negation(condition: Condition) -> Condition:
    """The opposite of a condition; negations are moved down to branches, names and values."""
    match condition:
        case And(conditions):
            return disjunction(map(negation, conditions))
        case Or(conditions):
            return conjunction(map(negation, conditions))
        case _:
            return _opposite(condition)


def _opposite(condition: Condition) -> Condition:
    match condition:
        case Not(negated):
            return negated
        case ValueTest("=" | "!=" as operator, constant):
            # One value is either equal or unequal to a constant; NaN, the number of other texts, is unequal.
            return ValueTest("!=" if operator == "=" else "=", constant)
        case FirstValue(path, ValueTest("=" | "!=") as test):
            opposite = _opposite(test)
            assert isinstance(opposite, ValueTest)
            return FirstValue(path, opposite)
        case And() | Or():
            return negation(condition)
    return Not(condition)


def _members(connective: type[And] | type[Or], conditions: Iterable[Condition]) -> list[Condition]:
    """The members of a conjunction or disjunction, flat, each once."""
    members: dict[Condition, None] = {}
    for each in conditions:
        if isinstance(each, connective):
            members.update(dict.fromkeys(each.conditions))
        else:
            members[each] = None
    return list(members)


def _without_redundant(
    members: Sequence[Member], makes_redundant: Callable[[Member, Member], bool], key: Callable[[Member], str]
) -> list[Member]:
    """The members in order of their keys, without those that another one makes redundant."""
    if len(members) < 2:
        return list(members)  # the key of a branch is its text, which costs more than all else
    kept = sorted(members, key=key)
    if len(kept) > _MAX_COMPARED:
        return kept
    index = 0
    while index < len(kept):
        one = kept[index]
        if any(other is not one and makes_redundant(other, one) for other in kept):
            del kept[index]  # of two that imply each other, the second stays
        else:
            index += 1
    return kept


def _narrowed(name: Name, other: Name) -> Name:
    """The names that two tests accept, neither of which excludes the other."""
    return Name(
        other.local if name.local is None else name.local,
        other.namespace if name.namespace is None else name.namespace,
    )


def _branch_key(node: PatternNode) -> str:
    return node.key


def _resolved(members: list[Condition], kind: NodeKind, name: Name) -> list[Condition]:
    """The members of a conjunction on a node of known kind and name, with what the residuals among them imply."""
    while True:
        before = {each for each in members if isinstance(each, Residual)}
        members = _members(And, (_resolve(each, kind, name) for each in cover_of(members)))
        if all(each in before for each in members if isinstance(each, Residual)):
            return members  # else a disjunction of which only a residual is left, say


def _resolve(condition: Condition, kind: NodeKind, name: Name) -> Condition:
    """A condition on a node of known kind and name, where these decide parts of it."""
    match condition:
        case And(conditions):
            return conjunction(_resolve(each, kind, name) for each in conditions)
        case Or(conditions):
            return disjunction(_resolve(each, kind, name) for each in conditions)
        case Not(negated):
            return negation(_resolve(negated, kind, name))
        case Named(sought, of_kind):
            if of_kind not in (None, kind) or kind in (NodeKind.DOCUMENT, NodeKind.TEXT) or names_exclude(sought, name):
                return NEVER
            return ALWAYS if name_covers(sought, name) else Named(sought)
        case Exists(branch):
            return _resolve_branch(branch, kind)
        case Residual() if kind is NodeKind.DOCUMENT:
            return _at_document_node(condition)
        case FirstValue((first, *rest), test) if (
            kind is first.kind is NodeKind.DOCUMENT and first.axis is Axis.ANCESTOR
        ):
            return FirstValue(tuple(rest), test)
    return condition


def _at_document_node(residual: Residual) -> Condition:
    """A residual of the document node, with absolute paths: an engine may begin relative ones elsewhere."""
    expression = from_document_node(residual.expression)
    cover = conjunction(conditions_of(make_node(Axis.CHILD, NodeKind.DOCUMENT, ANY_NAME, (residual.cover,))))
    if cover == NEVER:
        return NEVER
    return Residual(write_expression(expression), expression, cover, residual.size)


def _resolve_branch(branch: PatternNode, kind: NodeKind) -> Condition:
    """A branch of a node of known kind."""
    if kind in (NodeKind.ATTRIBUTE, NodeKind.TEXT) and branch.axis <= Axis.DESCENDANT:
        return NEVER  # neither has anything below
    if kind is NodeKind.DOCUMENT:
        if branch.kind is NodeKind.DOCUMENT and branch.axis is Axis.ANCESTOR:
            # An absolute path is a path from here.
            return conjunction(conditions_of(branch))
        if branch.axis >= Axis.PARENT or (branch.kind is not NodeKind.ELEMENT and branch.axis is Axis.CHILD):
            return NEVER  # nothing is above it, and neither text nor attributes are directly below
        branch = _lower_ancestors(branch)
    return NEVER if NEVER in branch.others else Exists(_lift_wildcard(branch))


def _lift_wildcard(node: PatternNode) -> PatternNode:
    """A wildcard with the descendant edge above it where one is below it or nothing is."""
    if node.kind is not NodeKind.ELEMENT or not node.name.is_any or node.axis >= Axis.PARENT:
        return node
    if node.tests or node.others:
        return node
    match node.branches:
        case ():
            return replace(node, axis=Axis.DESCENDANT)
        case (PatternNode(axis=Axis.DESCENDANT) as below,):
            return replace(node, axis=Axis.DESCENDANT, branches=(replace(below, axis=Axis.CHILD),))
    return node


def _merge_attributes(branches: list[PatternNode]) -> list[PatternNode]:
    """Branches to one attribute as one: an element has one of that name."""
    merged: dict[Name | int, PatternNode] = {}
    for branch in branches:
        is_single = branch.kind is NodeKind.ATTRIBUTE and branch.axis is Axis.CHILD and branch.name.is_single
        key = branch.name if is_single else len(merged)
        if (other := merged.get(key)) is not None:
            conditions = (*other.tests, *other.others, *branch.tests, *branch.others)
            branch = make_node(branch.axis, branch.kind, branch.name, conditions)
        merged[key] = branch
    return list(merged.values())


def _lower_ancestors(node: PatternNode) -> PatternNode:
    """`//x[parent::y]` as `//y/x`, and `//x[ancestor::y]` as `//y//x`: directly below the document node."""
    if node.axis is not Axis.DESCENDANT or any(isinstance(each, Residual) for each in node.others):
        return node  # a residual is read again with what it implies at its own node
    upward = [each for each in node.branches if each.axis >= Axis.PARENT and each.kind is NodeKind.ELEMENT]
    if len(upward) != 1:
        return node
    (above,) = upward
    axis = Axis.CHILD if above.axis is Axis.PARENT else Axis.DESCENDANT
    below = replace(node, axis=axis, branches=tuple(each for each in node.branches if each is not above))
    conditions = [*map(Exists, above.branches), *above.tests, *above.others, Exists(below)]
    return _lower_ancestors(_lift_wildcard(make_node(Axis.DESCENDANT, NodeKind.ELEMENT, above.name, conditions)))
