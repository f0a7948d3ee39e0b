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
from palio.filters.comparisons import is_only_text
from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.kinds import MISSING
from palio.filters.tree import Attributes
from palio.languages.sql.lexer import LONGEST
from palio.languages.sql.parser import parse_condition

_CONDITION: Final = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*) "
    r"(?:(=|<=|>=|<|>) (-?[0-9]{1,15})|= '([^'\\\n]*)'|BETWEEN (-?[0-9]{1,15}) AND (-?[0-9]{1,15}))( AND |\Z)"
)
_NUMBERS: Final = (int, float, Decimal)


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


def is_whole(text: str) -> bool:
    """Whether a text has no half of a character, a surrogate, in it; the parser refuses those."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class PlainCondition:
    """A conjunction of comparisons with literals, one per attribute."""

    __slots__ = ("comparisons",)

    def __init__(self, comparisons: list[tuple[str, str, Any, Any]]) -> None:
        self.comparisons = comparisons  # name, operator, literal, upper literal

    @classmethod
    def read(cls, text: str) -> PlainCondition | None:
        """The condition of a text; None where it is not plain."""
        if len(text) > LONGEST:
            return None
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
                if not (string.isascii() or is_whole(string)) or not is_only_text(string):
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
