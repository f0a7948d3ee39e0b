"""Tokens of XPath expressions and the cursor over them.

`palio.languages.grammar` has the cursor of the other languages; it stands above the filters that use patterns, and its
tokens are those of SQL.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from palio.errors import ParseError

MAX_TOKENS: Final = 4_000
MAX_NESTED_BRACKETS: Final = 40

NAME: Final = r"[^\W\d][\w.\-\u00b7]*"
"""A name without colon, as a regular expression."""
NAME_OF_PREFIX_HINT: Final = 'bind it: declare namespace {} = "…"; before the path, or the option namespaces'
_TOKEN: Final = re.compile(
    rf"""\s+
    |(?P<text>"[^"]*"|'[^']*')
    |(?P<number>\d+(?:\.\d*)?|\.\d+)
    |(?P<axis>{NAME}(?=\s*::))
    |(?P<name>{NAME}(?::(?:{NAME}|\*))?)
    |(?P<sign>::|//|\.\.|!=|<=|>=|[/.@()\[\],|=<>+\-*$;])""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word or sign; its kind is text, number, axis, name, sign or end."""

    kind: str
    text: str
    start: int


class TokenCursor:
    """The tokens of an expression, the position in them, and how many brackets are open."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.tokens = _tokens(text, start)
        self.at = 0
        self.brackets = 0

    def peek(self, ahead: int = 0) -> Token:
        # Every reader stops at the last token, which is the end; only what is ahead may be behind it.
        return self.tokens[self.at + ahead if self.at + ahead < len(self.tokens) else -1]

    def is_sign(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind == "sign"

    def is_word(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind == "name"

    def enter(self, bracket: Token) -> None:
        """Consume an opening bracket."""
        self.at += 1
        self.brackets += 1
        if self.brackets > MAX_NESTED_BRACKETS:
            raise self.error_at(bracket, f"brackets nest more than {MAX_NESTED_BRACKETS} levels deep")

    def close(self, sign: str, opening: Token) -> None:
        """Consume the bracket that closes something."""
        if not self.is_sign(sign):
            if self.peek().kind == "end":
                raise self.error_at(opening, f"this is never closed: {sign} is missing")
            raise self.unexpected()
        self.at += 1
        self.brackets -= 1

    def error(self, reason: str, hint: str | None = None) -> ParseError:
        """An error at the next token."""
        return self.error_at(self.peek(), reason, hint)

    def error_at(self, token: Token, reason: str, hint: str | None = None) -> ParseError:
        return ParseError(self.text, token.start, reason, hint)

    def unexpected(self, expected: str = "the end, an operator or a bracket") -> ParseError:
        token = self.peek()
        shown = "the end" if token.kind == "end" else token.text[:40]
        return self.error(f"{expected} is expected; here is {shown}")


def _tokens(text: str, start: int) -> list[Token]:
    """The tokens of an expression, the last one of the kind "end"."""
    tokens: list[Token] = []
    position = start
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            _refuse_character(text, position)
        if found.lastgroup is not None:
            tokens.append(Token(found.lastgroup, found.group(), position))
            if len(tokens) > MAX_TOKENS:
                raise ParseError(text, position, f"the XPath has more than {MAX_TOKENS:,} words and signs")
        position = found.end()
    return [*tokens, Token("end", "", len(text))]


def _refuse_character(text: str, position: int) -> NoReturn:
    character = text[position]
    if character in "\"'":
        raise ParseError(text, position, "the text is never closed", f"a {character} is missing")
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    hint = "XPath takes ' and \" as quotation marks" if character in "“”‘’" else None
    raise ParseError(text, position, f"the character {shown} has no meaning here", hint)
