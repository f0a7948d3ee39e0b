"""Which words, numbers, texts and signs does an expression consist of, and where do they stand? (§2)

A word is of letters, digits and underscores; a word of digits alone is a number. A text stands in single or double
quotes; a backslash takes the character behind it into the text, so that a quote may be part of it, and is itself a
character of the text unless that quote is behind it. Time is linear in the length.
"""

from __future__ import annotations

import re
from typing import Final

from palio.errors import ParseError
from palio.languages.sql.lexer import END, LONGEST, NUMBER, SIGN, TEXT, WORD, Token

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*+(?:
      ( [A-Za-z0-9_]++ )
    | ( <> | <= | >= | != | [-=<>+*/%(),] )
    | ( '[^'\\]*+(?:\\.[^'\\]*+)*' | "[^"\\]*+(?:\\.[^"\\]*+)*" )
    | ( . )
    )?""",
    re.VERBOSE | re.DOTALL,
)
_WORD, _SIGN, _TEXT, _STRAY = 1, 2, 3, 4


def tokenize(text: str) -> list[Token]:
    """All tokens of an expression, an END last."""
    if len(text) > LONGEST:
        reason = f"the expression has {len(text):,} characters, more than the {LONGEST:,} allowed"
        raise ParseError(text, LONGEST, reason, "split it into several subscriptions")
    if not text.isascii():
        _refuse_surrogates(text)
    tokens: list[Token] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastindex
        if kind is None:
            break
        start, end = found.span(kind)
        if kind == _WORD:
            word = found[1]
            tokens.append((NUMBER if word.isdigit() else WORD, word.lower(), start, end))
        elif kind == _SIGN:
            tokens.append((SIGN, found[2], start, end))
        elif kind == _TEXT:
            tokens.append((TEXT, "'", start, end))
        else:
            _refuse(text, start)
    tokens.append((END, "", len(text), len(text)))
    return tokens


def unquote(text: str) -> str:
    """What a text in quotes says: the quotes taken off, and the backslash before each that is part of it."""
    quote = text[0]
    return re.sub(rf"\\(\\|{quote})", lambda found: found[0] if found[1] == "\\" else quote, text[1:-1])


_HINTS: Final = {
    "'": ("this text is never closed", "end it with ', and write a ' inside it as \\'"),
    '"': ("this text is never closed", 'end it with ", and write a " inside it as \\"'),
    "!": ("! stands only in !=", "the opposite of a condition is written NOT"),
    "`": ("names have no quotes", "a CloudEvents attribute is of lower-case letters and digits"),
    ".": ("there are no fractions and no dotted names", "a CloudEvents attribute is of lower-case letters and digits"),
    "“": ("a typographic quotation mark", "texts stand in ' or \""),
    "”": ("a typographic quotation mark", "texts stand in ' or \""),
    "‘": ("a typographic quotation mark", "texts stand in ' or \""),
    "’": ("a typographic quotation mark", "texts stand in ' or \""),
}


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"half a character (the surrogate U+{ord(text[error.start]):04X})"
        raise ParseError(text, error.start, reason, "the text was damaged before it came here") from None


def _refuse(text: str, at: int) -> None:
    character = text[at]
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    reason, hint = _HINTS.get(character, (f"the character {shown} has no meaning here", None))
    raise ParseError(text, at, reason, hint)
