"""How many characters must be put in, taken out or replaced to make one text of another?

Computed a column at a time with the bits of one integer (Myers, in Hyyrö's form for whole texts), because a table
of all pairs of characters is slow in Python. A column costs more the longer the text is, so what is longer than
`MOST_PAIRS` pairs is NULL.
"""

from __future__ import annotations

from typing import Final

MOST_PAIRS: Final = 2**24


def levenshtein(left: str, right: str, most: int | None = None) -> int | None:
    """The distance of two texts; -1 where it is more than `most`."""
    if len(left) * len(right) > MOST_PAIRS:
        return None
    distance = _distance(left, right)
    return distance if most is None or distance <= most else -1


def _distance(left: str, right: str) -> int:
    if not left:
        return len(right)
    places: dict[str, int] = {}
    for place, character in enumerate(left):
        places[character] = places.get(character, 0) | 1 << place
    every, last = (1 << len(left)) - 1, 1 << len(left) - 1
    # Bit i says whether the distance grows, or shrinks, from character i of the left to the next.
    grows, shrinks, distance = every, 0, len(left)
    for character in right:
        equal = places.get(character, 0)
        diagonal = (((equal & grows) + grows) ^ grows) | equal | shrinks
        up, down = shrinks | ~(diagonal | grows), grows & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down = up << 1 | 1, down << 1
        grows, shrinks = (down | ~(diagonal | up)) & every, up & diagonal & every
    return distance
