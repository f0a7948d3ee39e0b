"""Limits and quotas: the last admitted value, the first refused one, and the name in the error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, InvalidArgument, LimitReached, ParseError
from palio.network.security.quotas import BrokerLimits, Quota, RateLimiter, check_condition, check_filter


def test_a_condition_may_have_so_many_characters() -> None:
    limits = BrokerLimits(filter_bytes=9)
    assert check_condition("x" * 9, limits) == "x" * 9
    with pytest.raises(LimitReached, match="filter_bytes = 9") as caught:
        check_condition("x" * 10, limits)
    assert (caught.value.limit, caught.value.most) == ("filter_bytes", 9)


def test_a_filter_may_be_so_many_conjunctions() -> None:
    def product(factors: int) -> Filter:
        return Filter.parse(" AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(factors)))

    limits = BrokerLimits(filter_conjunctions=64)
    assert check_filter(product(6), limits) == product(6)
    with pytest.raises(LimitReached, match="filter_conjunctions = 64"):
        check_filter(product(7), limits)
    with pytest.raises(LimitReached, match="filter_conjunctions"):
        check_filter(product(300), BrokerLimits())  # two to the power of 300, and an answer at once


def test_what_a_filter_takes_is_counted_and_not_made() -> None:
    factor = [" OR ".join(f"{name}{n} = 1" for n in range(800)) for name in "ab"]
    with pytest.raises(LimitReached, match="filter_conjunctions"):
        check_filter(Filter.parse(f"({factor[0]}) AND ({factor[1]})"), BrokerLimits(filter_bytes=10**6))


def test_a_condition_that_could_not_be_read_again_as_it_is_stored_is_refused() -> None:
    compared = " AND ".join(f"a{number} < b{number}" for number in range(800))
    alternatives = " OR ".join(f"p{number} = 1 AND q{number} = 2" for number in range(16))
    limits = BrokerLimits(filter_bytes=10**6)
    assert check_filter(Filter.parse(compared), limits) == Filter.parse(compared)
    with pytest.raises(ParseError, match="names of attributes, more than the 10,000 allowed"):
        check_filter(Filter.parse(f"{compared} AND ({alternatives})"), limits)


def test_a_filter_that_grew_by_its_grant_may_not_be_longer_than_one_that_was_written() -> None:
    limits = BrokerLimits(filter_bytes=40)
    wanted, granted = Filter.parse("a IN (1, 2, 3, 4, 5)"), Filter.parse("b IN (1, 2, 3, 4, 5)")
    check_filter(wanted, limits)
    with pytest.raises(LimitReached, match="filter_bytes"):
        check_filter(wanted & granted, limits)


def test_a_limit_is_a_positive_number() -> None:
    for wrong in (0, -1, float("nan"), "5", True):
        with pytest.raises(InvalidArgument, match="connections is a positive number"):
            BrokerLimits(connections=wrong)  # type: ignore[arg-type]


def test_a_rate_admits_a_burst_and_then_what_flows_in() -> None:
    rate = RateLimiter(per_second=10, burst=5, now=0)
    assert rate.take(5, 0)
    assert not rate.take(1, 0.05)
    assert rate.wait(1, 0.05) == pytest.approx(0.05)
    assert rate.take(1, 0.1)
    assert rate.wait(6, 0.1) == float("inf")
    assert not rate.take(6, 1_000)
    assert rate.take(5, 1_000)


@given(
    st.floats(0.1, 100),
    st.floats(1, 100),
    st.lists(st.tuples(st.floats(-1, 5), st.floats(0, 50)), max_size=50),
)
def test_no_rate_admits_more_than_its_burst_and_what_flowed_in_even_when_a_clock_goes_back(
    per_second: float, burst: float, asked: list[tuple[float, float]]
) -> None:
    rate, now, latest, taken = RateLimiter(per_second, burst, 0), 0.0, 0.0, 0.0
    for passed, amount in asked:
        now += passed
        latest = max(latest, now)
        if rate.take(amount, now):
            taken += amount
        assert taken <= burst + per_second * latest + 1e-6 * (1 + len(asked))


def test_places_are_counted_for_each_and_for_all() -> None:
    places = Quota("connections", total=3, each=2, what="connections")
    places.take("a", 2)
    with pytest.raises(LimitReached, match="connections_per_principal = 2"):
        places.take("a")
    places.take("b")
    with pytest.raises(LimitReached, match=r"connections = 3"):
        places.take("c")
    places.release("a")
    places.take("c")
    assert (len(places), places.used_by("a"), places.used_by("c")) == (3, 1, 1)
    places.release("b")
    assert places.used_by("b") == 0
