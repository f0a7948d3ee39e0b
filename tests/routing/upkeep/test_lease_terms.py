"""Lengths of leases: extension policies, clamping, utilisation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.routing.messages import UNKNOWN_AGE
from palio.routing.strategies import Leases
from palio.routing.upkeep.lease_terms import DelaySpread, Lease, LeaseCounters, LeaseTerms, lease_length

SECOND = 1_000_000_000


def length(
    chosen: Leases, delay: float | None, lease: Lease | None = None, *, now: float = 0.0, wall: float = 0.0
) -> float:
    age = UNKNOWN_AGE if delay is None else round(delay * SECOND)
    terms = LeaseTerms(chosen.validity, age, 0, until=chosen.validity)
    return lease_length(chosen, terms, lease or Lease(), now, lambda: wall)


def test_the_worked_example_of_extension() -> None:
    # Three seconds to the first broker, two more to the second.
    chosen = Leases(validity=5.0, refresh=4.0)
    assert length(chosen, 3.0) == 8.0
    assert length(chosen, 5.0) == 10.0


def test_the_worked_example_of_a_validity_time() -> None:
    # Issued at 0 until 5, two seconds for each hop: the third broker gets what has ended.
    chosen = Leases(validity=5.0, refresh=4.0, lease="time")
    assert [length(chosen, 2.0 * hop, wall=2.0 * hop) for hop in (1, 2, 3)] == [3.0, 1.0, -1.0]


def test_the_worked_example_of_an_interval_without_extension() -> None:
    # The first broker has it from 2 to 6, the third from 6 on: the way is never complete.
    chosen = Leases(validity=4.0, refresh=3.0, extension="none")
    ends = [2.0 * hop + length(chosen, 2.0 * hop) for hop in (1, 2, 3)]
    assert ends[0] == 6.0 == 2.0 * 3
    # With extension by the bound on delays the first one still has it.
    extended = Leases(validity=4.0, refresh=3.0)
    assert 2.0 + length(extended, 2.0) > 6.0


@pytest.mark.parametrize(("delay", "share"), [(0.0, 0.8), (0.4, 0.8 / 1.4), (1 / 3, 0.6)])
def test_the_worked_examples_of_utilisation(delay: float, share: float) -> None:
    chosen = Leases(validity=1.0, refresh=0.8)
    counters = LeaseCounters()
    counters.count_renewal(0.8, length(chosen, delay))
    assert counters.statistics(1).mean_utilisation == pytest.approx(share)
    assert counters.statistics(1).max_utilisation == pytest.approx(share)


def test_the_spread_of_delays_extends_a_lease_less_than_the_delay_on_a_steady_way() -> None:
    lease = Lease()
    chosen = Leases(validity=1.0, refresh=0.8, extension="uncertainty")
    assert length(chosen, 0.4, lease) == 1.4  # one sample has no spread: the bound itself
    assert length(chosen, 0.4, lease) == 1.0
    assert length(chosen, 0.5, lease) == pytest.approx(1.1)
    assert length(chosen, 0.3, lease) == pytest.approx(1.2)
    assert length(chosen, 0.4, lease) == pytest.approx(1.2)


def test_samples_leave_the_window_by_number() -> None:
    spread = DelaySpread(messages=3, seconds=None)
    assert spread.add(9.0, 0.0) is None
    for _ in range(5):
        assert spread.add(1.0, 0.0) == 8.0
    # The half with the long delay is gone after twice the window at the latest.
    assert spread.add(1.0, 0.0) == 0.0


def test_samples_leave_the_window_by_time() -> None:
    spread = DelaySpread(messages=200, seconds=20.0)
    assert spread.add(9.0, 0.0) is None
    assert spread.add(1.0, 19.0) == 8.0
    assert spread.add(1.0, 21.0) == 8.0
    assert spread.add(1.0, 42.0) == 0.0


@given(st.lists(st.floats(0, 100), min_size=2, max_size=40), st.integers(2, 10))
def test_the_spread_is_never_below_that_of_the_window(delays: list[float], messages: int) -> None:
    spread = DelaySpread(messages, None)
    for number, delay in enumerate(delays):
        found = spread.add(delay, 0.0)
        window = delays[max(0, number + 1 - messages) : number + 1]
        assert found is None or found >= max(window) - min(window)


@pytest.mark.parametrize("extension", ["upper_bound", "uncertainty"])
def test_a_renewal_of_unknown_age_has_the_longest_lease(extension: Any) -> None:
    chosen = Leases(validity=1.0, refresh=0.5, max_validity=7.0, extension=extension)
    assert length(chosen, None) == 7.0


@given(
    st.floats(0.1, 50),
    st.one_of(st.none(), st.floats(0, 1000)),
    st.sampled_from(["upper_bound", "uncertainty", "none"]),
)
def test_no_lease_is_longer_than_max_validity(validity: float, delay: float | None, extension: Any) -> None:
    chosen = Leases(validity=validity, refresh=validity / 2, max_validity=60.0, extension=extension)
    assert length(chosen, delay) <= 60.0


def test_a_renewal_older_than_any_lease_holds_no_more() -> None:
    assert length(Leases(max_validity=600.0), 601.0) == 0.0


@given(st.floats(0.1, 0.9), st.floats(0.1, 0.9), st.floats(0, 2))
def test_a_longer_refresh_period_has_a_higher_utilisation(one: float, other: float, delay: float) -> None:
    shares = []
    for refresh in sorted((one, other)):
        counters = LeaseCounters()
        counters.count_renewal(refresh, length(Leases(validity=1.0, refresh=refresh), delay))
        shares.append(counters.statistics(1).mean_utilisation)
    assert shares[0] <= shares[1]


@given(st.floats(0, 5), st.floats(0, 0.01))
def test_on_a_stable_way_the_uncertainty_policy_uses_leases_more(delay: float, jitter: float) -> None:
    lease = Lease()
    uncertainty = Leases(validity=10.0, refresh=8.0, extension="uncertainty")
    lengths = [length(uncertainty, delay + jitter * (turn % 2), lease) for turn in range(10)]
    upper_bound = [length(Leases(validity=10.0, refresh=8.0), delay + jitter * (turn % 2)) for turn in range(10)]
    if delay >= jitter:
        assert all(one <= other + 1e-9 for one, other in zip(lengths, upper_bound, strict=True))
