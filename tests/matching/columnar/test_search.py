"""Matching finds exactly what the plain-Python twin finds, whatever the shape of subscriptions and events."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import AxesBuilder
from palio.matching.columnar.postings import Conjunctions, Postings
from palio.matching.columnar.search import Searcher, row_numbers
from tests.matching.columnar.twin import Inputs, Row, code, flat, matching, starts


def no_axes() -> Axes:
    return AxesBuilder().finish()[0]


def searcher_for(rows: list[Row], sizes: list[int], seed: int = 0) -> Searcher:
    postings = Postings.build(flat(rows, random.Random(seed)), np.array(sizes, np.int32))
    return Searcher(no_axes(), postings)


def match_all(searcher: Searcher, events: list[dict[int, int]]) -> list[list[int]]:
    codes = np.array([code(axis, slot) for event in events for axis, slot in event.items()], np.int64)
    ends, numbers = searcher.match_codes(starts([len(event) for event in events]), codes)
    assert ends.tolist() == sorted(ends.tolist())
    begins = [0, *ends.tolist()[:-1]]
    return [sorted(numbers[begin:end].tolist()) for begin, end in zip(begins, ends.tolist(), strict=True)]


def match_each(searcher: Searcher, events: list[dict[int, int]]) -> list[list[int]]:
    return [sorted(searcher.match_one([code(axis, slot) for axis, slot in event.items()])) for event in events]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2, 7, 40, 300]))
def test_batches_and_single_events_match_what_the_twin_matches(seed: int, count: int) -> None:
    inputs = Inputs(seed)
    rows = inputs.rows(count)
    events = inputs.events(rows, 25)
    searcher = searcher_for(rows, inputs.sizes, seed)
    expected = [matching(rows, event) for event in events]
    assert match_all(searcher, events) == expected
    assert match_each(searcher, events) == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 7, 300, 700]), st.sampled_from([0.0, 4.0]), st.booleans())
def test_events_checked_together_match_what_the_twin_matches(
    seed: int, count: int, expected_matches: float, with_tombstones: bool
) -> None:
    inputs = Inputs(seed)
    rows = [replace(row, number=number, give_access=False) for number, row in enumerate(inputs.rows(count))]
    events = inputs.events(rows, 100)
    searcher = searcher_for(rows, inputs.sizes, seed)
    assert searcher.postings.stamps == 0
    searcher._per_row = expected_matches  # 0: the room for numbers ends within a group of events
    gone = set(range(0, count, 3)) if with_tombstones else set()
    searcher.tombstones = np.packbits([number in gone for number in range(count)], bitorder="little")
    expected = [[number for number in matching(rows, event) if number not in gone] for event in events]
    assert match_all(searcher, events) == expected
    assert match_each(searcher, events) == expected


@pytest.mark.parametrize("popular", [300, 2_000, 9_000])
def test_an_event_of_many_matches_among_events_of_few(popular: int) -> None:
    rows = [Row(number, [(0, 5, 5), (1, 1, 8), (2, 1, 4)]) for number in range(popular)]
    rows += [Row(popular + slot, [(0, slot, slot), (1, 1, 8)]) for slot in range(6, 60)]
    searcher = searcher_for(rows, [60, 9, 9])
    events = [{0: 5 if row % 40 == 9 else 6 + row % 54, 1: 1 + row % 8, 2: 1 + row % 8} for row in range(130)]
    expected = [matching(rows, event) for event in events]
    for _ in range(2):  # with the room that is expected at first, and with that of the batch before
        assert match_all(searcher, events) == expected


@pytest.mark.deep
@settings(max_examples=3000, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2, 7, 40, 300, 3000]))
def test_batches_and_single_events_match_what_the_twin_matches_thousands_of_times(seed: int, count: int) -> None:
    inputs = Inputs(seed)
    rows = inputs.rows(count)
    events = inputs.events(rows, 25)
    searcher = searcher_for(rows, inputs.sizes, seed)
    expected = [matching(rows, event) for event in events]
    assert match_all(searcher, events) == expected
    assert match_each(searcher, events) == expected


def test_a_popular_value_is_searched_by_group() -> None:
    choose = random.Random(5)
    sizes = [9, 400, 400, 70_000]
    rows = []
    for number in range(3_000):
        second = choose.choice([1, 2, 3])
        slot = choose.randrange(1, sizes[second])
        high = slot if choose.random() < 0.6 else choose.randrange(slot, sizes[second])
        rest = [(4 - second if second != 2 else 1, 1, choose.randrange(1, 400))] if choose.random() < 0.3 else []
        rows.append(Row(number, [(0, 5, 5), (second, slot, high), *rest]))
    # A popular pivot: the other conditions are made more popular still.
    rows += [Row(10_000 + number, [(1, 7, 7), (2, 7, 7), (3, 7, 7)]) for number in range(200)]
    searcher = searcher_for(rows, sizes)
    events = [
        {0: 5, **{axis: choose.randrange(1, sizes[axis]) for axis in choose.sample([1, 2, 3], 2)}} for _ in range(60)
    ]
    events.append({0: 5, 1: 7, 2: 7, 3: 7})
    assert match_all(searcher, events) == [matching(rows, event) for event in events]


def test_ranges_far_apart_on_one_axis_are_filed_each_by_itself() -> None:
    rows = [Row(number, [(0, 30 + number, 105), (0, 135 + number, 205)]) for number in range(70)]
    events = [{0: slot} for slot in range(210)]
    searcher = searcher_for(rows, [210])
    assert len(searcher.postings.arrays["runs"]) == 0  # no candidate needs a look at both
    assert searcher.postings.stamps == 0
    assert match_all(searcher, events) == match_each(searcher, events) == [matching(rows, event) for event in events]


def test_a_number_of_several_rows_that_are_filed_in_parts_is_reported_once() -> None:
    rows = [Row(number // 2, [(0, 30 + number, 105), (0, 135 + number, 205)]) for number in range(70)]
    events = [{0: slot} for slot in range(210)]
    searcher = searcher_for(rows, [210])
    assert match_all(searcher, events) == match_each(searcher, events) == [matching(rows, event) for event in events]


def test_more_subscriptions_under_one_value_than_a_flat_posting_can_count() -> None:
    count = 70_000
    ids = np.arange(count, dtype=np.int32)
    conjunctions = Conjunctions(
        ids, np.arange(count + 1, dtype=np.int64), np.zeros(count, np.int32), *np.full((2, count), 6, np.int32)
    )
    searcher = Searcher(no_axes(), Postings.build(conjunctions, np.array([9], np.int32)))
    assert sorted(searcher.match_one([code(0, 6)])) == ids.tolist()
    assert searcher.match_one([code(0, 5)]) == []
    ends, numbers = searcher.match_codes(starts([1, 1, 1]), np.array([code(0, 6), code(0, 4), code(0, 6)]))
    assert ends.tolist() == [count, count, 2 * count]
    assert np.array_equal(np.sort(numbers[count:]), ids)


def test_results_outgrow_the_room_first_given() -> None:
    rows = [Row(number, [(0, 1, 8)]) for number in range(5_000)]
    searcher = searcher_for(rows, [9])
    everyone = list(range(5_000))
    assert match_all(searcher, [{0: 3}] * 40) == [everyone] * 40
    always = searcher_for([Row(number) for number in range(9_000)], [9])
    assert always.postings.always == 9_000
    assert match_all(always, [{}, {0: 3}]) == [list(range(9_000))] * 2
    assert sorted(always.match_one([])) == list(range(9_000))


def test_an_interval_that_holds_for_missing_is_never_filed_under() -> None:
    rows = [Row(1, [(0, 0, 1)]), Row(2, [(0, 0, 1), (1, 4, 4)]), Row(3, [(0, 0, 0)])]
    searcher = searcher_for(rows, [9, 9])
    assert searcher.postings.is_always is not None
    assert searcher.postings.is_always.tolist() == [True, False, True]
    assert match_all(searcher, [{}, {0: 1}, {0: 5, 1: 4}, {1: 4}, {0: 1, 1: 4}]) == [[1, 3], [1], [], [1, 2, 3], [1, 2]]


def test_no_subscriptions_and_no_events() -> None:
    searcher = searcher_for([], [])
    assert searcher.match_one([]) == []
    ends, numbers = searcher.match_codes(starts([]), np.zeros(0, np.int64))
    assert len(ends) == len(numbers) == 0
    assert match_all(searcher, [{}, {}]) == [[], []]


def test_a_number_reported_by_several_rows_is_reported_once() -> None:
    rows = [Row(7, [(0, 5, 5)]), Row(7, [(1, 5, 5)]), Row(7), Row(8, [(0, 5, 5), (1, 5, 5)])]
    searcher = searcher_for(rows, [9, 9])
    assert match_each(searcher, [{0: 5, 1: 5}, {}, {1: 5}]) == [[7, 8], [7], [7]]


def test_the_dead_are_not_reported() -> None:
    rows = [Row(number, [(0, 5, 5)]) for number in range(100)]
    searcher = searcher_for(rows, [9])
    gone = set(range(0, 100, 3))
    searcher.tombstones = np.packbits([number in gone for number in range(100)], bitorder="little")
    alive = [number for number in range(100) if number not in gone]
    assert match_each(searcher, [{0: 5}]) == [alive]
    assert match_all(searcher, [{0: 5}, {0: 4}, {0: 5}]) == [alive, [], alive]
    searcher.tombstones = np.packbits([True] * 8, bitorder="little")  # a bitmap shorter than the numbers
    assert match_each(searcher, [{0: 5}]) == [list(range(8, 100))]
    searcher.tombstones = None
    assert match_each(searcher, [{0: 5}]) == [list(range(100))]


def test_an_event_may_have_thousands_of_attributes() -> None:
    sizes = [9] * 40_000
    rows = [Row(axis, [(axis, 5, 5), ((axis * 7 + 1) % 40_000, 5, 6)]) for axis in range(0, 40_000, 97)]
    rows.append(Row(50_000, [(39_999, 2, 7), (39_998, 0, 1)]))
    searcher = searcher_for(rows, sizes)
    events = [dict.fromkeys(range(40_000), 5), {}, dict.fromkeys(range(39_990), 5) | {39_999: 5}]
    assert match_all(searcher, events) == [matching(rows, event) for event in events]
    assert match_each(searcher, events) == [matching(rows, event) for event in events]


def test_many_threads_search_at_once() -> None:
    inputs = Inputs(11)
    rows = inputs.rows(400)
    events = inputs.events(rows, 40)
    searcher = searcher_for(rows, inputs.sizes)
    expected = [matching(rows, event) for event in events]
    with ThreadPoolExecutor(8) as threads:
        tasks = [threads.submit(match_all if turn % 2 else match_each, searcher, events) for turn in range(32)]
        assert all(task.result() == expected for task in tasks)


def test_postings_come_back_from_read_only_arrays() -> None:
    inputs = Inputs(12)
    rows = inputs.rows(200)
    events = inputs.events(rows, 20)
    postings = searcher_for(rows, inputs.sizes).postings
    kept = {
        name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
        for name, array in postings.arrays.items()
    }
    assert all(not array.flags.writeable for array in kept.values())
    opened = Searcher(no_axes(), Postings.from_arrays(kept))
    assert match_all(opened, events) == [matching(rows, event) for event in events]


def test_rows_are_numbered_from_where_each_ends() -> None:
    assert row_numbers(np.array([2, 2, 3], np.int64), base=10).tolist() == [10, 10, 12]
    assert row_numbers(np.zeros(0, np.int64)).tolist() == row_numbers(np.zeros(3, np.int64)).tolist() == []
