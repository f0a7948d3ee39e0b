"""Which texts does LIKE ask for?

`_` stands for one character and `%` for any number of them. The escape character takes the meaning of a `_`, a `%`
or an escape character behind it. Before anything else it stands for itself, be it a wildcard, as ActiveMQ and
Artemis read it; at the end of a pattern, where it can only be a slip, it is refused, unless it is a wildcard.
Without ESCAPE no character escapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from palio.filters.expressions.tree import Expression, Literal
from palio.filters.like import LikePattern


def pattern_of(arguments: tuple[Expression, ...]) -> LikePattern:
    """The pattern of a LIKE, from its arguments: the value, the pattern, and the escape character if there is one.

    ValueError says what is wrong with it.
    """
    text, escape, *_ = (*(str(each.value) for each in arguments[1:] if isinstance(each, Literal)), None)
    assert text is not None  # the grammar has a text there
    if escape and escape not in "%_" and _ends_in_escape(text, escape):
        raise ValueError(f"the pattern ends with its escape character {escape}, which then escapes nothing")
    return LikePattern.parse("".join(_with_backslashes(text, escape)))


def _with_backslashes(text: str, escape: str | None) -> Iterator[str]:
    """The pattern with a backslash before every character that means itself where it could mean something else."""
    place = 0
    while place < len(text):
        character = text[place]
        if character == escape and text[place + 1 : place + 2] in ("%", "_", escape):
            place += 1
            yield f"\\{text[place]}" if text[place] in "%_\\" else text[place]
        else:
            yield "\\\\" if character == "\\" else character
        place += 1


def _ends_in_escape(text: str, escape: str) -> bool:
    """Whether the last escape character of a text has nothing behind it that it could escape."""
    run = len(text) - len(text.rstrip(escape))
    return run % 2 == 1
