"""Spanning tree in networks with circles, whatever breaks."""

from __future__ import annotations

from random import Random

import pytest

from palio.routing.combinations import Combination
from palio.simulation import Network
from palio.simulation.topologies import Topology, component_labels
from tests.simulation.scenarios import FAULTY_LINKS, hosts
from tests.simulation.test_flooding_oracle import every_combination, judged


def assert_tree(net: Network, down: set[int], cut: set[tuple[int, int]], said: str) -> None:
    """Whoever can reach each other does so by exactly one way."""
    brokers = net.topology.brokers
    running = [each for each in range(brokers) if each not in down]
    up = [(a, b) for a, b in net.links if (a, b) not in cut and a not in down and b not in down]
    joined, by_tree = component_labels(brokers, up), component_labels(brokers, net.tree_links)
    assert [joined[each] for each in running] == [by_tree[each] for each in running], said
    assert len(net.tree_links) == len(running) - len({joined[each] for each in running}), said


def break_and_repair(seed: int) -> None:
    random = Random(seed)
    brokers = random.randrange(2, 14)
    options = FAULTY_LINKS if seed % 3 == 0 else {"jitter": 0.02}
    net = Network.mesh(brokers, random.randrange(1, brokers + 1), seed=seed, options=options)
    down: set[int] = set()
    cut: set[tuple[int, int]] = set()
    for _ in range(5):
        for _ in range(random.randrange(1, 4)):  # several at once
            running = sorted(set(range(brokers)) - down)
            match random.randrange(5):
                case 0:
                    cut.add(link := random.choice(net.links))
                    net.cut(link)
                case 1 if cut:
                    net.mend(cut.pop())
                case 2 if len(running) > 1:
                    down.add(running[0])  # the root
                    net.crash(running[0])
                case 3 if len(running) > 1:
                    down.add(crashed := random.choice(running))
                    net.crash(crashed)
                case 4 if down:
                    net.restart(down.pop())
            if random.random() < 0.5:
                net.run(random.random() * 0.1)
        net.run()
        assert_tree(net, down, cut, f"seed {seed}")


def test_a_tree_is_found_again_after_partitions_failures_and_the_loss_of_the_root() -> None:
    for seed in range(30):
        break_and_repair(seed)


def tear_and_mend(seed: int) -> None:
    """A network is torn in two, often with the loss of its root; each part goes on, and they find each other."""
    random = Random(seed)
    brokers = random.randrange(4, 14)
    options = FAULTY_LINKS if seed % 3 == 0 else {"jitter": 0.02}
    net = Network.mesh(brokers, random.randrange(1, 2 * brokers), seed=seed, options=options)
    for at in range(brokers):
        net.subscribe(at, f"x >= {at}")
    net.run()
    for _ in range(2):
        part = set(random.sample(range(brokers), random.randrange(1, brokers)))
        torn = {(a, b) for a, b in net.links if (a in part) != (b in part)}
        lost = {0} if random.random() < 0.5 else set(random.sample(range(brokers), random.randrange(3)))
        for link in torn:
            net.cut(link)
        for broker in lost:
            net.crash(broker)
        running = sorted(set(range(brokers)) - lost)
        for at in random.sample(running, min(3, len(running))):
            net.publish(at, {"x": random.randrange(brokers)}, settled=False)  # some of these are lost
        net.run()
        assert_tree(net, lost, torn, f"torn, seed {seed}")
        for at in random.sample(running, min(3, len(running))):
            net.publish(at, {"x": random.randrange(brokers)})
        for broker in lost:
            net.restart(broker)
        for link in torn:
            net.mend(link)
            if random.random() < 0.3:
                net.run(random.random() * 0.05)
        net.run()
        assert_tree(net, set(), set(), f"mended, seed {seed}")
        net.publish(random.randrange(brokers), {"x": random.randrange(brokers)})
        net.run()
    assert net.verdict().is_right, f"seed {seed}\n{net.verdict()}"


def test_a_torn_network_goes_on_in_both_parts_and_finds_together() -> None:
    for seed in range(20):
        tear_and_mend(seed)


@pytest.mark.deep
@pytest.mark.parametrize("first", range(100, 3100, 500))
def test_a_tree_is_found_again_for_thousands_of_seeds(first: int) -> None:
    for seed in range(first, first + 500):
        break_and_repair(seed)
        tear_and_mend(seed)


def test_from_whatever_is_in_memory_the_next_rounds_lead_to_a_tree() -> None:
    for seed in range(25):
        random = Random(seed)
        net = Network.mesh(8, 6, seed=seed)
        net.run()
        for host in random.sample(hosts(net), 4):
            assert host.node is not None
            # Private: corrupted memory is what this test is about.
            spanning = host.node.broker._links.tree
            assert spanning is not None
            links = spanning.links
            spanning.root, spanning.epoch, spanning.distance = random.randrange(-3, 8), random.randrange(2**40), 1
            spanning.parent = random.choice([None, *links])
            best = {random.randrange(8): (random.randrange(2**40), random.randrange(5)) for _ in range(3)}
            # Corrupted tables: no protocol message leads to such a state.
            spanning._own_epoch, spanning._best = random.randrange(2**40), best
            for link in random.sample(links, random.randrange(len(links) + 1)):
                wrong = (random.randrange(-3, 8), random.randrange(2**40), random.randrange(5))
                # Corrupted, too.
                spanning._offers[link] = type(spanning._offers[link])(*wrong, random.randrange(3))
        net.run(200)
        assert_tree(net, set(), set(), f"seed {seed}")
        net.subscribe(random.randrange(8), "TRUE")
        net.publish(random.randrange(8), {})
        net.run()
        assert net.verdict().is_right


@every_combination
def test_events_go_by_the_tree_and_are_delivered_once(combination: Combination) -> None:
    for seed, breaks in ((1, False), (2, True)):
        judged(combination, seed, faulty=False, breaks=breaks, circles=True, operations=30)


@pytest.mark.deep
@every_combination
def test_events_go_by_the_tree_for_hundreds_of_seeds(combination: Combination) -> None:
    for seed in range(5000, 5250):
        judged(combination, seed, faulty=seed % 2 == 0, breaks=True, circles=True, operations=40)


def test_a_request_that_met_a_broker_without_a_way_to_the_root_is_passed_on_when_it_finds_one() -> None:
    net = Network(Topology(4, ((0, 1, None), (1, 2, None), (0, 3, None), (2, 3, None))))
    net.run()
    net.crash(1)
    net.cut((0, 3))  # 3 asks 2, which has lost its own way
    net.restart(1)
    net.run()
    assert_tree(net, set(), {(0, 3)}, "")


def test_what_is_lost_while_the_tree_changes_is_counted() -> None:
    ring = Topology(6, tuple((each, (each + 1) % 6, None) for each in range(6)))
    net = Network(ring)
    net.subscribe(3, "TRUE")
    net.run()
    way = next(link for link in net.tree_links if 3 in link)
    net.cut(way)
    net.publish(0, {"x": 1}, settled=False)
    net.run()
    net.publish(0, {"x": 2})
    net.run()
    verdict = net.verdict()
    assert verdict.is_right
    assert len(net.deliveries) + verdict.lost == 2
    assert net.deliveries[-1].event.get("x") == 2
