"""Durable delivery: confirmed events in every durable queue, once, whatever breaks. A failure is a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from palio import Event, NotAdvertised, PalioError
from palio.routing.combinations import Combination
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, condition, event, hosts
from tests.simulation.test_flooding_oracle import every_combination


class KeptScenario(Scenario):
    """The same, with durable subscriptions and confirmed events, and crashes between any two effects."""

    def __init__(self, seed: int, choices: Mapping[str, Any], circles: bool = False) -> None:
        super().__init__(seed, choices, breaks=True, circles=circles)

    def subscribe(self) -> None:
        at = self.place()
        if at is not None:
            durable = self.random.random() < 0.6
            self.subscriptions.append(self.net.subscribe(at, condition(self.random), durable=durable))

    def publish(self) -> None:
        at = self.place()
        if at is None:
            return
        try:
            self.net.publish(at, event(self.random), settled=False, confirm=self.random.random() < 0.8)
        except NotAdvertised:
            assert self.net.combination.advertisements

    def step(self) -> None:
        # One that was set to crash may have done so.
        self.down = [at for at in range(self.brokers) if not self.net.is_running(at)]
        super().step()

    def unsubscribe(self) -> None:
        if self.random.random() < 0.3:
            super().unsubscribe()

    def break_something(self) -> None:
        at = self.place()
        if at is not None and self.random.random() < 0.5:
            self.net.crash(at, after=self.random.randrange(1, 25))
        else:
            super().break_something()

    def heal(self) -> None:
        for at in range(self.brokers):
            self.net.defuse(at)
        self.down = [at for at in range(self.brokers) if not self.net.is_running(at)]
        super().heal()


def judged(combination: Combination, seed: int, *, faulty: bool, circles: bool, operations: int = 30) -> Network:
    # Where disks are slow, an event that was not advertised is refused too late to be taken out of the history.
    slow = {"disk": 0.003} if seed % 3 == 0 and not combination.advertisements else {}
    options = {**combination.options, **(FAULTY_LINKS if faulty else {}), **slow}
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "options": options,
    }
    net = KeptScenario(seed, choices, circles).run(operations)
    said = f"seed {seed}, faulty={faulty}, circles={circles}"
    verdict = net.verdict()
    assert verdict.is_right, f"{said}\n{verdict}"
    for host in hosts(net):
        assert host.node is not None
        assert host.node.broker.delivery.missing == [], said
        assert host.node.broker.delivery.unfinished == 0, said
    return net


@every_combination
def test_whatever_breaks_what_was_confirmed_is_queued_once(combination: Combination) -> None:
    for seed in range(3):
        judged(combination, seed, faulty=seed == 1, circles=seed == 2)


@pytest.mark.deep
@every_combination
def test_hundreds_of_seeds(combination: Combination) -> None:
    for seed in range(100, 400):
        judged(combination, seed, faulty=seed % 4 == 1, circles=seed % 2 == 0, operations=40)


def crashed(first: tuple[int, int], second: tuple[int, int] | None = None) -> bool:
    """Two events through a line of three, at both ends of which they are wanted, and a link that breaks between them,
    with brokers that crash after so many effects; whether any did."""
    net = Network.line(3)
    here, there = net.subscribe(2, "x > 1", durable=True), net.subscribe(0, "x > 1", durable=True)
    net.run()
    fuses = [first] if second is None else [first, second]
    for broker, after in fuses:
        net.crash(broker, after=after)
    events = []
    for number in (2, 3):
        if net.is_running(2):
            events.append(net.publish(2, {"x": number}, settled=False, confirm=True))
        net.run(0.015)
        net.cut((0, 1))
        net.run()
        net.mend((0, 1))
    net.run()
    down = [at for at in range(3) if not net.is_running(at)]
    for broker in range(3):
        net.defuse(broker)
    for broker in down:
        net.restart(broker)
        net.run()
    assert all(map(net.is_confirmed, events))
    assert net.queue(here) == net.queue(there) == events, f"crashes {fuses}"
    assert net.verdict().is_right
    assert [host.node.broker.delivery.unfinished for host in hosts(net) if host.node] == [0, 0, 0]
    return bool(down)


@pytest.mark.parametrize("broker", range(3))
def test_a_crash_after_any_effect_of_any_broker_loses_and_doubles_nothing(broker: int) -> None:
    effects = 1
    while crashed((broker, effects)):
        effects += 1
    assert effects > 5


@pytest.mark.deep
@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 2), (1, 2)])
def test_two_crashes_after_any_effects_lose_and_double_nothing(first: int, second: int) -> None:
    for effects in range(1, 25):
        for others in range(1, 25):  # of a broker that did not crash before
            crashed((first, effects), (second, others))


def test_what_was_confirmed_waits_for_a_broker_that_is_away_and_for_one_that_forgot_it() -> None:
    net = Network.line(3)
    desk = net.subscribe(0, "x > 1", durable=True)
    net.run()
    net.crash(0)
    event = net.publish(2, {"x": 2}, confirm=True)
    net.run()
    net.crash(1)
    net.restart(1)  # which knows of nobody now
    net.run()
    net.crash(2)
    net.restart(2)  # which has it on disk, with the broker that it waits for
    net.run()
    assert net.is_confirmed(event)
    assert net.queue(desk) == []
    net.restart(0)
    net.run()
    assert net.queue(desk) == [event]


def test_a_broker_alone_finishes_in_its_next_life_what_it_began() -> None:
    for effects in range(1, 6):
        net = Network.line(1)
        desk = net.subscribe(0, "TRUE", durable=True)
        net.run()
        net.crash(0, after=effects)
        event = net.publish(0, {"x": 1}, confirm=True)
        if not net.is_running(0):
            net.restart(0)
        net.run()
        assert net.queue(desk) == [event]


def test_a_publisher_that_asks_again_is_assured_again_and_its_event_is_not_doubled() -> None:
    net = Network.line(3)
    desk = net.subscribe(0, "x > 1", durable=True)
    net.run()
    event = Event.from_dict({"x": 2}, id="7", source="feed")
    for at in (2, 2, 1):  # also by another broker
        net.publish(at, event, confirm=True)
        net.run()
    assert net.queue(desk) == [event]
    net.publish(2, event, confirm=True, client="another publisher")
    net.run()
    assert net.queue(desk) == [event, event]


def test_a_full_spill_refuses_until_there_is_room_and_loses_nothing() -> None:
    net = Network.line(2, options={"spill": 3})
    desk = net.subscribe(0, "TRUE", durable=True)
    net.run()
    net.crash(0)
    for number in range(3):
        net.publish(1, {"x": number}, confirm=True)
        net.run()
    with pytest.raises(PalioError, match=r"busy: 3 confirmed events wait for broker 0, which is away"):
        net.publish(1, {"x": 3}, confirm=True)
    net.restart(0)
    net.run()
    net.publish(1, {"x": 4}, confirm=True)
    net.run()
    assert [event.get("x") for event in net.queue(desk)] == [0, 1, 2, 4]


def test_nobody_waits_for_a_broker_that_an_operator_gave_up_until_it_comes_back() -> None:
    net = Network.line(3, options={"spill": 2})
    lost, kept = net.subscribe(0, "TRUE", durable=True), net.subscribe(1, "TRUE", durable=True)
    net.run()
    net.crash(0)
    for number in range(2):
        net.publish(2, {"x": number}, confirm=True)
        net.run()
    net.forget(at=1, broker=0)
    net.run()
    net.publish(2, {"x": 2}, confirm=True)
    net.run()
    assert [event.get("x") for event in net.queue(kept)] == [0, 1, 2]
    net.restart(0)
    net.run()
    net.publish(2, {"x": 3}, confirm=True)
    net.run()
    assert [event.get("x") for event in net.queue(lost)] == [3]
    net.crash(0)
    net.run()
    net.publish(2, {"x": 4}, confirm=True)
    net.run()
    net.restart(0)  # it is waited for again
    net.run()
    assert [event.get("x") for event in net.queue(lost)] == [3, 4]


def test_two_brokers_that_flood_each_other_with_confirmed_events_do_not_stop_each_other() -> None:
    net = Network.line(2, options={"window": 3_000})
    ends = [net.subscribe(at, "TRUE", durable=True) for at in (0, 1)]
    net.run()
    for at in (0, 1):
        net.publish_all(at, [{"x": number} for number in range(2_500)], confirm=True)  # more than a link takes at once
    net.run()
    assert [len(net.queue(each)) for each in ends] == [5_000, 5_000]
    assert net.verdict().is_right


def test_what_nobody_was_assured_of_is_queued_too() -> None:
    net = Network.line(2)
    desk, passing = net.subscribe(0, "x > 1", durable=True), net.subscribe(0, "x > 2")
    net.run()
    events = [net.publish(1, {"x": number}) for number in (2, 3)]
    net.run()
    assert net.queue(desk) == events
    assert [each.event for each in net.deliveries if each.subscription is passing] == [events[1]]
    assert net.verdict().is_right


def test_the_oracle_sees_what_is_lost_and_what_is_doubled() -> None:
    net = Network.line(2)
    net.subscribe(0, "x > 1", durable=True)
    net.run()
    net.publish(1, {"x": 2}, confirm=True)
    net.run()
    assert net.verdict().is_right
    [delivery] = net.deliveries
    net.deliveries.append(delivery)
    assert net.verdict().repeated
    net.deliveries.clear()
    assert net.verdict().missing
