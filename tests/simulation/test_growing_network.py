"""Networks that grow and move while they run, and what users see of them."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from palio.errors import InvalidArgument
from palio.simulation import Delivery, Network, SimulationOptions
from tests.simulation.scenarios import condition, event


@pytest.mark.parametrize("propagation", ["simple", "covering", "merging"])
def test_brokers_that_join_and_move_get_what_flooding_delivers(propagation: str) -> None:
    for seed in range(5):
        random = Random(seed)
        net = Network.random(3, seed=seed, propagation=propagation)
        for _ in range(12):
            brokers = range(net.topology.brokers)
            match random.randrange(4):
                case 0:
                    net.add_broker(random.choice(brokers))
                case 1:
                    leaves = [each for each in brokers if sum(each in link for link in net.links) == 1]
                    leaf = random.choice(leaves)
                    net.move(leaf, to=random.choice([each for each in brokers if each != leaf]))
                case 2:
                    net.subscribe(random.choice(brokers), condition(random))
                case 3:
                    net.publish(random.choice(brokers), event(random))
        net.run()
        for _ in range(6):
            net.publish(random.randrange(net.topology.brokers), event(random))
        net.run()
        verdict = net.verdict()
        assert verdict.is_right, f"seed {seed}\n{verdict}"


def test_a_link_that_closes_a_circle_needs_a_spanning_tree() -> None:
    net = Network.line(3)
    with pytest.raises(InvalidArgument, match="circles"):
        net.add_link((0, 2))
    with pytest.raises(InvalidArgument, match="two links"):
        net.add_link((0, 1))
    ready = Network.line(3, options={"circles": True})
    ready.add_link((0, 2))
    ready.run()
    assert (len(ready.links), len(ready.tree_links)) == (3, 2)


def test_snapshots_of_traffic_subtract() -> None:
    net = Network.line(3, propagation="flooding")
    net.publish(0, {"x": 1})
    net.run()
    before = net.traffic.snapshot()
    assert (net.traffic - before).messages() == 0
    net.publish(0, {"x": 1})
    net.run()
    since = net.traffic - before
    assert (since.messages("publish"), since.false_positives(), since.useless_hops) == (2, 1, 2)
    assert before.messages("publish") == 2
    assert since.bytes("publish") == before.bytes("publish")


def test_deliveries_are_seen_as_they_come_and_by_subscription() -> None:
    net = Network.line(2)
    seen: list[Delivery] = []
    desk = net.subscribe(1, "x > 1", on_delivery=seen.append)
    other = net.subscribe(1, "x > 2")
    for value in (1, 2, 3):
        net.publish(0, {"x": value})
    net.run()
    assert [each.event["x"] for each in seen] == [2, 3]
    assert net.deliveries_of(desk) == seen
    assert [each.event["x"] for each in net.deliveries_of(other)] == [3]


def test_a_callback_cannot_change_the_network() -> None:
    net = Network.line(1)
    net.subscribe(0, "TRUE", on_delivery=lambda _: net.unsubscribe(made))
    made = net.subscribe(0, "TRUE")
    with pytest.raises(InvalidArgument, match="schedule"):
        net.publish(0, {"x": 1})


def test_a_link_that_is_removed_no_longer_counts_for_circles() -> None:
    net = Network.line(4)
    desk = net.subscribe(3, "TRUE")
    net.run()
    net.cut((2, 3))
    with pytest.raises(InvalidArgument, match="circle"):
        net.add_link((0, 3))
    net.remove_link((3, 2))
    net.add_link((0, 3))
    net.publish(1, {"x": 1})
    net.run()
    assert [each.hops for each in net.deliveries_of(desk)] == [2]
    assert net.links == [(0, 1), (1, 2), (0, 3)]
    assert net.verdict().is_right
    for gone in (net.mend, net.remove_link):
        with pytest.raises(InvalidArgument, match="no link between 2 and 3"):
            gone((2, 3))


def test_a_subscriber_answers_what_it_receives() -> None:
    net = Network.line(4, options=SimulationOptions(delay=0.5))
    answers = net.subscribe(3, "answer = 1")

    def answer(question: Delivery) -> None:
        net.schedule(1.0, lambda: net.publish(0, {"answer": question.event["question"]}))

    net.subscribe(0, "question IS NOT NULL", on_delivery=answer)
    for number in (1, 2):
        net.publish(3, {"question": number})
    net.run()
    [delivery] = net.deliveries_of(answers)
    assert (delivery.event["answer"], net.now) == (1, 6.0)
    assert net.verdict().is_right


def test_what_is_scheduled_happens_in_time_and_is_judged() -> None:
    for seed in range(10):
        random = Random(seed)
        net = Network.random(5, seed=seed, propagation="covering")
        for _ in range(30):
            at = random.randrange(5)
            wanted, content = condition(random), event(random)
            if random.random() < 0.5:
                net.schedule(random.random(), partial(net.subscribe, at, wanted))
            else:
                net.schedule(random.random(), partial(net.publish, at, content))
        net.run()
        assert len(net.history.subscriptions) + len(net.history.publications) == 30
        net.publish(0, {"x": 1})
        net.run()
        assert net.verdict().is_right, f"seed {seed}"


def test_no_time_passes_within_a_scheduled_call() -> None:
    net = Network.line(2)
    net.schedule(0.1, net.run)
    with pytest.raises(InvalidArgument, match="time passes already"):
        net.run()
    for seconds, call in ((-1, net.run), ("1", net.run), (1, None)):
        with pytest.raises(InvalidArgument, match="schedule"):
            net.schedule(seconds, call)  # type: ignore[arg-type]
