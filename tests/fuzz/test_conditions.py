"""Fuzz tests of conditions: any text is a condition or a ParseError; a condition survives its own printing."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, ParseError
from tests.oracles.generate import Generator

# fmt: off
_EVENTS: tuple[dict[str, Any], ...] = (
    {},
    {"x": 5, "s": "abc", "flag": True, "num": 3, "big": 2**53 + 1, "dbl": float("nan"), "str": "a%"},
    {"x": "5", "s": "", "flag": None, "num": -1, "big": "", "dbl": -0.0, "str": "\n", "rec": {"num": 1, "txt": "é"}},
    {"x": [1, "a", None], "s": ["a", "b"], "flag": [True, False], "num": [1.5, 2], "str": ["abc", "10"], "nums": [1]},
)

# Words, signs and pieces of every sort, whole and broken.
_PIECES = [
    *"and or not in is like ilike rlike between null true false case when then else end cast as escape any all".split(),
    *"distinct from interval date timestamp x year day to extract both leading trailing for over select where".split(),
    *"upper coalesce if array_contains size now count typeof decode substring trim concat abs to_date".split(),
    *r"x s flag num rec.num a.b `` ` '' 'a' 'a%' '%' '\' 'b' r'\' x'1f' X'zz' date'2024-01-01' date'x'".split(),
    *"0 1 -1 1.5 .5 5. 1e5 1e 1e999 5L 5Y 300Y 5BD 5D 5F 0x1f 1_000 9223372036854775808 00 1a".split(),
    *r"= == <=> <> != < <= > >= !< !> + - * / % || | & ^ ~ ! ( ) [ ] { } , . ; : :: ? => -> @ # $ \ -- /* */".split(),
    "'unclosed", "/* open", "-- comment\n", "INTERVAL '1' DAY", "DECIMAL(10,2)", "`odd name`", "\n", "\t", "\x00",
    "\u200b", "\u2028", "“", "’", "×", "é", "名前", "😀", "\ufeff", "\u0130", r"'\u0000'", r"'\ud83d'", r"'\U0001F600'",
    r"'\777'", "(1, NULL)", "IS NOT NULL", "RLIKE '('", "RLIKE 'a{2,1}'", r"LIKE 'a\\b'", "LIKE ANY ('a', 'b')",
    "BETWEEN 1 AND 2", "CASE WHEN x THEN", "CAST(x AS", "IN (",
]
# fmt: on
_TOKEN = re.compile(r"\w+|'(?:[^'\\]|\\.)*'|\s+|.", re.DOTALL)


def _survives(text: str) -> None:
    """The text is refused with a good error, or is a filter that can be used, printed and read back."""
    try:
        found = Filter.parse(text)
    except ParseError as error:
        assert 0 <= error.position <= len(text)
        assert error.reason
        assert len(str(error)) < 2_000
        return
    printed = str(found)
    again = Filter.parse(printed)
    assert again == found, printed
    assert hash(again) == hash(found)
    assert str(again) == printed
    opposite = ~found
    assert Filter.parse(str(opposite)) == opposite, str(opposite)
    for event in _EVENTS:
        holds = found.matches(event)
        assert again.matches(event) is holds
        found.explain(event)
        if not any(isinstance(value, list) for value in event.values()):
            assert not (holds and opposite.matches(event))


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_is_a_condition_or_a_parse_error(text: str) -> None:
    _survives(text)


@given(st.lists(st.sampled_from(_PIECES), max_size=25), st.sampled_from(["", " ", " "]))
def test_any_run_of_words_and_signs_is_a_condition_or_a_parse_error(pieces: list[str], between: str) -> None:
    _survives(between.join(pieces))


@given(st.integers(0, 10**9))
def test_a_condition_survives_its_own_printing(seed: int) -> None:
    _survives(Generator(seed).condition().text)


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_a_damaged_condition_is_a_condition_or_a_parse_error(seed: int, wounds: int) -> None:
    random = Random(seed)
    tokens = _TOKEN.findall(Generator(seed % 1000).condition().text)
    for _ in range(wounds):
        _damage(random, tokens)
    _survives("".join(tokens))


def _damage(random: Random, tokens: list[str]) -> None:
    """Delete, double, exchange, replace or insert a token, or change one character of it."""
    if not tokens:
        return
    at, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    match random.randrange(6):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, tokens[at])
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            tokens[at] = tokens[other]
        case 4:
            tokens.insert(at, f" {random.choice(_PIECES)} ")
        case _:
            token = tokens[at]
            place = random.randrange(len(token))
            tokens[at] = token[:place] + random.choice("'\"`\\%_()0aé\n\x00") + token[place + 1 :]


@pytest.mark.parametrize("condition", [None, 5, b"x = 1", ["x = 1"], {"x": 1}, object()])
def test_what_is_no_text_is_a_parse_error(condition: Any) -> None:
    with pytest.raises(ParseError):
        Filter.parse(condition)


@given(st.text(max_size=30))
def test_any_zone_is_a_zone_or_a_parse_error(zone: str) -> None:
    try:
        Filter.parse("ts > TIMESTAMP'2024-01-01 00:00:00' AND hour(ts) = 3", timezone=zone).matches({"ts": 5})
    except ParseError as error:
        assert error.reason
