"""Any text is an expression or a ParseError that says where and why, and nothing makes it take long."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, ParseError
from palio.languages import cesql
from palio.languages.cesql.types import KINDS
from tests.fuzz.bounded import run_bounded
from tests.languages.cesql.expressions import events, expressions, text_of
from tests.languages.cesql.heavy_cases import CASES

_PIECES = [
    *"and or xor not in like exists true false AND Or NOT is null between escape length concat left foo".split(),
    *r"a b id x1 data 1a a_b 0 1 -1 +1 2147483648 -2147483648 007 '' 'a' \"a\" 'a%' '\' '\'' 'it''s' '\\' 1.5".split(),
    *r"= == != <> < <= > >= + - * / % || | & ! ( ) [ ] , . ; : ? @ # $ \ -- `".split(),
    "'unclosed", '"', "(1, 2)", "IN (", "LIKE '", "\n", "\t", "\x00", "\xa0", "“", "é", "٣", "😀", "\ufeff",
]  # fmt: skip


def survives(text: str, *several: dict[str, Any]) -> None:
    """The text is refused with a good error, or is a filter that can be used, printed and read back."""
    for event in ({}, {"a": "x", "b": 5, "id": True}, *several):
        value, errors = cesql.evaluate(text, event)
        assert type(value) in (bool, int, str)
        assert set(errors) <= set(KINDS)
    try:
        found = Filter.parse(text, language="cesql")
    except ParseError as error:
        assert 0 <= error.position <= len(text)
        assert error.reason
        assert len(str(error)) < 2_000
        return
    assert Filter.parse(str(found)) == found
    assert Filter.parse(str(~found)) == ~found
    for event in ({}, {"a": ["x", 5, None], "b": [True, 1.5]}, *several):
        found.matches(event)
        found.explain(event)


@given(st.text(st.characters(exclude_categories=()), max_size=100))
def test_any_text_is_an_expression_or_a_parse_error(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from(_PIECES), max_size=15), st.sampled_from(["", " ", " "]))
def test_any_run_of_words_and_signs_is_an_expression_or_a_parse_error(pieces: list[str], between: str) -> None:
    survives(between.join(pieces))


@given(expressions(), events(), st.integers(0, 10**9))
def test_a_damaged_expression_is_an_expression_or_a_parse_error(tree: Any, event: dict[str, Any], seed: int) -> None:
    random, text = Random(seed), text_of(tree)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        piece = random.choice(["", random.choice(_PIECES), text[at : at + random.randint(1, 9)]])
        text = text[:at] + piece + text[at + random.randint(0, 4) :]
    survives(text, event)


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_to_exhaust_a_machine_does_not(name: str) -> None:
    run_bounded("tests.languages.cesql.heavy_cases", name)
