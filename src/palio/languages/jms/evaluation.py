"""Evaluation of JMS selectors: a selector is TRUE, FALSE or unknown for an event.

An expression is compiled once into nested functions. A value is None where it is NULL, and a condition where it is
unknown: AND, OR and NOT are Kleene's. An attribute that an event lacks is NULL; one that stands as a condition is TRUE
only where it is the truth value, and FALSE where it is a value of another kind.

Arithmetic is Java's: integers are longs that wrap around on overflow; beside an approximate number every number is a
double. Two things are as brokers have them: a quotient is a double even of two integers (ActiveMQ, Artemis, Qpid
Broker-J and RabbitMQ agree that 5 / 2 is 2.5), and + joins two texts (ActiveMQ and what came of it). JMS has no
decimals; a decimal of an event is a double here. The value is NULL where an operand is, where one is no number, and
where an integer is divided by the integer 0, for which Java has no value either. A double divided by 0 is infinite, or
NaN.

Only like values compare: numbers of any kind with each other, texts with texts, truth values with truth values. The
comparison of unlike values is FALSE, whatever its sign, `<>` included, and that of a NULL is unknown. An integer or
decimal is rounded to a double before it meets one, as Java's promotion does. NaN equals itself and is above all other
numbers, as in `Double.compareTo`, with which ActiveMQ, Artemis and Qpid Broker-J compare. The specification has no
order of texts; here it is that of their code points, as where brokers have one. Truth values have none. Dates,
timestamps and bytes, which JMS does not know, compare among their own kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from math import copysign, fmod, inf, isinf, nan
from typing import Final, TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, attributes_of
from palio.filters.expressions.coercion import low_64_bits
from palio.filters.expressions.value_comparison import COMPARATORS
from palio.filters.like import LikePattern, escape_like
from palio.languages.jms.type_check import COMPARISONS, ORDERS, is_condition

Event: TypeAlias = Mapping[str, Scalar]
TruthFunction: TypeAlias = Callable[[Event], bool | None]
Value: TypeAlias = Callable[[Event], Scalar]


class CompiledSelector:
    """A selector that is evaluated on an event, and the attributes that it reads."""

    __slots__ = ("_truth", "attributes")

    def __init__(self, expression: Expression) -> None:
        self.attributes = attributes_of(expression)
        self._truth = compile_condition(expression)

    def __call__(self, event: Event) -> bool | None:
        return self._truth(event)


def compile_condition(expression: Expression) -> TruthFunction:
    """A function from an event to the truth of a condition."""
    match expression:
        case Literal(value):
            truth = value if isinstance(value, bool) else None
            return lambda event: truth
        case Attribute(name):
            return lambda event: _as_truth(event.get(name))
        case Call("not", (argument,)):
            inner = compile_condition(argument)
            return lambda event: None if (truth := inner(event)) is None else not truth
        case Call("and" | "or" as function, arguments):
            return _connective([compile_condition(argument) for argument in arguments], decisive=function == "or")
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
            signed = _negate if function == "neg" else _to_number
            inner = compile_value(argument)
            return lambda event: signed(inner(event))
        case Call(function, (left, right)):
            operation = _OPERATIONS[function]
            first, second = compile_value(left), compile_value(right)
            return lambda event: operation(first(event), second(event))
    raise TypeError(expression)


def _as_truth(value: Scalar) -> bool | None:
    return None if value is None else value is True


def _connective(parts: list[TruthFunction], decisive: bool) -> TruthFunction:
    """AND and OR: one decisive part settles the outcome; without one, an unknown part makes it unknown."""

    def truth(event: Event) -> bool | None:
        outcome: bool | None = not decisive
        for part in parts:
            value = part(event)
            if value is decisive:
                return decisive
            outcome = None if value is None else outcome
        return outcome

    return truth


def _predicate(function: str, arguments: tuple[Expression, ...]) -> TruthFunction:
    value, *others = map(compile_value, arguments)
    if function in COMPARISONS:
        (other,) = others
        return lambda event: _compare(function, value(event), other(event))
    match function:
        case "isnull":
            return lambda event: value(event) is None
        case "isnotnull":
            return lambda event: value(event) is not None
        case "between" | "notbetween":
            return compile_condition(as_comparisons(function, arguments))
        case "in":
            return lambda event: _is_among(value(event), [other(event) for other in others])
        case "notin":
            return lambda event: _is_none_of(value(event), [other(event) for other in others])
    return _like(value, arguments, function == "like")


def as_comparisons(function: str, arguments: tuple[Expression, ...]) -> Call:
    """`x BETWEEN a AND b` is `x >= a AND x <= b`, and `x NOT BETWEEN a AND b` is `x < a OR x > b`."""
    value, low, high = arguments
    if function == "between":
        return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
    return Call("or", (Call("<", (value, low)), Call(">", (value, high))))


def _like(value: Value, arguments: tuple[Expression, ...], wanted: bool) -> TruthFunction:
    pattern = pattern_of(arguments)

    def truth(event: Event) -> bool | None:
        text = value(event)
        if text is None:
            return None
        # LIKE and NOT LIKE are both FALSE for a value that is no text.
        return isinstance(text, str) and pattern.matches(text) is wanted

    return truth


# --- arithmetic ------------------------------------------------------------------------------------------

Operation: TypeAlias = Callable[[Scalar, Scalar], Scalar]


def _is_number(value: Scalar) -> bool:
    """Whether a value is of one of the three kinds of number; a truth value, an int to Python, is not."""
    return type(value) in (int, float, Decimal)


def _negate(value: Scalar) -> Scalar:
    """A number with the other sign."""
    if isinstance(value, int) and not isinstance(value, bool):
        return low_64_bits(-value)
    return -value if isinstance(value, float | Decimal) else None


def _to_number(value: Scalar) -> Scalar:
    """A number as it is; NULL for anything else."""
    return value if _is_number(value) else None


def _of_numbers(
    exact: Callable[[int, int], int | float | None], approximate: Callable[[float, float], float]
) -> Operation:
    def operation(left: Scalar, right: Scalar) -> Scalar:
        if type(left) is int and type(right) is int:
            return exact(left, right)
        if _is_number(left) and _is_number(right):
            return approximate(float(left), float(right))  # type: ignore[arg-type]
        return None

    return operation


def _quotient(left: float, right: float) -> float:
    """Java's quotient of doubles, also by zero, where Python raises."""
    if right:
        return left / right
    if left != left or left == 0 or right != right:
        return nan
    return copysign(inf, left) * copysign(1.0, right)


def _remainder(left: float, right: float) -> float:
    # For these two Java has NaN, and math.fmod raises.
    return nan if right == 0 or isinf(left) else fmod(left, right)


def _exact_remainder(left: int, right: int) -> int | None:
    """The remainder with the sign of the dividend, as in Java; Python's % has the sign of the divisor."""
    if right == 0:
        return None
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


_add: Final = _of_numbers(lambda left, right: low_64_bits(left + right), lambda left, right: left + right)


def _plus(left: Scalar, right: Scalar) -> Scalar:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return _add(left, right)


_OPERATIONS: Final[dict[str, Operation]] = {
    "+": _plus,
    "-": _of_numbers(lambda left, right: low_64_bits(left - right), lambda left, right: left - right),
    "*": _of_numbers(lambda left, right: low_64_bits(left * right), lambda left, right: left * right),
    "/": _of_numbers(lambda left, right: float(left) / float(right) if right else None, _quotient),
    "%": _of_numbers(_exact_remainder, _remainder),
}


# --- comparison ------------------------------------------------------------------------------------------


def _compare(sign: str, left: Scalar, right: Scalar) -> bool | None:
    """The truth of a comparison; None where a value is NULL."""
    if left is None or right is None:
        return None
    if not _are_comparable(left, right):
        return False
    if isinstance(left, bool) and sign in ORDERS:
        return False
    if isinstance(left, float) or isinstance(right, float):
        left, right = _as_sortable(float(left), float(right))  # type: ignore[arg-type]
    return COMPARATORS[sign](left, right)


def _are_comparable(left: Scalar, right: Scalar) -> bool:
    """Whether two values are of kinds that compare."""
    # By exact type: to isinstance, True is an int and a datetime is a date.
    return type(left) is type(right) or (_is_number(left) and _is_number(right))


def _is_among(value: Scalar, items: Iterable[Scalar]) -> bool | None:
    """Whether a value is one of several; None where it may be, if a NULL is among them."""
    if value is None:
        return None
    outcome: bool | None = False
    for item in items:
        equal = _compare("=", value, item)
        if equal:
            return True
        outcome = None if equal is None else outcome
    return outcome


def _is_none_of(value: Scalar, items: Iterable[Scalar]) -> bool | None:
    """Whether a value is none of several; FALSE where it compares with none of them, as any unlike kinds are."""
    several = list(items)
    inside = _is_among(value, several)
    if inside is not False:
        return None if inside is None else False
    return any(_are_comparable(value, item) for item in several)


def _as_sortable(left: float, right: float) -> tuple[float, float]:
    """Two numbers that Python compares as Java compares these: NaN equals itself and is the greatest."""
    # With a NaN among them, whether each is NaN is all that matters, and False sorts before True.
    if left != left or right != right:
        return left != left, right != right
    return left, right


# --- LIKE ------------------------------------------------------------------------------------------------


def pattern_of(arguments: tuple[Expression, ...]) -> LikePattern:
    """The pattern of a LIKE, from its arguments: the value, the pattern, and the escape character if there is one.

    The escape character takes the meaning of a `_`, a `%` or an escape character behind it. Before anything else it
    stands for itself, be it a wildcard, as ActiveMQ and Artemis read it; at the end of a pattern, where it can only be
    a slip, it is a ValueError, unless it is a wildcard. Without ESCAPE no character escapes.
    """
    # The None at the end is the escape where no ESCAPE is written, and dropped where one is.
    text, escape, *_ = (*(str(each.value) for each in arguments[1:] if isinstance(each, Literal)), None)
    assert text is not None  # the grammar has a text there
    if escape and escape not in "%_" and _ends_in_escape(text, escape):
        raise ValueError(f"the pattern ends with its escape character {escape}, which then escapes nothing")
    return LikePattern.parse("".join(_with_backslashes(text, escape)))


def _with_backslashes(text: str, escape: str | None) -> Iterator[str]:
    """The pattern with a backslash before every character that means itself where it could mean something else."""
    place = 0
    while place < len(text):
        character = text[place]
        if character == escape and text[place + 1 : place + 2] in ("%", "_", escape):
            place += 1
            yield escape_like(text[place])
        else:
            yield "\\\\" if character == "\\" else character
        place += 1


def _ends_in_escape(text: str, escape: str) -> bool:
    """Whether the last escape character of a text has nothing behind it that it could escape."""
    run = len(text) - len(text.rstrip(escape))
    return run % 2 == 1  # in a run, escape characters escape each other in pairs
