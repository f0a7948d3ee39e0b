"""Skeletons of conditions: their texts with the literals cut out, and their splits into conjuncts.

Conditions of one skeleton differ in their literals alone, and have one template (`templates`). Both splits are made
without parsing: literals are cut where the lexer cuts, and conjunctions where no parser would split elsewhere. A text
about which that is not certain has no skeleton, or one conjunct.
"""

from __future__ import annotations

import re
from typing import Final

from palio.events.values import MAX_INT64
from palio.languages.sql.template_builder import LiteralSpan
from palio.languages.sql.template_parameters import DECIMAL, DOUBLE, INTEGER, LIST, STRING

LITERAL_MARKS: Final = (INTEGER, DECIMAL, DOUBLE, STRING)
_STRING_BEGINNINGS: Final = frozenset("'\"rR")

MAX_TEMPLATE_CHARACTERS: Final = 1_000_000
"""Length of the longest condition that is looked up; a longer one goes to the parser."""
MAX_SKELETON_CHARACTERS: Final = 4_096
"""Length of the longest skeleton of which a template is made."""
MAX_INTEGER_DIGITS: Final = 18
"""Digits of an integer that is certain to be a bigint."""
_MAX_INTEGER: Final = str(MAX_INT64 - 1)  # the cut behind it is a bigint, too

# Possessive throughout, and a group nowhere repeated so, as in the lexer. A raw string has no escapes.
LITERAL: Final = re.compile(
    r"""('[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*'(?!')|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*"(?!")"""
    r"""|(?<![\w.])[rR](?:'[^']*+'|"[^"]*+")"""
    r"""|(?<![\w.])[0-9]++(?:\.[0-9]++)?(?:[dD]|[eE][+-]?[0-9]++)?(?![\w.]))""",
    re.DOTALL,
)


def is_bigint(digits: str) -> bool:
    """Whether an integer without a sign is one of 64 bits."""
    return len(digits) <= MAX_INTEGER_DIGITS or (len(digits) == len(_MAX_INTEGER) and digits <= _MAX_INTEGER)


# An IN list whose literals are written alike, in a skeleton: bracket, the sign or type before each literal, its mark.
_ALIKE: Final = re.compile("((?<![\\w.])[iI][nN] *\\() *((?:[-+] *|[A-Za-z_]+ *)?[\1-\4])(?: *, *\\2)* *\\)")


def split_literals(text: str) -> tuple[str, list[str]] | None:
    """The skeleton of a condition and its literals; None where no template could be made of it.

    Literals are cut where the lexer cuts. One that stands inside a name, a comment or another literal makes a skeleton
    whose literals the lexer does not find, and that has no template.

    The first IN list whose literals are written alike is one mark, so that its length is no part of the skeleton. It is
    one list alone, because then the number of literals tells its length.
    """
    found = _split_each(text)
    if found is None:
        return None
    skeleton, literals = found
    return _ALIKE.sub(rf"\1\2{LIST})", skeleton, count=1) if "(" in skeleton else skeleton, literals


def _split_each(text: str) -> tuple[str, list[str]] | None:
    """The text with a mark for each literal, and the literals."""
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        return None
    pieces = LITERAL.split(text)
    if any(mark in gap for mark in (*LITERAL_MARKS, LIST) if mark in text for gap in pieces[::2]):
        return None  # a mark outside of literals would be taken for one
    literals = pieces[1::2]
    for at, literal in enumerate(literals):
        kind = literal[0]
        if kind in _STRING_BEGINNINGS:
            kind = STRING
        elif literal.isdigit():
            if not is_bigint(literal):
                return None
            kind = INTEGER
        else:
            kind = DOUBLE if literal[-1] in "dD" or "e" in literal or "E" in literal else DECIMAL
        pieces[2 * at + 1] = kind
    skeleton = "".join(pieces)
    # A backslash outside of literals is none that the lexer knows; a comment changes what is a literal at all.
    return None if "\\" in skeleton or "--" in skeleton or "/*" in skeleton else (skeleton, literals)


def locate_literals(text: str) -> list[LiteralSpan]:
    """The kind, begin and end of every literal that `split_literals` cuts out."""
    found = _split_each(text)
    kinds = [mark for mark in found[0] if mark in LITERAL_MARKS] if found else []
    spans = [each.span() for each in LITERAL.finditer(text)]
    return [(kind, *span) for kind, span in zip(kinds, spans, strict=True)] if len(kinds) == len(spans) else []


def locate_list(text: str) -> range:
    """The literals, by index, that are one mark in the skeleton."""
    found = _split_each(text)
    listed = _ALIKE.search(found[0]) if found else None
    if found is None or listed is None:
        return range(0)
    first, end = (sum(mark in LITERAL_MARKS for mark in found[0][:at]) for at in listed.span())
    return range(first, end)


# --- conjuncts ---------------------------------------------------------------------------------------------

AND: Final = " AND "
_BETWEEN: Final = " BETWEEN "
_TEXT_MARK: Final = "\0"
_CONJUNCT_MARK: Final = "\5"
# With one of these, an AND may be no conjunction of the whole: an OR around it, a CASE, a bracket, a comment, quotes.
_UNSAFE_SIGNS: Final = ("(", "`", '"', "\\", "|", "--", "/*", _TEXT_MARK, _CONJUNCT_MARK)
_UNSAFE_WORDS: Final = re.compile(r"\b(?:or|case)\b", re.IGNORECASE)


def split_conjuncts(text: str) -> list[str] | None:
    """The conjuncts of a text or skeleton; None where there is one alone, or where the parser might split elsewhere."""
    return _split_marked(_mark_conjuncts(text)) if AND in text and _is_plain(text) else None


def split_all_conjuncts(texts: list[str]) -> tuple[list[str], list[int]]:
    """The conjuncts of many texts, one after the other, and how many each text has; 0 where they are uncertain.

    Where all texts are plain they are split together, without a list for each. An AND within quotes then leaves parts
    whose quotes are open, which no parser accepts.
    """
    if not _is_plain("\n".join(texts)):
        each = [split_conjuncts(text) or [] for text in texts]
        return [part for parts in each for part in parts], [len(parts) for parts in each]
    marked = _mark_conjuncts(_TEXT_MARK.join(texts))
    counts = [line.count(_CONJUNCT_MARK) + 1 for line in marked.split(_TEXT_MARK)]
    parts = marked.replace(_TEXT_MARK, _CONJUNCT_MARK).split(_CONJUNCT_MARK)
    return parts, counts


def _is_plain(text: str) -> bool:
    for sign in _UNSAFE_SIGNS:
        if sign in text:
            return False
    lower = text.lower()  # a cheap search first: the words are rare, and the regular expression is dear
    return not ("or" in lower or "case" in lower) or _UNSAFE_WORDS.search(text) is None


def _mark_conjuncts(text: str) -> str:
    """The text with a mark in place of every AND but that of a BETWEEN."""
    first, *others = text.replace(AND, _CONJUNCT_MARK).split(_BETWEEN)
    return _BETWEEN.join([first, *[each.replace(_CONJUNCT_MARK, AND, 1) for each in others]]) if others else first


def _split_marked(marked: str) -> list[str] | None:
    parts = marked.split(_CONJUNCT_MARK)
    if len(parts) == 1:
        return None
    for part in parts:
        if part.count("'") & 1:
            return None  # a string begins here and does not end: the AND behind it stood in that string
    return parts
