"""Choosing among values: coalesce, case, if, nullif, nvl2, greatest and least.

Spark brings all the values that could be chosen to one type, whichever is chosen. Here the type of a value is
known when there is one: so a value is widened to meet the constants and the present values beside it, and
stays what it is where they are absent. `coalesce(x, 0.5D)` is a double for every x; `coalesce(x, y)` has the
kind of x where y is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from palio.filters.expressions.comparison import comparison
from palio.filters.expressions.conversion import rescale
from palio.filters.expressions.values import Kind, Value, kinds_of, scale_of, widen, widest


def unify(chosen: Value, beside: Iterable[Value], known: frozenset[Kind], zone: str) -> Value:
    """A chosen value as the kind it shares with those beside it; NULL if they have none in common."""
    if chosen is None:
        return None
    values = [chosen, *beside]
    kinds = kinds_of(values) | known
    if len(kinds) == 1 and Decimal not in kinds:
        return chosen
    kind = widest(kinds)
    if kind is None:
        return None
    wide = widen(chosen, kind, zone)
    if isinstance(wide, Decimal):
        scale = max(scale_of(value) for value in [wide, *values] if isinstance(value, Decimal))
        return rescale(wide, 38, scale)
    return wide


def extreme(values: Sequence[Value], known: frozenset[Kind], name: str, zone: str) -> Value:
    """The first value that no other is beyond; NULLs are passed over."""
    present = [value for value in values if value is not None]
    kinds = kinds_of(present) | known
    if str in kinds and len(kinds) > 1:
        return None
    beyond = comparison(name, zone)
    best: Value = None
    for value in present:
        wide = unify(value, present, known, zone)
        if wide is not None and (best is None or beyond(wide, best)):
            best = wide
    return best
