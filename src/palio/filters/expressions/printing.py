"""Writing expressions as SQL that reads back as the same expression; every operator in brackets of its own."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from math import isinf, isnan

from palio.events.values import Scalar
from palio.filters.expressions.tree import Array, Attribute, Call, Expression, Literal, Micros, Months
from palio.filters.names import to_sql as name_to_sql

_INFIX = frozenset(["=", "<=>", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^"])
_COMPARISONS = frozenset(["=", "<=>", "<>", "<", "<=", ">", ">=", "in", "between", "like", "ilike", "rlike"])
_WORDS = {"and": "AND", "or": "OR", "div": "DIV"}


def literal_to_sql(value: Scalar | Months | Micros) -> str:
    """A constant as a literal of its own type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value != -(2**63) else "-9223372036854775808L"
        case Decimal():
            text = f"{value:f}"
            return text if "." in text else f"{text}BD"
        case float():
            if isnan(value) or isinf(value):
                word = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
                return f"CAST('{word}' AS DOUBLE)"
            return f"{value!r}D"
        case str():
            return _text(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime():
            fraction = f".{value.microsecond:06}" if value.microsecond else ""
            return f"TIMESTAMP'{value.strftime('%Y-%m-%d %H:%M:%S').zfill(19)}{fraction}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case Months(months):
            return f"INTERVAL '{months}' MONTH"
        case Micros(micros):
            sign, rest = ("-" if micros < 0 else ""), abs(micros)
            return f"INTERVAL '{sign}{rest // 1_000_000}.{rest % 1_000_000:06d}' SECOND"
    raise TypeError(f"{type(value).__name__} is no literal")


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + "".join(c if c.isprintable() else _escape(c) for c in escaped) + "'"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def expression_to_sql(expression: Expression) -> str:
    """An expression as SQL; operators come in brackets, so no reader needs the table of precedences."""
    match expression:
        case Literal(value):
            return literal_to_sql(value)
        case Attribute(name) | Array(name):
            return name_to_sql(name)
        case Call("condition_in", (language, condition, *_)):  # which attributes it reads, it says itself
            return f"condition_in({expression_to_sql(language)}, {expression_to_sql(condition)})"
        case Call(function, arguments):
            return _call(function, arguments)
    raise TypeError(expression)


def condition_to_sql(expression: Expression, wants: bool = True) -> str:
    """That an expression is TRUE, or FALSE, as SQL that AND and OR may join."""
    text = expression_to_sql(expression)
    if not wants:
        return f"NOT {text}"
    # Every comparison binds closer than AND, so the brackets around a whole one say nothing.
    return text[1:-1] if isinstance(expression, Call) and expression.function in _COMPARISONS else text


def _call(function: str, arguments: tuple[Expression, ...]) -> str:
    texts = [expression_to_sql(each) for each in arguments]
    match function:
        case "and" | "or":
            return f"({f' {_WORDS[function]} '.join(texts)})"
        case "not":
            return f"(NOT {texts[0]})"
        case "div":
            return f"({texts[0]} DIV {texts[1]})"
        case "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        case "between":
            return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})"
        case "like" | "ilike":
            escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
            return f"({texts[0]} {function.upper()} {texts[1]}{escape})"
        case "rlike":
            return f"({texts[0]} RLIKE {texts[1]})"
        case "isnull" | "isnotnull" | "istrue" | "isfalse":
            return f"({texts[0]} IS {_TESTS[function]})"
        case "cast":
            type_name = arguments[1]
            assert isinstance(type_name, Literal)
            return f"CAST({texts[0]} AS {str(type_name.value).upper()})"
        case "case":
            pairs = "".join(f" WHEN {a} THEN {b}" for a, b in zip(texts[0::2], texts[1::2], strict=False))
            return f"(CASE{pairs}{f' ELSE {texts[-1]}' if len(texts) % 2 else ''} END)"
    if function in _PREFIXES:
        # A sign before a number would be read as part of it.
        return f"({_PREFIXES[function]} {f'({texts[0]})' if texts[0][0].isdigit() else texts[0]})"
    if function in _WITH_UNITS:
        return f"{function}({', '.join([texts[0].strip(_QUOTE).upper(), *texts[1:]])})"
    if function in _EXTRACTED:
        return f"EXTRACT({_EXTRACTED[function]} FROM {texts[0]})"
    if function in _INFIX:
        return f"({texts[0]} {function} {texts[1]})"
    return f"{function}({', '.join(texts)})"


_PREFIXES = {"neg": "-", "positive": "+", "~": "~"}
_WITH_UNITS = frozenset({"timestampadd", "timestampdiff"})  # the first argument is a word, without quotes
_QUOTE = "'"
# Parts of a time that Spark has no function for.
_EXTRACTED = {"second_with_fraction": "SECOND", "dayofweek_iso": "DAYOFWEEK_ISO", "yearofweek": "YEAROFWEEK"}
_TESTS = {"isnull": "NULL", "isnotnull": "NOT NULL", "istrue": "TRUE", "isfalse": "FALSE"}
