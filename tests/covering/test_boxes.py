"""Boxes: the covered ones are those that a comparison of all pairs finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.covering import boxes
from palio.covering.boxes import Boxes
from palio.covering.covering_kernels import covers
from palio.covering.covering_search import maximal_coverers
from palio.errors import PalioError
from palio.filters.filter import Filter
from palio.matching.subscription import Subscriptions
from palio.workloads import eq, mix
from palio.workloads.flights import SUBSCRIPTIONS, generated_subscriptions
from palio.workloads.generated import AT_LEAST, AT_MOST, UNUSED, Conditions
from palio.workloads.synthetic import Workload
from tests.covering.test_redundancy import compared_pairwise, conditions
from tests.strategies import readable_conditions


def read(wheres: list[str]) -> Boxes:
    return Boxes.read(Subscriptions([str(number) for number in range(len(wheres))], list(wheres)))


def check(wheres: list[str]) -> Boxes:
    made = read(wheres)
    parsed = [Filter.parse(wheres[number]) for number in made.numbers]
    found = made.covered_by()
    assert set(np.flatnonzero(found >= 0).tolist()) == compared_pairwise(parsed, [""] * len(parsed))
    for row, by in enumerate(maximal_coverers(found)):
        assert by < 0 or (parsed[by].covers(parsed[row]) and found[by] < 0)
    return made


@given(st.lists(conditions | readable_conditions(["x", "y"], depth=2), max_size=12))
def test_it_agrees_with_comparing_every_pair(wheres: list[str]) -> None:
    check(wheres)


VALUES = st.sampled_from(
    ["1", "2", "2.5", "3", "1e0", "2.5e0", "-0.0", "9007199254740993", "9007199254740992.5", "'a'", "'ab'", "'b'",
     "DATE'2024-01-01'", "TIMESTAMP'2024-01-01 00:00:00'", "TRUE"]
)  # fmt: skip
COMPARISONS = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from("xy"), st.sampled_from(["<", "<=", "=", ">=", ">", "<>"]), VALUES),
    st.builds("{} BETWEEN {} AND {}".format, st.sampled_from("xy"), VALUES, VALUES),
    st.builds("{} IN ({}, {})".format, st.sampled_from("xy"), VALUES, VALUES),
    st.sampled_from(["x IS NULL", "y IS NOT NULL", "(x IS NULL OR x > 2)", "(x < 1 OR x > 2)", "TRUE"]),
)


@given(st.lists(st.lists(COMPARISONS, min_size=1, max_size=3).map(" AND ".join), max_size=20))
def test_it_agrees_on_values_of_all_kinds(wheres: list[str]) -> None:
    check([where for where in wheres if is_readable(where)])


def is_readable(where: str) -> bool:
    try:
        Filter.parse(where)
    except PalioError:  # values of two kinds that do not compare
        return False
    return True


# The length of the first batch is no option of a caller, and must not change the answer.
@pytest.mark.parametrize("first", [1, 7, boxes._FIRST_BATCH_BOXES])
def test_it_agrees_on_real_subscriptions_in_stretches_of_any_length(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(boxes, "_FIRST_BATCH_BOXES", first)
    made = check([each.where for each in (*SUBSCRIPTIONS, *generated_subscriptions(300))])
    assert len(made.numbers) > 150


def test_conjunctions_of_intervals_are_boxes_and_others_are_not() -> None:
    wheres = ["x > 1 AND y = 'a'", "x > 1 OR y = 'a'", "x IN (1, 7)", "y LIKE '%a%'", "x < z", "FALSE", "TRUE"]
    assert read(wheres).numbers.tolist() == [0, 2, 6]


def test_of_thresholds_the_lowest_is_left_and_of_equal_ones_the_first() -> None:
    thresholds = [f"x > {number / 8}" for number in range(20_000)]
    assert np.flatnonzero(read(thresholds[::-1]).covered_by() < 0).tolist() == [19_999]
    assert np.flatnonzero(read(["x > 1"] * 20_000).covered_by() < 0).tolist() == [0]


@pytest.mark.parametrize("count", [5_000, pytest.param(1_000_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("workload", [mix(), eq(), mix(attributes=4, conditions=(1, 3), present=(1, 4))])
def test_it_agrees_on_a_workload_that_is_compared_as_arrays(workload: Workload, count: int) -> None:
    made = workload.subscriptions(count)
    rows = Boxes.read(Subscriptions(made["id"].to_pylist(), made["where"].to_pylist()))
    assert len(rows.numbers) == count
    found = rows.covered_by()
    by = maximal_coverers(found)
    asked = workload.subscription_conditions(count)
    for row in np.random.default_rng(1).choice(count, 60, replace=False).tolist():
        above = who_covers(asked, row)
        assert (found[row] >= 0) == bool(len(above))
        assert by[row] < 0 or by[row] in above


def who_covers(asked: Conditions, row: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Those that ask of no other attributes, for no less of each; of equal ones, those before."""
    low = np.where(asked.kind == AT_MOST, -1, asked.low)
    high = np.where(asked.kind == AT_LEAST, 2**31 - 1, asked.high)
    holds = np.ones(asked.kind.shape, np.bool_)
    equal = np.ones(len(asked), np.bool_)
    for place in range(asked.kind.shape[1]):
        own = asked.attribute[:, place, None] == asked.attribute[row][None, :]
        own &= asked.kind[row] != UNUSED
        within = (low[:, place, None] <= low[row]) & (high[:, place, None] >= high[row])
        same = (low[:, place, None] == low[row]) & (high[:, place, None] == high[row])
        unused = asked.kind[:, place] == UNUSED
        holds[:, place] = unused | (own & within).any(axis=1)
        equal &= unused | (own & same).any(axis=1)
    equal &= (asked.kind != UNUSED).sum(axis=1) == (asked.kind[row] != UNUSED).sum()
    covering = holds.all(axis=1) & (~equal | (np.arange(len(asked)) < row))
    return np.flatnonzero(covering)


Intervals = list[tuple[int, int, int]]
INTERVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 3)).map(lambda each: (*each[:2], sum(each[1:]))),
    max_size=4,
)


@given(INTERVALS, INTERVALS)
def test_one_row_of_intervals_covers_another_as_sets_do(one: Intervals, other: Intervals) -> None:
    wide, narrow = _slots(one), _slots(other)
    rows = [_intervals(wide), _intervals(narrow)]
    start = np.cumsum([0, *map(len, rows)])
    axis, low, high = np.array([*rows[0], *rows[1]], np.int32).reshape(-1, 3).T.copy()
    expected = all(axis in narrow and narrow[axis] <= slots for axis, slots in wide.items())
    assert covers(0, 1, start, axis, low, high) == expected


def _slots(intervals: Intervals) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for axis, low, high in intervals:
        found.setdefault(axis, set()).update(range(low, high + 1))
    return found


def _intervals(slots: dict[int, set[int]]) -> Intervals:
    """Intervals that touch none of the others."""
    found = []
    for axis in sorted(slots):
        lows = [slot for slot in sorted(slots[axis]) if slot - 1 not in slots[axis]]
        highs = [slot for slot in sorted(slots[axis]) if slot + 1 not in slots[axis]]
        found += [(axis, low, high) for low, high in zip(lows, highs, strict=True)]
    return found
