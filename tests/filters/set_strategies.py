"""Hypothesis strategies for sets of values and their members."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from palio.filters.comparisons import OPERATORS, compare
from palio.filters.kinds import (
    HIGHEST_CUT,
    LOWEST_CUT,
    MISSING,
    Kind,
    Value,
    cut_after,
    date_position,
    float_at,
    position_of,
    timestamp_at,
)
from palio.filters.value_sets import EMPTY, FULL, Intervals, ValueSet, decimal_of, point, span, union_all
from tests.strategies import OF_KIND, literals, values


def cuts(kind: Kind) -> st.SearchStrategy[Any]:
    """A place before or after some value, or no bound."""
    return st.none() | st.builds(
        lambda value, after: cut_after(kind, position_of(kind, value)) if after else position_of(kind, value),
        OF_KIND[kind],
        st.booleans(),
    )


def intervals(kind: Kind) -> st.SearchStrategy[Intervals]:
    """A union of up to four intervals and points of a kind, perhaps its complement."""
    one = st.builds(lambda low, high: span(kind, low, high), cuts(kind), cuts(kind))
    single = OF_KIND[kind].map(lambda value: point(kind, position_of(kind, value)))
    union = st.lists(one | single, max_size=4).map(union_all)
    return st.one_of(st.sampled_from([EMPTY, FULL]), union, union.map(Intervals.complement))


def plain_sets() -> st.SearchStrategy[ValueSet]:
    """A set without tests."""
    by_kind = st.dictionaries(st.sampled_from(list(Kind)), st.none(), max_size=4).flatmap(
        lambda kinds: st.fixed_dictionaries({kind: intervals(kind) for kind in kinds})
    )
    compared = st.builds(compare, st.sampled_from(OPERATORS), literals())
    made = st.one_of(
        by_kind.map(ValueSet.of),
        compared.map(lambda truth: truth.true),
        compared.map(lambda truth: truth.false),
        st.lists(values(), max_size=5).map(ValueSet.points),
        OF_KIND[Kind.STRING].map(ValueSet.prefix),
        st.lists(st.sampled_from(list(Kind)), max_size=3).map(lambda kinds: ValueSet.kinds(*kinds)),
    )
    return made | made.map(ValueSet.complement)


def some_member(values: ValueSet) -> Value | tuple[()] | None:
    """A value of a set without tests; the empty tuple where it has none (None is a value)."""
    for kind in Kind:
        for low, high in values.parts[kind].spans():
            return _at(kind, low, high)
    return ()


def _at(kind: Kind, low: Any, high: Any) -> Any:
    match kind:
        case Kind.MISSING:
            return MISSING
        case Kind.NULL:
            return None
        case Kind.DECIMAL:
            return decimal_of(_between(low, high))
    low = LOWEST_CUT[kind] if low is None else low
    assert high is None or low < high
    assert kind not in HIGHEST_CUT or low < HIGHEST_CUT[kind]
    match kind:
        case Kind.BOOLEAN:
            return bool(low)
        case Kind.FLOAT:
            return float_at(low)
        case Kind.DATE:
            from datetime import date

            assert date_position(date.min) <= low
            return date.fromordinal(low)
        case Kind.TIMESTAMP:
            return timestamp_at(low)
    return low


def _between(low: Any, high: Any) -> Fraction | int:
    if low is None:
        return 0 if high is None else high[0] - 1
    if low[1] == 0:
        return low[0]
    return low[0] + 1 if high is None else (Fraction(low[0]) + Fraction(high[0])) / 2
