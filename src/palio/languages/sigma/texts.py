"""Which values that are no strings have a text that a rule's pattern accepts.

A rule is written in texts: whether an event says 4688 or "4688", true or "True", is the shipper's habit and not what
the rule is about. So a pattern is also asked of what `CAST(x AS STRING)` makes of a number, a date or a moment. Most
patterns hold a letter or a backslash that no such text has, and then nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable

from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.patterns import Computed, Test
from palio.filters.texts import WORDS
from palio.filters.values import ValueSet


def words_accepted(accepts: Callable[[str], bool]) -> ValueSet:
    """The values whose text is a word, where the word is accepted: truth values, and what is no number."""
    return ValueSet.points(value for word, value in WORDS.items() if accepts(word))


def text_test(attribute: str, function: str, pattern: str) -> Test:
    """The test of a value's text with LIKE, ILIKE or RLIKE."""
    text = Call("cast", (Attribute(attribute), Literal("string")))
    return Test(Computed(Call(function, (text, Literal(pattern)))))
