"""Covering search: it agrees with comparing every pair; corner events are matched by their filter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.covering.corner_events import corner_events
from palio.covering.covering_search import CoveringSearch, maximal_coverers
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.workloads import mix
from palio.workloads.flights import SUBSCRIPTIONS, generated_subscriptions
from tests.covering.test_redundancy import compared_pairwise, conditions
from tests.strategies import filters, readable_conditions


def search(wheres: list[str]) -> list[int]:
    subscriptions = [Subscription(str(number), where) for number, where in enumerate(wheres)]
    matcher = Matcher()
    matcher.add_subscriptions(subscriptions)
    filters = [each.filter for each in subscriptions]
    found = CoveringSearch(filters.__getitem__, len(filters), matcher).covered_by(range(len(filters)))
    without = CoveringSearch(filters.__getitem__, len(filters), None).covered_by(range(len(filters)))
    assert [by >= 0 for by in found] == [by >= 0 for by in without]
    return found


def check(wheres: list[str]) -> None:
    found = search(wheres)
    parsed = [Filter.parse(where) for where in wheres]
    expected = compared_pairwise(parsed, [""] * len(parsed), nothing_too=True)
    assert {number for number, by in enumerate(found) if by >= 0} == expected
    for number, by in enumerate(maximal_coverers(np.array(found, np.int64))):
        if by >= 0:
            assert parsed[by].covers(parsed[number])
            assert found[by] < 0


@given(st.lists(conditions | readable_conditions(["x", "y"], depth=2), max_size=12))
def test_it_agrees_with_comparing_every_pair(wheres: list[str]) -> None:
    check(wheres)


@pytest.mark.parametrize(
    ("wheres", "by"),
    [
        (["x > 1", "x > 1", "x > 1 AND x < 0"], [-1, 0, 0]),
        (["FALSE", "x > 1", "x > 2"], [1, -1, 1]),
        (["FALSE", "x < 0 AND x > 1", "FALSE"], [-1, 0, 0]),
        (["FALSE"], [-1]),
    ],
)
def test_anybody_covers_what_never_matches(wheres: list[str], by: list[int]) -> None:
    assert search(wheres) == by


def test_it_agrees_on_real_subscriptions() -> None:
    check([each.where for each in (*SUBSCRIPTIONS, *generated_subscriptions(300))])


def test_it_agrees_on_a_workload() -> None:
    workload = mix(attributes=4, conditions=(1, 3), present=(1, 4), vocabulary=5)
    check(workload.subscriptions(400)["where"].to_pylist())


@given(filters())
def test_witnesses_are_matched_by_their_filter(wanted: Filter) -> None:
    found = corner_events(wanted)
    for corner in found or ():
        assert wanted.matches_attributes({name: value for name, value in corner.items() if value is not None})


@pytest.mark.parametrize(
    "where",
    ["x > 5 AND y = 'a'", "x LIKE '%abc%'", "x LIKE 'a%b_c%' AND y < DATE'2024-01-01'", "x IN (1, 2) OR y > 3",
     "x IS NULL", "x <> 5", "b AND NOT c", "t >= TIMESTAMP'2024-01-01'", "x >= 'm'", "x < 'm'", "x > 1.5"],
)  # fmt: skip
def test_most_filters_have_witnesses(where: str) -> None:
    assert corner_events(Filter.parse(where)) is not None


def test_the_widest_of_a_chain_is_found() -> None:
    assert maximal_coverers(np.array([1, 2, 3, -1, 3, -1])).tolist() == [3, 3, 3, -1, 3, -1]
    assert maximal_coverers(np.array([-1, -1])).tolist() == [-1, -1]
    assert maximal_coverers(np.array([], np.int64)).tolist() == []
