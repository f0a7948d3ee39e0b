"""From where to where does a set of values reach? As two floats, in an order that keeps the order of values.

Whoever compares a great many sets compares these first. A set that covers another reaches at least as far at both
ends; floats lose digits of what they stand for, and the eight bytes of a text that one has room for lose what comes
after them, but neither ever turns an order around. So what the hulls exclude is excluded, and the rest is asked.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from palio.filters.kinds import KINDS, Kind, Position, float_at
from palio.filters.values import ValueSet

LARGEST: Final = 1.7976931348623157e308  # where the infinities and NaN are put: below +∞, which is "any"
_NUMBERS: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_DAY: Final = 86_400_000_000  # microseconds, in which moments are counted
_GROUPS: Final = {
    **dict.fromkeys(_NUMBERS, ""),
    **dict.fromkeys((Kind.MISSING, Kind.NULL), "absent"),
    **dict.fromkeys((Kind.DATE, Kind.TIMESTAMP), "time"),
    **{kind: kind.name.lower() for kind in (Kind.BOOLEAN, Kind.STRING, Kind.BYTES)},
}


class Hull(NamedTuple):
    """The least and the greatest place of some values, and the group of kinds that they are all of.

    A condition on a number speaks of integers, decimals and floats, one on a time of dates and of moments: these are
    one group each.
    """

    group: str
    low: float
    high: float


def hull_of(values: ValueSet) -> Hull | None:
    """The hull of a set; None where its values are of several groups, or none is."""
    group: str | None = None
    low, high = LARGEST, -LARGEST
    for kind, part in zip(KINDS, values.parts, strict=True):
        if not part.inside and not part.cuts:
            continue
        if group is not None and _GROUPS[kind] != group:
            return None
        group = _GROUPS[kind]
        cuts = part.cuts
        low = min(low, -LARGEST if part.inside else _place(kind, cuts[0]))
        high = max(high, LARGEST if part.inside == (len(cuts) % 2 == 0) else _place(kind, cuts[-1]))
    return None if group is None else Hull(group, low, high)


def clamped(number: Any) -> float:
    """A number among the finite floats; NaN, the greatest of all, is put at the top."""
    try:
        value = float(number)
    except OverflowError:
        return LARGEST if number > 0 else -LARGEST
    return LARGEST if value != value else max(-LARGEST, min(LARGEST, value))


def text_place(text: str | bytes) -> float:
    """A place from 0 to 1, in the order of texts, of which it sees the first eight bytes."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(data[:8].ljust(8, b"\0"), "big") / 2**64


def _place(kind: Kind, cut: Position) -> float:
    """The float at a cut; a cut lies at or below the value above it, and at or above the one below it."""
    match kind:
        case Kind.FLOAT:
            return clamped(float_at(cut))
        case Kind.DECIMAL:
            return _divided(cut[0].numerator, cut[0].denominator)
        case Kind.DATE:
            return clamped(cut * _DAY)
        case Kind.STRING | Kind.BYTES:
            return text_place(cut)
    return clamped(cut)


def _divided(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return LARGEST if numerator > 0 else -LARGEST
