"""Ordered tree patterns: the branches of a node in the order in which they are written.

A `Pattern` has its branches sorted, because XPath asks for them in any order. Where `/a[b][c]/d` is to mean that b
stands before c and c before d, it is read here instead: of its branches each is found behind the one before it, in
document order. Attributes have no order, and are found anywhere. What can be ordered are steps to children and
descendants, branches, and comparisons with constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from palio.errors import ParseError
from palio.xml.document import XML_NAMESPACE
from palio.xml.expression import Call, Chain, Expression, Literal, Location, LocationStep
from palio.xml.expression_parser import ExpressionParser
from palio.xml.pattern import ANY_NAME, SEARCHES, Axis, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.xpath_parser import value_test
from palio.xml.xpath_tokens import TokenCursor

_AXES: Final = {"child": Axis.CHILD, "attribute": Axis.CHILD, "descendant": Axis.DESCENDANT}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_ordered(text: str, namespaces: Mapping[str, str] | None = None) -> Pattern:
    """The pattern of a path with its branches as they are written; a `ParseError` says why there is none.

    >>> [branch.name.local for branch in parse_ordered("/a[c][b]/d").root.branches[0].branches]
    ['c', 'b', 'd']
    """
    prefixes = {"xml": XML_NAMESPACE, **(namespaces or {})}
    default = prefixes.pop("", "")
    expression = ExpressionParser(TokenCursor(text, 0), prefixes, default).read_all()
    return Pattern(_Reader(text).root(expression))


class _Reader:
    """Makes the nodes of a pattern of an expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def root(self, expression: Expression) -> PatternNode:
        if not isinstance(expression, Location) or expression.start is not None:
            raise self._error("an ordered pattern is one path")
        branches = self._branches(expression.steps, ())
        return PatternNode(Axis.CHILD, NodeKind.DOCUMENT, branches=branches)

    def _branches(self, steps: Sequence[LocationStep], tests: tuple[ValueTest, ...]) -> tuple[PatternNode, ...]:
        """The branch that some steps are, none if there is no step; its last node has to pass tests."""
        is_below = False
        for place, step in enumerate(steps):
            if step.is_anywhere:
                is_below = True
            elif not _is_dot(step):
                return (self._node(step, is_below, steps[place + 1 :], tests),)
        if is_below or tests:
            raise self._error("an ordered pattern has no path that ends in // or in a dot")
        return ()

    def _node(
        self, step: LocationStep, is_below: bool, after: Sequence[LocationStep], tests: tuple[ValueTest, ...]
    ) -> PatternNode:
        if step.axis not in _AXES or step.kind not in ("element", "text"):
            raise self._error(f"{step.axis}::{step.kind}() has no place in an ordered pattern")
        kind = NodeKind.TEXT if step.kind == "text" else NodeKind.ELEMENT
        if step.axis == "attribute":
            kind = NodeKind.ATTRIBUTE
        axis = Axis.DESCENDANT if is_below else _AXES[step.axis]
        own_tests: list[ValueTest] = []
        branches: list[PatternNode] = []
        for predicate in _operands(step.predicates):
            for part in self._parts(predicate):
                if isinstance(part, ValueTest):
                    own_tests.append(part)
                else:
                    branches.append(part)
        rest = [each for each in after if not _is_dot(each)]
        if rest:
            branches += self._branches(rest, tests)
        else:
            own_tests += tests
        name = ANY_NAME if kind is NodeKind.TEXT else step.name
        return PatternNode(axis, kind, name, tuple(branches), tuple(own_tests))

    def _parts(self, predicate: Expression) -> Iterator[PatternNode | ValueTest]:
        """The branch, or the test of the node itself, that a predicate is."""
        match predicate:
            case Location(steps, False, None):
                yield from self._branches(steps, ())
            case Chain(Location(steps, False, None), ((operator, Literal(constant)),)):
                yield from self._compared(steps, operator, constant)
            case Chain(Literal(constant), ((operator, Location(steps, False, None)),)):
                yield from self._compared(steps, _MIRRORED.get(operator, operator), constant)
            case Call(function, (Location(steps, False, None), Literal(str(text)))) if function in SEARCHES and all(
                map(_is_dot, steps)
            ):
                yield ValueTest(function, text)
            case _:
                raise self._error("a predicate of an ordered pattern is a branch, or a comparison with a constant")

    def _compared(
        self, steps: Sequence[LocationStep], operator: str, constant: str | float
    ) -> Iterator[PatternNode | ValueTest]:
        test = value_test(operator, constant)
        if not isinstance(test, ValueTest):
            raise self._error(f"{constant!r} is no number, and is in no order")
        if all(map(_is_dot, steps)):
            yield test
        else:
            yield from self._branches(steps, (test,))

    def _error(self, reason: str) -> ParseError:
        return ParseError(self._text, 0, reason, "leave out what is not ordered, or use an ordinary XPath")


def _is_dot(step: LocationStep) -> bool:
    return step == LocationStep("self", "node")


def _operands(predicates: Iterable[Expression]) -> Iterator[Expression]:
    """Predicates, with those that `and` joins one by one."""
    for each in predicates:
        if isinstance(each, Chain) and each.rest[0][0] == "and":
            yield from _operands(each.operands)
        else:
            yield each
