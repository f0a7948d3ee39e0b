"""The compaction policy: few segments whatever comes, and bounded work."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.matching import compaction
from palio.matching.compaction import MergeBudget, absorbable, segments_to_settle, tier_to_merge

sizes = st.lists(st.integers(1, 400_000), max_size=30)


@dataclass(frozen=True, eq=False)
class Part:
    size: int


def parts(sizes: list[int]) -> list[Part]:
    return [Part(size) for size in sizes]


def test_segments_of_single_additions_are_as_few_as_the_ones_of_a_binary_number() -> None:
    segments: list[Part] = []
    rebuilt = 0
    for count in range(1, 601):
        absorbed = absorbable(segments, 1)
        rebuilt += sum(each.size for each in absorbed)
        segments = [*segments[: len(segments) - len(absorbed)], Part(1 + sum(each.size for each in absorbed))]
        assert len(segments) == count.bit_count()
    assert rebuilt < 600 * 10


@given(sizes, st.integers(1, 3_000))
def test_only_the_newest_are_absorbed_and_none_that_is_larger_than_those_before(sizes: list[int], sealed: int) -> None:
    segments = parts(sizes)
    taken = absorbable(segments, sealed)
    assert taken == segments[::-1][: len(taken)]
    assert sum(each.size for each in taken) < compaction._MAX_ABSORBED


@given(sizes, st.data())
def test_settling_ends(sizes: list[int], data: st.DataObject) -> None:
    segments = parts(sizes)
    alive = data.draw(st.integers(0, sum(sizes)))
    while chosen := segments_to_settle(segments, alive):
        rest = [each for each in segments if each not in chosen]
        indexed = sum(each.size for each in segments)
        assert sum(each.size for each in chosen) <= compaction._MAX_SETTLED
        # What is removed leaves the segments that are merged; here, all of it.
        merged = sum(each.size for each in chosen) - (indexed - alive if not rest else 0)
        segments = [Part(merged), *rest]
    if sum(sizes) <= compaction._MAX_SETTLED:
        assert len(segments) <= 1
    assert len([each for each in segments if each.size <= compaction._MAX_SETTLED // 2]) <= 1


def test_what_is_a_little_worn_stays_as_it_is() -> None:
    assert not segments_to_settle(parts([1_000]), 900)
    assert segments_to_settle(parts([1_000]), 800)


def test_eight_of_a_size_class_are_merged_the_smallest_first() -> None:
    assert not tier_to_merge(parts([10] * 7 + [1_000] * 7))
    assert tier_to_merge(parts([1_000] * 8)) != []
    assert {each.size for each in tier_to_merge(parts([1_000] * 8 + [10] * 9))} == {10}


def test_the_budget_bounds_the_work_of_any_hour() -> None:
    now = 0.0
    budget = MergeBudget(lambda: now)
    spent = 0
    while now < 3_600:
        now += max(1.0, budget.seconds_until(200_000))
        budget.spend(200_000)
        spent += 200_000
    assert spent <= compaction._MAX_SAVED_BUDGET + 3_601 * compaction._SETTLED_PER_SECOND
    assert budget.seconds_until(0) == 0
    assert MergeBudget(lambda: now).seconds_until(compaction._MAX_SAVED_BUDGET) == pytest.approx(0)
