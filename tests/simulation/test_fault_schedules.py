"""Every legal combination under schedules of faults: right while they last, safe and live when they are over.

A failure prints the schedule, shrunk, as a test of its own. Named tests at the end are such schedules of the past.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from palio import Event, NotAdvertised
from palio.routing.combinations import Combination, upkeep_variants
from palio.simulation import (
    DiskFull,
    FaultSchedule,
    LinkCut,
    Network,
    SlowBroker,
    Subscription,
    TableCorruption,
    shrink,
)
from palio.simulation.history import Advertisement
from tests.simulation.fault_scenarios import choices_of, drawn_network, has_circles, run_scenario
from tests.simulation.scenarios import hosts
from tests.simulation.test_flooding_oracle import COMBINATIONS as OF_ORACLE

# The oracle leaves out XRoute by differences, which sends what covering does. How it is kept true is its own matter.
COMBINATIONS = OF_ORACLE + [replace(each, propagation="xroute") for each in OF_ORACLE if each.propagation == "covering"]
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
DEEP_SEEDS = 120  # for each of more than a hundred combinations: more than ten thousand schedules


def complaints(combination: Combination, seed: int, schedule: FaultSchedule | None = None) -> str:
    """What is wrong with a run; empty where nothing is."""
    shape, drawn = drawn_network(seed, combination)
    given = schedule or drawn
    net, settled_at = run_scenario(choices_of(combination), shape, given, seed)
    # Tables under lease are right after a time, whether the network is quiet or not: the oracle goes by quiet moments.
    found = [] if combination.tables == "leases" or net.verdict().is_right else [str(net.verdict())]
    if not any(isinstance(each, TableCorruption) for each in given.faults):
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
        shape, drawn = drawn_network(seed, combination)
        small = shrink(drawn, lambda tried: bool(complaints(combination, seed, tried)), max_runs=100)
        source = small.test_source(
            "a_name", f"assert complaints(combination_named({str(combination)!r}, {seed}), {seed}, FAULTS) == ''"
        )
        pytest.fail(f"{combination}, seed {seed}, {shape}\n{found}\n{source}", pytrace=False)


def turn_of(seed: int) -> int:
    """The place of a seed among those with circles, or among those without: every upkeep has its turn in both."""
    return seed // 4 if has_circles(seed) else seed - seed // 4


def with_upkeep(combination: Combination, seed: int) -> Combination:
    """The combination with the upkeep of tables, crashes and paths whose turn it is."""
    circles = {"circles": True} if has_circles(seed) else {}  # which some upkeep of paths needs
    variants = upkeep_variants(replace(combination, options={**combination.options, **circles}))
    return variants[turn_of(seed) % len(variants)]


def combination_named(name: str, seed: int) -> Combination:
    """The combination that a failure names."""
    return next(each for each in (with_upkeep(every, seed) for every in COMBINATIONS) if str(each) == name)


@every_combination
def test_faults_end_and_nothing_of_them_is_left(combination: Combination) -> None:
    first = 10 * COMBINATIONS.index(combination)
    for seed in range(first, first + 3):
        judged(with_upkeep(combination, seed), seed)


@pytest.mark.deep
@every_combination
def test_more_than_ten_thousand_schedules(combination: Combination) -> None:
    first = 10_000 + DEEP_SEEDS * COMBINATIONS.index(combination)
    for seed in range(first, first + DEEP_SEEDS):
        judged(with_upkeep(combination, seed), seed)


def test_every_upkeep_has_its_turn() -> None:
    for variants in range(1, 19):  # tables, crash logs and paths
        for circles in (True, False):
            turns = {turn_of(seed) % variants for seed in range(DEEP_SEEDS) if has_circles(seed) == circles}
            assert turns == {*range(variants)}


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


def test_a_slow_broker_ends_a_subscription_when_it_hears_that_its_full_disk_had_room_again() -> None:
    slow = SlowBroker(time=0.8, broker=1, delay=0.05, seconds=0.19)
    net = Network.line(2, faults=FaultSchedule(faults=(DiskFull(time=0.5, broker=1, seconds=0.5), slow)))
    desk = net.subscribe(1, "TRUE")
    for number in range(8):
        net.run(0.81 + number * 0.02 - net.now)
        net.publish(0, {"x": number}, settled=False)
    net.run(0.995 - net.now)
    net.unsubscribe(desk)
    ended = net.now
    net.run()
    assert max(each.time for each in net.deliveries) > ended + 0.01
    assert net.safety() == []


def with_an_event_that_waits(propagation: str = "identity") -> tuple[Network, Subscription, Advertisement, Event]:
    """An event that was confirmed at broker 0 under an advertisement, and waits for its home, broker 2."""
    net = Network.line(3, propagation=propagation, advertisements=True)
    desk = net.subscribe(2, "x > 1", durable=True)
    offer = net.advertise(0, "x > 0")
    net.run()
    net.cut((1, 2))
    net.run()
    event = net.publish(0, {"x": 5}, settled=False, confirm=True)
    net.run()
    return net, desk, offer, event


@pytest.mark.parametrize("propagation", ["simple", "identity", "covering", "merging", "xroute"])
def test_an_advertisement_stands_for_the_events_that_were_logged_under_it(propagation: str) -> None:
    net, desk, offer, event = with_an_event_that_waits(propagation)
    net.unadvertise(offer)
    net.run()
    with pytest.raises(NotAdvertised):
        net.publish(0, {"x": 6}, settled=False)
    net.mend((1, 2))
    net.run()
    assert net.queue(desk) == [event]
    assert net.verdict().is_right
    assert not any(set(there) - {"clients"} for there in net.tables.values()), "nothing stands any longer"


def test_few_advertisements_stand_however_many_are_withdrawn() -> None:
    net, desk, offer, event = with_an_event_that_waits()
    for number in range(1_010):
        net.unadvertise(net.advertise(0, f"y = {number}"))
    net.unadvertise(offer)
    net.run()
    node = hosts(net)[0].node
    assert node is not None
    assert len(node.broker._standing_advertisements.held) <= 1_001
    net.mend((1, 2))
    net.run()
    assert net.queue(desk) == [event]
    assert node.broker._standing_advertisements.held == {}


def test_what_an_earlier_life_logged_needs_no_publisher_that_comes_back() -> None:
    net, desk, offer, event = with_an_event_that_waits()
    net.crash(0)
    hosts(net)[0].disk._requests.clear()  # of the publisher, which is not there any more
    net.history.end(net.history.advertisements[offer])
    net.restart(0)
    net.run()
    assert net.queue(desk) == []
    net.mend((1, 2))
    net.run()
    assert net.queue(desk) == [event]
    assert not any(set(there) - {"clients"} for there in net.tables.values())


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


def test_an_event_that_a_wrong_table_sends_by_no_link_is_sent_again() -> None:
    net = Network.line(2, options={"hierarchy": True}, tables="stabilising")
    desk = net.subscribe(0, "TRUE", durable=True)
    net.run(60)
    forwarding: Any = hosts(net)[1].node.broker._forwarding  # type: ignore[union-attr]
    forwarding.parent = 7
    event = net.publish(1, {"x": 1}, settled=False, confirm=True)
    net.run(net.stabilisation_bound)
    net.run()
    assert net.queue(desk) == [event]
    assert net.unfinished(1) == 0
