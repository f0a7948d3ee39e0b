"""Complete stretches against the flooding oracle: whenever one is told, every event of it that matches was delivered
before; and where nothing breaks any more, it is told. A failure is one seed, which replays it."""

from __future__ import annotations

from typing import Any

import pytest

from palio import IllegalCombination, InvalidArgument
from palio.events import Event
from palio.routing.combinations import Combination, legal_combinations
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, condition, event, hosts

# In others events take links that watermarks do not.
COMBINATIONS = [each for each in legal_combinations() if not (each.has_publisher_trees or each.is_hierarchical)]
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=str)


class NumberedScenario(Scenario):
    """A scenario that notes the number which each event got at the broker that accepted it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.accepted: dict[tuple[int, int], dict[int, Event]] = {}

    def publish(self) -> None:
        before = len(self.net.history.publications)
        super().publish()
        for publication in self.net.history.publications[before:]:
            self.note(publication.at, publication.event)

    def note(self, at: int, published: Event) -> None:
        host = hosts(self.net)[at]
        assert host.node is not None
        numbered = self.accepted.setdefault((at, host.incarnation), {})
        numbered[host.node.broker._clients._sequence] = published

    def check_claims(self) -> int:
        """Whether each complete stretch was complete when it was told; how many had an event that matched."""
        telling = 0
        for told in self.net.completions:
            subscription = told.subscription
            received = {each.event.id for each in self.net.deliveries_of(subscription)[: told.deliveries]}
            for number, published in self.accepted.get((told.broker, told.incarnation), {}).items():
                if told.after < number <= told.up_to and subscription.wanted.matches(published):
                    assert published.id in received, f"{told} lacks {number}: {published.to_json()}"
                    telling += 1
        return telling

    def check_liveness(self, published: list[Event]) -> None:
        """Every delivery of the last events is in a complete stretch."""
        ids = {each.id for each in published}
        for delivery in self.net.deliveries:
            if delivery.event.id in ids:
                id = delivery.envelope.id
                told = self.net.complete_up_to(delivery.subscription, id.node)
                assert told is not None, f"nothing is complete for {delivery.subscription}"
                assert told.incarnation == id.incarnation
                assert told.up_to >= id.sequence


def judged(
    combination: Combination, seed: int, *, faulty: bool, breaks: bool, operations: int = 30, circles: bool = False
) -> int:
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "options": {**combination.options, "completeness": 0.02, **(FAULTY_LINKS if faulty else {})},
    }
    scenario = NumberedScenario(seed, choices, breaks, circles)
    try:
        net = scenario.run(operations)
        telling = scenario.check_claims()
        last = [each.event for each in net.history.publications if each.after == net.history.rests - 1]
        scenario.check_liveness(last)
        assert net.verdict().is_right, net.verdict()
    except AssertionError as error:
        error.add_note(f"seed {seed}, faulty={faulty}, breaks={breaks}, circles={circles}")
        raise
    return telling


@every_combination
def test_what_is_told_to_be_complete_is(combination: Combination) -> None:
    told = 0
    for seed in range(4):
        told += judged(combination, seed, faulty=seed % 2 == 1, breaks=seed == 2, circles=seed == 3)
    assert told > 0


def complete_stretches(net: Network, subscription: Any) -> list[tuple[int, int, int]]:
    """The complete stretches of a subscription that are not empty: broker, and what they reach from and to."""
    told = [each for each in net.completions if each.subscription is subscription and each.up_to > each.after]
    return [(each.broker, each.after, each.up_to) for each in told]


def test_a_stretch_with_a_lost_event_is_not_complete_and_the_next_one_is() -> None:
    net = Network.line(3, options={"completeness": 0.1, "queue": 0, "bandwidth": 10_000})
    desk = net.subscribe(at=0, where="TRUE")
    net.publish_all(2, [{"x": number} for number in range(1_100)])  # beyond the credit of a link, without a queue
    net.run()
    assert net.drops["queue full"] > 0
    assert complete_stretches(net, desk) == []
    net.publish(2, {"x": 1})
    net.run()
    assert complete_stretches(net, desk) == [(2, 1_100, 1_101)]


def test_what_was_published_before_a_subscription_was_known_is_not_vouched_for() -> None:
    net = Network.line(5, propagation="covering", options={"completeness": 0.2})
    early = net.subscribe(at=1, where="x >= 0")
    net.run()
    late = net.subscribe(at=0, where="x = 1")
    net.publish(4, {"x": 1}, settled=False)
    net.run()
    # It is covered on all links but the first: its coverer was known there, and it got the event.
    assert [each.subscription for each in net.deliveries] == [early, late]
    apart = net.subscribe(at=0, where="y = 1")
    net.publish(4, {"y": 1}, settled=False)
    net.run()
    assert apart not in [each.subscription for each in net.deliveries]
    assert complete_stretches(net, early) == [(4, 0, 1), (4, 1, 2)]
    assert complete_stretches(net, apart) == []
    net.publish(4, {"y": 1})
    net.run()
    assert complete_stretches(net, apart) == [(4, 2, 3)]


def test_confirmed_events_are_vouched_for_once_they_are_on_their_way() -> None:
    net = Network.line(3, options={"completeness": 0.1, "disk": 0.3})
    desk = net.subscribe(at=0, where="TRUE")
    net.run()
    net.publish(2, {"x": 1}, confirm=True)
    net.publish(2, {"x": 2}, settled=False)
    net.run()
    assert [each.event.get("x") for each in net.deliveries_of(desk)] == [2, 1]
    assert complete_stretches(net, desk) == [(2, 0, 2)]


def test_heartbeats_tell_of_a_silent_publisher() -> None:
    net = Network.line(2, options={"completeness": 0.1, "heartbeat": 1.0})
    desk = net.subscribe(at=0, where="x > 5")
    net.publish(1, Event({"x": 1}, source="meter"))
    net.run(10.0)
    told = net.complete_up_to(desk, 1)
    assert told is not None
    assert (told.up_to, int(told.time)) == (1, 9)
    assert ("meter", 1) in [each for completion in net.completions for each in completion.sources]


class ConfirmingScenario(NumberedScenario):
    """A scenario with slow disks, of which some events are confirmed and some subscriptions durable."""

    def publish(self) -> None:
        at = self.place()
        if at is not None:
            # Of a client without subscriptions: it need not wait for the disk, so that its number is known.
            confirm = self.random.random() < 0.5
            self.note(at, self.net.publish(at, event(self.random), settled=False, client="feed", confirm=confirm))

    def subscribe(self) -> None:
        at = self.place()
        if at is not None:
            durable = self.random.random() < 0.2
            self.subscriptions.append(self.net.subscribe(at, condition(self.random), durable=durable))


def judged_with_confirmations(combination: Combination, seed: int, faulty: bool) -> int:
    own = {"completeness": 0.02, "disk": 0.015, "window": 3}
    options = {**combination.options, **own, **(FAULTY_LINKS if faulty else {})}
    choices = {"propagation": combination.propagation, "forwarding": combination.forwarding, "options": options}
    scenario = ConfirmingScenario(seed, choices, breaks=True, circles=seed % 3 == 0)
    try:
        scenario.run(40)
        return scenario.check_claims()
    except AssertionError as error:
        error.add_note(f"seed {seed}, faulty={faulty}")
        raise


@pytest.mark.parametrize("propagation", ["flooding", "identity", "covering"])
def test_what_is_told_holds_for_confirmed_events_while_links_and_brokers_break(propagation: str) -> None:
    # The second seed cuts a link, and mends it, while an upstream broker still answers for the time before.
    assert sum(judged_with_confirmations(Combination(propagation), seed, faulty=False) for seed in (9003, 9004)) > 0


@pytest.mark.deep
@pytest.mark.parametrize("faulty", [False, True])
@pytest.mark.parametrize("combination", [each for each in COMBINATIONS if not each.advertisements], ids=str)
def test_a_hundred_seeds_with_confirmed_events(combination: Combination, faulty: bool) -> None:
    for seed in range(9000, 9100):
        judged_with_confirmations(combination, seed, faulty)


def test_where_events_take_other_links_than_watermarks_there_is_no_completeness() -> None:
    with pytest.raises(IllegalCombination, match="watermarks go by the links of the shared tree"):
        Combination("identity", options={"trees": "publisher", "completeness": 1.0})


def test_a_hierarchy_has_no_completeness() -> None:
    with pytest.raises(IllegalCombination, match="while brokers elect a root"):
        Combination(options={"hierarchy": True, "completeness": 1.0})


def test_heartbeats_need_completeness() -> None:
    with pytest.raises(IllegalCombination, match="heartbeats are watermarks of completeness"):
        Combination(options={"heartbeat": 1.0})
    with pytest.raises(InvalidArgument, match="above 0"):
        Combination(options={"completeness": 0})


@pytest.mark.deep
@pytest.mark.parametrize("circles", [False, True])
@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("faulty", [False, True])
@every_combination
def test_a_hundred_seeds(combination: Combination, faulty: bool, breaks: bool, circles: bool) -> None:
    for seed in range(5000, 5100):
        judged(combination, seed, faulty=faulty, breaks=breaks, circles=circles, operations=40)
