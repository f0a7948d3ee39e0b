"""Are the sets of one kind a Boolean algebra whose operations are those on their members?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.intervals import EMPTY, FULL, point, span, union_all
from palio.filters.kinds import HIGHEST_CUT, LOWEST_CUT, Kind, cut_after, position_of
from tests.filters.value_sets import intervals
from tests.strategies import OF_KIND, POOLS

ORDERED = [kind for kind in Kind if kind > Kind.NULL]


@st.composite
def sets(draw: Any, count: int) -> tuple[Any, ...]:
    """A kind, some positions of it, and so many sets of it."""
    kind = draw(st.sampled_from(ORDERED))
    values = [*POOLS[kind], *draw(st.lists(OF_KIND[kind], max_size=3))]
    return (
        kind,
        [position_of(kind, value) for value in values],
        *(draw(intervals(kind)) for _ in range(count)),
    )


@given(sets(2))
def test_membership_follows_the_operations(made: Any) -> None:
    _, places, a, b = made
    for place in places:
        assert a.union(b).contains(place) is (a.contains(place) or b.contains(place))
        assert a.intersect(b).contains(place) is (a.contains(place) and b.contains(place))
        assert a.complement().contains(place) is not a.contains(place)


@given(sets(3))
def test_the_laws_of_a_boolean_algebra_hold_as_equalities(made: Any) -> None:
    _, _, a, b, c = made
    assert a.union(b) == b.union(a)
    assert a.intersect(b) == b.intersect(a)
    assert a.union(b.union(c)) == a.union(b).union(c)
    assert a.intersect(b.intersect(c)) == a.intersect(b).intersect(c)
    assert a.intersect(b.union(c)) == a.intersect(b).union(a.intersect(c))
    assert a.union(b.intersect(c)) == a.union(b).intersect(a.union(c))
    assert a.union(a.intersect(b)) == a.intersect(a.union(b)) == a
    assert a.union(b).complement() == a.complement().intersect(b.complement())
    assert a.complement().complement() == a
    assert a.union(a.complement()) == FULL
    assert a.intersect(a.complement()) == EMPTY
    assert a.union(EMPTY) == a.intersect(FULL) == a
    assert hash(a.union(b)) == hash(b.union(a))


@given(sets(2))
def test_covers_and_overlaps_say_what_the_operations_show(made: Any) -> None:
    _, _, a, b = made
    assert a.covers(b) is (a.union(b) == a)
    assert a.covers(b) is b.intersect(a.complement()).is_empty
    assert a.overlaps(b) is not a.intersect(b).is_empty
    assert a.covers(b) is b.complement().covers(a.complement())
    assert (a.covers(b) and b.covers(a)) is (a == b)


@given(sets(6), st.integers(0, 6))
def test_a_union_of_many_is_the_unions_of_two_one_after_the_other(made: Any, count: int) -> None:
    _, _, *several = made
    total = EMPTY
    for each in several[:count]:
        total = total.union(each)
    assert union_all(several[:count]) == total


@given(sets(1))
def test_the_spans_together_are_the_set_and_do_not_touch(made: Any) -> None:
    kind, _, a = made
    spans = list(a.spans())
    assert union_all([span(kind, low, high) for low, high in spans]) == a
    for (_, end), (start, _) in pairwise(spans):
        assert end < start


@given(sets(1))
def test_the_cuts_of_a_set_ascend_and_lie_within_the_kind(made: Any) -> None:
    kind, _, a = made
    assert all(one < two for one, two in pairwise(a.cuts))
    assert all(kind not in LOWEST_CUT or cut > LOWEST_CUT[kind] for cut in a.cuts)
    assert all(kind not in HIGHEST_CUT or cut < HIGHEST_CUT[kind] for cut in a.cuts)


@given(sets(0))
def test_a_point_has_one_member(made: Any) -> None:
    kind, places = made
    for place in places:
        assert [other for other in places if point(kind, place).contains(other)] == [
            other for other in places if other == place
        ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Kind.BOOLEAN, [False, True]),
        (Kind.INTEGER, [-(2**63), 2**63 - 1]),
        (Kind.FLOAT, [float("-inf"), float("nan")]),
    ],
)
def test_all_values_from_the_first_to_the_last_are_the_full_set(kind: Kind, values: list[Any]) -> None:
    first, last = (position_of(kind, value) for value in values)
    assert span(kind, first, cut_after(kind, last)) == FULL
    assert span(kind, cut_after(kind, last), None) == EMPTY
    assert span(kind, None, first) == EMPTY


def test_an_empty_string_or_no_bytes_is_the_least_of_its_kind() -> None:
    assert span(Kind.STRING, None, "") == span(Kind.BYTES, None, b"") == EMPTY
    assert span(Kind.STRING, "", None) == span(Kind.BYTES, b"", None) == FULL
    assert point(Kind.STRING, "").contains("")
    assert not point(Kind.STRING, "").contains("\0")


def test_neighbouring_integers_make_one_interval_and_neighbouring_decimals_do_not() -> None:
    assert len(union_all([point(Kind.INTEGER, n) for n in (1, 2, 3)]).cuts) == 2
    assert len(union_all([point(Kind.DECIMAL, (n, 0)) for n in (1, 2, 3)]).cuts) == 6
    assert span(Kind.INTEGER, 6, None) == span(Kind.INTEGER, cut_after(Kind.INTEGER, 5), None)
