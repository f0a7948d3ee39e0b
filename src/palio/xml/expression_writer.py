"""Writer of XPath expressions in XPath 1.0, without prefixes and abbreviations that need a context."""

from __future__ import annotations

import math
from typing import Final

from palio.xml.expression import Call, Chain, Expression, Literal, Location, LocationStep, Negative
from palio.xml.pattern import Name
from palio.xml.xpath_writer import write_constant, write_name

_PRECEDENCE: Final = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("=", "!="), 3),
    **dict.fromkeys(("<", "<=", ">", ">="), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "div", "mod"), 6),
    "|": 8,
}
_NEGATIVE: Final = 7
_PRIMARY: Final = 9


def write_expression(expression: Expression) -> str:
    """An expression as text; equal expressions have equal texts, and a text is read as the same expression.

    >>> from palio.xml.expression_parser import read_expression
    >>> write_expression(read_expression("a[ position()<3 ]/following-sibling::b = (1+2)*3"))
    'a[position()<3]/following-sibling::b=(1+2)*3'
    """
    return _write(expression, 0)


def _write(expression: Expression, outer: int) -> str:
    match expression:
        case Literal(value):
            return (
                "-0"
                if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0
                else write_constant(value)
            )
        case Call(function, arguments):
            return f"{function}({', '.join(map(write_expression, arguments))})"
        case Negative(operand):
            return _bracketed(f"-{_write(operand, _NEGATIVE)}", _NEGATIVE, outer)
        case Chain(first, rest):
            inner = _PRECEDENCE[rest[0][0]]
            text = _write(first, inner + 1)
            for operator, operand in rest:
                # A name may have a hyphen in it, and a word needs space around it.
                sign = operator if operator in "+*|=!=<=>=" else f" {operator} "
                text += sign + _write(operand, inner + 1)
            return _bracketed(text, inner, outer)
        case Location():
            is_bare = expression.is_absolute and not expression.steps
            return _bracketed(_write_location(expression), 0 if is_bare else _PRIMARY, outer)  # /*2 is a path


def _bracketed(text: str, inner: int, outer: int) -> str:
    return f"({text})" if inner < outer else text


def _write_location(path: Location) -> str:
    text = ""
    if path.start is not None:
        text = f"({write_expression(path.start)}){_write_predicates(path.predicates)}"
    separator = "/" if path.is_absolute or path.start is not None else ""
    if path.is_absolute and not path.steps:
        return "/"
    for number, step in enumerate(path.steps):
        # A `//` at the beginning of a relative path would be read as absolute, and one at the end as unfinished.
        if step.is_anywhere and separator and number + 1 < len(path.steps) and not text.endswith("/"):
            text += "/"
            continue
        text += separator + _write_step(step)
        separator = "/"
    return text


def _write_step(step: LocationStep) -> str:
    bare = not step.predicates and step.kind == "node"
    if bare and step.axis in ("self", "parent"):
        return "." if step.axis == "self" else ".."
    axis = {"child": "", "attribute": "@"}.get(step.axis, f"{step.axis}::")
    match step.kind:
        case "element":
            test = _write_name_test(step.name)
        case "processing-instruction" if step.target is not None:
            test = f"processing-instruction({write_constant(step.target)})"
        case kind:
            test = f"{kind}()"
    return f"{axis}{test}{_write_predicates(step.predicates)}"


def _write_name_test(name: Name) -> str:
    if name.is_any or (name.namespace == "" and name.local is not None):
        return name.local or "*"
    return f"*[{write_name(name)}]"


def _write_predicates(predicates: tuple[Expression, ...]) -> str:
    return "".join(f"[{write_expression(each)}]" for each in predicates)
