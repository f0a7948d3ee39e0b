"""Expressions of XPath 1.0 as trees: what a tree pattern cannot say.

Positions, the axes of siblings, arithmetic, comparisons of two paths and functions of texts stay the expressions that
they are. `palio.xml.expression_parser` makes them of text, `palio.xml.expression_evaluator` evaluates them on a
document, and `palio.xml.expression_cover` finds the part of them that an index can look for.

Operators of one precedence are one flat `Chain`, so that only brackets nest, and these are limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from palio.xml.pattern import ANY_NAME, Name

BOOLEAN_OPERATORS: Final = frozenset(("or", "and", "=", "!=", "<", "<=", ">", ">="))
ARITHMETIC_OPERATORS: Final = frozenset(("+", "-", "*", "div", "mod"))
REVERSE_AXES: Final = frozenset(("ancestor", "ancestor-or-self", "preceding", "preceding-sibling"))

RESULT_TYPES: Final[dict[str, type]] = {
    **dict.fromkeys(("boolean", "not", "true", "false", "lang", "contains", "starts-with"), bool),
    **dict.fromkeys(
        ("last", "position", "count", "string-length", "number", "sum", "floor", "ceiling", "round"), float
    ),
    **dict.fromkeys(
        ("local-name", "namespace-uri", "string", "concat", "substring-before", "substring-after", "substring",
         "normalize-space", "translate"), str,
    ),
}  # fmt: skip
"""The functions of XPath 1.0 that can be used, and the types of their results."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant text or number."""

    value: str | float


@dataclass(frozen=True, slots=True)
class LocationStep:
    """One step: an axis, the kind of node ("element" is an attribute on the axis attribute), and predicates."""

    axis: str
    kind: str
    name: Name = ANY_NAME
    target: str | None = None
    """Of a processing instruction; None is any."""
    predicates: tuple[Expression, ...] = ()

    @property
    def is_anywhere(self) -> bool:
        """Whether it is `descendant-or-self::node()`, the meaning of `//`."""
        return self.axis == "descendant-or-self" and self.kind == "node" and not self.predicates

    @property
    def is_positional(self) -> bool:
        return any(map(asks_for_position, self.predicates))


@dataclass(frozen=True, slots=True)
class Location:
    """A path: from the document node, from the nodes of an expression, or from the context node."""

    steps: tuple[LocationStep, ...]
    is_absolute: bool = False
    start: Expression | None = None
    predicates: tuple[Expression, ...] = ()
    """Of the expression that it starts with."""


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Operands with operators of one precedence between them, applied from the left."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.first, *(operand for _, operand in self.rest))


@dataclass(frozen=True, slots=True)
class Negative:
    """A number with the opposite sign."""

    operand: Expression


Expression: TypeAlias = Literal | Location | Call | Chain | Negative


def result_type(expression: Expression) -> type:
    """The type of the value of an expression: str, float, bool, or list for a set of nodes."""
    match expression:
        case Literal(value):
            return type(value)
        case Location():
            return list
        case Call(function):
            return RESULT_TYPES[function]
        case Chain(_, rest):
            operator = rest[0][0]
            if operator == "|":
                return list
            return bool if operator in BOOLEAN_OPERATORS else float
    return float


def asks_for_position(predicate: Expression) -> bool:
    """Whether a predicate depends on the place of a node among those that its step selects."""
    return result_type(predicate) is float or depends_on_position(predicate)


def depends_on_position(expression: Expression) -> bool:
    """Whether an expression reads the position of its own context node, outside of predicates within it."""
    match expression:
        case Call("position" | "last"):
            return True
        case Call(_, arguments):
            return any(map(depends_on_position, arguments))
        case Chain():
            return any(map(depends_on_position, expression.operands))
        case Negative(operand):
            return depends_on_position(operand)
        case Location(start=start):
            return start is not None and depends_on_position(start)
    return False


def from_document_node(expression: Expression) -> Expression:
    """An expression whose paths from the context node begin at the document node instead."""
    match expression:
        case Location(steps, False, None):
            return Location(steps, True)
        case Location(steps, False, start, predicates) if start is not None:
            return Location(steps, False, from_document_node(start), predicates)
        case Call(function, arguments):
            return Call(function, tuple(map(from_document_node, arguments)))
        case Chain(first, rest):
            return Chain(from_document_node(first), tuple((sign, from_document_node(each)) for sign, each in rest))
        case Negative(operand):
            return Negative(from_document_node(operand))
    return expression


def size_of(expression: Expression) -> int:
    """The number of steps, operators, calls and literals."""
    match expression:
        case Location(steps, _, start, predicates):
            parts = [*predicates, *(each for step in steps for each in step.predicates)]
            return len(steps) + (0 if start is None else size_of(start)) + sum(map(size_of, parts))
        case Call(_, arguments):
            return 1 + sum(map(size_of, arguments))
        case Chain():
            return sum(map(size_of, expression.operands))
        case Negative(operand):
            return 1 + size_of(operand)
    return 1
