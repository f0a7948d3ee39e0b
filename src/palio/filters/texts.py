"""Which texts do values have that are no strings?

`CAST(x AS STRING)` writes numbers, truth values, dates and moments with few characters, in few ways. A pattern that
asks for a piece of text which none of them can hold need not be asked of them.
"""

from __future__ import annotations

import re
from typing import Final

# The texts that are words, and the values they are the text of.
WORDS: Final[dict[str, bool | float]] = {
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
# A piece of a number, in whatever case its E is looked for; and one of a date or a moment. Either may begin anywhere.
_NUMBER: Final = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE]-?[0-9]*)?")
_MOMENT: Final = re.compile(r"-?[0-9]*(?:-[0-9]*){0,2}(?: [0-9]*)?(?::[0-9]*){0,2}(?:\.[0-9]*)?")


def may_be_numeric(piece: str) -> bool:
    """Whether a piece of text may occur in the text of a number, a date or a moment, but for those that are words."""
    return _NUMBER.fullmatch(piece) is not None or _MOMENT.fullmatch(piece) is not None


def may_be_of_others(piece: str) -> bool:
    """Whether a piece of text, in whatever case, may occur in the text of a value that is no string."""
    lowered = piece.lower()
    return may_be_numeric(piece) or any(lowered in word.lower() for word in WORDS)
