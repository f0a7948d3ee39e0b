"""What does a selector say of an event: TRUE, FALSE, or neither?

An expression is compiled once into nested functions. A value is None where it is NULL, and a condition where it is
unknown: AND, OR and NOT are Kleene's. An attribute that an event lacks is NULL; one that stands as a condition is TRUE
only where it is the truth value, and FALSE where it is a value of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions.tree import Attribute, Call, Expression, Literal, attributes_of
from palio.languages.jms import arithmetic
from palio.languages.jms.comparing import among, compare, outside
from palio.languages.jms.grammar import COMPARISONS
from palio.languages.jms.patterns import pattern_of
from palio.languages.jms.sorts import is_condition

Event: TypeAlias = Mapping[str, Scalar]
Truth: TypeAlias = Callable[[Event], bool | None]
Value: TypeAlias = Callable[[Event], Scalar]


class Condition:
    """A selector that can be asked of an event, and the attributes it looks at."""

    __slots__ = ("_truth", "attributes")

    def __init__(self, expression: Expression) -> None:
        self.attributes = attributes_of(expression)
        self._truth = compile_condition(expression)

    def __call__(self, event: Event) -> bool | None:
        return self._truth(event)


def compile_condition(expression: Expression) -> Truth:
    """A function from an event to what a condition says of it."""
    match expression:
        case Literal(value):
            truth = value if isinstance(value, bool) else None
            return lambda event: truth
        case Attribute(name):
            return lambda event: _as_truth(event.get(name))
        case Call("not", (argument,)):
            inner = compile_condition(argument)
            return lambda event: None if (found := inner(event)) is None else not found
        case Call("and" | "or" as function, arguments):
            return _connective([compile_condition(each) for each in arguments], decisive=function == "or")
        case Call(function, arguments):
            return _predicate(function, arguments)
    raise TypeError(expression)


def compile_value(expression: Expression) -> Value:
    """A function from an event to the value of an expression; a condition has its truth for a value."""
    if is_condition(expression):
        return compile_condition(expression)
    match expression:
        case Literal(value):
            constant: Scalar = value  # type: ignore[assignment]  # the grammar has no intervals
            return lambda event: constant
        case Attribute(name):
            return lambda event: event.get(name)
        case Call("neg" | "pos" as function, (argument,)):
            signed = arithmetic.negative if function == "neg" else arithmetic.positive
            inner = compile_value(argument)
            return lambda event: signed(inner(event))
        case Call(function, (left, right)):
            operation = arithmetic.OPERATIONS[function]
            first, second = compile_value(left), compile_value(right)
            return lambda event: operation(first(event), second(event))
    raise TypeError(expression)


def _as_truth(value: Scalar) -> bool | None:
    return None if value is None else value is True


def _connective(parts: list[Truth], decisive: bool) -> Truth:
    """AND and OR: one part that is decisive settles them, and one that is unknown leaves them so."""

    def truth(event: Event) -> bool | None:
        found: bool | None = not decisive
        for part in parts:
            each = part(event)
            if each is decisive:
                return decisive
            found = None if each is None else found
        return found

    return truth


def _predicate(function: str, arguments: tuple[Expression, ...]) -> Truth:
    value, *others = map(compile_value, arguments)
    if function in COMPARISONS:
        (other,) = others
        return lambda event: compare(function, value(event), other(event))
    match function:
        case "isnull":
            return lambda event: value(event) is None
        case "isnotnull":
            return lambda event: value(event) is not None
        case "between" | "notbetween":
            return compile_condition(as_comparisons(function, arguments))
        case "in":
            return lambda event: among(value(event), [other(event) for other in others])
        case "notin":
            return lambda event: outside(value(event), [other(event) for other in others])
    return _like(value, arguments, function == "like")


def as_comparisons(function: str, arguments: tuple[Expression, ...]) -> Call:
    """`x BETWEEN a AND b` is `x >= a AND x <= b`, and `x NOT BETWEEN a AND b` is `x < a OR x > b`."""
    value, low, high = arguments
    if function == "between":
        return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
    return Call("or", (Call("<", (value, low)), Call(">", (value, high))))


def _like(value: Value, arguments: tuple[Expression, ...], wanted: bool) -> Truth:
    pattern = pattern_of(arguments)

    def truth(event: Event) -> bool | None:
        found = value(event)
        if found is None:
            return None
        return isinstance(found, str) and pattern.matches(found) is wanted

    return truth
