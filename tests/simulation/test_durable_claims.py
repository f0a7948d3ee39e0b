"""Durable claims: one home broker for a name that is claimed at several, whatever breaks meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import Filter
from palio.routing.client_messages import ClaimClient, Claimed, SubscribeClient
from palio.routing.effects import Reply, Requested
from palio.simulation import Network, topologies
from tests.simulation.scenarios import FAULTY_LINKS, hosts

NAMES = ("desk", "audit", "archive")


class Claimants(Network):
    """Clients that want durable subscriptions of some names, and have them where they may."""

    answers: dict[int, tuple[int, Claimed]]

    def __init__(self, *arguments: Any, **choices: Any) -> None:
        self.answers = {}
        self._asked: dict[int, str] = {}
        super().__init__(*arguments, **choices)

    def claim(self, at: int, name: str) -> int:
        number = len(self._asked) + 1
        self._asked[number] = name
        self._change(self._host(at), "session", ClaimClient(name, name, number))
        return number

    def _on_reply(self, at: int, reply: Reply) -> None:
        if not isinstance(reply.answer, Claimed):
            return
        self.answers[reply.answer.number] = at, reply.answer
        if not reply.answer.elsewhere and not reply.answer.away:
            name = self._asked[reply.answer.number]
            subscribe = SubscribeClient(name, Filter.everything, "no", True)
            self._engine.schedule_input(at, Requested(name, subscribe, self.now))

    def homes(self, name: str) -> list[int]:
        return [
            host.number
            for host in self._engine.hosts
            if any((client, request.name) == (name, name) for client, request in host.disk.read())
        ]


def test_who_asks_second_is_told_where_it_lives() -> None:
    net = Claimants(topologies.line(4))
    net.run()
    net.claim(3, "desk")
    net.run()
    asked = net.claim(0, "desk")
    net.run()
    at, answer = net.answers[asked]
    assert (at, [each.broker for each in answer.elsewhere], answer.away) == (0, [3], ())
    assert net.homes("desk") == [3]


def test_a_home_that_is_away_may_have_it_until_it_is_given_up() -> None:
    net = Claimants(topologies.line(3))
    net.run()
    net.claim(2, "desk")
    net.run()
    net.crash(2)
    net.run()
    asked = net.claim(0, "desk")
    net.run()
    assert net.answers[asked][1].away == (2,)
    net.forget(1, 2)
    net.run()
    net.claim(0, "desk")
    net.run()
    assert net.homes("desk") == [0, 2]  # what is on the disk of who was given up is not coming back


def test_all_that_ask_at_once_agree() -> None:
    for seed in range(60):
        random = Random(seed)
        net = Claimants(topologies.random_mesh(6, 2, random), seed=seed, options=FAULTY_LINKS if seed % 2 else {})
        net.run()
        for _ in range(10):
            net.claim(random.randrange(6), random.choice(NAMES))
            net.run(random.random() * 0.02)
        net.run()
        assert max(len(net.homes(name)) for name in NAMES) == 1, f"seed {seed}"
        assert len(net.answers) == 10, f"seed {seed}"


def claimed(seed: int) -> None:
    """Brokers come and go, each with its disk; all have met before, and all have been homes."""
    random = Random(seed)
    net = Claimants(topologies.random_tree(5, random), seed=seed, options={"disk": 0.007} if seed % 3 == 0 else {})
    net.run()
    for at in range(5):
        net.subscribe(at, "TRUE", durable=True)
    net.run()
    for _ in range(30):
        running = [at for at in range(5) if net.is_running(at)]
        down = [at for at in range(5) if not net.is_running(at)]
        match random.choice("aaaakr"):
            case "a" if running:
                net.claim(random.choice(running), random.choice(NAMES))
            case "k" if len(running) > 2:
                net.crash(random.choice(running), after=random.randrange(8))
            case "r" if down:
                net.restart(random.choice(down))
        net.run(random.random() * 0.03)
    for at in range(5):
        net.defuse(at)
        if not net.is_running(at):
            net.restart(at)
    net.run()
    for name in NAMES:
        homes = net.homes(name)
        for at in homes:
            node = net._engine.hosts[at].node
            assert node is not None
            others = [each.broker for each in node.broker.claims.rivals(name, name)]
            assert sorted([at, *others]) == homes, f"seed {seed}"
        asked = net.claim(0, name)
        net.run()
        at, answer = net.answers[asked]
        expected = [] if 0 in homes else sorted(net.homes(name), reverse=True)
        assert [each.broker for each in answer.elsewhere] == expected, f"seed {seed}"


def test_brokers_that_could_not_ask_each_other_know_of_each_other_when_all_are_back() -> None:
    for seed in range(60):
        claimed(seed)


@pytest.mark.deep
def test_brokers_know_of_each_other_after_thousands_of_crashes() -> None:
    for seed in range(1_000, 6_000):
        claimed(seed)


def test_homes_that_had_never_met_hear_of_each_other_when_they_do() -> None:
    for seed in range(20):
        random = Random(seed)
        net = Claimants(topologies.line(4), seed=seed, options={"disk": 0.007} if seed % 2 else {})
        net.cut((1, 2))
        net.run()
        first, second = random.choice([0, 1]), random.choice([2, 3])
        for at in (first, second):
            net.claim(at, "desk")
        net.claim(second, "audit")
        net.run()
        assert net.homes("desk") == [first, second]
        net.mend((1, 2))
        net.run()
        for at, other in ((first, second), (second, first)):
            claims = hosts(net)[at].node.broker.claims  # type: ignore[union-attr]
            assert [each.broker for each in claims.rivals("desk", "desk")] == [other], f"seed {seed}"
            assert claims.rivals("audit", "audit") == ()


def test_a_new_name_needs_no_broker_that_is_away() -> None:
    net = Claimants(topologies.line(3))
    net.run()
    net.claim(0, "desk")
    net.run()
    net.crash(0)
    net.run()
    known, new = net.claim(2, "desk"), net.claim(2, "another")
    net.run()
    assert net.answers[known][1].away == (0,)
    assert net.answers[new][1].away == ()
    assert net.homes("another") == [2]
