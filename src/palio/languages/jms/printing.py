"""Writing an expression as the one selector that reads back as it.

What a filter cannot hold in its index it keeps as text, and filters are equal where their texts are; so the text
has no brackets, blanks or spellings of the writer's own.
"""

from __future__ import annotations

from typing import Final

from palio.filters.expressions.tree import Attribute, Call, Expression, Literal
from palio.languages.jms.grammar import INFIX, PREFIX
from palio.languages.jms.identifiers import write_name
from palio.languages.sql.precedence import PREDICATE, UNARY, VALUE

_ATOM: Final = UNARY + 1
_SIGNS: Final = {"neg": "-", "pos": "+"}
_NEGATED: Final = {f"not{word}": f"NOT {word.upper()}" for word in ("in", "like", "between")}


def write_selector(expression: Expression) -> str:
    """The canonical text of an expression."""
    return _write(expression)[0]


# Texts carry how tightly they bind.
def _write(expression: Expression) -> tuple[str, int]:
    match expression:
        case Literal(value):
            return _literal(value), _ATOM
        case Attribute(name):
            return write_name(name), _ATOM
        case Call("and" | "or" as function, arguments):
            power = INFIX[function].power
            return f" {function.upper()} ".join(_within(each, power + 1) for each in arguments), power
        case Call("not", (argument,)):
            power = PREFIX["not"].power
            return f"NOT {_within(argument, power)}", power
        case Call("neg" | "pos" as function, (argument,)):
            bound = _ATOM if isinstance(argument, Attribute) else _ATOM + 1
            return _SIGNS[function] + _within(argument, bound), UNARY
        case Call(function, (left, right)) if function in INFIX:
            power = INFIX[function].power
            least = power + 1 if power == VALUE else power
            return f"{_within(left, least)} {function} {_within(right, power + 1)}", power
        case Call(function, (value, *others)):
            return f"{_within(value, VALUE + 1)} {_predicate(function, others)}", PREDICATE
    raise TypeError(expression)


def _within(expression: Expression, least: int) -> str:
    """An expression as an operand, in brackets where it binds less tightly than it must."""
    text, power = _write(expression)
    return text if power >= least else f"({text})"


def _predicate(function: str, others: list[Expression]) -> str:
    written = [_within(each, VALUE + 1) for each in others]
    word = _NEGATED.get(function, function.upper())
    match function:
        case "isnull" | "isnotnull":
            return "IS NULL" if function == "isnull" else "IS NOT NULL"
        case "between" | "notbetween":
            return f"{word} {' AND '.join(written)}"
        case "in" | "notin":
            return f"{word} ({', '.join(written)})"
    return f"{word} {' ESCAPE '.join(written)}"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
