"""A text parted at its ANDs, where that is sure to be how the parser parts it.

Which attributes a conjunction asks of, and in which order, makes its shape, so that a thousand conjunctions may be of a
thousand shapes; their parts are of a few.
"""

from __future__ import annotations

import re
from typing import Final

_AND: Final = " AND "
_BETWEEN: Final = " BETWEEN "
# What may make an AND another one: an OR around it, a parenthesis, a comment, another kind of quotes, a CASE.
_OTHERWISE: Final = re.compile(r"\b(?:or|case)\b|--|/\*|[`\"\\(|]", re.IGNORECASE)


def is_calm(text: str) -> bool:
    """Whether nothing in a text, or in several, makes an AND another one, but for BETWEEN and texts in quotes."""
    return _OTHERWISE.search(text) is None


def conjuncts_of(text: str) -> list[str] | None:
    """The conjuncts of a calm text; None where they are not sure, or there is one alone."""
    parts = text.split(_AND)
    if len(parts) == 1:
        return None
    if _BETWEEN in text:
        joined: list[str] = []
        parting = iter(parts)
        for part in parting:
            if _BETWEEN not in part:
                joined.append(part)
                continue
            upper = next(parting, None)
            if upper is None:
                return None
            joined.append(f"{part}{_AND}{upper}")
        parts = joined
    if "'" in text:
        for part in parts:
            if part.count("'") & 1:
                return None  # the AND stood in a text
    return parts if len(parts) > 1 else None
