"""Which values that are no strings have a text that a rule's pattern accepts.

A rule is written in texts: whether an event says 4688 or "4688", true or "True", is the shipper's habit and not what
the rule is about. So a pattern is also asked of what `CAST(x AS STRING)` makes of a number, a date or a moment. Most
patterns hold a letter, a backslash or a blank that no such text has, and then nothing is added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.patterns import Computed, Test
from palio.filters.values import ValueSet

# A piece of the text of a number, a date or a moment: runs of digits, single signs between them. A float's E may be
# looked for in either case, and may come before a minus.
_SIGN: Final = r"(?:[eE]-?|[-.: ])"
_NUMERIC: Final = re.compile(rf"{_SIGN}?(?:[0-9]+{_SIGN})*[0-9]*")
_WORDS: Final = {
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


def words_accepted(accepts: Callable[[str], bool]) -> ValueSet:
    """The values whose text is a word, where the word is accepted: truth values, and what is no number."""
    return ValueSet.points(value for word, value in _WORDS.items() if accepts(word))


def may_be_numeric(pieces: Iterable[str]) -> bool:
    """Whether all pieces of text that a pattern needs may occur in the text of a number, a date or a moment."""
    return all(_NUMERIC.fullmatch(piece) for piece in pieces)


def text_test(attribute: str, function: str, pattern: str) -> Test:
    """The test of a value's text with LIKE, ILIKE or RLIKE."""
    text = Call("cast", (Attribute(attribute), Literal("string")))
    return Test(Computed(Call(function, (text, Literal(pattern)))))
