"""Random scenario of a network, decided by one seed: links, requests and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from palio import NotAdvertised
from palio.simulation import Network, Topology, topologies
from palio.simulation.hosts import Host

WORDS = ["ab", "ba", "abc", "b", ""]


def hosts(net: Network) -> list[Host]:
    """The hosts of a network, for tests that look into their brokers or disturb them."""
    # Private on purpose: the interface of a network does not show the state of its brokers.
    return net._engine.hosts


def condition(random: Random, depth: int = 2) -> str:
    """A condition that others of its kind often cover, overlap and equal."""
    if depth and random.random() < 0.25:
        glue = random.choice([" AND ", " AND ", " OR "])
        return f"({condition(random, depth - 1)}{glue}{condition(random, depth - 1)})"
    name, low = random.choice("xyz"), random.randrange(6)
    return random.choice(
        [
            f"{name} > {low}",
            f"{name} <= {low}",
            f"{name} BETWEEN {low} AND {low + random.randrange(4)}",
            f"{name} = {low}",
            f"{name} <> {low}",
            f"{name} IN ({low}, {random.randrange(6)})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"s = '{random.choice(WORDS)}'",
            f"s LIKE '{random.choice(WORDS)}%'",
            f"s LIKE '%{random.choice(WORDS)}'",
            "x > y",
            "TRUE",
        ]
    )


def event(random: Random) -> dict[str, Any]:
    """An event, of which some attributes are missing, null, text or arrays."""
    content: dict[str, Any] = {}
    for name in "xyz":
        kind = random.random()
        if kind < 0.6:
            content[name] = random.randrange(7)
        elif kind < 0.7:
            content[name] = [random.randrange(7) for _ in range(random.randrange(1, 3))]
        elif kind < 0.75:
            content[name] = None
    if random.random() < 0.5:
        content["s"] = random.choice(WORDS)
    return content


def topology(random: Random, circles: bool = False) -> Topology:
    brokers = random.randrange(2, 8)
    if circles:
        return topologies.random_mesh(brokers, random.randrange(1, 4), random)
    shape: Callable[[int], Topology] = random.choice(
        [topologies.line, topologies.star, topologies.tree, lambda count: topologies.random_tree(count, random)]
    )
    return shape(brokers)


FAULTY_LINKS = {"loss": 0.15, "duplication": 0.1, "reordering": 0.2, "jitter": 0.005, "drift": 0.001}


class Scenario:
    """Operations on one network, as a seed decides."""

    def __init__(self, seed: int, choices: Mapping[str, Any], breaks: bool, circles: bool = False) -> None:
        self.random = Random(seed)
        self.net = Network(topology(self.random, circles), seed=seed, **choices)
        self.brokers = self.net.topology.brokers
        self.subscriptions: list[Any] = []
        self.advertisements: list[Any] = []
        self.down: list[int] = []
        self.cuts: list[tuple[int, int]] = []
        self.breaks = breaks

    def run(self, operations: int) -> Network:
        for _ in range(operations):
            self.step()
        self.heal()
        self.net.run()
        for _ in range(4):
            self.publish()
        self.net.run()
        return self.net

    def step(self) -> None:
        usual = [self.subscribe] * 5 + [self.unsubscribe] * 3 + [self.publish] * 5 + [self.rest] * 2 + [self.wait] * 4
        if self.net.combination.advertisements:
            usual += [self.advertise] * 3 + [self.unadvertise]
        if self.breaks:
            usual += [self.break_something, self.repair]
        self.random.choice(usual)()

    def place(self) -> int | None:
        """A broker that runs."""
        running = [each for each in range(self.brokers) if each not in self.down]
        return self.random.choice(running) if running else None

    def subscribe(self) -> None:
        at = self.place()
        if at is not None:
            self.subscriptions.append(self.net.subscribe(at, condition(self.random)))

    def unsubscribe(self) -> None:
        live = [each for each in self.subscriptions if each.at not in self.down]
        if live:
            gone = self.random.choice(live)
            self.subscriptions.remove(gone)
            self.net.unsubscribe(gone)

    def advertise(self) -> None:
        at = self.place()
        if at is not None:
            self.advertisements.append(self.net.advertise(at, condition(self.random)))

    def unadvertise(self) -> None:
        live = [each for each in self.advertisements if each.at not in self.down]
        if live:
            gone = self.random.choice(live)
            self.advertisements.remove(gone)
            self.net.unadvertise(gone)

    def publish(self) -> None:
        at = self.place()
        if at is None:
            return
        try:
            self.net.publish(at, event(self.random), settled=False)
        except NotAdvertised:
            assert self.net.combination.advertisements

    def rest(self) -> None:
        self.net.run()

    def wait(self) -> None:
        self.net.run(self.random.random() * 0.05)

    def break_something(self) -> None:
        if self.random.random() < 0.5 and self.net.links:
            link = self.random.choice(self.net.links)
            self.cuts.append(link)
            self.net.cut(link)
        else:
            at = self.place()
            if at is not None and len(self.down) < self.brokers - 1:
                self.down.append(at)
                self.net.crash(at)

    def repair(self) -> None:
        if self.cuts and self.random.random() < 0.5:
            self.net.mend(self.cuts.pop())
        elif self.down:
            self.net.restart(self.down.pop())

    def heal(self) -> None:
        while self.cuts:
            self.net.mend(self.cuts.pop())
        while self.down:
            self.net.restart(self.down.pop())
