"""Duplicate filter, compared with a set of all ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.routing.duplicates import DuplicateFilter
from palio.routing.messages import EventId

ids = st.builds(EventId, st.integers(1, 3), st.integers(1, 2), st.integers(-300, 300))


@given(st.lists(ids, max_size=200))
def test_within_the_window_it_agrees_with_a_set(came: list[EventId]) -> None:
    seen, known = DuplicateFilter(), set()
    for each in came:
        assert seen.add(each) == (each not in known)
        known.add(each)


@given(st.lists(st.tuples(st.integers(-4_000, 4_000), st.integers(1, 3_000)), max_size=8))
def test_runs_of_numbers_are_known_as_well(runs: list[tuple[int, int]]) -> None:
    seen, known, highest = DuplicateFilter(), set[int](), -10_000
    for first, length in runs:
        for number in (*range(first, first + length), first, first + length // 2):
            is_known = number in known and highest - number < 8_192
            assert seen.add(EventId(1, 1, number)) is not is_known
            known.add(number)
            highest = max(highest, number)


def test_what_lies_far_back_counts_as_new_and_does_not_disturb() -> None:
    seen = DuplicateFilter()
    assert seen.add(EventId(1, 1, 5))
    assert seen.add(EventId(1, 1, 2**62))
    assert seen.add(EventId(1, 1, 5))
    assert not seen.add(EventId(1, 1, 2**62))


def test_no_number_of_brokers_makes_it_remember_without_bound() -> None:
    seen = DuplicateFilter()
    for node in range(10_000):
        assert seen.add(EventId(node, 1, 1))
    assert not seen.add(EventId(9_999, 1, 1))
    assert seen.add(EventId(0, 1, 1))  # long forgotten
