"""How does one value compare with another?

Only like values compare: numbers of any kind with each other, texts with texts, truth values with truth values. The
comparison of unlike values is FALSE, whatever its sign, `<>` included, and that of a NULL is unknown. An integer or
decimal is rounded to a double before it meets one, as Java's promotion does. NaN equals itself and is above all other
numbers, as in `Double.compareTo`, with which ActiveMQ, Artemis and Qpid Broker-J compare.

The specification has no order of texts; here it is that of their code points, as where brokers have one. Truth
values have none. Dates, timestamps and bytes, which JMS does not know, compare among their own kind.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from palio.events.values import Scalar
from palio.languages.jms.arithmetic import is_number
from palio.languages.jms.grammar import ORDERS

_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(sign: str, left: Scalar, right: Scalar) -> bool | None:
    """What a comparison says of two values: TRUE, FALSE, or None where one of them is NULL."""
    if left is None or right is None:
        return None
    if not are_like(left, right):
        return False
    if isinstance(left, bool) and sign in ORDERS:
        return False
    if isinstance(left, float) or isinstance(right, float):
        left, right = _in_order(float(left), float(right))  # type: ignore[arg-type]
    return _SIGNS[sign](left, right)


def are_like(left: Scalar, right: Scalar) -> bool:
    """Whether two values are of kinds that compare."""
    return type(left) is type(right) or (is_number(left) and is_number(right))


def among(value: Scalar, items: Iterable[Scalar]) -> bool | None:
    """Whether a value is one of several; None where it may be, if a NULL is among them."""
    if value is None:
        return None
    found: bool | None = False
    for item in items:
        equal = compare("=", value, item)
        if equal:
            return True
        found = None if equal is None else found
    return found


def outside(value: Scalar, items: Iterable[Scalar]) -> bool | None:
    """Whether a value is none of several; FALSE where it is like none of them, as for any unlike kinds."""
    several = list(items)
    inside = among(value, several)
    if inside is not False:
        return None if inside is None else False
    return any(are_like(value, item) for item in several)


def _in_order(left: float, right: float) -> tuple[float, float]:
    """Two numbers that compare as these do, NaN being the greatest."""
    if left != left or right != right:
        return left != left, right != right
    return left, right
