"""Corner events: two events that a filter matches, and so every filter that covers it.

A filter that covers another matches every event that the other does. Two events from opposite corners of a conjunction,
given to a matcher that holds all filters, therefore find every filter that could cover it, and where conditions are
intervals hardly any that does not. No pairs of filters are compared. Of a condition on an expression, `a + b = 5` say,
a few values are tried: the expression's own, 0 and 1. One event that matches is as good as two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any, Final, TypeAlias

from palio.events.values import Scalar
from palio.filters.filter import Filter
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
from palio.filters.rewriting import canonical_range
from palio.filters.tree import And, Leaf, Or, Residual
from palio.filters.value_predicates import Computed, Like, Test
from palio.filters.value_sets import PRESENT, Intervals, ValueSet, decimal_of

CornerEvent: TypeAlias = dict[str, Scalar]

# Kinds in order of preference. Floats before other numbers: they come closest to the end of an interval.
_KIND_PREFERENCE: Final = (
    Kind.STRING,
    Kind.FLOAT,
    Kind.INTEGER,
    Kind.DECIMAL,
    Kind.TIMESTAMP,
    Kind.DATE,
    Kind.BOOLEAN,
    Kind.BYTES,
)
_MAX_TRIED_EVENTS: Final = 64
_FILLER: Final = "\x01"  # a character that hardly any pattern names
_HIGHEST_CHARACTER: Final = chr(0x10FFFF)


def corner_events(filter: Filter) -> tuple[CornerEvent, CornerEvent] | None:
    """Two events that a filter matches, far apart; None where they are not easily found.

    Of a disjunction the first alternative is taken: a filter that covers all covers that one too.
    """
    values = _conjunction(filter)
    # Checked with the filter itself: constructing a value for every kind and pattern is not exact.
    corners = None if values is None else _corners(values)
    if corners is None or not all(filter.matches_attributes(_present(corner)) for corner in corners):
        found = matching_event(filter)
        return None if found is None else (found, found)
    return corners


def matching_event(filter: Filter) -> CornerEvent | None:
    """An event that a filter with conditions on expressions matches; None where none is easily found."""
    tree = filter.tree.children[0] if isinstance(filter.tree, Or) and filter.tree.children else filter.tree
    children = tree.children if isinstance(tree, And) else (tree,)
    residuals = [child for child in children if isinstance(child, Residual)]
    leaves = {child.attribute: child.values for child in children if isinstance(child, Leaf)}
    if len(residuals) + len(leaves) < len(children):
        return None
    tried: dict[str, list[Scalar]] = {}
    for name, values in leaves.items():
        ranges = [each for test in values.tests if (each := _range_of(test)) is not None]
        own: Sequence[Scalar] | None = () if values == PRESENT or ranges else _ends(values)
        if own is None:
            return None
        tried[name] = list(own) or [value for each in ranges for value in _ends(each) or ()]
    constants = [value for each in residuals if each.restricted for value in _ends(each.restricted[1]) or ()]
    for name in {name for each in residuals for name in each.scalar_attributes}:
        tried[name] = tried.get(name) or [*constants, 0, 1]
    names = sorted(tried)
    choices = product(*(dict.fromkeys(tried[name]) for name in names))
    events = (dict(zip(names, chosen, strict=True)) for chosen in islice(choices, _MAX_TRIED_EVENTS))
    return next((each for each in events if None not in each.values() and filter.matches_attributes(each)), None)


def _range_of(test: Test) -> ValueSet | None:
    """The values of the innermost expression that a computed test restricts."""
    if not test.wanted or not isinstance(test.pattern, Computed):
        return None
    found = canonical_range(test.pattern.expression, test.pattern.wants, test.pattern.timezone)
    return None if found is None else found[1]


def _corners(values: dict[str, ValueSet]) -> tuple[CornerEvent, CornerEvent] | None:
    """Two events at opposite corners of a conjunction; None for an attribute that must be missing."""
    low: CornerEvent = {}
    high: CornerEvent = {}
    for name, wanted in values.items():
        ends = _ends(wanted)
        if ends is None:
            return None
        low[name], high[name] = ends
    return low, high


def _present(corner: CornerEvent) -> CornerEvent:
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
    """A low and a high value of a set; the low one is missing where the set allows it."""
    if values.tests:
        found = next((text for text in _candidate_texts(values) if values.contains(text)), None)
        return None if found is None else (found, found)
    nulls = not values.parts[Kind.MISSING].is_empty
    if not nulls and not values.parts[Kind.NULL].is_empty:
        return None  # rows and columns do not agree on how to tell null from missing
    for kind in _KIND_PREFERENCE:
        part = values.parts[kind]
        if not part.is_empty:
            low, high = _lowest(kind, part), _highest(kind, part)
            return (None if nulls else low), (high if values.contains(high) else low)
    return (None, None) if nulls else None


def _candidate_texts(values: ValueSet) -> Iterator[str]:
    """Texts that may pass pattern tests: patterns with their gaps filled, and ends of intervals."""
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
        return _HIGHEST_CHARACTER * 4
    if high.endswith("\0"):
        return high[:-1]
    if high and cut_after(Kind.STRING, low or "") != high and ord(high[-1]) > 1:
        return high[:-1] + _before(high[-1]) + _HIGHEST_CHARACTER * 4
    return low or ""


def _before(character: str) -> str:
    """The character before another one; surrogates are skipped."""
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
