"""Interval hull of a value set: its least and greatest position as two floats, in an order-preserving mapping.

Code that compares very many sets compares hulls first. A set that covers another extends at least as far at both ends.
Floats lose digits of the positions they stand for, and only the first eight bytes of a text are used, but neither ever
reverses an order. So what hulls exclude is excluded, and the rest is compared exactly.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from palio.events.values import MICROS_PER_DAY
from palio.filters.kinds import KINDS, NUMBERS, Kind, Position, float_at
from palio.filters.value_sets import ValueSet

LARGEST_FLOAT: Final = 1.7976931348623157e308  # also for infinities and NaN: below +∞, which stands for "unbounded"
_GROUPS: Final = {
    **dict.fromkeys(NUMBERS, ""),
    **dict.fromkeys((Kind.MISSING, Kind.NULL), "absent"),
    **dict.fromkeys((Kind.DATE, Kind.TIMESTAMP), "time"),
    **{kind: kind.name.lower() for kind in (Kind.BOOLEAN, Kind.STRING, Kind.BYTES)},
}


class Hull(NamedTuple):
    """The least and the greatest position of some values, and the group of kinds they belong to.

    A condition on a number applies to integers, decimals and floats, one on a time to dates and timestamps: these are
    one group each.
    """

    group: str
    low: float
    high: float


def hull_of(values: ValueSet) -> Hull | None:
    """The hull of a set; None where it is empty or spans several groups."""
    hulls = hulls_of(values)
    return hulls[0] if len(hulls) == 1 else None


def hulls_of(values: ValueSet) -> list[Hull]:
    """The hulls of a set, one for each group that it has values of."""
    found: dict[str, Hull] = {}
    for kind, part in zip(KINDS, values.parts, strict=True):
        if not part.inside and not part.cuts:
            continue
        group, cuts = _GROUPS[kind], part.cuts
        # Each cut flips membership: after an even number of cuts it is at the top what it was at the bottom.
        low = -LARGEST_FLOAT if part.inside else _position(kind, cuts[0])
        high = LARGEST_FLOAT if part.inside == (len(cuts) % 2 == 0) else _position(kind, cuts[-1])
        known = found.get(group)
        found[group] = (
            Hull(group, low, high) if known is None else Hull(group, min(low, known.low), max(high, known.high))
        )
    return list(found.values())


def clamp_to_finite(number: Any) -> float:
    """A number among the finite floats; NaN, the greatest of all, maps to the largest."""
    try:
        value = float(number)
    except OverflowError:
        return LARGEST_FLOAT if number > 0 else -LARGEST_FLOAT
    return LARGEST_FLOAT if value != value else max(-LARGEST_FLOAT, min(LARGEST_FLOAT, value))


def text_position(text: str | bytes) -> float:
    """A position from 0 to 1, by the first eight bytes of a text."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(data[:8].ljust(8, b"\0"), "big") / 2**64


def _position(kind: Kind, cut: Position) -> float:
    """The float at a cut: not above the value above the cut, and not below the value below it."""
    match kind:
        case Kind.FLOAT:
            return clamp_to_finite(float_at(cut))
        case Kind.DECIMAL:
            return _divided(cut[0].numerator, cut[0].denominator)
        case Kind.DATE:
            return clamp_to_finite(cut * MICROS_PER_DAY)
        case Kind.STRING | Kind.BYTES:
            return text_position(cut)
    return clamp_to_finite(cut)


def _divided(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return LARGEST_FLOAT if numerator > 0 else -LARGEST_FLOAT
