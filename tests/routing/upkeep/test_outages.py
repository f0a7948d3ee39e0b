"""Outages of links: when filters of a broken link are withdrawn, and what that costs beside the best choice."""

from __future__ import annotations

from math import sqrt

import pytest

from palio.routing.upkeep.outages import Outages, withdrawal_threshold


def adaptive_cost(threshold: float, withdrawal: float, useless: float) -> float:
    """What is paid for an outage in which events would cost `useless` in all, and after which the link is back."""
    return useless if useless <= threshold else threshold + 2 * withdrawal


def best_cost(withdrawal: float, useless: float) -> float:
    """What is paid by one who knows how long the outage will last."""
    return min(useless, 2 * withdrawal)


def test_the_window_in_which_the_source_pays_three_times_as_much() -> None:
    assert adaptive_cost(10, 10, 11) == 30
    assert best_cost(10, 11) == 11
    assert adaptive_cost(withdrawal_threshold(1, 10), 10, 11) == 11


@pytest.mark.parametrize(("factor", "ratio"), [(1.0, 3.0), (sqrt(2), 1 + sqrt(2)), (2.0, 3.0)])
def test_no_outage_costs_more_than_the_stated_multiple_of_the_best(factor: float, ratio: float) -> None:
    withdrawal = 10.0
    threshold = factor * withdrawal
    finite = [
        adaptive_cost(threshold, withdrawal, useless) / best_cost(withdrawal, useless)
        for useless in (each / 100 for each in range(1, 10_000))
    ]
    for_ever = (threshold + withdrawal) / withdrawal  # withdrawn once, and never sent again
    assert max(*finite, for_ever) <= ratio + 0.01
    assert max(*finite, for_ever) >= ratio - 0.02


def test_the_threshold_is_that_of_all_filters_that_are_kept() -> None:
    assert withdrawal_threshold(1, 10) == pytest.approx(14.14, abs=0.01)
    assert withdrawal_threshold(5, 10) == pytest.approx(5 * withdrawal_threshold(1, 10))


def test_filters_are_withdrawn_when_useless_events_have_cost_more_than_that() -> None:
    outages = Outages()
    outages.begin(1, filters=1, brokers=3)
    outages.begin(2, filters=100, brokers=3)
    outages.charge([1, 2], 2)
    outages.charge([1], 2)
    assert list(outages.overdue()) == []
    outages.charge([1], 1)
    assert list(outages.overdue()) == [1]
    assert outages.end(1)
    assert not outages.end(1)


def test_filters_are_not_kept_for_ever_without_events() -> None:
    outages = Outages()
    outages.begin(1, filters=1, brokers=3)
    for _ in range(10):
        outages.count_round()
    assert list(outages.overdue()) == []
    outages.count_round()
    assert list(outages.overdue()) == [1]
