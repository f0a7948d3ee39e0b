"""Plain conditions, `name op literal` joined by AND: read by one regular expression, asked without a filter.

Most subscriptions are plain, and a filter of one costs a hundred times what these few lines do. The grammar is the
one of `columnar.text_kernels`: single spaces, upper-case words, integers of at most fifteen digits (which a float holds
exactly), strings without quotes or escapes that read as nothing but themselves. What it accepts, the parser accepts
with the same meaning; a property test compares the two.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from palio.errors import ParseError
from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.intervals import EMPTY, Intervals
from palio.filters.kinds import KINDS, MISSING, Kind, float_position
from palio.filters.tree import Attributes
from palio.filters.values import ValueSet
from palio.languages.sql.parser import parse_condition

_CONDITION: Final = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*) "
    r"(?:(=|<=|>=|<|>) (-?[0-9]{1,15})|= '([^'\\\n]*)'|BETWEEN (-?[0-9]{1,15}) AND (-?[0-9]{1,15}))( AND |\Z)"
)
# A string that no reading as a number, boolean, date or timestamp can take for anything but itself.
_ONLY_TEXT: Final = re.compile(r"[a-zA-Z](?:[^\n]*\S)?")
_MEANS_MORE: Final = frozenset(
    [
        "t",
        "f",
        "y",
        "n",
        "true",
        "false",
        "yes",
        "no",
        "nan",
        "inf",
        "infinity",
        "epoch",
        "now",
        "today",
        "yesterday",
        "tomorrow",
    ]
)


_NUMBERS: Final = (int, float, Decimal)
# The empty parts of a set of strings, and of one of numbers.
_BELOW_STRINGS: Final = (EMPTY,) * Kind.STRING
_ABOVE_STRINGS: Final = (EMPTY,) * (len(KINDS) - Kind.STRING - 1)
_BELOW_NUMBERS: Final = (EMPTY,) * Kind.INTEGER
_ABOVE_NUMBERS: Final = (EMPTY,) * (len(KINDS) - Kind.FLOAT - 1)


def is_only_text(text: str) -> bool:
    """Whether a string literal is compared with strings alone."""
    return _ONLY_TEXT.fullmatch(text) is not None and text.lower() not in _MEANS_MORE


@lru_cache(maxsize=100_000)
def is_only_name(name: str) -> bool:
    """Whether the parser reads a dotted name as a name wherever a plain condition has one; asked once per name."""
    own = Attribute(name)
    expected = (
        Call("=", (Attribute("a"), Literal(1))),
        Call("=", (own, Literal("b"))),
        Call("between", (own, Literal(1), Literal(2))),
    )
    try:
        found = parse_condition(f"a = 1 AND {name} = 'b' AND {name} BETWEEN 1 AND 2")
    except ParseError:
        return False
    return found == Call("and", expected)


class PlainCondition:
    """A conjunction of comparisons with literals, one per attribute."""

    __slots__ = ("comparisons",)

    def __init__(self, comparisons: list[tuple[str, str, Any, Any]]) -> None:
        self.comparisons = comparisons  # name, operator, literal, upper literal

    @classmethod
    def read(cls, text: str) -> PlainCondition | None:
        """The condition of a text; None where it is not plain."""
        comparisons: list[tuple[str, str, Any, Any]] = []
        names: set[str] = set()
        at = 0
        while True:
            found = _CONDITION.match(text, at)
            if found is None:
                return None
            name, operator, number, string, low, high, end = found.groups()
            if name in names or not is_only_name(name):
                return None
            names.add(name)
            if number is not None:
                comparisons.append((name, operator, int(number), None))
            elif string is not None:
                if not is_only_text(string):
                    return None
                comparisons.append((name, "is", string, None))
            else:
                comparisons.append((name, "between", int(low), int(high)))
            if not end:
                return cls(comparisons)
            at = found.end()

    def pivot(self) -> tuple[str, str] | None:
        """An attribute and the string it must be, where the condition has one."""
        return next(((name, literal) for name, operator, literal, _ in self.comparisons if operator == "is"), None)

    def values(self) -> dict[str, ValueSet] | None:
        """The values that each attribute may take, as the filter's one conjunction has them; None where none may."""
        found: dict[str, ValueSet] = {}
        for name, operator, literal, upper in self.comparisons:
            if operator == "is":
                found[name] = ValueSet((*_BELOW_STRINGS, Intervals(False, (literal, literal + "\0")), *_ABOVE_STRINGS))
            elif operator == "between" and upper < literal:
                return None
            else:
                found[name] = ValueSet(_number_parts(operator, literal, literal if upper is None else upper))
        return found

    def matches(self, attributes: Attributes) -> bool:
        """Whether the condition is TRUE for an event."""
        for name, operator, literal, upper in self.comparisons:
            value = attributes.get(name, MISSING)
            if type(value) is tuple:
                if not any(_holds(each, operator, literal, upper) for each in value):
                    return False
            elif not _holds(value, operator, literal, upper):
                return False
        return True


def _number_parts(operator: str, low: int, high: int) -> tuple[Intervals, ...]:
    """Numbers from one literal to another, or beyond one of them; so few digits are the same number to every kind."""
    above = (low + 1, (low, 1), float_position(low) + 1)
    cuts: tuple[tuple[Any, ...], ...]
    match operator:
        case "<":
            cuts, inside = ((low,), ((low, 0),), (float_position(low),)), True
        case "<=":
            cuts, inside = tuple((cut,) for cut in above), True
        case ">":
            cuts, inside = tuple((cut,) for cut in above), False
        case ">=":
            cuts, inside = ((low,), ((low, 0),), (float_position(low),)), False
        case _:
            below = (low, (low, 0), float_position(low))
            beyond = (high + 1, (high, 1), float_position(high) + 1)
            cuts, inside = tuple(zip(below, beyond, strict=True)), False
    integers, decimals, floats = (Intervals(inside, each) for each in cuts)
    return (*_BELOW_NUMBERS, integers, decimals, floats, *_ABOVE_NUMBERS)


def _holds(value: Any, operator: str, literal: Any, upper: Any) -> bool:
    if operator == "is":
        return type(value) is str and value == literal
    if type(value) is bool or not isinstance(value, _NUMBERS):
        return False
    if value != value:  # NaN is above every number
        return operator in (">", ">=")
    match operator:
        case "=":
            return bool(value == literal)
        case "<":
            return bool(value < literal)
        case "<=":
            return bool(value <= literal)
        case ">":
            return bool(value > literal)
        case ">=":
            return bool(value >= literal)
    return bool(literal <= value <= upper)
