"""Type check of JMS selectors: a selector is a condition, comparisons are of values, arithmetic is of numbers.

An attribute may be any of these, because its type is known only when an event comes. Everything else is known when
the selector is parsed, and what can never be right is refused then: a number where a condition should stand, TRUE
in arithmetic, an order of truth values. A text and a number compared are no error but FALSE, as in the specification.
"""

from __future__ import annotations

from typing import Final, NoReturn

from palio.errors import ParseError
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal

ORDERS: Final = frozenset({"<", "<=", ">", ">="})
COMPARISONS: Final = frozenset({"=", "<>", *ORDERS})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
SIGNS: Final = frozenset({"neg", "pos"})
VALUES: Final = ARITHMETIC | SIGNS
"""The calls that make a value; all others make a condition."""

_ORDERING = ORDERS | {"between", "notbetween"}


def is_condition(expression: Expression) -> bool:
    """Whether an expression is a condition by its form, and not a value; an attribute may be either."""
    return isinstance(expression, Call) and expression.function not in VALUES


def check_condition(text: str, expression: Expression) -> None:
    """Refuse what is no condition, or has something in it that stands where it cannot."""
    match expression:
        case Attribute() | Literal(bool()):
            return
        case Call("and" | "or" | "not", arguments):
            for argument in arguments:
                check_condition(text, argument)
        case Call("isnull" | "isnotnull" | "=" | "<>", arguments):
            for argument in arguments:
                if is_condition(argument):
                    check_condition(text, argument)
                else:
                    _check_value(text, argument)
        case Call(function, arguments) if function not in VALUES:
            for argument in arguments:
                _check_value(text, argument)
                if function in _ORDERING and isinstance(argument, Literal) and isinstance(argument.value, bool):
                    _fail(text, argument, "TRUE and FALSE have no order", "compare them with = and <>")
        case _:
            _fail(text, expression, "this is a value, not a condition", "compare it with something")


def _check_value(text: str, expression: Expression) -> None:
    if is_condition(expression):
        _fail(text, expression, "this is a condition, not a value", "only =, <> and IS NULL look at conditions")
    if not isinstance(expression, Call):
        return
    for argument in expression.arguments:
        _check_value(text, argument)
        if isinstance(argument, Literal):
            _check_operand(text, expression.function, argument)
    if expression.function == "+":
        _check_sum(text, expression)


def _check_operand(text: str, function: str, literal: Literal) -> None:
    if isinstance(literal.value, bool):
        _fail(text, literal, "TRUE and FALSE are no numbers", "compute with numbers")
    if isinstance(literal.value, str) and function != "+":
        _fail(text, literal, "a text is no number", "compute with numbers; + joins texts")


def _check_sum(text: str, expression: Call) -> None:
    """A plus adds numbers or joins texts."""
    left, right = map(_kind, expression.arguments)
    if left and right and left is not right:
        _fail(text, expression.arguments[1], "a text and a number are not added", "join texts, or add numbers")


def _kind(expression: Expression) -> type | None:
    """Whether an operand of a plus is a text or a number, where that is known."""
    match expression:
        case Literal(str()):
            return str
        case Literal():
            return float
        case Call("+", arguments):
            return next((kind for kind in map(_kind, arguments) if kind), None)
        case Call(function) if function in ARITHMETIC | SIGNS:
            return float
    return None


def _fail(text: str, expression: Expression, reason: str, hint: str) -> NoReturn:
    raise ParseError(text, expression.span[0], reason, hint)
