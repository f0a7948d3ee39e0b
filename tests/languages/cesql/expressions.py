"""Random expressions of CESQL, as trees of the oracle and as text, and random events for them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.strategies import MISSING, values

NAMES = ["a", "b", "x1", "id"]
WORDS = [
    "", "a", "b", "ab", "abc", "a%b", "a_b", "a\\b", "\\%", "\\", "'", '"', "true", "TRUE", "tRue", "false", "False",
    "0", "1", "5", "05", "+5", "-5", "-0", "+0", "00", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "3000000000", "1.5", "5.0", "0.0", "-0.0", "NaN", "Infinity", "1e5", " 5", "5 ", "٣", "2024-02-29", "20240229",
    "2024-02-29T10:00:00Z", "2024-02-29T11:00:00+01:00", "2024-02-29T10:00:00.000Z", "2024-02-29 10:00:00Z",
    "2024-02-29T10:00:00.5Z", "2024-02-29T10:00:00.500Z", "é", "É", "ß", "\u3000x\x1f", "x\n",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 5, -5, 12, 2**31 - 1, -(2**31)]
PATTERNS = [
    "", "%", "_", "%%", "_%", "a%", "%b", "%a%", "a_b", "a\\%b", "a\\_b", "\\%", "\\\\%", "a\\b", "5", "%5",
    "5%", "%5%", "-%", "%.%", "1._", "%0", "true", "t%", "%e", "T%", "%Z", "2024%", "%T10%", "2024-02-29", "N%",
    "%inity", "+%", "____-__-__", "%'%", '%"', "é%", "%\n", "05",
]  # fmt: skip
_PLACES = [
    Decimal("5"), Decimal("5.00"), Decimal("1.50"), Decimal("-0.0"), 5.0, 1.5, -0.0, 0.0, 2**31, -(2**31), 3000000000,
    5, 12,
    datetime(2024, 2, 29, 10, tzinfo=UTC), datetime(2024, 2, 29, 10, 0, 0, 500000, tzinfo=UTC), True, False,
]  # fmt: skip


def event_values() -> st.SearchStrategy[Any]:
    """What an event may hold for an attribute: a value of any kind, null, or nothing."""
    return st.one_of(st.sampled_from(WORDS), st.sampled_from(_PLACES), values(), st.sampled_from([MISSING, None]))


def events(names: list[str] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """The attributes of an event, without arrays."""
    chosen = st.fixed_dictionaries({name: event_values() for name in names or NAMES})
    return chosen.map(lambda event: {name: value for name, value in event.items() if value is not MISSING})


_attributes = st.sampled_from(NAMES).map(lambda name: ("attribute", name))
_literals = st.one_of(st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(WORDS)).filter(
    lambda value: value != "\\"
)
_constants = _literals.map(lambda value: ("literal", value))


def _tests(operands: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Conditions on one operand and constants: what becomes a set of values where the operand is an attribute."""
    comparisons = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
    return st.one_of(
        st.tuples(comparisons, operands, _constants),
        st.tuples(comparisons, _constants, operands),
        st.tuples(st.just("like"), operands, st.sampled_from(PATTERNS)),
        st.tuples(st.just("in"), operands, st.lists(_constants, min_size=1, max_size=3)),
        st.tuples(st.just("exists"), st.sampled_from(NAMES)),
    )


def _logic(conditions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or", "and", "or", "xor"]), conditions, conditions),
        st.tuples(st.just("not"), conditions),
    )


def simple_conditions() -> st.SearchStrategy[Any]:
    """Attributes compared with constants, joined by AND, OR, XOR and NOT; attributes and constants by themselves."""
    return st.recursive(
        st.one_of(_tests(_attributes), _tests(_attributes), _attributes, _constants), _logic, max_leaves=5
    )


def _larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one = ["LENGTH", "LOWER", "UPPER", "TRIM", "ABS", "INT", "BOOL", "STRING", "IS_INT", "IS_BOOL"]
    call = st.just("call")
    return st.one_of(
        _logic(parts),
        _tests(parts),
        st.tuples(st.sampled_from(["+", "-", "*", "/", "%", "=", "!=", "<", ">="]), parts, parts),
        st.tuples(st.just("neg"), parts),
        st.tuples(st.just("in"), parts, st.lists(parts, min_size=1, max_size=3)),
        st.tuples(call, st.sampled_from(one), parts.map(lambda part: [part])),
        st.tuples(call, st.sampled_from(["LEFT", "RIGHT", "SUBSTRING"]), st.tuples(parts, parts).map(list)),
        st.tuples(call, st.just("SUBSTRING"), st.tuples(parts, parts, parts).map(list)),
        st.tuples(call, st.just("CONCAT"), st.lists(parts, max_size=3)),
        st.tuples(call, st.just("CONCAT_WS"), st.lists(parts, min_size=1, max_size=3)),
    )


def expressions() -> st.SearchStrategy[Any]:
    """Everything the language has, nested at will."""
    return st.recursive(st.one_of(_attributes, _constants, _tests(_attributes)), _larger, max_leaves=8)


def text_of(tree: tuple[Any, ...]) -> str:
    """A tree as text, everything in brackets."""
    match tree:
        case ("literal", bool() as value):
            return str(value)
        case ("literal", str() as value):
            return _quoted(value)
        case ("literal", value) | ("attribute", value):
            return str(value)
        case ("exists", name):
            return f"(EXISTS {name})"
        case ("like", operand, pattern):
            return f"({text_of(operand)} like {_quoted(pattern)})"
        case ("in", operand, items):
            return f"({text_of(operand)} In ({', '.join(map(text_of, items))}))"
        case ("not", ("like", operand, pattern)):
            return f"({text_of(operand)} NOT LIKE {_quoted(pattern)})"
        case ("not", ("in", operand, items)):
            return f"({text_of(operand)} not in ({','.join(map(text_of, items))}))"
        case ("not", operand):
            return f"(NOT {text_of(operand)})"
        case ("neg", operand):
            return f"(- {text_of(operand)})"
        case ("call", name, arguments):
            return f"{name}({', '.join(map(text_of, arguments))})"
        case (operator, left, right):
            return f"({text_of(left)} {operator} {text_of(right)})"
    raise AssertionError(tree)


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '\\"') + '"' if "'" in value else f"'{value}'"
