"""Is every event that was confirmed in every durable queue that it is for, once, whatever breaks? A failure is a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from palio import NotAdvertised
from palio.routing.combinations import Combination
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, condition, event
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
    for host in net._world.hosts:
        assert host.node is not None
        assert host.node.broker.keeping.missing == [], said
        assert host.node.broker.keeping.unfinished == 0, said
    return net


@every_combination
def test_whatever_breaks_what_was_confirmed_is_queued_once(combination: Combination) -> None:
    for seed in range(3):
        judged(combination, seed, faulty=seed == 1, circles=seed == 2)
