"""Expressions with one skeleton differ in literal characters alone, and their outlines differ in nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters import regex
from palio.filters.regex import Regex
from palio.filters.regex_outline import outline
from palio.filters.regex_parser import Alternation, CapturingGroup, Characters, Node, Repeat, Sequence, parse
from palio.filters.regex_skeleton import split_literals
from tests.filters.test_position_automaton import expressions


def _filled(node: Node, literals: str, placeholders: range) -> Node:
    """A tree with its placeholders replaced."""
    match node:
        case Characters(((low, high),)) if low == high and low in placeholders:
            code = ord(literals[low - placeholders.start])
            return Characters(((code, code),))
        case Sequence(parts):
            return Sequence(tuple(_filled(part, literals, placeholders) for part in parts))
        case Alternation(options):
            return Alternation(tuple(_filled(option, literals, placeholders) for option in options))
        case Repeat(body, least, most, is_reluctant):
            return Repeat(_filled(body, literals, placeholders), least, most, is_reluctant)
        case CapturingGroup(body, number):
            return CapturingGroup(_filled(body, literals, placeholders), number)
    return node


NOTATIONS = (
    r"a é 日 - ] \] \. \\ [ab] [^\]x] [\\] [a\-z] \d \b ^ $ . ( ) (?: (?i) (?<n> | * +? {2} {1,} {1,2}? { } \Q \E \x41 "
    r"\x{100001} \u0041 \p{Lower} [\x{100000}] \t \z && , 1 \Q[\E"
).split()
notations = st.sampled_from([*NOTATIONS, "\U00100000", "[\U00100000]", "\n", " "])
written = st.one_of(expressions, st.lists(notations, max_size=8).map("".join))


@given(written)
def test_a_filled_skeleton_parses_to_the_tree_of_the_expression(text: str) -> None:
    try:
        expected = parse(text)
    except ValueError:
        return
    skeleton, literals = split_literals(text)
    assert len(literals) == len(skeleton.placeholders)
    assert _filled(parse(skeleton.text), literals, skeleton.placeholders) == expected


@pytest.mark.parametrize(
    ("text", "skeleton", "literals"),
    [
        ("^ab[a-m]+c", "^01[a-m]+2", "abc"),
        (r"a\.b{2}(?:c|d)", r"0\.1{2}(?:2|3)", "abcd"),
        ("日本.*", "01.*", "日本"),
        ("(?i)ab", "(?i)ab", ""),
        (r"\Qa.b\E", r"\Qa.b\E", ""),
        (r"\x41b", r"\x41b", ""),
        ("a\U00100000", "a\U00100000", ""),
    ],
)
def test_literal_characters_are_split_off(text: str, skeleton: str, literals: str) -> None:
    found, characters = split_literals(text)
    named = found.text.translate({point: str(number) for number, point in enumerate(found.placeholders)})
    assert (named, characters) == (skeleton, literals)


def test_expressions_of_one_form_have_one_skeleton() -> None:
    forms = {split_literals(text)[0] for text in ("^ab[a-m]+c", "^xy[a-m]+z", "^日本[a-m]+.".replace(".", "語"))}
    assert len(forms) == 1
    (skeleton,) = forms
    assert outline(skeleton.text).automaton is not None


def _is_accepted(text: str) -> bool:
    try:
        Regex.compile(text)
    except ValueError:
        return False
    return True


@given(written, st.data())
def test_an_expression_is_accepted_whether_one_of_its_skeleton_was_before_or_not(
    expression: str, data: st.DataObject
) -> None:
    skeleton, literals = split_literals(expression)
    replaced = data.draw(st.text("az-&,:=!#1 \t\n", min_size=len(literals), max_size=len(literals)))
    other = skeleton.text.translate(dict(zip(skeleton.placeholders, replaced, strict=True)))
    regex._accepted.clear()
    alone = _is_accepted(other)
    regex._accepted.clear()
    _is_accepted(expression)
    assert _is_accepted(other) is alone


@given(written)
def test_the_longest_text_that_must_occur_is_that_of_the_whole_expression(expression: str) -> None:
    try:
        node = parse(expression)
    except ValueError:
        return
    assert Regex(expression).required == max(regex._required(node), key=len, default="")
