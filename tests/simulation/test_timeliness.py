"""Ages of events in simulated networks: never below the truth."""

from __future__ import annotations

import pytest

from palio.errors import IllegalCombination
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS

TIMELY = {"timeliness": True, "max_drift": 0.001, "drift": 0.001}


def published_at(net: Network, at: int, times: dict[str, float], **content: int) -> None:
    times[net.publish(at, content).id] = net.now


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("faults", [{}, {"jitter": 0.2}, {**FAULTY_LINKS, "delay": 0.02}, {"bandwidth": 20_000.0}])
def test_no_event_is_older_than_its_age_says(faults: dict[str, float], seed: int) -> None:
    net = Network.random(7, options={**TIMELY, **faults}, seed=seed)
    net.subscribe(seed % 7, "x >= 0")
    net.subscribe((seed + 3) % 7, "x > 3")
    net.run()
    net.run(20.0)
    times: dict[str, float] = {}
    for number in range(12):
        published_at(net, number % 7, times, x=number)
        if number % 3:
            net.run(0.5)
    net.run()
    assert len(net.deliveries) == 12 + 8
    for each in net.deliveries:
        assert each.age is not None
        assert each.age >= each.time - times[each.event.id]


def test_on_steady_links_the_bound_is_a_round_trip_at_most() -> None:
    net = Network.line(4, options={**TIMELY, "delay": 0.05})
    net.subscribe(3, "x > 0")
    net.run()
    net.run(20.0)
    net.publish(0, {"x": 1})
    net.run()
    [delivery] = net.deliveries
    # Three links of 50 ms. Unsynchronised clocks cannot tell there from back, so that the bound is that of both;
    # drift since the last references, five seconds ago at most, adds 10 ms a link.
    assert delivery.age is not None
    assert 0.15 <= delivery.age <= 0.34
    assert delivery.is_timely(0.34)
    assert not delivery.is_timely(0.15)


def test_traffic_of_one_link_does_not_put_off_the_references_of_others() -> None:
    net = Network.line(4, options={"timeliness": True, "max_drift": 1e-4, "drift": 1e-4, "delay": 0.005}, seed=7)
    desk = net.subscribe(3, "x > 0")
    net.run()
    # Often enough that each event makes its receiver tell the sender of a better helper.
    for _ in range(400):
        net.publish(0, {"x": 1}, settled=False)
        net.run(0.73)
    ages = [each.age for each in net.deliveries_of(desk)][20:]
    # Three round trips of 10 ms, and twice the drift of the five seconds between references.
    assert all(age is not None and age <= 0.034 for age in ages)


def test_ages_grow_by_the_time_that_an_event_waits_at_a_broker() -> None:
    net = Network.line(3, options={**TIMELY, "delay": 0.01, "disk": 2.0})
    net.subscribe(2, "x > 0", durable=True)
    net.run()
    net.run(20.0)
    before = net.now
    net.publish(0, {"x": 1}, confirm=True)
    net.run()
    [delivery] = net.deliveries
    assert delivery.time - before >= 4.0  # written here, and queued there
    assert delivery.age is not None
    assert delivery.age >= delivery.time - before


def test_a_broker_that_restarts_has_another_clock_and_bounds_hold_again() -> None:
    net = Network.line(3, options=TIMELY, seed=3)
    net.subscribe(2, "x > 0")
    net.run()
    net.run(10.0)
    net.crash(1)
    net.run(5.0)
    net.restart(1)
    net.run()
    net.run(10.0)
    before = net.now
    net.publish(0, {"x": 1})
    net.run()
    [delivery] = net.deliveries
    assert delivery.age is not None
    assert delivery.time - before <= delivery.age <= 0.1


def test_an_event_logged_before_a_crash_has_no_age_after_it() -> None:
    net = Network.line(2, options={**TIMELY, "drift": 0.0}, seed=3)
    net.subscribe(1, "x > 0", durable=True)
    net.run()
    net.cut((0, 1))
    net.publish(0, {"x": 1}, confirm=True)
    net.run()
    net.crash(0)
    net.restart(0)
    net.mend((0, 1))
    net.run()
    [delivery] = net.deliveries
    assert delivery.age is None
    assert not delivery.is_timely(1e9)


def test_without_the_option_there_is_no_age_and_no_message() -> None:
    net = Network.line(2)
    net.subscribe(1, "x > 0")
    net.publish(0, {"x": 1})
    net.run()
    [delivery] = net.deliveries
    assert delivery.age is None
    assert not net.traffic.messages("clockreference")


def test_clocks_that_drift_more_than_is_assumed_are_refused() -> None:
    with pytest.raises(IllegalCombination, match="max_drift"):
        Network.line(2, options={"timeliness": True, "drift": 0.01})
    Network.line(2, options={"timeliness": True, "drift": 0.01, "max_drift": 0.01})
