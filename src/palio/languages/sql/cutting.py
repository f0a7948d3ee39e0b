"""A condition's *shape*: its text with every literal cut out and its kind left in its place.

Blanks and the case of words stay as they are. Cutting is done where the lexer would: a literal that stands inside a
name, a comment or another literal makes a shape whose literals the lexer does not find, and that has no template.

Two conditions of one shape are cut into the same tokens, because no kind of literal here can reach beyond its own
characters, whatever they are: a string ends at its quote, a number where something else than a letter, a digit or
a point follows. So what the parser says of the first holds for all.
"""

from __future__ import annotations

import re
from typing import Final

from palio.languages.sql.templates import DECIMAL, DOUBLE, INTEGER, STRING, Cut

MARKS: Final = (INTEGER, DECIMAL, DOUBLE, STRING)

LONGEST: Final = 20_000
"""Characters of a condition that is looked at for its shape."""
LONGEST_INTEGER: Final = 18

# Possessive throughout, and a group nowhere repeated so, as in the lexer.
LITERAL: Final = re.compile(
    r"""('[^'\\]*+(?:''[^'\\]*+)*'(?!')|"[^"\\]*+(?:""[^"\\]*+)*"(?!")"""
    r"""|(?<![\w.])[0-9]++(?:\.[0-9]++)?(?:[dD]|[eE][+-]?[0-9]++)?(?![\w.]))"""
)


def cut(text: str) -> tuple[str, list[str]] | None:
    """The shape of a condition and the literals that were cut out of it; None where it has no use."""
    if len(text) > LONGEST:
        return None
    pieces = LITERAL.split(text)
    if any(mark in text for mark in MARKS) and any(mark in gap for gap in pieces[::2] for mark in MARKS):
        return None  # it has what stands for a literal in a shape
    literals = pieces[1::2]
    for at, literal in enumerate(literals):
        kind = literal[0]
        if kind == "'" or kind == '"':
            kind = STRING
        elif literal.isdigit():
            if len(literal) > LONGEST_INTEGER:
                return None
            kind = INTEGER
        else:
            kind = DOUBLE if literal[-1] in "dD" or "e" in literal or "E" in literal else DECIMAL
        pieces[2 * at + 1] = kind
    shape = "".join(pieces)
    # A backslash changes where a string ends, and a comment what is one at all.
    return None if "\\" in shape or "--" in shape or "/*" in shape else (shape, literals)


def find_literals(text: str) -> list[Cut]:
    """The kind, begin and end of every literal that is cut out."""
    found = cut(text)
    kinds = [mark for mark in found[0] if mark in MARKS] if found else []
    spans = [each.span() for each in LITERAL.finditer(text)]
    return [(kind, *span) for kind, span in zip(kinds, spans, strict=True)] if len(kinds) == len(spans) else []
