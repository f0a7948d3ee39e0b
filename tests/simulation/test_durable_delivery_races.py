"""Durable delivery while links and brokers come and go faster than an event crosses the network."""

from __future__ import annotations

from random import Random

import pytest

from palio.simulation import Network, topologies
from tests.simulation.scenarios import FAULTY_LINKS, hosts

HOP = 0.01  # seconds, as links have it by default


def raced(seed: int) -> None:
    random = Random(seed)
    brokers = random.randrange(3, 8)
    shape = topologies.random_mesh(brokers, 2, random) if seed % 2 else topologies.random_tree(brokers, random)
    options = {**(FAULTY_LINKS if seed % 5 == 0 else {}), **({"disk": 0.007} if seed % 3 == 0 else {})}
    net = Network(shape, seed=seed, propagation=random.choice(["identity", "covering", "flooding"]), options=options)
    for _ in range(3):
        net.subscribe(random.randrange(brokers), f"x >= {random.randrange(3)}", durable=True)
    net.run()
    cuts: list[tuple[int, int]] = []
    for _ in range(40):
        running = [at for at in range(brokers) if net.is_running(at)]
        down = [at for at in range(brokers) if not net.is_running(at)]
        match random.choice("ppppcmmkrr"):
            case "p" if running:
                net.publish(random.choice(running), {"x": random.randrange(4)}, settled=False, confirm=True)
            case "c":
                cuts.append(link := random.choice(net.links))
                net.cut(link)
            case "m" if cuts:
                net.mend(cuts.pop(random.randrange(len(cuts))))
            case "k" if len(running) > 2:
                net.crash(random.choice(running), after=random.randrange(8))
            case "r" if down:
                net.restart(random.choice(down))
        net.run(random.choice([0.0, random.random() * HOP, random.random() * 3 * HOP]))
    for link in cuts:
        net.mend(link)
    for at in range(brokers):
        net.defuse(at)
        if not net.is_running(at):
            net.restart(at)
    net.run()
    verdict = net.verdict()
    assert verdict.is_right, f"seed {seed}\n{verdict}"
    left = [host.node.broker.delivery.unfinished for host in hosts(net) if host.node is not None]
    assert left == [0] * brokers, f"seed {seed}"


def test_races_lose_and_double_nothing_that_was_confirmed() -> None:
    for seed in range(120):
        raced(seed)


@pytest.mark.deep
def test_thousands_of_races() -> None:
    for seed in range(1_000, 8_000):
        raced(seed)
