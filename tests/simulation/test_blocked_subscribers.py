"""Subscribers that hold publishers back: the publishers of their events wait, wherever they are, and nobody else."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from palio import Event, PalioError
from palio.simulation import Network, Subscription, topologies

BOUND_SECONDS = 2.0  # of virtual time, in which all brokers are told of a full queue, and an event is delivered
BLOCK_SECONDS = 10.0  # for which a queue holds publishers back, in a simulation
TOPICS = 5
EVENTS = 36  # in less time than a queue may hold publishers back
SPILL = 16  # events under way, of one broker; half as many may be withheld


class Blockers:
    """A random network with subscriptions some of which have full queues now and then, and publishers at any broker."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        brokers = self.brokers = random.randint(2, 6)
        options = {"spill": SPILL, "window": random.choice([2, 8, 16]), "disk": random.choice([0.0, 0.002])}
        propagation = random.choice(["identity", "covering", "simple"])
        self.net = Network(topologies.random_tree(brokers, random), propagation=propagation, seed=seed, options=options)
        self.subscriptions = [
            self.net.subscribe(
                at, f"topic IN ({', '.join(map(str, random.sample(range(TOPICS), 2)))})", client=f"reader {number}"
            )
            for number, at in enumerate(random.randrange(brokers) for _ in range(6))
        ]
        self.net.run()
        self.full: set[Subscription] = set()
        self.accepted: list[tuple[tuple[int, str], Event]] = []
        self.held_back: set[tuple[int, str]] = set()  # publishers that have withheld events
        self.counts: Counter[str] = Counter()

    def wanting(self, event: Event) -> list[Subscription]:
        return [each for each in self.subscriptions if each.wanted.matches(event)]

    def change(self) -> None:
        """A queue is full now, or has room again."""
        each = self.random.choice(self.subscriptions)
        if each in self.full:
            self.full.remove(each)
            self.net.set_queue_full(each, False)
            self.counts["free"] += 1
        elif len(self.full) < 2:
            self.full.add(each)
            self.net.set_queue_full(each, True)
            self.counts["full"] += 1
        self.net.run(0.3)
        # Those that were withheld for another reason are withheld on; which they are is not worth a second model.
        if not self.full:
            self.net.run(BOUND_SECONDS)
            self.held_back.clear()

    def publish(self, number: int) -> None:
        at, client = self.random.randrange(self.brokers), f"feed {self.random.randrange(2)}"
        content = {"topic": self.random.randrange(TOPICS), "n": number}
        blocking = [each for each in self.wanting(Event.from_dict(content)) if each in self.full and each.at != at]
        may_wait = bool(blocking) or (at, client) in self.held_back
        try:
            event = self.net.publish(at, content, client=client, confirm=True, settled=False)
        except PalioError as error:
            assert may_wait, error
            assert "holds publishers back" in str(error)
            self.counts["refused"] += 1
            return
        self.accepted.append(((at, client), event))
        self.net.run(0.2)
        got = [each for each in self.wanting(event) if event in self.events_of(each)]
        if may_wait:
            self.held_back.add((at, client))
        if blocking:
            assert not any(each in got for each in blocking), f"event {number} came to a full queue"
            self.counts["withheld"] += 1
        elif not may_wait:
            assert got == self.wanting(event), f"event {number} waits for {self.full}"
            self.counts["passed"] += 1
            self.counts["passed while others were held back"] += bool(self.full)

    def events_of(self, subscription: Subscription) -> list[Event]:
        return [each.event for each in self.net.deliveries_of(subscription)]

    def check(self) -> None:
        """All that was accepted was delivered once, and that of each publisher in its order."""
        for each in self.subscriptions:
            events = self.events_of(each)
            for publisher in {publisher for publisher, _ in self.accepted}:
                sent = [event for who, event in self.accepted if who == publisher and each.wanted.matches(event)]
                assert [event for event in events if event in sent] == sent, f"{each} of {publisher}"
            assert len(events) == sum(each.wanted.matches(event) for _, event in self.accepted)
        assert all(not self.net.unfinished(at) for at in range(self.brokers))


def blocked(seed: int) -> Counter[str]:
    net = Blockers(seed)
    for number in range(EVENTS):
        if number % 8 == 3:
            net.change()
        net.publish(number)
    if net.random.random() < 0.5:
        for each in net.full:
            net.net.set_queue_full(each, False)
        net.net.run()
    else:  # nobody says that there is room again
        net.net.run(BLOCK_SECONDS + BOUND_SECONDS)
        net.counts["for too long"] += bool(net.full)
    net.check()
    return net.counts


def schedules(seeds: range) -> Counter[str]:
    """Run each seed, and name the one that fails."""
    total: Counter[str] = Counter()
    for seed in seeds:
        try:
            total += blocked(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return total


def test_a_full_queue_holds_back_the_publishers_of_its_events_and_nobody_else() -> None:
    counts = schedules(range(60))
    assert counts["withheld"] > 100
    assert counts["refused"] > 10
    assert counts["passed while others were held back"] > 300
    assert counts["for too long"] > 10


@pytest.mark.deep
def test_a_full_queue_holds_back_nobody_else_in_a_thousand_schedules() -> None:
    print(f"1,000 schedules: {dict(schedules(range(1_000, 2_000)))}")


def test_a_full_queue_of_a_broker_that_is_gone_holds_publishers_back_for_a_time_only() -> None:
    net = Network.line(3)
    slow = net.subscribe(at=2, where="x >= 0")
    quick = net.subscribe(at=1, where="x >= 0")
    net.run()
    net.set_queue_full(slow, True)
    net.run(1.0)
    net.crash(2)
    event = net.publish(at=0, event={"x": 1}, confirm=True, settled=False)
    net.run(1.0)
    assert net.is_confirmed(event)
    assert net.deliveries_of(quick) == []
    net.run(BLOCK_SECONDS)
    assert [each.event for each in net.deliveries_of(quick)] == [event]


def test_what_is_withheld_comes_first_when_a_queue_has_room_again() -> None:
    net = Network.line(2)
    slow = net.subscribe(at=1, where="x >= 0")
    other = net.subscribe(at=1, where="y >= 0", client="other")
    net.run()
    net.set_queue_full(slow, True)
    net.run(1.0)
    events = [net.publish(at=0, event=each, confirm=True, settled=False) for each in ({"x": 1}, {"y": 1})]
    theirs = net.publish(at=0, event={"y": 2}, client="another feed", confirm=True, settled=False)
    net.run(1.0)
    assert [each.event for each in net.deliveries_of(other)] == [theirs]  # the publisher of the first is held back
    net.set_queue_full(slow, False)
    last = net.publish(at=0, event={"x": 2}, confirm=True, settled=False)
    net.run()
    assert [each.event for each in net.deliveries_of(slow)] == [events[0], last]
    assert [each.event for each in net.deliveries_of(other)] == [theirs, events[1]]
