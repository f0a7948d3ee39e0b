"""Faults of a simulated network: what each does, that a schedule is data, and that healing ends them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from palio import InvalidArgument
from palio.simulation import (
    ClockJump,
    Crash,
    DiskFull,
    Fault,
    Faults,
    FaultSchedule,
    LinkCut,
    Network,
    Partition,
    SlowBroker,
    Topology,
    shrink,
    topologies,
)
from tests.simulation.scenarios import hosts

ALL_KINDS = Faults(
    seed=3, crashes=0.2, cuts=0.2, partitions=0.5, slow=0.2, disk_full=0.2, clock_jumps=0.2, loss=0.1, drift=1e-4
)


def network(*faults: Fault, brokers: int = 3, **choices: Any) -> Network:
    return Network.line(brokers, faults=FaultSchedule(faults=faults), **choices)


def test_a_seed_draws_one_schedule_and_another_seed_another_one() -> None:
    shape = topologies.tree(9)
    assert ALL_KINDS.schedule(shape) == ALL_KINDS.schedule(shape)
    assert ALL_KINDS.schedule(shape) != Faults(seed=4, crashes=0.2).schedule(shape)
    times = [each.time for each in ALL_KINDS.schedule(shape).faults]
    assert times == sorted(times)
    assert {type(each) for each in ALL_KINDS.schedule(shape).faults} == {
        Crash, LinkCut, Partition, SlowBroker, DiskFull, ClockJump,
    }  # fmt: skip


def test_a_schedule_can_be_stored_as_json_and_printed_as_python() -> None:
    schedule = ALL_KINDS.schedule(topologies.tree(9))
    assert FaultSchedule.from_json(schedule.to_json()) == schedule
    assert eval(str(schedule)) == schedule
    assert eval(str(FaultSchedule())) == FaultSchedule()


def test_a_printed_test_runs() -> None:
    schedule = FaultSchedule(faults=(Crash(time=0.1, broker=1, seconds=1.0),), loss=0.1)
    source = schedule.test_source("one_crash", "judge(FAULTS)")
    judged: list[FaultSchedule] = []
    scope: dict[str, Any] = {"judge": judged.append}
    exec(source, scope)
    scope["test_one_crash"]()
    assert judged == [schedule]


def test_a_stored_schedule_replays_the_same_run() -> None:
    def hash_of(faults: Faults | FaultSchedule) -> str:
        net = Network.tree(9, faults=faults)
        net.subscribe(0, "x > 1", durable=True)
        net.run(1.0)
        if net.is_running(8):
            net.publish(8, {"x": 2}, settled=False)
        net.run()
        net.heal()
        net.run()
        return net.trace.hash

    stored = ALL_KINDS.schedule(topologies.tree(9)).to_json()
    assert hash_of(ALL_KINDS) == hash_of(FaultSchedule.from_json(stored))


def test_a_crashed_broker_restarts_with_its_disk() -> None:
    net = network(Crash(time=1.0, broker=1, seconds=2.0))
    desk = net.subscribe(1, "x > 1", durable=True)
    net.run(1.5)
    assert not net.is_running(1)
    net.run(2.0)
    assert net.is_running(1)
    event = net.publish(0, {"x": 2})
    net.run()
    assert net.queue(desk) == [event]


def test_a_crash_may_come_after_some_more_effects() -> None:
    net = network(Crash(time=0.5, broker=0, after=2, seconds=9.0))
    net.run(1.0)
    assert net.is_running(0)
    net.publish(0, {"x": 1}, settled=False, confirm=True)
    assert not net.is_running(0)


def test_a_crash_that_never_came_is_cancelled_when_it_would_have_ended() -> None:
    net = network(Crash(time=0.5, broker=0, after=20, seconds=1.0))
    net.run()
    for number in range(20):
        net.publish(0, {"x": number})
    assert net.is_running(0)


def test_a_partition_cuts_the_links_between_its_brokers_and_the_others_for_its_time() -> None:
    net = network(Partition(time=1.0, brokers=(1, 2), seconds=1.0), brokers=4)
    desk = net.subscribe(3, "TRUE")
    net.run(1.5)
    assert net.tree_links == [(1, 2)]
    net.run(1.0)
    assert net.tree_links == [(0, 1), (1, 2), (2, 3)]
    net.publish(0, {"x": 1})
    net.run()
    assert len(net.deliveries_of(desk)) == 1


def test_of_two_cuts_of_one_link_the_later_end_counts() -> None:
    net = network(LinkCut(time=1.0, link=(1, 0), seconds=2.0), Partition(time=1.5, brokers=(0,), seconds=3.0))
    net.run(4.0)
    assert net.tree_links == [(1, 2)]
    net.run(1.0)
    assert net.tree_links == [(0, 1), (1, 2)]


def test_a_link_that_a_test_has_cut_is_not_mended_by_the_end_of_a_fault() -> None:
    net = network(LinkCut(time=1.0, link=(0, 1), seconds=1.0))
    net.cut((0, 1))
    net.run()
    assert net.tree_links == [(1, 2)]


def test_a_slow_broker_takes_its_time_and_keeps_the_order() -> None:
    net = network(SlowBroker(time=0.5, broker=1, delay=0.25, seconds=0.5))
    desk = net.subscribe(2, "TRUE")
    net.run(0.6)
    for number in range(3):
        net.publish(0, {"n": number}, settled=False)
        net.run(0.1)
    net.run()
    assert [each.event.get("n") for each in net.deliveries_of(desk)] == [0, 1, 2]
    assert net.deliveries_of(desk)[0].time >= 0.6 + 0.25


def test_a_full_disk_refuses_and_clients_repeat_their_requests_when_it_has_room() -> None:
    net = network(DiskFull(time=0.5, broker=1, seconds=1.0))
    net.run(0.6)
    desk = net.subscribe(1, "TRUE")
    net.run(0.1)
    assert net.tables[1] == {}
    net.run()
    event = net.publish(0, {"x": 1})
    net.run()
    assert [each.event for each in net.deliveries_of(desk)] == [event]
    assert net.verdict().is_right


def test_a_clock_jump_moves_the_wall_clock_alone() -> None:
    net = network(ClockJump(time=0.5, broker=1, by=-30.0))
    net.run()
    assert hosts(net)[1].skew == -30.0


def test_healing_ends_all_faults_and_lets_no_more_come() -> None:
    net = Network.tree(
        9,
        faults=FaultSchedule(
            loss=0.5,
            faults=(
                Crash(time=0.1, broker=1, seconds=100.0),
                Partition(time=0.2, brokers=(2,), seconds=100.0),
                SlowBroker(time=0.3, broker=3, delay=0.2, seconds=100.0),
                DiskFull(time=0.4, broker=4, seconds=100.0),
                Crash(time=50.0, broker=0, seconds=100.0),
            ),
        ),
    )
    net.run(1.0)
    net.heal()
    net.run()
    assert net.now < 50
    assert all(net.is_running(each) for each in range(9))
    assert len(net.tree_links) == 8
    lost = net.drops.get("lost by a link", 0)
    desk = net.subscribe(4, "TRUE", durable=True)
    event = net.publish(8, {"x": 1}, confirm=True)
    net.run()
    assert net.queue(desk) == [event]
    assert net.drops.get("lost by a link", 0) == lost


def test_a_run_lets_all_faults_come_and_go() -> None:
    net = network(Crash(time=5.0, broker=1, seconds=3.0))
    net.run()
    assert net.now >= 8.0
    assert net.is_running(1)


def test_a_settled_publication_does_not_wait_until_all_faults_are_over() -> None:
    net = network(Crash(time=5.0, broker=1, seconds=3.0))
    net.publish(0, {"x": 1})
    assert net.now < 5.0


def test_faults_of_links_and_options_of_links_are_not_both_given() -> None:
    with pytest.raises(InvalidArgument, match="loss is given twice"):
        Network.line(2, faults=Faults(loss=0.1), options={"loss": 0.2})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: Faults(crashes=-1), "crashes of faults is a number from 0 on, not -1"),
        (lambda: Faults(loss=1.0), "loss of faults is a share from 0 to below 1, not 1.0"),
        (lambda: Faults(seed="x"), "a seed is a whole number, not 'x'"),  # type: ignore[arg-type]
        (lambda: Faults(crashes=1e9).schedule(topologies.line(2)), "more than 100,000 faults"),
        (lambda: Network.line(2, faults=7), "faults are Faults(seed=…) or a FaultSchedule, not int"),
        (lambda: network(Crash(time=0.0, broker=7, seconds=1.0)), "there is no broker 7"),
        (lambda: network(Partition(time=0.0, brokers=(1, 9), seconds=1.0)), "there is no broker 9"),
        (lambda: network(LinkCut(time=0.0, link=(0, 2), seconds=1.0)), "there is no link (0, 2)"),
        (lambda: network(Crash(time=-1.0, broker=0, seconds=1.0)), "time of faults is a number from 0 on, not -1.0"),
        (lambda: FaultSchedule.from_json("{"), "this is no schedule of faults as `to_json` writes it"),
        (lambda: shrink(FaultSchedule(), lambda _: False), "the schedule to shrink does not fail"),
        (lambda: shrink(FaultSchedule(), lambda _: True, 0), "max_runs is a whole number from 1 on, not 0"),
    ],
)
def test_what_cannot_be_a_fault_is_refused(wrong: Callable[[], Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(reason)):
        wrong()


def test_a_failing_schedule_shrinks_to_the_faults_that_matter() -> None:
    schedule = Faults(seed=1, crashes=0.5, cuts=0.5, loss=0.1, drift=1e-4).schedule(topologies.tree(9))
    crashes = [each for each in schedule.faults if isinstance(each, Crash)]
    culprits = {crashes[3], crashes[-1]}
    runs = 0

    def fails(tried: FaultSchedule) -> bool:
        nonlocal runs
        runs += 1
        found = {each.time for each in tried.faults if isinstance(each, Crash)}
        return found >= {each.time for each in culprits} and tried.drift > 0

    small = shrink(schedule, fails)
    assert {each.time for each in small.faults} == {each.time for each in culprits}
    assert (small.loss, small.drift) == (0.0, 1e-4)
    assert runs <= 300


def test_shrinking_ends_after_its_bound_with_what_still_fails() -> None:
    schedule = Faults(seed=1, crashes=0.5).schedule(Topology(9, ()))
    tried: list[FaultSchedule] = []

    def fails(each: FaultSchedule) -> bool:
        tried.append(each)
        return len(each.faults) > 2

    assert len(shrink(schedule, fails, max_runs=4).faults) > 2
    assert len(tried) == 4


@pytest.mark.parametrize("seed", range(7, 15))
@pytest.mark.parametrize("tables", ["hard", "leases", "stabilising"])
def test_every_fault_at_once_comes_and_goes_whatever_the_upkeep(tables: str, seed: int) -> None:
    faults = Faults(seed=seed, crashes=0.1, loss=0.05, drift=1e-4, corruption=0.2)
    net = Network.tree(31, tables=tables, crash_log="recover", paths="failover", faults=faults)
    desk = net.subscribe(at=3, where="price > 100")
    for at in range(5):
        if net.is_running(at):
            net.publish(at=at, event={"price": 120})
        net.run(1.0)
    net.run()
    net.heal()
    net.run()
    assert all(map(net.is_running, range(31)))
    assert not net.verdict().wrong
    assert {each.subscription for each in net.deliveries} <= {desk}
