"""Which events must whoever covers a filter match? Those at the corners of what the filter matches.

If one filter covers another it matches every event that the other does, and so also any few of them. Two events from
opposite corners of a conjunction, handed to a matcher that holds all filters, therefore find every filter that could
cover it, and where conditions are intervals hardly any that does not. Nothing is compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from palio.events.values import Scalar
from palio.filters.filter import Filter
from palio.filters.intervals import Intervals
from palio.filters.kinds import (
    FIRST_FLOAT,
    HIGHEST_CUT,
    LAST_FLOAT,
    LOWEST_CUT,
    Kind,
    Position,
    cut_after,
    float_at,
    timestamp_at,
)
from palio.filters.normal_form import expand
from palio.filters.patterns import Like
from palio.filters.tree import And, Leaf, Or, Residual
from palio.filters.values import ValueSet, decimal_of

Corner = dict[str, Scalar]

# Floats first: of all numbers they come closest to where an interval ends.
_PREFERRED: Final = (
    Kind.STRING,
    Kind.FLOAT,
    Kind.INTEGER,
    Kind.DECIMAL,
    Kind.TIMESTAMP,
    Kind.DATE,
    Kind.BOOLEAN,
    Kind.BYTES,
)
_FILLER: Final = "\x01"  # a character that few patterns ask for
_HIGHEST: Final = chr(0x10FFFF)


def witnesses(filter: Filter) -> tuple[Corner, Corner] | None:
    """Two events that a filter matches, far apart; None where none is easily found.

    Of a disjunction the first alternative speaks: who covers it all covers that one too.
    """
    values = _conjunction(filter)
    if values is None:
        return None
    corners = _corners(values)
    if corners is None or not all(filter.matches_attributes(_present(corner)) for corner in corners):
        return None
    return corners


def _corners(values: dict[str, ValueSet]) -> tuple[Corner, Corner] | None:
    """Two events at opposite corners of a conjunction; an attribute that is to be missing is None."""
    low: Corner = {}
    high: Corner = {}
    for name, wanted in values.items():
        ends = _ends(wanted)
        if ends is None:
            return None
        low[name], high[name] = ends
    return low, high


def _present(corner: Corner) -> Corner:
    return {name: value for name, value in corner.items() if value is not None}


def _conjunction(filter: Filter) -> dict[str, ValueSet] | None:
    tree = filter.tree
    if isinstance(tree, Or):
        if not tree.children:
            return None
        tree = tree.children[0]
    children = tree.children if isinstance(tree, And) else (tree,)
    if any(isinstance(child, Residual) for child in children):
        return None
    if all(isinstance(child, Leaf) for child in children):
        return {child.attribute: child.values for child in children if isinstance(child, Leaf)}
    alternatives = expand(tree, 1_000)
    found = next((each for each in alternatives or () if not each.residuals), None)
    return None if found is None else found.leaves


def _ends(values: ValueSet) -> tuple[Scalar, Scalar] | None:
    """A low and a high value of a set; where it has what is missing, that is the low one."""
    if values.tests:
        found = next((text for text in _guesses(values) if values.contains(text)), None)
        return None if found is None else (found, found)
    nulls = not values.parts[Kind.MISSING].is_empty
    if not nulls and not values.parts[Kind.NULL].is_empty:
        return None  # an event cannot be asked for a null and not for a missing value in one way for all readers
    for kind in _PREFERRED:
        part = values.parts[kind]
        if not part.is_empty:
            low, high = _lowest(kind, part), _highest(kind, part)
            return (None if nulls else low), (high if values.contains(high) else low)
    return (None, None) if nulls else None


def _guesses(values: ValueSet) -> Iterator[str]:
    """Texts that may pass tests: patterns with something in their gaps, and what lies in the intervals."""
    texts = [
        "".join(
            token if isinstance(token, str) else _FILLER * (token.size + token.is_open)
            for token in test.pattern.pattern.tokens
        )
        for test in values.tests
        if test.wanted and isinstance(test.pattern, Like)
    ]
    starts = [low or "" for low, _ in values.parts[Kind.STRING].spans()][:4]
    yield from texts
    yield "".join(texts)
    for start in starts:
        yield from (start, start + _FILLER, start + _FILLER + "".join(texts))


def _lowest(kind: Kind, part: Intervals) -> Any:
    low = next(low for low, _ in part.spans())
    return _at(kind, LOWEST_CUT[kind] if low is None else low)


def _highest(kind: Kind, part: Intervals) -> Any:
    *_, (low, high) = part.spans()
    if kind is Kind.STRING:
        return _highest_text(low, high)
    if kind is Kind.BYTES:
        return low or b""
    if kind is Kind.DECIMAL:
        number, after = HIGHEST_CUT[kind] if high is None else high
        return _at(kind, (number, 0)) if after else _lowest(kind, Intervals(False, (low, high)) if low else part)
    return _at(kind, (HIGHEST_CUT[kind] if high is None else high) - 1)


def _highest_text(low: str | None, high: str | None) -> str:
    if high is None:
        return _HIGHEST * 4
    if high.endswith("\0"):
        return high[:-1]
    if high and cut_after(Kind.STRING, low or "") != high and ord(high[-1]) > 1:
        return high[:-1] + _before(high[-1]) + _HIGHEST * 4
    return low or ""


def _before(character: str) -> str:
    """The character before another one; the halves of characters between them are none."""
    return "\ud7ff" if character == "\ue000" else chr(ord(character) - 1)


def _at(kind: Kind, position: Position) -> Any:
    """The value at a position, or just above a cut."""
    from datetime import date

    match kind:
        case Kind.FLOAT:
            return float_at(min(max(position, FIRST_FLOAT), LAST_FLOAT))
        case Kind.DECIMAL:
            number, _ = position
            return decimal_of(number)
        case Kind.DATE:
            return date.fromordinal(position)
        case Kind.TIMESTAMP:
            return timestamp_at(position)
        case Kind.BOOLEAN:
            return bool(position)
    return position
