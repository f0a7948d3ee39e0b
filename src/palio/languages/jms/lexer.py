"""Which words, numbers, texts and signs does a selector consist of, and where do they stand?

The kinds of token are those of SQL's lexer, so that both languages share a cursor; the key of a word is the word
in small letters where it is reserved, and empty where it is a name.

The specification knows no comments; ActiveMQ and what came of it skip `/* … */`, and `--` with the rest of its line
where a line end follows. Where none does, `--` is two minus signs, here only directly before a number: `--1.0 = 1.0`.
What one reader would take for a comment and another for arithmetic is refused.
"""

from __future__ import annotations

import re
from typing import Final

from palio.errors import ParseError
from palio.languages.jms.identifiers import RESERVED, first_foreign_character
from palio.languages.jms.numerals import NUMERAL
from palio.languages.sql.lexer import END, NUMBER, QUOTED, SIGN, TEXT, WORD, Token, check_text

HYPHENATED: Final = "hyphenated_props:"
"""What a selector for Artemis begins with where its names may have hyphens."""

_PREFIXES: Final = (HYPHENATED, "no_hyphenated_props:", "no_convert_string_expressions:")
_CONVERTING: Final = "convert_string_expressions:"

_LINE_COMMENT: Final = 6
_BLOCK_COMMENT: Final = 7
_NO_NUMERAL: Final = 8
# A quote that is not doubled ends a text; where a doubled one could be given back, a look ahead says no. Behind a
# number a word may stand without a blank, but only where it goes on with the condition: `a = 1AND b = 2`.
_FORM: Final = r"""[ \t\n\r\f]*+(?:
      ( [A-Za-z_$\x80-\U0010ffff] [A-Za-z0-9_$\x80-\U0010ffff%s]*+ )
    | ( NUMERAL ) (?: (?![\w$.]) | (?=(?i:and|or|not|between|like|in|is|escape)(?![\w$])) )
    | (?!--|/\*) ( <> | <= | >= | [-=<>+*/%%(),.] ) (?<!\.(?=[0-9]))
    | ( '[^']*+(?:''[^']*+)*'(?!') )
    | ( "[^"]*+(?:""[^"]*+)*"(?!") )
    | ( -- )
    | ( /\* )
    | ( \.?[0-9][\w$.]*+ )
    | ( . )
    )?"""
_TOKEN: Final = re.compile((_FORM % "").replace("NUMERAL", NUMERAL), re.VERBOSE | re.DOTALL)
_HYPHENATED_TOKEN: Final = re.compile((_FORM % "-").replace("NUMERAL", NUMERAL), re.VERBOSE | re.DOTALL)
_KEYS: Final = {NUMBER: "0", TEXT: "'", QUOTED: '"'}
_LINE_END: Final = re.compile(r"[\r\n]")


def tokenize(text: str) -> list[Token]:
    """All tokens of a selector, an END last."""
    check_text(text)
    at, hyphenated = _start(text)
    match_token = (_HYPHENATED_TOKEN if hyphenated else _TOKEN).match
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    tokens: list[Token] = []
    while True:
        found = match_token(text, at)
        assert found is not None  # it may be empty
        kind = found.lastindex
        if kind is None:
            tokens.append((END, "", len(text), len(text)))
            return tokens
        start, at = found.span(kind)
        if kind == WORD:
            tokens.append((WORD, _word_key(text, start, found[1]), start, at))
        elif kind == SIGN:
            tokens.append((SIGN, found[3], start, at))
        elif kind <= QUOTED:
            tokens.append((kind, _KEYS[kind], start, at))
        elif kind == _LINE_COMMENT and _is_comment(text, at, start < last_line_end):
            line_end = _LINE_END.search(text, at)
            assert line_end is not None  # there is one further on
            at = line_end.end()
        elif kind == _LINE_COMMENT:
            tokens += [(SIGN, "-", start, start + 1), (SIGN, "-", start + 1, at)]
        elif kind == _BLOCK_COMMENT:
            at = _end_of_comment(text, start)
        elif kind == _NO_NUMERAL:
            _refuse_numeral(text, start, found[kind])
        else:
            _refuse_character(text, start)


def _start(text: str) -> tuple[int, bool]:
    """Where the selector begins, behind what Artemis puts before it, and whether its names have hyphens."""
    at = 0
    hyphenated = False
    while True:
        if text.startswith(_CONVERTING, at):
            reason = "texts are not read as numbers here: a text and a number are never equal"
            raise ParseError(text, at, reason, "leave out convert_string_expressions: and send numbers as numbers")
        prefix = next((each for each in _PREFIXES if text.startswith(each, at)), None)
        if prefix is None:
            return at, hyphenated
        hyphenated = prefix == HYPHENATED if "hyphenated" in prefix else hyphenated
        at += len(prefix)


def _word_key(text: str, start: int, word: str) -> str:
    if word.isascii():
        small = word.lower()
        return small if small in RESERVED else ""
    strange = first_foreign_character(word)
    if strange is not None:
        _refuse_character(text, start + strange)
    return ""


def _is_comment(text: str, at: int, line_ends: bool) -> bool:
    """Whether what stands behind -- is a comment, and not a number with two signs."""
    is_number = text[at : at + 1].isdigit() or text[at : at + 1] == "."
    if is_number is line_ends:
        reason = "-- may begin a comment here or be two minus signs" if is_number else "this comment never ends"
        hint = "write - - for two signs; a comment that begins with -- has a blank behind it and a line end"
        raise ParseError(text, at - 2, reason, hint)
    return line_ends


def _end_of_comment(text: str, start: int) -> int:
    end = text.find("*/", start + 2)
    if end < 0:
        raise ParseError(text, start, "this comment is never closed", "end it with */")
    return end + 2


def _refuse_numeral(text: str, start: int, found: str) -> None:
    shown = found if len(found) <= 40 else f"{found[:40]}…"
    hint = "a name begins with a letter, _ or $; any other stands in quotes"
    raise ParseError(text, start, f"{shown} is neither a number nor a name", hint)


_STRAY: Final = {
    "'": ("this text is never closed", "end it with ', and write a ' inside it as ''"),
    '"': ("this name is never closed", 'end it with ", and write a " inside it as ""'),
    "`": ("names stand in double quotes, not in back-quotes", 'write "a-b"'),
    "!": ("there is no sign !", "'differs from' is written <>, and negation NOT"),
    "&": ("there is no sign &", "'and' is written AND"),
    "|": ("there is no sign |", "'or' is written OR"),
    "[": ("there are no square brackets in a selector", 'a name with other characters stands in quotes: "a-b"'),
    "?": ("there are no parameters in a selector", "write the value itself"),
    ":": ("there are no parameters in a selector", 'write the value itself; a name with a colon in quotes: "a:b"'),
    ";": ("a selector is one condition", "leave the semicolon out"),
    "“": ("a typographic quotation mark", "texts stand in ', names in \""),
    "”": ("a typographic quotation mark", "texts stand in ', names in \""),
    "‘": ("a typographic quotation mark", "texts stand in ', names in \""),
    "’": ("a typographic quotation mark", "texts stand in ', names in \""),
}


def _refuse_character(text: str, at: int) -> None:
    character = text[at]
    if character in _STRAY:
        raise ParseError(text, at, *_STRAY[character])
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    raise ParseError(text, at, f"the character {shown} has no meaning here", 'a name that has it stands in quotes: "…"')
