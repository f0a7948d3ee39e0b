"""A text parted at its ANDs, where that is sure to be how the parser parts it.

Which attributes a conjunction asks of, and in which order, makes its shape, so that a thousand conjunctions may be of a
thousand shapes; their parts are of a few.
"""

from __future__ import annotations

import re
from typing import Final

_AND: Final = " AND "
_BETWEEN: Final = " BETWEEN "
_LINE: Final = "\0"
_PART: Final = "\5"
# What may make an AND another one: an OR around it, a CASE, a parenthesis, a comment, another kind of quotes.
_SIGNS: Final = ("(", "`", '"', "\\", "|", "--", "/*", _LINE, _PART)
_WORDS: Final = re.compile(r"\b(?:or|case)\b", re.IGNORECASE)


def conjuncts_of(text: str) -> list[str] | None:
    """The conjuncts of a text; None where they are not sure, or there is one alone."""
    return _parts(_marked(text)) if _AND in text and _is_plain(text) else None


def conjuncts_of_all(texts: list[str]) -> tuple[list[str], list[int]]:
    """The conjuncts of many texts, one after the other, and how many are of each; none where they are not sure.

    Where all texts are plain they are parted together, without a list for each. An AND within quotes then leaves parts
    whose quotes are open, which no parser reads.
    """
    if not _is_plain("\n".join(texts)):
        each = [conjuncts_of(text) or [] for text in texts]
        return [part for parts in each for part in parts], [len(parts) for parts in each]
    marked = _marked(_LINE.join(texts))
    counts = [line.count(_PART) + 1 for line in marked.split(_LINE)]
    parts = marked.replace(_LINE, _PART).split(_PART)
    return parts, counts


def _is_plain(text: str) -> bool:
    for sign in _SIGNS:
        if sign in text:
            return False
    lower = text.lower()  # looking for a word is dear, and it is rarely there
    return not ("or" in lower or "case" in lower) or _WORDS.search(text) is None


def _marked(text: str) -> str:
    """With a mark for every AND, but for that of a BETWEEN."""
    first, *others = text.replace(_AND, _PART).split(_BETWEEN)
    return _BETWEEN.join([first, *[each.replace(_PART, _AND, 1) for each in others]]) if others else first


def _parts(marked: str) -> list[str] | None:
    parts = marked.split(_PART)
    if len(parts) == 1:
        return None
    for part in parts:
        if part.count("'") & 1:
            return None  # a text in quotes begins here and does not end: the AND behind it stood in that text
    return parts
