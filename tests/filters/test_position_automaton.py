"""A position automaton finds what RE2 finds; literals that an outline names occur in every match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.position_automaton import (
    AT_END,
    AT_START,
    AT_VERY_END,
    MAX_POSITIONS,
    PositionAutomaton,
    Transitions,
)
from palio.filters.regex import Regex
from palio.filters.regex_outline import outline
from palio.filters.regex_parser import TERMINATORS, parse

LETTERS = "abAB1_ -\n\r\x85\u2028éK\u212a日\U0001f600"
texts = st.text(st.sampled_from(LETTERS), max_size=8)

_atoms = st.sampled_from(
    [
        "a",
        "b",
        "A",
        "1",
        "é",
        "日",
        ".",
        "[ab]",
        "[^a]",
        r"\w",
        r"\d",
        r"\s",
        "[^\\n]",
        "(?i:ab)",
        "ab",
        r"\b",
        "^",
        "$",
        r"\z",
    ]
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"({'|'.join(options)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    )


def _is_accepted(text: str) -> bool:
    try:
        Regex.compile(text)
    except ValueError:
        return False
    return True


expressions = st.recursive(_atoms, _compound, max_leaves=8).filter(_is_accepted)


def is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def finds(automaton: PositionAutomaton, text: str) -> bool:
    """The automaton run on a text in the plainest way: the specification of the kernel."""
    ending = 2 if text.endswith("\r\n") else 1
    shortened = len(text) - ending if text and text[-1] in TERMINATORS else -1
    active = 0
    for place in range(len(text) + 1):
        around = [is_word(text[at]) if 0 <= at < len(text) else False for at in (place - 1, place)]
        is_boundary = around[0] != around[1]
        here: Transitions = automaton.at_boundaries if is_boundary and automaton.at_boundaries else automaton.elsewhere
        conditions = AT_START * (place == 0) | AT_VERY_END * (place == len(text))
        conditions |= AT_END * (place in (shortened, len(text)))
        last = here.last_at_very_end if conditions & AT_VERY_END else here.last_at_end if conditions else here.last
        if conditions == AT_START:
            last = here.last
        if active & last or here.empty >> conditions & 1:
            return True
        if place == len(text):
            break
        wanted = here.first_at_start if place == 0 else here.first
        for position, follow in enumerate(here.follow):
            wanted |= follow if active >> position & 1 else 0
        point = ord(text[place])
        active = sum(
            1 << position
            for position, ranges in enumerate(automaton.characters)
            if wanted >> position & 1 and any(low <= point <= high for low, high in ranges)
        )
    return False


@given(expressions, st.lists(texts, min_size=1, max_size=10))
def test_an_automaton_finds_what_the_expression_finds(expression: str, values: list[str]) -> None:
    regex = Regex.compile(expression)
    automaton = outline(expression).automaton
    assert automaton is not None
    for value in values:
        assert finds(automaton, value) == regex.search(value), value


@given(expressions, st.lists(texts, min_size=1, max_size=10))
def test_every_match_has_a_literal_of_each_clause(expression: str, values: list[str]) -> None:
    regex = Regex.compile(expression)
    for value in values:
        if regex.search(value):
            lowered = value.encode().lower().decode()
            for clause in outline(expression).clauses:
                assert any(lowered.startswith(text) if at_start else text in lowered for text, at_start in clause), (
                    value,
                    clause,
                )


@pytest.mark.parametrize(
    ("expression", "clauses"),
    [
        ("^ab[a-m]+c", [[("ab", True)], [("c", False)]]),
        ("(?i)MimiKatz", [[("mimikatz", False)]]),
        ("(foo|^bars?)[xy]baz", [[("foo", False), ("bar", True)], [("baz", False)]]),
        ("foo|[xy]", []),
        ("(a)(b)c*d", [[("ab", False)], [("d", False)]]),
    ],
)
def test_clauses(expression: str, clauses: list[list[tuple[str, bool]]]) -> None:
    assert [list(map(tuple, clause)) for clause in outline(expression).clauses] == clauses


def test_long_expressions_and_places_within_words_are_left_to_re2() -> None:
    assert PositionAutomaton.of(parse(f"[ab]{{{MAX_POSITIONS}}}")) is not None
    assert PositionAutomaton.of(parse(f"[ab]{{{MAX_POSITIONS + 1}}}")) is None
    assert PositionAutomaton.of(parse(r"a\Bb")) is None


def test_an_automaton_tells_how_every_match_begins() -> None:
    def of(text: str) -> PositionAutomaton:
        found = PositionAutomaton.of(parse(text))
        assert found is not None
        return found

    assert of("^a|^b").begins_at_start
    assert not of("^a|b").begins_at_start
    assert not of("^a|$").begins_at_start
    assert of("ab+").first_characters == (ord("a"), ord("a"))
    assert of("(?i)ab").first_characters == (ord("A"), ord("a"))
    assert of("[a-c]").first_characters is None
    assert of("a*").first_characters is None
