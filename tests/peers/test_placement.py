"""Placement of keys: an event and a subscription with a common key share a bucket."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.peers.placement import AxisLoad, EventCells, Placement, place_cells
from palio.peers.rendezvous_mappings import Arc


@st.composite
def situations(draw: Any) -> tuple[Placement, list[list[Arc]], list[list[tuple[int, int]]]]:
    """A placement for loads that may be nothing like what comes, subscriptions, and events' keys."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    everywhere = draw(st.sampled_from([-1, len(sizes)]))
    if everywhere >= 0:
        sizes.append(1)
    counts = st.integers(0, 30).map(float)
    loads = []
    for size in sizes:
        starts, ends, events = (np.array(draw(st.lists(counts, min_size=size, max_size=size))) for _ in range(3))
        loads.append(AxisLoad(starts, ends, events))
    placement = place_cells(loads, draw(st.integers(1, 60)), draw(st.integers(1, 60)), everywhere)
    arcs = st.sampled_from(range(len(sizes))).flatmap(
        lambda axis: st.tuples(st.integers(0, sizes[axis] - 1), st.integers(0, sizes[axis] - 1)).map(
            lambda ends: Arc(axis, min(ends), max(ends))
        )
    )
    subscriptions = draw(st.lists(st.lists(arcs, max_size=3), max_size=6))
    keys = st.sampled_from(range(len(sizes))).flatmap(
        lambda axis: st.tuples(st.just(axis), st.integers(0, sizes[axis] - 1))
    )
    events = [sorted(set(each)) for each in draw(st.lists(st.lists(keys, max_size=4), max_size=8))]
    if everywhere >= 0:
        events = [sorted({*each, (everywhere, 0)}) for each in events]
    return placement, subscriptions, events


@given(situations(), st.booleans())
def test_a_common_key_is_a_common_bucket(
    situation: tuple[Placement, list[list[Arc]], list[list[tuple[int, int]]]], all_somewhere: bool
) -> None:
    placement, subscriptions, events = situation
    by_axis: dict[int, list[tuple[int, int]]] = {}
    for row, keys in enumerate(events):
        for axis, cell in keys:
            by_axis.setdefault(axis, []).append((row, cell))
    keyed = [
        EventCells(axis, np.array([row for row, _ in found]), np.array([cell for _, cell in found]))
        for axis, found in by_axis.items()
    ]
    rows, buckets = placement.of_events(keyed, len(events), all_somewhere=all_somewhere)
    pairs = list(zip(rows.tolist(), buckets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert all(0 <= bucket < placement.buckets for _, bucket in pairs)
    if all_somewhere:
        assert {row for row, _ in pairs} == set(range(len(events)))
    for number, arcs in enumerate(subscriptions):
        ranges = placement.of_subscription(arcs, f"subscription {number}")
        assert all(ranges[i][1] + 1 < ranges[i + 1][0] for i in range(len(ranges) - 1))
        own = {bucket for first, last in ranges for bucket in range(first, last + 1)}
        assert own <= set(range(placement.buckets))
        for row, keys in enumerate(events):
            if any(axis == arc.axis and arc.first <= cell <= arc.last for arc in arcs for axis, cell in keys):
                assert own & {bucket for at, bucket in pairs if at == row}


def points(counts: list[float], events: list[float] | None = None) -> AxisLoad:
    """Subscriptions of one cell each."""
    each = np.array(counts, float)
    return AxisLoad(each, each, np.array(events or [0.0] * len(counts)))


def test_buckets_are_filled_in_order_and_to_the_same_share() -> None:
    choice = Random(3)
    counts = [float(choice.randrange(1, 10)) for _ in range(1_000)]
    placement = place_cells([points(counts)], 100, 1)
    totals = np.bincount(placement.axes[0].first, counts)
    assert placement.buckets == pytest.approx(sum(counts) / 100, rel=0.1)
    assert totals.max() <= 100
    assert (np.diff(placement.axes[0].first) >= 0).all()


def test_a_range_counts_once_in_a_bucket() -> None:
    starts, ends = np.zeros(100), np.zeros(100)
    starts[0], ends[99] = 80, 80
    placement = place_cells([AxisLoad(starts, ends, np.zeros(100))], 100, 1)
    assert placement.buckets == 1


def test_a_crowded_cell_is_divided_among_its_subscriptions() -> None:
    placement = place_cells([points([10, 1_000, 10])], 100, 1)
    assert placement.axes[0].rows.tolist() == [1, 10, 1]
    assert placement.buckets == 12
    buckets = [placement.of_subscription([Arc(0, 1, 1)], str(id)) for id in range(1_000)]
    assert {first for ((first, _),) in buckets} == set(range(1, 11))
    _, found = placement.of_events([EventCells(0, np.arange(1), np.array([1]))], 1, all_somewhere=False)
    assert found.tolist() == list(range(1, 11))


def test_a_crowded_cell_is_divided_among_its_events() -> None:
    placement = place_cells([points([1, 1, 1], [0.1, 1.0, 0.1])], 100, 0.2)
    assert placement.axes[0].columns.tolist() == [1, 5, 1]
    assert placement.of_subscription([Arc(0, 1, 1)], "a") == [(1, 5)]
    _, found = placement.of_events([EventCells(0, np.arange(10), np.ones(10, np.int64))], 10, all_somewhere=False)
    assert found.tolist() == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


def test_few_without_a_key_are_in_every_bucket_and_many_share_the_events() -> None:
    few = place_cells([points([100] * 10), points([3])], 100, 10, everywhere=1)
    assert (few.everywhere, few.buckets) == (1, 10)
    assert few.of_subscription([Arc(1, 0, 0)], "a") == [(0, 9)]
    many = place_cells([points([100] * 10), points([300])], 100, 10, everywhere=1)
    assert (many.everywhere, many.buckets) == (-1, 13)
    assert len(many.of_subscription([Arc(1, 0, 0)], "a")) == 1
