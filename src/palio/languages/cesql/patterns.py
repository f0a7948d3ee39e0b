"""Which texts does a pattern of LIKE mean? (§3.4.3)

`%` is any text, `_` any one character; a backslash before one of them makes it mean itself, and before anything else
is a backslash, also at the end. A pattern is always good.
"""

from __future__ import annotations

import re
from typing import Final

from palio.filters.like import LikePattern

_PIECE: Final = re.compile(r"\\[%_]|\\", re.DOTALL)


def read_pattern(text: str) -> LikePattern:
    """The pattern of a text."""
    return LikePattern.parse(_PIECE.sub(lambda found: found[0] if len(found[0]) == 2 else "\\\\", text))
