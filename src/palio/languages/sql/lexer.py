"""Which words, numbers, texts and signs does a condition consist of, and where do they stand?

One regular expression cuts the text into tokens exactly where Spark's lexer does, also in the corners: a name
may begin with a digit (`1a`), `1e5` is a number and `1e5x` a name, `!>` is `<=`, a backslash at the end of a
`--` comment continues it, and bracketed comments nest. Every repetition in it is possessive, so that no text
makes it go back; time is linear in the length.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from palio.errors import ParseError

# The kinds of token. A word's key is the word in lower case, a sign's is the sign; the others share one each.
WORD: Final = 1
NUMBER: Final = 2
SIGN: Final = 3
TEXT: Final = 4
QUOTED: Final = 5
END: Final = 6

Token: TypeAlias = tuple[int, str, int, int]  # kind, key, start, end

LONGEST: Final = 2_000_000
"""Characters in a condition; a longer one is refused before it is looked at."""

_BLANK = r"[ \t\n\f\r\v\xA0\u1680\u2000-\u200A\u2028\u202F\u205F\u3000]"
# A group is nowhere repeated possessively: Python 3.11 before 3.11.5 gets that wrong. Where a doubled quote could be
# given back as the end of a text, a look ahead says no.
_TEXT = r"""
    '[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*'(?!') | "[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*"(?!") | [rR]'[^']*+' | [rR]"[^"]*+"
    """
_LINE_COMMENT = r"--[^\r\n\\]*+(?:\\\n?[^\r\n\\]*+)*"
_TOKEN = re.compile(
    rf"""{_BLANK}*+(?:
      ( (?![rR]['"]) [^\W\d]\w*+ )
    | ( (?: [0-9]++\.[0-9]*+ | \.[0-9]++ ) (?:[eE][+-]?[0-9]++)? (?:[bB][dD]|[dDfF])? (?![A-Za-z0-9_])
      | [0-9]++[eE][+-][0-9]++ (?:[bB][dD]|[dDfF])?
      | [0-9]++ (?:[eE][0-9]++)? (?:[bB][dD]|[dDfF])? (?!\w)
      | [0-9]++ [lLsSyY] (?!\w) )
    | ( <=> | <> | <= | << | >= | >>> | >> | == | => | != | !> | !< | \|\| | \|> | :: | ->
      | [-=<>!+*/%~&|^(),.;:?\[\]] ) (?<! -(?=-) ) (?<! /(?=\*) )
    | ( {_TEXT} )
    | ( `[^`]*+(?:``[^`]*+)*`(?!`) )
    | ( \w++ )
    | ( {_LINE_COMMENT} )
    | ( . )
    )?""",
    re.VERBOSE | re.DOTALL,
)
_NUMBERED_NAME: Final = 6
_COMMENT: Final = 7


def tokenize(text: str) -> list[Token]:
    """All tokens of a condition, an END last."""
    check_text(text)
    source = _without_bracketed_comments(text) if "/*" in text else text
    tokens: list[Token] = []
    append = tokens.append
    for found in _TOKEN.finditer(source):
        kind = found.lastindex
        if kind == WORD:
            word = found[1]
            start, end = found.span(1)
            if not word.isascii():
                _refuse_name(text, start, word)
            append((WORD, word.lower(), start, end))
        elif kind == SIGN:
            start, end = found.span(3)
            append((SIGN, found[3], start, end))
        elif kind is None:
            break
        elif kind < _NUMBERED_NAME:
            start, end = found.span(kind)
            append((kind, _KEYS[kind], start, end))
        elif kind == _NUMBERED_NAME:
            word = found[6]
            start, end = found.span(6)
            if not word.isascii():
                _refuse_name(text, start, word)
            append((WORD, word.lower(), start, end))
        elif kind != _COMMENT:
            _refuse_character(text, found.start(kind))
    append((END, "", len(text), len(text)))
    return tokens


_KEYS: Final = ["", "", "0", "", "'", "`"]

_COMMENTED = re.compile(
    rf"{_TEXT} | `[^`]*+` | \w++ | {_LINE_COMMENT} | (/\*(?!\+)) | (['\"`])", re.VERBOSE | re.DOTALL
)
_BRACKET = re.compile(r"/\*(?!\+)|\*/")


def _without_bracketed_comments(text: str) -> str:
    """The text with blanks in place of bracketed comments, so that every position stays what it was.

    They nest, which no regular expression can follow; conditions without any do not pay for it.
    """
    pieces = []
    done = at = 0
    while found := _COMMENTED.search(text, at):
        at = found.end()
        if found.lastindex == 2:
            break  # a text that nobody closes; the tokens say so better
        if found.lastindex == 1:
            start = found.start()
            at = _end_of_comment(text, start)
            pieces += [text[done:start], " " * (at - start)]
            done = at
    return "".join([*pieces, text[done:]])


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "/*" else -1
        if not depth:
            return bracket.end()
    raise ParseError(text, start, "this comment is never closed", "comments nest: every /* needs its own */")


def check_text(text: str) -> None:
    """Refuse a condition that is too long to look at, or that no event's text could be compared with."""
    if len(text) > LONGEST:
        reason = f"the condition has {len(text):,} characters, more than the {LONGEST:,} allowed"
        raise ParseError(text, LONGEST, reason, "split it into several subscriptions")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"half a character (the surrogate U+{ord(text[error.start]):04X})"
        raise ParseError(text, error.start, reason, "the text was damaged before it came here") from None


def _refuse_name(text: str, start: int, word: str) -> None:
    reason = f"the name {word} needs back-quotes: without them a name has only the letters a to z, digits and _"
    raise ParseError(text, start, reason, f"write `{word}`")


_STRAY = {
    "'": ("this text is never closed", "end it with ', and write a ' inside it as ''"),
    '"': ("this text is never closed", 'end it with ", and write a " inside it as ""'),
    "`": ("this name is never closed", "end it with `, and write a ` inside it as ``"),
    "/": ("hints are not part of a condition", "leave out everything from /*+ to */"),
    "$": ("there are no parameters in a condition", "write the value itself"),
    "@": ("there are no variables in a condition", "write the value itself, or a name in back-quotes"),
    "“": ("a typographic quotation mark", "texts stand in ' or \""),
    "”": ("a typographic quotation mark", "texts stand in ' or \""),
    "‘": ("a typographic quotation mark", "texts stand in ' or \""),
    "’": ("a typographic quotation mark", "texts stand in ' or \""),
}


def _refuse_character(text: str, at: int) -> None:
    character = text[at]
    if character in _STRAY:
        reason, hint = _STRAY[character]
        raise ParseError(text, at, reason, hint)
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    raise ParseError(text, at, f"the character {shown} has no meaning here", "a name that has it needs back-quotes")
