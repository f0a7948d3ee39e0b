"""Arrivals, churn and placement: their distributions, and equal results for equal seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from statistics import mean, variance
from typing import Any

import pytest

from palio import InvalidArgument
from palio.workloads.network_workload import (
    PLACEMENTS,
    PROCESSES,
    alike,
    bursts,
    churn,
    periodic,
    poisson,
    popular,
    recorded,
    uniform,
)


def counts_in_seconds(times: Iterator[float], seconds: int) -> list[int]:
    found = Counter(int(time) for time in takewhile(lambda time: time < seconds, times))
    return [found[second] for second in range(seconds)]


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
def test_a_process_is_in_order_keeps_its_rate_and_is_decided_by_its_seed(
    process: Callable[[float, int], Iterator[float]],
) -> None:
    times = list(islice(process(20.0, 3), 4000))
    assert times == list(islice(process(20.0, 3), 4000))
    assert all(before <= after for before, after in pairwise(times))
    assert times[-1] / 4000 == pytest.approx(1 / 20, rel=0.15)


def test_processes_differ_in_how_uneven_they_are() -> None:
    """The variance of what arrives in a second is nothing, the mean, or many times the mean."""
    even, chance, uneven = (counts_in_seconds(each, 500) for each in (periodic(20), poisson(20, 1), bursts(20, 1)))
    assert variance(even) == 0
    assert variance(chance) / mean(chance) == pytest.approx(1, abs=0.25)
    assert variance(uneven) / mean(uneven) > 8


def test_what_was_recorded_is_played_faster_and_must_be_in_order() -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    times = [start, start + timedelta(seconds=10), start + timedelta(seconds=10), start + timedelta(seconds=40)]
    assert list(recorded(times, 10.0)) == [0.0, 1.0, 1.0, 4.0]
    with pytest.raises(InvalidArgument, match="in order"):
        list(recorded(reversed(times), 1.0))


@pytest.mark.parametrize("make", [lambda: next(poisson(0)), lambda: next(bursts(1, 0, 0.5)), lambda: next(churn(3, 0)),
                                  lambda: uniform(0), lambda: alike(3, 0, 2.0)])  # fmt: skip
def test_what_cannot_be_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgument):
        make()


def test_a_population_stays_what_it_was_in_the_mean_while_everybody_goes() -> None:
    changes = list(takewhile(lambda each: each.time < 300, churn(50, 10.0, 4)))
    assert changes == list(takewhile(lambda each: each.time < 300, churn(50, 10.0, 4)))
    assert all(before.time <= after.time for before, after in pairwise(changes))
    came: dict[int, float] = {}
    stays, sizes = [], []
    for change in changes:
        if change.comes:
            assert change.number not in came
            came[change.number] = change.time
        else:
            stays.append(change.time - came.pop(change.number))
        sizes.append(len(came))
    assert [each.number for each in changes[:50]] == list(range(50))
    assert mean(sizes[200:]) == pytest.approx(50, rel=0.2)
    assert mean(stays) == pytest.approx(10, rel=0.15)
    assert min(came) >= 50


@pytest.mark.parametrize("make", PLACEMENTS.values(), ids=PLACEMENTS)
def test_a_placement_is_decided_by_its_seed_and_uses_all_brokers(make: Callable[[int, int], Any]) -> None:
    wanted = [f"x = {number % 200}" for number in range(3000)]
    places = [[place(each) for each in wanted] for place in (make(7, 1), make(7, 1), make(7, 2))]
    assert places[0] == places[1] != places[2]
    assert set(places[0]) == set(range(7))


def test_many_live_at_few_brokers() -> None:
    place = popular(10, seed=5)
    counts = sorted(Counter(place("") for _ in range(5000)).values(), reverse=True)
    assert counts[0] / 5000 == pytest.approx(1 / sum(1 / rank for rank in range(1, 11)), rel=0.1)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.35)


def test_those_who_want_the_same_live_together() -> None:
    place = alike(10, seed=5)
    homes = {wanted: Counter(place(wanted) for _ in range(500)) for wanted in ("a", "b", "c", "d")}
    for counts in homes.values():
        assert counts.most_common(1)[0][1] / 500 == pytest.approx(0.8 + 0.02, abs=0.06)
    assert len({counts.most_common(1)[0][0] for counts in homes.values()}) > 1
