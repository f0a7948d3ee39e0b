"""Tests of validation: unsupported expressions are rejected with a reason that names an alternative."""

from __future__ import annotations

from typing import Any

import pytest

from palio.filters.expressions.ast import Array, Attribute, Call, Literal
from palio.filters.expressions.validation import DEPTH_LIMIT, refusal
from palio.languages.sql.parser import parse_condition


def reason(sql: str) -> str | None:
    refused = refusal(parse_condition(sql, timezone="UTC"))
    return None if refused is None else refused[1]


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("x * 0.123456789012345678 > 1", "39 digits"),
        ("(x * 0.1234567) * (y * 0.1234567) > 1", "57 digits"),
        ("CAST(x AS FLOAT) + 1 > 2", "CAST(… AS DOUBLE)"),
        ("CAST(CAST(x AS FLOAT) AS STRING) = '1'", "CAST(… AS DOUBLE)"),
        ("TRUE > 1", "a boolean and an integer do not compare"),
        ("year(5) = 1", "year() takes a date here, not an integer"),
        ("DATE'2024-01-01' * 2 = 1", "does not take a date and an integer"),
        ("round(x, y) > 1", "must be a constant"),
        ("x RLIKE y", "must be a constant"),
        ("x RLIKE 'a(?=b)'", "character 4"),
        ("x LIKE 'a\\\\b'", "escape character"),
        ("greatest(x, 1, 'a') = 1", "values of one type"),
        ("CASE WHEN x THEN 1 ELSE TRUE END", "values of one type"),
        ("CAST(5 AS DATE) = x", "an integer cannot be cast to date"),
        ("5 BETWEEN x AND TRUE", "do not compare"),
        ("array_contains(x, NULL)", "NULL"),
    ],
)
def test_a_reason_says_what_is_wrong(sql: str, part: str) -> None:
    assert part in (reason(sql) or "")


@pytest.mark.parametrize(
    "sql",
    [
        "x / 0.1D > 5",
        "x / 0.1 > 5",
        "x / CAST(y AS DECIMAL(10,2)) > 5",
        "x / 2 > 1.5",
        "x * 0.1 + y * 0.25 > 1.125",
        "x * y * 0.5 > 3",
        "CAST(x AS FLOAT) > 0.1",
        "sqrt(CAST(x AS FLOAT)) > 0.1",
        "x = '5' AND y = TRUE",
        "coalesce(x, NULL, 5) > 1",
        "INTERVAL '1' DAY / 2 > INTERVAL '1' HOUR",
        "x - y > INTERVAL '1' DAY",
        "1.5 % x > 0.5 OR 7.5 DIV x = 1",
    ],
)
def test_what_can_be_computed_is_not_refused(sql: str) -> None:
    assert reason(sql) is None


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (Call("no_such", ()), "there is no function no_such()"),
        (Call("year", ()), "takes 1 argument, not 0"),
        (Call("substring", (Literal("a"),)), "takes 2 to 3 arguments, not 1"),
        (Call("and", (Literal(True),)), "takes 2 or more arguments, not 1"),
        (Call("cast", (Attribute("x"), Literal("money"))), "money"),
        (Call("cast", (Attribute("x"), Literal("decimal(50,2)"))), "decimal(50,2)"),
        (Call("cast", (Attribute("x"), Attribute("y"))), "name of a type"),
        (Call("size", (Literal(5),)), "name of an attribute"),
        (Call("upper", (Array("x"),)), "not an array"),
        (Call("like", (Attribute("x"), Literal("a"), Literal("ab"))), "one character"),
        (Call("ilike", (Attribute("x"), Literal("a"), Attribute("y"))), "must be a constant"),
    ],
)
def test_a_tree_that_no_parser_would_make_is_refused_too(call: Call, part: str) -> None:
    refused = refusal(call)
    assert refused is not None
    assert part in refused[1]
    assert refused[0] is call


def test_the_innermost_fault_is_the_one_that_is_named() -> None:
    refused = refusal(parse_condition("upper(x) = 'A' AND y + x * 0.1234567890123456789 > 3", timezone="UTC"))
    assert refused is not None
    assert refused[0].function == "*"


def test_nesting_has_a_limit() -> None:
    deep: Any = Attribute("x")
    for _ in range(100_000):
        deep = Call("neg", (deep,))
    refused = refusal(deep)
    assert refused is not None
    assert str(DEPTH_LIMIT) in refused[1]
