"""Interval hulls: an order-preserving image of a set's ends, so that hulls never exclude wrongly."""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from palio.filters.interval_hull import LARGEST_FLOAT, Hull, clamp_to_finite, hull_of, text_position
from palio.filters.kinds import Kind, position_of
from palio.filters.value_sets import ValueSet
from tests.filters.set_strategies import intervals, plain_sets, some_member
from tests.strategies import OF_KIND

KINDS = list(Kind)


@st.composite
def two_sets(draw: Any) -> tuple[ValueSet, ValueSet]:
    """Two sets of one kind."""
    kind = draw(st.sampled_from(KINDS))
    return ValueSet.of({kind: draw(intervals(kind))}), ValueSet.of({kind: draw(intervals(kind))})


def contains(wide: Hull, narrow: Hull) -> bool:
    return wide.group == narrow.group and wide.low <= narrow.low and narrow.high <= wide.high


@given(plain_sets())
def test_a_hull_contains_the_hull_of_every_member(values: ValueSet) -> None:
    hull, member = hull_of(values), some_member(values)
    if hull is None:
        return
    assert member != (), "an empty set has no hull"
    of_member = hull_of(ValueSet.points([member]))  # type: ignore[list-item]
    assert of_member is not None
    assert contains(hull, of_member)


@given(two_sets() | st.tuples(plain_sets(), plain_sets()))
def test_a_covering_set_has_at_least_the_hull(sets: tuple[ValueSet, ValueSet]) -> None:
    one, other = sets
    for wide, narrow in ((one, other), (one.union(other), one), (one, one.intersect(other))):
        of_wide, of_narrow = hull_of(wide), hull_of(narrow)
        if of_wide is not None and of_narrow is not None and narrow.intersect(wide) == narrow:
            assert contains(of_wide, of_narrow)


@st.composite
def two_values(draw: Any) -> tuple[Kind, Any, Any]:
    kind = draw(st.sampled_from(KINDS))
    one, other = draw(OF_KIND[kind]), draw(OF_KIND[kind])
    return (kind, one, other) if position_of(kind, one) <= position_of(kind, other) else (kind, other, one)


@given(two_values())
def test_values_keep_their_order(pair: tuple[Kind, Any, Any]) -> None:
    _, less, more = pair
    of_less, of_more = hull_of(ValueSet.points([less])), hull_of(ValueSet.points([more]))
    assert of_less is not None
    assert of_more is not None
    assert of_less.low <= of_more.low
    assert of_less.high <= of_more.high


def test_values_of_several_groups_have_no_hull() -> None:
    assert hull_of(ValueSet.points([1, "a"])) is None
    assert hull_of(ValueSet.points([])) is None
    assert hull_of(ValueSet.points([1, 2.5])) is not None


@given(st.floats() | st.integers(), st.floats() | st.integers())
@example(10**400, 10**399)
@example(-(10**400), -inf)
@example(inf, nan)
def test_clamped_numbers_are_finite_and_keep_their_order(one: float, other: float) -> None:
    assert isfinite(clamp_to_finite(one))
    if one <= other:
        assert clamp_to_finite(one) <= clamp_to_finite(other)
    assert clamp_to_finite(nan) == LARGEST_FLOAT  # NaN is the greatest float in SQL's order


@given(OF_KIND[Kind.STRING] | st.text(max_size=12), OF_KIND[Kind.STRING] | st.text(max_size=12))
def test_positions_of_texts_keep_the_order_of_their_bytes(one: str, other: str) -> None:
    less, more = sorted((one, other), key=lambda text: text.encode("utf-8", "surrogatepass"))
    assert 0.0 <= text_position(less) <= text_position(more) <= 1.0
