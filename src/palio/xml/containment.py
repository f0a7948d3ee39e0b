"""Containment of tree patterns by homomorphism, with the Boolean conditions beside the branches.

`contains(p, q)` is true only if every document that q matches is matched by p. It searches a homomorphism: each node of
p is placed on a node of q that asks for at least as much, and an edge of p that is a descendant edge on a path of q
(Chand). Containment of patterns with `/`, `//`, `*` and branches is coNP-complete (Miklau and Suciu, 2004); a
homomorphism is found in time |p|·|q|, misses a few pairs, and is reflexive and transitive, which covering and routing
tables rely on.

Conditions are compared by sequents with one condition on the left: a disjunction is implied by what implies one of its
members, or by a disjunction each of whose members implies it; not(x) is implied by not(y) where x implies y. The rules
have cut elimination, so the relation stays transitive.
"""

from __future__ import annotations

from palio.xml.pattern import (
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


def contains(wide: Pattern, narrow: Pattern) -> bool:
    """Whether every document that the narrow pattern matches is known to be matched by the wide one."""
    return wide == narrow or narrow.is_never or _Homomorphism().asks_for_all(narrow.root, wide.root)


def branch_implies(narrow: PatternNode, wide: PatternNode) -> bool:
    """Whether a node that has the narrow branch is known to have the wide one."""
    return condition_implies(Exists(narrow), Exists(wide))


def condition_implies(narrow: Condition, wide: Condition) -> bool:
    """Whether a node that fulfils a condition is known to fulfil another."""
    return _Homomorphism().implied(node_with(narrow), wide)


def node_implies(node: PatternNode, wide: Condition) -> bool:
    """Whether a node that a pattern's node is placed on is known to fulfil a condition."""
    return _Homomorphism().implied(node, wide)


class _Homomorphism:
    """One comparison; answers for pairs of nodes are kept, since paths meet again below `//`."""

    def __init__(self) -> None:
        # By identity: comparing by content walks the nodes. The objects are kept so that no identity is used again.
        self._known: dict[tuple[int, int], bool] = {}
        self._alone: dict[int, PatternNode] = {}
        self._kept: list[object] = []

    def asks_for_all(self, narrow: PatternNode, wide: PatternNode) -> bool:
        """Whether a node of the narrow pattern asks for all that a node of the wide one does, beside the axis."""
        if narrow.kind is not wide.kind or not name_covers(wide.name, narrow.name):
            return False
        asked: tuple[Condition | PatternNode, ...] = (*wide.tests, *wide.branches, *wide.others)
        return all(self.implied(narrow, each) for each in asked)

    def implied(self, node: PatternNode, wide: Condition | PatternNode) -> bool:
        """Whether a node placed in a document is known to fulfil a condition, or to have a branch."""
        key = (id(node), id(wide))
        if key not in self._known:
            self._kept += (node, wide)
            self._known[key] = self._is_implied(node, wide) or any(
                all(self.implied(self._node_with(each), wide) for each in other.conditions)
                for other in node.others
                if isinstance(other, Or)
            )
        return self._known[key]

    def _is_implied(self, node: PatternNode, wide: Condition | PatternNode) -> bool:
        """The same by the conjunction that the node is, without its disjunctions."""
        match wide:
            case PatternNode():
                return self._has_branch(node, wide)
            case Exists(branch):
                return self._has_branch(node, branch)
            case ValueTest():
                return any(implies(test, wide) for test in node.tests)
            case Named(name, kind) if kind is not None:
                # Not resolved yet: of which kind the node is, a name does not say.
                return any(
                    isinstance(each, Named) and each.kind is kind and name_covers(name, each.name)
                    for each in node.others
                )
            case Named(name):
                return name_covers(name, node.name) or any(
                    isinstance(each, Named) and name_covers(name, each.name) for each in node.others
                )
            case FirstValue(path, test):
                return any(
                    isinstance(each, FirstValue) and each.path == path and implies(each.test, test)
                    for each in node.others
                )
            case Residual():
                return wide in node.others
            case And(conditions):
                return all(self.implied(node, each) for each in conditions)
            case Or(conditions):
                return any(self.implied(node, each) for each in conditions)
            case Not(negated):
                return self._is_excluded(node, negated)

    def _is_excluded(self, node: PatternNode, negated: Condition) -> bool:
        """Whether a node cannot fulfil a condition: by a negation that is wider, by its name or by its value."""
        for each in node.others:
            if isinstance(each, Not) and self.implied(self._node_with(negated), each.condition):
                return True
        match negated:
            case Named(name):
                return names_exclude(name, node.name)
            case ValueTest():
                return any(excludes(test, negated) for test in node.tests)
        return False

    def _has_branch(self, node: PatternNode, wide: PatternNode) -> bool:
        for branch in node.branches:
            match wide.axis:
                case Axis.CHILD:
                    found = branch.axis is Axis.CHILD and self.asks_for_all(branch, wide)
                case Axis.DESCENDANT:
                    found = branch.axis <= Axis.DESCENDANT and (
                        self.asks_for_all(branch, wide) or self.implied(branch, wide)
                    )
                # What is above has no path in the pattern to be placed on: it is compared with what the same node asks.
                case Axis.PARENT:
                    found = branch.axis is Axis.PARENT and self.asks_for_all(branch, wide)
                case Axis.ANCESTOR:
                    found = branch.axis >= Axis.PARENT and self.asks_for_all(branch, wide)
            if found:
                return True
        return False

    def _node_with(self, condition: Condition) -> PatternNode:
        """A node of which nothing is known but a condition."""
        if id(condition) not in self._alone:
            self._kept.append(condition)
            self._alone[id(condition)] = node_with(condition)
        return self._alone[id(condition)]


def patterns_exclude(one: Pattern, two: Pattern) -> bool:
    """Whether no document is known to match both: where both ask for a document element that cannot be one."""
    return any(
        _excluded(mine, other)
        for mine in one.root.branches
        for other in two.root.branches
        if mine.axis is other.axis is Axis.CHILD
    )


def _excluded(one: PatternNode, two: PatternNode) -> bool:
    """Whether two nodes of patterns cannot be placed on the same node."""
    if names_exclude(one.name, two.name) or any(excludes(mine, other) for mine in one.tests for other in two.tests):
        return True
    return any(
        mine.kind is other.kind is NodeKind.ATTRIBUTE
        and mine.axis is other.axis is Axis.CHILD
        and mine.name == other.name
        and mine.name.is_single
        and _excluded(mine, other)
        for mine in one.branches
        for other in two.branches
    )


def name_covers(wide: Name, narrow: Name) -> bool:
    """Whether every name that a test accepts is accepted by another."""
    return wide.local in (None, narrow.local) and wide.namespace in (None, narrow.namespace)


def names_exclude(one: Name, two: Name) -> bool:
    """Whether no name is accepted by both tests."""
    for mine, other in ((one.local, two.local), (one.namespace, two.namespace)):
        if mine is not None and other is not None and mine != other:
            return True
    return False


def node_with(condition: Condition) -> PatternNode:
    """A node of which nothing is known but a condition."""
    conditions = tuple(cover_of(condition.conditions if isinstance(condition, And) else (condition,)))
    return PatternNode(
        Axis.CHILD,
        NodeKind.ELEMENT,
        branches=tuple(each.branch for each in conditions if isinstance(each, Exists)),
        tests=tuple(each for each in conditions if isinstance(each, ValueTest)),
        others=tuple(each for each in conditions if not isinstance(each, Exists | ValueTest)),
    )
