"""Writing an expression as text that reads back as the same expression, in one spelling.

Operators that are operands stand in brackets, so that no reader needs the table of precedences; keywords and
functions are written in capital letters.
"""

from __future__ import annotations

from palio.filters.expressions.tree import Attribute, Call, Expression, Literal
from palio.languages.cesql.lexer import unquote

_WORDS = {"and": "AND", "or": "OR", "xor": "XOR"}


def write(expression: Expression) -> str:
    """An expression as text."""
    match expression:
        case Literal(bool() as value):
            return "TRUE" if value else "FALSE"
        case Literal(int() as value):
            return str(value)
        case Literal(str() as value):
            return _quoted(value)
        case Attribute(name):
            return name
        case Call(function, arguments):
            return _call(function, [write(each) if function.isupper() else _operand(each) for each in arguments])
    raise TypeError(expression)


def _operand(expression: Expression) -> str:
    text = write(expression)
    is_operator = isinstance(expression, Call) and not expression.function.isupper() and expression.function != "exists"
    return f"({text})" if is_operator else text


def _call(function: str, texts: list[str]) -> str:
    match function:
        case "and" | "or" | "xor":
            return f" {_WORDS[function]} ".join(texts)
        case "not":
            return f"NOT {texts[0]}"
        case "exists":
            return f"EXISTS {texts[0]}"
        case "neg":
            return f"-({texts[0]})"
        case "like":
            return f"{texts[0]} LIKE {texts[1]}"
        case "in":
            return f"{texts[0]} IN ({', '.join(texts[1:])})"
    if function.isupper():
        return f"{function}({', '.join(texts)})"
    return f"{texts[0]} {function} {texts[1]}"


def _quoted(value: str) -> str:
    for quote in ("'", '"'):
        text = quote + value.replace(quote, f"\\{quote}") + quote
        # A backslash before one of the two quotes cannot be written between that sort of quotes.
        if unquote(text) == value:
            return text
    raise ValueError(f"no text in quotes says {value!r}")
