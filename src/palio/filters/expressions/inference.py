"""What can be known of an expression's type without an event: its kind, and how many digits a decimal has.

Attributes have no declared type, so little can be known: the kind of a constant, of a cast, of a function
that always gives the same kind, and of what is computed from such. It is needed in two places: a value
chosen among several is widened to meet the others, and what cannot mean the same as in Spark is refused
when it is read.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Final

from palio.errors import PalioError
from palio.filters.expressions import quotients
from palio.filters.expressions.conversion import target_of
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.quotients import INTEGER, Digits, kept_scale
from palio.filters.expressions.tree import Array, Attribute, Call, Expression, Literal, Micros, Months
from palio.filters.expressions.values import INTERVALS, MOST_DIGITS, NUMBERS, Kind, scale_of, widest

_TIMES: Final[frozenset[Kind]] = frozenset({date, datetime})
_RUNS: Final = frozenset({"concat", "substring", "left", "overlay", "reverse", "lpad", "rpad"})
_ROUNDINGS: Final = frozenset({"round", "bround", "abs", "neg", "positive"})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "pmod"})
_INTEGER_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


def bottom_up(expression: Expression) -> list[Call]:
    """Every call of an expression, each once, after the calls among its arguments.

    Whoever goes through them in this order and keeps what was found need not recurse.
    """
    found: dict[int, Call] = {}
    stack: list[tuple[Expression, bool]] = [(expression, False)]
    while stack:
        node, is_done = stack.pop()
        if not isinstance(node, Call) or id(node) in found:
            continue
        if is_done:
            found[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((argument, False) for argument in node.arguments)
    return list(found.values())


class Unlike(PalioError):
    """Two kinds that an operator does not take together."""


def branches(call: Call) -> tuple[Expression, ...]:
    """The arguments among which a call chooses its value."""
    match call.function:
        case "case":
            values = call.arguments[1::2]
            return values if len(call.arguments) % 2 == 0 else (*values, call.arguments[-1])
        case "if" | "nvl2":
            return call.arguments[1:]
        case "coalesce" | "greatest" | "least":
            return call.arguments
    return ()


class Kinds:
    """What is known of an expression's parts, each found once; ask for inner parts before outer ones."""

    def __init__(self) -> None:
        self._known: dict[int, Kind | None] = {}
        self._digits: dict[int, Digits | None] = {}

    def of(self, expression: Expression) -> Kind | None:
        """The kind of every value an expression has; NoneType if that is always NULL, None if it may vary."""
        if isinstance(expression, Literal):
            return type(expression.value)
        if isinstance(expression, Array):
            return tuple
        if isinstance(expression, Attribute):
            return None
        if id(expression) not in self._known:
            self._known[id(expression)] = self._of_call(expression)
        return self._known[id(expression)]

    def _of_call(self, call: Call) -> Kind | None:
        known = FUNCTIONS.get(call.function)
        if known is not None and known.result is not None:
            return known.result
        kinds = [self.of(argument) for argument in call.arguments]
        if call.function == "cast":
            return _cast_kind(call)
        if call.function in ARITHMETIC:
            return _arithmetic_kind(call.function, kinds[0], kinds[1])
        if call.function in _ROUNDINGS:
            return float if kinds[0] is str else kinds[0]
        if call.function in ("ceil", "floor"):
            return int if kinds[0] in (int, float, str) else kinds[0]
        if call.function in _RUNS:
            return None if any(kind in (None, bytes) for kind in kinds) else str
        if call.function == "nullif":
            return kinds[0]
        if chosen := branches(call):
            among = {self.of(branch) for branch in chosen}
            return None if None in among else widest(frozenset(among) - {NoneType}) or NoneType
        return None

    def declared(self, expression: Expression) -> Digits | None:
        """The digits an exact number is declared with, where that is known: of a literal or a cast."""
        if isinstance(expression, Literal) or (isinstance(expression, Call) and expression.function == "cast"):
            return self.digits_of(expression)
        return None

    def digits_of(self, expression: Expression) -> Digits | None:
        """The declared digits of what may be an exact number; None for what cannot be one."""
        match expression:
            case Literal(bool()):
                return None
            case Literal(int() as number):
                return Digits(len(str(abs(number))), 0, False)
            case Literal(Decimal() as number):
                scale = scale_of(number)
                return Digits(max(number.adjusted() + 1 + scale, scale, 1), scale, True)
            case Literal() | Array():
                return None
            case Attribute():
                return INTEGER
        if id(expression) not in self._digits:
            exact = self.of(expression) in (int, Decimal, None)
            self._digits[id(expression)] = self._digits_of_call(expression) if exact else None
        return self._digits[id(expression)]

    def _digits_of_call(self, call: Call) -> Digits | None:
        name, arguments = call.function, call.arguments
        if name == "cast":
            return _cast_digits(call)
        if name in ARITHMETIC:
            left, right = map(self.digits_of, arguments)
            if left is None or right is None or not (left.is_decimal or right.is_decimal):
                return INTEGER
            return _bounded(needed_digits(name, left, right))
        if name in ("neg", "positive", "abs", "round", "bround", "nullif", "ceil", "floor"):
            return self.digits_of(arguments[0])
        found = [digits for branch in branches(call) if (digits := self.digits_of(branch)) is not None]
        if not any(digits.is_decimal for digits in found):
            return INTEGER
        whole = max(digits.precision - digits.scale for digits in found)
        scale = max(digits.scale for digits in found)
        return _bounded(Digits(whole + scale, scale, True))


def _cast_digits(call: Call) -> Digits:
    name = call.arguments[1]
    written = str(name.value) if isinstance(name, Literal) else ""
    if not written.startswith("decimal"):
        return Digits(_INTEGER_DIGITS.get(written, INTEGER.precision), 0, False)
    precision, scale = written.removeprefix("decimal").strip("() ").split(",")
    return Digits(int(precision), int(scale), True)


def _cast_kind(call: Call) -> Kind | None:
    name = call.arguments[1]
    try:
        return target_of(str(name.value)).kind if isinstance(name, Literal) else None
    except ValueError:
        return None


def _arithmetic_kind(name: str, left: Kind | None, right: Kind | None) -> Kind | None:
    if left is NoneType or right is NoneType:
        return NoneType
    if left is None or right is None:
        # A number that meets a double is a double; what is no number there is NULL.
        return float if float in (left, right) else None
    try:
        return combined(name, left, right)
    except Unlike:
        return NoneType


def combined(name: str, left: Kind, right: Kind) -> Kind:
    """The kind of `left name right`; Unlike if there is no such operation."""
    kinds = frozenset({left, right})
    number = widest(kinds)
    if number in NUMBERS and kinds != {str}:
        return float if name == "/" and number is int else number
    if name == "+":
        return _sum_kind(left, right) or _sum_kind(right, left) or _unlike()
    if name == "-":
        return _difference_kind(left, right) or _unlike()
    if name == "*" and (left in INTERVALS) != (right in INTERVALS) and kinds & NUMBERS:
        return left if left in INTERVALS else right
    if name == "/" and left in INTERVALS and right in NUMBERS:
        return left
    return _unlike()


def _unlike() -> Kind:
    raise Unlike


def _sum_kind(left: Kind, right: Kind) -> Kind | None:
    if left in INTERVALS:
        return left if left is right else None
    if left is date and right is int:
        return date
    if left in _TIMES and right is Months:
        return left
    # A day and a day-time interval make a day or a moment, as the interval is; both compare alike.
    return datetime if left in _TIMES and right is Micros else None


def _difference_kind(left: Kind, right: Kind) -> Kind | None:
    if {left, right} <= _TIMES | {str} and {left, right} & _TIMES:
        return Micros
    return _sum_kind(left, right)


def needed_digits(name: str, left: Digits, right: Digits) -> Digits:
    """The digits that Spark's type for a result would have, were there no limit."""
    if name == "/":
        return quotients.needed_digits(left, right)
    if name == "*":
        return Digits(left.precision + right.precision + 1, left.scale + right.scale, True)
    scale = max(left.scale, right.scale)
    wholes = (left.precision - left.scale, right.precision - right.scale)
    if name in ("%", "pmod"):
        return Digits(min(wholes) + scale, scale, True)
    return Digits(max(wholes) + scale + 1, scale, True)


def _bounded(digits: Digits) -> Digits:
    return Digits(min(digits.precision, MOST_DIGITS), kept_scale(digits), True)
