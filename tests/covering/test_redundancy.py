"""Redundant subscriptions: the search finds what comparing all pairs finds, and reports where it was cut short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.covering.covering_search import find_redundant
from palio.filters.filter import Filter
from palio.workloads.flights import SUBSCRIPTIONS, generated_subscriptions

CONDITIONS = [
    "x > 1", "x > 2", "x > 2.5", "x BETWEEN 2 AND 5", "x = 3", "x IN (3, 4)", "x <> 3", "x IS NULL",
    "x IS NOT NULL",
    "y = 'a'", "y IN ('a', 'b')", "y LIKE 'a%'", "y LIKE '%ab%'", "y LIKE '%a%'", "y > 'a'", "x < z", "TRUE",
    "d = DATE '2024-01-01'", "d > DATE '2024-01-01'", "x = 3 OR y = 'a'", "x > 1 OR y LIKE 'a%'",
]  # fmt: skip
conditions = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3).map(
    lambda parts: " AND ".join(f"({part})" for part in parts)
)


@given(st.lists(st.tuples(conditions, st.sampled_from("ab")), max_size=12))
def test_it_agrees_with_comparing_every_pair(wants: list[tuple[str, str]]) -> None:
    filters = [Filter.parse(where) for where, _ in wants]
    answer = find_redundant(filters, [subscriber for _, subscriber in wants])
    assert {each.number for each in answer.found} == compared_pairwise(filters, [who for _, who in wants])
    assert answer.cut_short == 0
    for each in answer.found:
        assert filters[each.by].covers(filters[each.number])
        assert each.is_equal == (filters[each.by] == filters[each.number])
        assert wants[each.by][1] == wants[each.number][1]


def compared_pairwise(filters: list[Filter], subscribers: list[str], nothing_too: bool = False) -> set[int]:
    """Those that an equal one precedes, or that another covers; of two that cover each other, the second.

    What never matches is told by others, and counts only where asked for.
    """

    def goes_for(number: int, by: int) -> bool:
        one, other = filters[number], filters[by]
        if not nothing_too and Filter.nothing in (one, other):
            return False
        if subscribers[number] != subscribers[by]:
            return False
        return other.covers(one) and (by < number or not one.covers(other))

    numbers = range(len(filters))
    return {one for one in numbers if any(goes_for(one, by) for by in numbers if by != one)}


def test_it_agrees_on_real_subscriptions() -> None:
    wants = [*SUBSCRIPTIONS, *generated_subscriptions(200)]
    filters = [Filter.parse(each.where) for each in wants]
    answer = find_redundant(filters, [None] * len(filters))
    assert {each.number for each in answer.found} == compared_pairwise(filters, [""] * len(filters))


def test_a_popular_value_hides_nothing() -> None:
    filters = [
        Filter.parse(
            f"delay BETWEEN {n % 37} AND {n % 37 + n % 11} AND dest IN ('S{n % 5}', 'OAK') AND carrier LIKE 'U{n % 3}%'"
        )
        for n in range(700)
    ]
    answer = find_redundant(filters, [None] * len(filters))
    assert answer.cut_short == 0
    assert {each.number for each in answer.found} == compared_pairwise(filters, [""] * len(filters))


def test_a_search_that_is_cut_short_is_counted_and_what_it_found_is_true() -> None:
    # Patterns that nothing tells apart but asking.
    filters = [Filter.parse(f"y LIKE '%{number:03}%'") for number in range(60)]
    answer = find_redundant(filters, [None] * len(filters), max_pairs=5)
    assert answer.found == []
    assert answer.cut_short == 60


def test_large_filters_are_not_compared_for_ever() -> None:
    wide = " OR ".join(f"(x{number} = 1 AND y{number} = 2)" for number in range(200))
    filters = [Filter.parse(f"({wide}) AND z = {number}") for number in range(20)]
    assert find_redundant(filters, [None] * 20, max_pairs=1_000).cut_short <= 20


def test_many_alike_cost_far_less_than_all_pairs() -> None:
    count = 2_000
    filters = [Filter.parse(f"x > {number} AND y = 'a'") for number in range(count)]
    answer = find_redundant(filters, [None] * count)
    # Each is covered by the widest, which is tried first.
    assert len(answer.found) == count - 1
    assert {each.by for each in answer.found} == {0}
