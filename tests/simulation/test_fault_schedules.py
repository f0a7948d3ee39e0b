"""Every legal combination under schedules of faults: right while they last, safe and live when they are over.

A failure prints the schedule, shrunk, as a test of its own. Named tests at the end are such schedules of the past.
"""

from __future__ import annotations

import pytest

from palio.routing.combinations import Combination
from palio.simulation import DiskFull, FaultSchedule, LinkCut, Network, shrink
from tests.simulation.fault_scenarios import choices_of, drawn_network, run_scenario
from tests.simulation.scenarios import hosts
from tests.simulation.test_flooding_oracle import COMBINATIONS, every_combination

DEEP_SEEDS = 120  # for each of some ninety combinations: more than ten thousand schedules


def complaints(combination: Combination, seed: int, schedule: FaultSchedule | None = None) -> str:
    """What is wrong with a run; empty where nothing is."""
    shape, drawn = drawn_network(seed)
    net, settled_at = run_scenario(choices_of(combination), shape, schedule or drawn, seed)
    found = [] if net.verdict().is_right else [str(net.verdict())]
    found += [str(each) for each in net.safety() if each.property != "at most once"]
    found += [str(each) for each in (*net.safety(since=settled_at), *net.liveness(since=settled_at))]
    found += [
        f"broker {host.number} has unfinished events"
        for host in hosts(net)
        if host.node is not None and host.node.broker.delivery.unfinished
    ]
    return "\n".join(found)


def judged(combination: Combination, seed: int) -> None:
    found = complaints(combination, seed)
    if found:
        shape, drawn = drawn_network(seed)
        small = shrink(drawn, lambda tried: bool(complaints(combination, seed, tried)), max_runs=100)
        source = small.test_source(
            "a_name", f"assert complaints(combination_named({str(combination)!r}), {seed}, FAULTS) == ''"
        )
        pytest.fail(f"{combination}, seed {seed}, {shape}\n{found}\n{source}", pytrace=False)


def combination_named(name: str) -> Combination:
    return next(each for each in COMBINATIONS if str(each) == name)


@every_combination
def test_faults_end_and_nothing_of_them_is_left(combination: Combination) -> None:
    first = 10 * COMBINATIONS.index(combination)
    for seed in range(first, first + 3):
        judged(combination, seed)


@pytest.mark.deep
@every_combination
def test_more_than_ten_thousand_schedules(combination: Combination) -> None:
    first = 10_000 + DEEP_SEEDS * COMBINATIONS.index(combination)
    for seed in range(first, first + DEEP_SEEDS):
        judged(combination, seed)


# Found by these tests


def test_a_full_disk_lets_no_subscriber_that_is_not_durable_get_an_event_twice() -> None:
    net = Network.line(2, faults=FaultSchedule(faults=(DiskFull(time=0.5, broker=0, seconds=2.0),)))
    desk = net.subscribe(0, "TRUE", durable=True)
    passing = net.subscribe(0, "TRUE")
    net.run(0.6)
    event = net.publish(1, {"x": 1}, settled=False, confirm=True)
    net.run()
    assert [each.event for each in net.deliveries_of(passing)] == net.queue(desk) == [event]
    assert net.safety() == []


def test_a_full_disk_is_not_written_to_again_and_again() -> None:
    net = Network.line(2, faults=FaultSchedule(faults=(DiskFull(time=0.5, broker=1, seconds=4.0),)))
    net.run(0.6)
    net.subscribe(0, "TRUE", durable=True)  # which broker 1 is to write down
    net.run(3.0)
    assert 1 <= net.drops["refused by a full disk"] <= 8
    net.run()
    assert not hosts(net)[1].node.broker.delivery.is_learning  # type: ignore[union-attr]


def test_in_a_hierarchy_a_home_is_not_within_reach_before_its_subscriptions_are() -> None:
    faults = FaultSchedule(faults=(LinkCut(time=1.0, link=(0, 1), seconds=0.1),))
    for moment in range(40):
        net = Network.line(2, options={"hierarchy": True}, faults=faults)
        desk = net.subscribe(1, "TRUE", durable=True)
        net.run(1.1 + moment * 0.001)
        event = net.publish(0, {"x": 1}, settled=False, confirm=True)
        net.run()
        assert net.queue(desk) == [event], f"published {moment} ms after the link came up"
