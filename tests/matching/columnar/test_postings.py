"""Which levels of an axis are used, what the others give up, and what is written beside a posting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palio.matching.columnar import pivot_kernels
from palio.matching.columnar.postings import (
    MAX_LEVELS,
    Buckets,
    choose_levels,
    merge_intervals,
    possible_levels,
)


def chosen(sizes: list[int], filed: dict[tuple[int, int, int], int]) -> tuple[list[list[int]], list[list[bool]]]:
    """What becomes of the levels, given how many intervals begin in the bucket of an axis, a level and a slot."""
    own = np.array(sizes, np.int32)
    shifts, counts = possible_levels(own)
    buckets = Buckets(own, shifts, np.arange(MAX_LEVELS) < counts[:, None])
    held = np.zeros(buckets.count, np.int32)
    for (axis, level, slot), many in filed.items():
        held[buckets.bases[axis, level] + (slot >> int(shifts[axis, level]))] += many
    takers, used = choose_levels(held, buckets, shifts, counts)
    return takers.tolist(), used.tolist()


def test_levels_go_from_single_slots_to_a_few_buckets() -> None:
    shifts, counts = possible_levels(np.array([2, 16, 7_211], np.int32))
    assert counts.tolist() == [1, 1, 4]
    assert shifts[2, :4].tolist() == [0, 3, 6, 9]


def test_buckets_of_all_levels_follow_one_another() -> None:
    sizes = np.array([10, 7_211], np.int32)
    shifts, counts = possible_levels(sizes)
    buckets = Buckets(sizes, shifts, np.arange(MAX_LEVELS) < counts[:, None])
    assert buckets.firsts.tolist() == [0, 10, 10 + 7_211, 10 + 7_211 + 902, 10 + 7_211 + 902 + 113]
    assert buckets.count == 10 + 7_211 + 902 + 113 + 15


def test_a_level_with_little_in_it_is_given_up() -> None:
    spread = {(0, 0, slot): 1 for slot in range(0, 7_000, 70)}
    takers, used = chosen([7_211], spread | {(0, 1, 4_000): 1})
    assert takers[0][0] == 1
    assert used[0][:4] == [False, True, False, False]


def test_the_only_level_in_use_is_kept_however_little_is_in_it() -> None:
    takers, used = chosen([7_211], {(0, 1, 0): 1})
    assert takers[0] == list(range(MAX_LEVELS))
    assert used[0][:4] == [False, True, False, False]


def test_values_that_many_ask_for_are_not_thrown_together_with_others() -> None:
    takers, used = chosen([7_211], {(0, 0, slot): 900 for slot in range(8)} | {(0, 1, 4_000): 1})
    assert takers[0][0] == 0
    assert used[0][:2] == [True, True]


# Of thousands of `price < 0 OR price > …`, the first halves: they share their bucket with nothing but events.
def test_a_value_that_many_ask_for_is_not_met_by_the_events_around_it() -> None:
    ranges = {(0, 1, slot): 1 for slot in range(0, 7_000, 70)}
    takers, used = chosen([7_211], ranges | {(0, 0, 4): 1_000})
    assert takers[0][0] == 0
    assert used[0][:2] == [True, True]
    takers, _ = chosen([7_211], ranges | {(0, 0, 4): 100})
    assert takers[0][0] > 0


@given(
    st.lists(st.integers(1, 9_000), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 8_999), st.integers(1, 50)), max_size=30),
)
def test_what_is_filed_is_taken_by_a_level_in_use_that_is_not_finer(
    sizes: list[int], given: list[tuple[int, int, int, int]]
) -> None:
    counts = possible_levels(np.array(sizes, np.int32))[1].tolist()
    filed = {
        (axis, level % counts[axis], slot % sizes[axis]): many for axis, level, slot, many in given if axis < len(sizes)
    }
    takers, used = chosen(sizes, filed)
    for axis, level, _ in filed:
        assert takers[axis][level] >= level
        assert used[axis][takers[axis][level]]
    taken = {(axis, takers[axis][level]) for axis, level, _ in filed}
    assert taken == {(axis, level) for axis, flags in enumerate(used) for level, flag in enumerate(flags) if flag}


def planned(intervals: list[tuple[int, int, int]], sizes: list[int]) -> tuple[int, int]:
    """The axes of the pivot and of the second condition of a row of intervals (axis, low, high)."""
    axis, low, high = (np.array(each, np.int32) for each in zip(*intervals, strict=True))
    own = np.array(sizes, np.int32)
    start, axis, low, high, never = merge_intervals(np.array([0, len(axis)]), axis, low, high)
    conditions = pivot_kernels.IntervalRows(start, axis, low, high)
    offsets = np.concatenate([[0], np.cumsum(own)]).astype(np.int64)
    uses = np.full(len(own), 100, np.int32)
    counted = pivot_kernels.AxisUses(own, np.zeros(len(own)), offsets, np.zeros(offsets[-1], np.int32), uses)
    shifts, counts = possible_levels(own)
    buckets = Buckets(own, shifts, np.arange(MAX_LEVELS) < counts[:, None])
    none = np.zeros(0, np.int32)
    pivot_kernels.plan_rows(
        conditions,
        never,
        pivot_kernels.IntervalRows(np.zeros(2, np.int64), none, none, none),
        counted,
        pivot_kernels.AxisLevels(shifts, counts, buckets.bases),
        plan := np.zeros((1, pivot_kernels.PLAN_FIELDS), np.int32),
        np.zeros(buckets.count, np.int32),
    )
    second = int(plan[0, pivot_kernels.PLAN_SECOND])
    return int(axis[plan[0, pivot_kernels.PLAN_PIVOT]]), -1 if second < 0 else int(axis[second])


def test_the_next_rarest_condition_is_written_beside_a_posting() -> None:
    assert planned([(0, 40, 60), (1, 4, 50)], [100, 100]) == (0, 1)
    assert planned([(0, 40, 40), (1, 4, 99)], [100, 100]) == (0, 1)


def test_a_condition_that_rules_out_little_gives_way_to_the_pivot() -> None:
    not_equal = [(1, 4, 49), (1, 51, 99)]
    assert planned([(0, 40, 60), *not_equal], [100, 100]) == (0, 0)
    assert planned([(0, 40, 60)], [100]) == (0, 0)
