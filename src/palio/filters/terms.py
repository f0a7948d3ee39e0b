"""Sets of values as comparisons with literals: what a person would write for them, and what an index is built from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from palio.events.values import Scalar
from palio.filters.comparisons import compare
from palio.filters.intervals import Intervals
from palio.filters.kinds import (
    HIGHEST_CUT,
    LOWEST_CUT,
    Kind,
    Position,
    cut_after,
    float_at,
    float_position,
    rounding_cuts,
    timestamp_at,
)
from palio.filters.values import ANY_VALUE, NO_VALUE, ValueSet, decimal_of, intersection_of, union_of

Term: TypeAlias = list[tuple[str, Scalar]]  # comparisons that must all hold: one, or a lower and an upper bound
_SECOND = 1_000_000
NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


def terms(kind: Kind, part: Intervals) -> Iterator[Term]:
    """Each interval of a part as one or two comparisons; a single value as an equality."""
    for low, high in part.spans():
        first = LOWEST_CUT.get(kind) if low is None else low
        last = HIGHEST_CUT.get(kind) if high is None else high
        if first is not None and last is not None and _is_point(kind, first, last):
            yield [("=", _single(kind, first))]
            continue
        term: Term = []
        if low is not None:
            above, literal = _literal(kind, low)
            term.append((">" if above else ">=", literal))
        if high is not None:
            above, literal = _literal(kind, high)
            term.append(("<=" if above else "<", literal))
        yield term


def meaning(alternatives: Iterable[Term], timezone: str = "UTC") -> ValueSet:
    """The values that comparisons accept, over all kinds."""
    sets = []
    for term in alternatives:
        accepted = [compare(operator, literal, timezone).true for operator, literal in term]
        sets.append(intersection_of(accepted) if accepted else ANY_VALUE)
    return union_of(sets) or NO_VALUE


def number_terms(values: ValueSet) -> list[Term] | None:
    """Comparisons that mean, for integers, decimals and floats alike, what a set does; None where none do."""
    for kind in (Kind.DECIMAL, Kind.FLOAT):
        found = [term for term in terms(kind, values.parts[kind]) if term]
        meant = meaning(found)
        if found and all(meant.parts[each] == values.parts[each] for each in NUMBERS):
            return found
    return None


def holes(kind: Kind, part: Intervals) -> list[Scalar] | None:
    """The values a part leaves out, where it is everything but a few of them."""
    rest = part.complement()
    if rest.inside or len(rest.cuts) % 2 or not rest.cuts:
        return None
    left_out = list(terms(kind, rest))
    if any(len(term) != 1 or term[0][0] != "=" for term in left_out):
        return None
    return [term[0][1] for term in left_out]


def _is_point(kind: Kind, low: Position, high: Position) -> bool:
    if kind is Kind.DECIMAL and not _is_written_exactly(low[0]):
        return bool(rounding_cuts(_nearest(low))[1] == high)
    return bool(cut_after(kind, low) == high)


def _single(kind: Kind, position: Position) -> Scalar:
    """The literal of one value; as a cut, '\\0' would be written as what lies above the empty string."""
    match kind:
        case Kind.STRING | Kind.BYTES:
            return position  # type: ignore[no-any-return]
        case Kind.TIMESTAMP:
            return timestamp_at(position)
        case Kind.FLOAT:
            return float_at(position)
    return _literal(kind, position)[1]


def _literal(kind: Kind, cut: Position) -> tuple[bool, Scalar]:
    """The literal at a cut, and whether the cut lies above it."""
    match kind:
        case Kind.DECIMAL:
            number, above = cut
            if _is_written_exactly(number):
                return bool(above), _exact_literal(number)
            nearest = _nearest(cut)
            return rounding_cuts(nearest)[1] == cut, nearest
        case Kind.FLOAT:
            # "above 0.1" rather than "from the next float on", whichever is shorter to write
            here, below = float_at(cut), float_at(cut - 1)
            return (True, below) if len(repr(below)) < len(repr(here)) else (False, here)
        case Kind.STRING if cut.endswith("\0"):
            return True, cut[:-1]
        case Kind.BYTES if cut.endswith(b"\0"):
            return True, cut[:-1]
        case Kind.DATE:
            return False, date.fromordinal(cut)
        case Kind.TIMESTAMP:
            above = cut % _SECOND == 1  # "after twelve" rather than "from a microsecond past twelve"
            return above, timestamp_at(cut - above)
        case Kind.BOOLEAN:
            return False, bool(cut)
    return False, cut


def _is_written_exactly(number: int | Fraction) -> bool:
    """Whether a number has a decimal literal; the points half-way between two floats mostly have not."""
    if isinstance(number, int):
        return len(str(abs(number))) <= 38
    return len(decimal_of(number).as_tuple().digits) <= 38 and -decimal_of(number).as_tuple().exponent <= 38  # type: ignore[operator]


def _exact_literal(number: int | Fraction) -> int | Decimal:
    return number if isinstance(number, int) else decimal_of(number)


def _nearest(cut: Position) -> float:
    """The float whose rounding a cut bounds, from above or from below."""
    place = float_position(float(cut[0]))
    for candidate in (place, place - 1, place + 1):
        if cut in rounding_cuts(float_at(candidate)):
            return float_at(candidate)
    raise ValueError(f"no literal stands at {cut[0]}")
