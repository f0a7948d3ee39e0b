"""Expressions made to exhaust time, memory or the stack; each is a function that must just return.

Run as `python -m tests.languages.cesql.heavy_cases NAME`, in a process of its own under limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from palio import Filter, ParseError
from palio.languages import cesql
from palio.languages.grammar import MAX_CONDITIONS

CASES: dict[str, Callable[[], None]] = {}


def _case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def _exercise(text: str, *events: dict[str, Any]) -> Filter:
    found = Filter.parse(text, language="cesql")
    for event in ({}, {"a": "x", "b": 5}, *events):
        found.matches(event)
        (~found).matches(event)
        cesql.evaluate(text, event)
    if len(str(found)) < 100_000:
        assert Filter.parse(str(found)) == found
        found.explain({"a": "x"})
        found.covers(found)
        found.overlaps(~found)
        found.conjunctions(16)
    return found


def _refused(text: str) -> None:
    try:
        Filter.parse(text, language="cesql")
    except ParseError as error:
        assert len(str(error)) < 2_000
        return
    raise AssertionError(f"accepted: {text[:80]}")


def _huge(text: str) -> None:
    """A megabyte is read, evaluated and matched; what else one does with filters is tried at a tenth of that."""
    assert len(text) > 900_000
    found = Filter.parse(text, language="cesql")
    for event in ({}, {"a": "x"}, {"a": "7"}):
        value, errors = cesql.evaluate(text, event)
        assert found.matches(event) is (value is True and not errors)


@_case
def a_megabyte_of_alternatives() -> None:
    _refused(" OR ".join(f"a = '{at}'" for at in range(70_000)))
    _exercise(" OR ".join(f"a = '{at}'" for at in range(MAX_CONDITIONS)))
    _exercise(" AND ".join(f"a != '{at}'" for at in range(3_000)))


@_case
def a_megabyte_of_one_list() -> None:
    _huge(f"a IN ({', '.join(str(at) for at in range(140_000))})")
    _exercise(f"a NOT IN ({', '.join(str(at) for at in range(10_000))})")


@_case
def many_numbers_compared() -> None:
    _exercise(" OR ".join(f"a = {at}" for at in range(1_000)))
    found = Filter.parse(" OR ".join(f"a < {at}" for at in range(10_000)), language="cesql")
    assert found.matches({"a": "-7"})


@_case
def many_attributes() -> None:
    for word in ("AND", "OR"):
        _exercise(f" {word} ".join(f"a{at} = 'x'" for at in range(300)), {f"a{at}": "y" for at in range(299)})
        _exercise(f" {word} ".join(f"(a{at} = 'x' AND b{at} LIKE 'y%')" for at in range(100)))
    Filter.parse(" OR ".join(f"a{at} = 'x'" for at in range(MAX_CONDITIONS)), language="cesql").matches({"a0": "x"})


@_case
def every_other_operator() -> None:
    for first, second in (("AND", "OR"), ("OR", "XOR"), ("XOR", "XOR")):
        _exercise("a = 'x'" + "".join(f" {second if at % 2 else first} b{at} = {at}" for at in range(95)))
        nested = "a = 'x'"
        for at in range(95):
            nested = f"b{at} LIKE '%{at}x' {second if at % 2 else first} ({nested})"
        _exercise(nested)


@_case
def as_deep_as_allowed() -> None:
    _exercise("(" * 99 + "a < b" + ")" * 99)
    _exercise("NOT " * 98 + "(a = 'x')")
    _exercise("LOWER(" * 98 + "a" + ")" * 98 + " = 'x'")
    _exercise("a = 1 OR b = 2 AND (" * 49 + "c < 3" + ")" * 49)
    deep: Any = {"sql": "a = 1 OR b = 2 AND (" * 49 + "c < 3" + ")" * 49}
    for at in range(49):
        deep = {"not": deep} if at % 3 == 0 else {"any" if at % 3 == 1 else "all": [deep, {"suffix": {f"s{at}": "x"}}]}
    found = Filter.parse(deep, language="cloudevents")
    assert Filter.parse(str(found)) == found
    (~found).matches({"a": 1, "b": "x"})


@_case
def deeper_than_allowed() -> None:
    for piece in ("(", "NOT ", "-", "LOWER(", "a IN (", "CONCAT(a, ", "a + ", "a LIKE 'x' XOR "):
        _refused(piece * 200_000 + "a")


@_case
def texts_and_patterns() -> None:
    _exercise(f"a = '{'x' * 900_000}'")
    _exercise(f"a LIKE '{'%x' * 400_000}'", {"a": "x" * 200_000})
    _exercise(f"a LIKE '{'_%' * 300_000}'", {"a": "x" * 500_000})
    _exercise("a LIKE '%a%a%a%a%a%a%a%b'", {"a": "a" * 1_000_000})
    _exercise(f"a > '{'0' * 900_000}7'", {"a": "0" * 900_000 + "9"})
    _refused(f"a > {'9' * 900_000}")
    _refused("'" + "\\" * 900_000)


@_case
def texts_that_grow() -> None:
    grown = "a"
    for _ in range(90):
        grown = f"CONCAT({grown}, a, a)"
    _exercise(f"LENGTH({grown}) > 5", {"a": "x" * 100_000})
    _exercise(f"CONCAT({', '.join(['a'] * (MAX_CONDITIONS - 1))}) = 'x'", {"a": "x" * 1_000_000})
    _exercise(f"CONCAT_WS(a, {', '.join(['a'] * (MAX_CONDITIONS - 1))}) = 'x'", {"a": "x" * 1_000_000})


if __name__ == "__main__":
    CASES[sys.argv[1]]()
