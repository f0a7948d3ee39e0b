"""The tokens of a condition, where they stand, and the characters that make none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio.errors import ParseError
from palio.languages.grammar import MAX_TEXT_CHARACTERS, Token
from palio.languages.sql.lexer import tokenize


def tokens(text: str) -> list[str]:
    """The texts of all tokens but the END."""
    return [text[start:end] for _, _, start, end in tokenize(text)[:-1]]


def attempt(text: str) -> list[Token] | ParseError:
    """The tokens of a text, or why it has none."""
    try:
        return tokenize(text)
    except ParseError as error:
        return error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", "a|=|1"),
        ("a<=b<=>c<>d!=e!>f!<g==h", "a|<=|b|<=>|c|<>|d|!=|e|!>|f|!<|g|==|h"),
        ("a::b:c", "a|::|b|:|c"),
        ("a->b=>c", "a|->|b|=>|c"),
        ("a<<b>>c>>>d", "a|<<|b|>>|c|>>>|d"),
        ("x[0].y(*)", "x|[|0|]|.|y|(|*|)"),
        ("1 1L 1S 1Y 1D 1F 1BD 1l 1bd", "1|1L|1S|1Y|1D|1F|1BD|1l|1bd"),
        ("1.5 .5 5. 1e5 1.e5 .5E-5 1.5e+5 1e5BD 1.5d", "1.5|.5|5.|1e5|1.e5|.5E-5|1.5e+5|1e5BD|1.5d"),
        ("1a 1e5x 1_0 12abc 1d2", "1a|1e5x|1_0|12abc|1d2"),
        ("1e+5x", "1e+5|x"),
        ("1.5abc", "1|.|5abc"),
        ("1.5e", "1|.|5e"),
        ("a.1", "a|.1"),
        ("a.1b", "a|.|1b"),
        ("1..2", "1.|.2"),
        ("'a' 'it''s' 'a\\'b' '\\\\'", "'a'|'it''s'|'a\\'b'|'\\\\'"),
        ('"a" "b""c" "\\""', '"a"|"b""c"|"\\""'),
        ("r'\\' R\"\\\" r'a''b'", "r'\\'|R\"\\\"|r'a'|'b'"),
        ("ar'b' r 'b'", "ar|'b'|r|'b'"),
        ("`a` `b``c` ``", "`a`|`b``c`|``"),
        ("a -- b\n c", "a|c"),
        ("a -- b \\\n still\n c", "a|c"),
        ("a -- b \\\r\n c", "a|c"),
        ("a -- b\rc", "a|c"),
        ("a--", "a"),
        ("a - -b", "a|-|-|b"),
        ("a /* b */ c", "a|c"),
        ("a/**/b/***/c", "a|b|c"),
        ("a /* b /* c */ d */ e", "a|e"),
        ("a /*/ b */ c", "a|c"),
        ("a /* /*+ */ c", "a|c"),
        ("a /* ' */ b '/*' c", "a|b|'/*'|c"),
        ("a -- /*\n b", "a|b"),
        ("/* -- */ a", "a"),
        ("`/*` a /* ` */ b", "`/*`|a|b"),
        ("br'/*' a", "br|'/*'|a"),
        ("a\t\n\f\r\v\xa0\u1680\u2000\u200a\u2028\u202f\u205f\u3000b", "a|b"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_text_is_cut_where_spark_cuts_it(text: str, expected: str) -> None:
    assert tokens(text) == (expected.split("|") if expected else [])


def test_signs_with_bars_are_cut_there_too() -> None:
    assert tokens("a||b|c|>d") == ["a", "||", "b", "|", "c", "|>", "d"]


def test_a_words_key_is_the_word_in_lower_case_and_others_share_one() -> None:
    assert [key for _, key, _, _ in tokenize("aND 1.5 'x' `Y` <=>")] == ["and", "0", "'", "`", "<=>", ""]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("a = 'x", 4, "this text is never closed"),
        ("a = 'x\\'", 4, "this text is never closed"),
        ('a = "x', 4, "this text is never closed"),
        ("r'x", 1, "this text is never closed"),
        ("`a", 0, "this name is never closed"),
        ("a /* b", 2, "this comment is never closed"),
        ("a /* /* */", 2, "this comment is never closed"),
        ("/* */ 'x", 6, "this text is never closed"),
        ("a /*+ b */", 2, "hints"),
        ("$a", 0, "there are no parameters"),
        ("a = “x”", 4, "a typographic quotation mark"),
        ("a \x00 b", 2, "the character U+0000"),
        ("a \x1c b", 2, "the character U+001C"),
        ("a \ufeff b", 2, "the character U+FEFF"),
        ("a \u200b b", 2, "the character U+200B"),
        ("a # b", 2, "the character '#'"),
        ("größe = 1", 0, "the name größe needs back-quotes"),
        ("a = 1é", 4, "the name 1é needs back-quotes"),
        ("a = '\ud800'", 5, "half a character (the surrogate U+D800)"),
        ("\udfff", 0, "half a character (the surrogate U+DFFF)"),
    ],
)
def test_what_is_no_token_is_refused_where_it_stands(text: str, position: int, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        tokenize(text)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position


def test_texts_and_quoted_names_may_have_any_character() -> None:
    assert tokens("'a\x00\n😀' `b\x00\n😀`") == ["'a\x00\n😀'", "`b\x00\n😀`"]


def test_a_longer_text_than_allowed_is_refused_before_it_is_looked_at() -> None:
    assert len(tokenize(" " * MAX_TEXT_CHARACTERS)) == 1
    with pytest.raises(ParseError, match="more than the 2,000,000 allowed"):
        tokenize("'" * (MAX_TEXT_CHARACTERS + 1))


@pytest.mark.parametrize("piece", ["'", '"', "`", "\\'", "/*", "*/", "--", "1", "1.", "r'", "/* */'\\", "-", "1e"])
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    """A megabyte in some tenths of a second: going back over it once per token would take hours."""
    assert attempt(piece * (1_000_000 // len(piece)))


@given(st.text(st.sampled_from("ab1.eE+-'\"`\\/*r \n<>=!|&:;$é\x00"), max_size=40) | st.text(max_size=40))
@example("/*'*/")
def test_tokens_stand_in_order_and_between_them_are_only_blanks_and_comments(text: str) -> None:
    found = attempt(text)
    if isinstance(found, ParseError):
        assert 0 <= found.position <= len(text)
        return
    position = 0
    for _, _, start, end in found:
        between = text[position:start]
        assert position <= start
        assert not between.strip() or "--" in between or "/*" in between
        position = end
    assert position == len(text)
