"""Subset construction: which expressions have few states, and that long texts are searched as short ones are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.filters.regex import Regex, is_slow_expression

QUICK = [
    "abc",
    "a.{0,200}z",
    "^a.{0,200}z",
    r"\d{1,3}(\.\d{1,3}){3}",
    "[A-Za-z0-9+/]{100,}X",
    "c[ab]{900}a[ab]*",
    "(.*a){50}",
    "(a|b)*a(a|b){8}c",
    r"(?i)powershell.*-e(nc|ncodedcommand)?\s+[a-z0-9+/=]{20,}",
    "|".join(f"word{number}" for number in range(200)),
]
SLOW = ["(a|b)*a(a|b){900}c", "a[ab]{60}c", "a[ab]{20}c", "a.{100}z"]


@pytest.mark.parametrize("text", QUICK)
def test_expressions_that_people_write_take_one_step_for_a_character(text: str) -> None:
    assert not is_slow_expression(text)
    assert Regex.compile(text).steps == 1


@pytest.mark.parametrize("text", SLOW)
def test_expressions_with_exponentially_many_states_take_their_size(text: str) -> None:
    regex = Regex.compile(text)
    assert is_slow_expression(text)
    assert regex.steps > 20


pieces = st.sampled_from(
    ["a", "b", ".", "[ab]", "a?", "b*", "(ab|ba)", "a{0,3}", "[ab]{2,9}", "(a|b){0,12}", "$", "\\b"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, min_size=1, max_size=7), st.text("ab ", max_size=30), st.sampled_from(["", "\n", "\r\n"]))
def test_a_long_text_is_searched_as_a_short_one_is(parts: list[str], text: str, end: str) -> None:
    try:
        regex = Regex.compile("".join(parts) + "c?[a-d]{9}x")
    except ValueError:
        return
    # Blanks before the text add no match, and make it long enough for the other engine.
    for each in (text + end, text + "aabaabaabx" + end):
        assert regex.search(" " * 5_000 + each) == regex.search(" " * 50 + each)
