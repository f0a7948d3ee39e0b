"""What do + - * / % and signs make of two values?

As in Java: integers are longs, whose sums and products come round from the other end where they are too large; beside
an approximate number every number is a double. Two things are as brokers have them: a quotient is a double even of
two integers (ActiveMQ, Artemis, Qpid Broker-J and RabbitMQ agree that 5 / 2 is 2.5), and + joins two texts (ActiveMQ
and what came of it). JMS has no decimals; a decimal of an event is a double here.

The value is NULL where an operand is, where one is no number, and where an integer is divided by the integer 0, for
which Java has no value either. A double divided by 0 is infinite, or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import copysign, fmod, inf, isinf, nan
from typing import Final, TypeAlias

from palio.events.values import Scalar
from palio.languages.jms.numerals import to_long

Operation: TypeAlias = Callable[[Scalar, Scalar], Scalar]


def is_number(value: Scalar) -> bool:
    """Whether a value is one of the three kinds of number; a truth value is none."""
    return type(value) in (int, float, Decimal)


def negative(value: Scalar) -> Scalar:
    """A number with the other sign."""
    if isinstance(value, int) and not isinstance(value, bool):
        return to_long(-value)
    return -value if isinstance(value, float | Decimal) else None


def positive(value: Scalar) -> Scalar:
    """A number as it is; NULL for anything else."""
    return value if is_number(value) else None


def _of_numbers(
    exact: Callable[[int, int], int | float | None], approximate: Callable[[float, float], float]
) -> Operation:
    def operation(left: Scalar, right: Scalar) -> Scalar:
        if type(left) is int and type(right) is int:
            return exact(left, right)
        if is_number(left) and is_number(right):
            return approximate(float(left), float(right))  # type: ignore[arg-type]
        return None

    return operation


def _quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if left != left or left == 0 or right != right:
        return nan
    return copysign(inf, left) * copysign(1.0, right)


def _remainder(left: float, right: float) -> float:
    return nan if right == 0 or isinf(left) else fmod(left, right)


def _exact_remainder(left: int, right: int) -> int | None:
    """What is left has the sign of the dividend, not of the divisor."""
    if right == 0:
        return None
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


_add: Final = _of_numbers(lambda left, right: to_long(left + right), lambda left, right: left + right)


def _plus(left: Scalar, right: Scalar) -> Scalar:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return _add(left, right)


OPERATIONS: Final[dict[str, Operation]] = {
    "+": _plus,
    "-": _of_numbers(lambda left, right: to_long(left - right), lambda left, right: left - right),
    "*": _of_numbers(lambda left, right: to_long(left * right), lambda left, right: left * right),
    "/": _of_numbers(lambda left, right: float(left) / float(right) if right else None, _quotient),
    "%": _of_numbers(_exact_remainder, _remainder),
}
