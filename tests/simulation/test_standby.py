"""Standbys of durable subscriptions: no confirmed event is lost with one disk, whoever is promoted when. A failure is a
seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from palio import DurableSettings
from palio.routing.combinations import Combination, upkeep_variants
from palio.simulation import Network, Subscription
from palio.simulation.oracle import was_advertised
from palio.simulation.topologies import component_labels
from tests.simulation.scenarios import FAULTY_LINKS, condition, hosts
from tests.simulation.test_durable_delivery import KeptScenario
from tests.simulation.test_flooding_oracle import COMBINATIONS, every_combination


class StandbyScenario(KeptScenario):
    """The same, with standbys, promotions at any time, and one broker that is lost with its disk."""

    def __init__(self, seed: int, choices: Mapping[str, Any], circles: bool = False) -> None:
        super().__init__(seed, choices, circles)
        self.lost: int | None = None
        links = [link[:2] for link in self.net.topology.links]
        without = {
            at: component_labels(self.brokers, [link for link in links if at not in link]) for at in range(self.brokers)
        }
        # Brokers without which the others are still joined.
        self.dispensable = {at for at, labels in without.items() if len({*labels} - {labels[at]}) == 1}

    def subscribe(self) -> None:
        at, standby = self.place(), self.place()
        if at is None:
            return
        wanted = condition(self.random)
        if self.random.random() < 0.2 or at == standby:
            self.subscriptions.append(self.net.subscribe(at, wanted, durable=self.random.random() < 0.5))
        else:
            self.subscriptions.append(self.net.subscribe(at, wanted, durable=True, standby=standby))

    def unsubscribe(self) -> None:
        pass  # in `test_what_ends_at_the_home_ends_at_the_standby`

    def break_something(self) -> None:
        chance = self.random.random()
        at = self.place()
        # While no standby was promoted: a subscription that has one home is lost with it.
        if chance < 0.15 and self.lost is None and at in self.dispensable and not self.net.history.places:
            self.net.crash(at, disk=False)
            self.lost = at
        elif chance < 0.3 and self.subscriptions:
            self.promote(self.random.choice(self.subscriptions))
        else:
            super().break_something()

    def promote(self, subscription: Subscription) -> None:
        standbys = [host for host in hosts(self.net) if self.is_standby(host.number, subscription)]
        if standbys and all(host.node is not None for host in standbys):
            self.net.promote(subscription)

    def is_standby(self, at: int, subscription: Subscription) -> bool:
        epoch = hosts(self.net)[at].disk.epochs.get((subscription.client, str(subscription.number)))
        return epoch is not None and epoch.home != at

    def repair(self) -> None:
        lost, self.down = self.lost, [at for at in self.down if at != self.lost]
        super().repair()
        if lost is not None:
            self.down.append(lost)

    def place(self) -> int | None:
        self.down = [at for at in range(self.brokers) if not self.net.is_running(at)]
        return super().place()

    def heal(self) -> None:
        for at in range(self.brokers):
            self.net.defuse(at)
        self.down = [at for at in range(self.brokers) if not self.net.is_running(at) and at != self.lost]
        super(KeptScenario, self).heal()
        self.net.run()
        # By an operator: all at once, by giving up the broker that is lost.
        if self.lost is not None:
            self.net.forget((self.lost + 1) % self.brokers, self.lost)
        self.net.run()


def check_homes(net: Network, said: str) -> None:
    """Each durable subscription has one home, and at most one standby, which agree."""
    epochs: dict[tuple[str, str], list[Any]] = {}
    for host in hosts(net):
        if host.node is not None:
            for key, epoch in host.disk.epochs.items():
                epochs.setdefault(key, []).append((host.number, epoch))
                assert host.node.broker.standbys.epoch(*key) == epoch, said
    for key, known in epochs.items():
        homes = [at for at, epoch in known if epoch.home == at]
        assert len(homes) <= 1, f"{said}: {key} has homes {homes}"
        assert len({epoch.epoch for _, epoch in known}) == 1, f"{said}: {known}"


def judged(
    combination: Combination, seed: int, *, faulty: bool, circles: bool, operations: int = 40
) -> StandbyScenario:
    slow = {"disk": 0.003} if seed % 3 == 0 and not combination.advertisements else {}
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "tables": combination.tables,
        "crash_log": combination.crash_log,
        "paths": combination.paths,
        "options": {**combination.options, **(FAULTY_LINKS if faulty else {}), **slow},
    }
    scenario = StandbyScenario(seed, choices, circles)
    net = scenario.run(operations)
    said = f"seed {seed}, faulty={faulty}, circles={circles}, lost {scenario.lost}"
    verdict = net.verdict()
    assert verdict.is_right, f"{said}\n{verdict}"
    check_homes(net, said)
    for publication in net.history.publications:
        for subscription in publication.guarded:
            at = net.history.place(subscription)
            is_owed = publication.event.id in net.history.accepted and subscription.wanted.matches(publication.event)
            is_owed = is_owed and was_advertised(net.history, publication)
            if is_owed and net.is_running(at) and net.history.subscriptions[subscription].ended is None:
                assert publication.event in net.queue(subscription), f"{said}: {publication.event} for {subscription}"
    for host in hosts(net):
        if host.node is not None:
            assert host.node.broker.delivery.unfinished == 0, said
    return scenario


@every_combination
def test_whatever_breaks_no_confirmed_event_is_lost_with_one_disk(combination: Combination) -> None:
    seed = crc32(str(combination).encode()) % 100
    judged(combination, seed, faulty=seed % 3 == 1, circles=seed % 3 == 2)


def test_an_event_is_confirmed_when_both_homes_have_it() -> None:
    net = Network.line(4)
    desk = net.subscribe(at=0, where="x > 1", durable=True, standby=2)
    net.run()
    assert net.standby(desk) == 2
    other = net.publish(at=3, event={"x": 1}, confirm=True)
    net.crash(2)
    net.run()
    event = net.publish(at=3, event={"x": 2}, confirm=True)
    net.run()
    assert net.is_confirmed(other)
    assert not net.is_confirmed(event)
    assert net.queue(desk) == []  # broker 2 is on the way
    net.restart(2)
    net.run()
    assert net.is_confirmed(event)
    assert net.queue(desk) == [event]


def test_with_degrade_events_are_confirmed_while_the_standby_is_away_and_reach_it_later() -> None:
    net = Network.star(4)
    settings = DurableSettings(standby_away="degrade")
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2, settings=settings)
    net.run()
    net.crash(2)
    net.run()
    event = net.publish(at=3, event={"x": 2}, confirm=True)
    net.run()
    assert net.is_confirmed(event)
    net.restart(2)
    net.run()
    net.crash(1, disk=False)
    net.promote(desk)
    net.run()
    assert net.queue(desk) == [event]


def test_an_operator_may_let_a_home_go_on_alone_while_its_standby_is_away() -> None:
    net = Network.star(4)
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
    net.run()
    net.crash(2)
    waiting = net.publish(at=3, event={"x": 2}, confirm=True)
    net.run()
    assert not net.is_confirmed(waiting)
    for policy, is_confirmed in (("degrade", True), ("refuse", False)):
        settings = DurableSettings(standby_away=policy)
        net._change(hosts(net)[1], desk.client, net._clients.request(desk, settings=settings, standby="2"))
        net.run()
        event = net.publish(at=3, event={"x": 3}, confirm=True)
        net.run()
        assert net.is_confirmed(waiting)
        assert net.is_confirmed(event) == is_confirmed
    net.restart(2)
    net.run()
    assert net.is_confirmed(event)
    assert len(net.queue(desk)) == 3
    check_homes(net, "")


def test_an_event_whose_broker_is_lost_with_its_disk_is_in_the_queue_of_the_promoted_standby() -> None:
    net = Network.line(2)
    desk = net.subscribe(at=0, where="x > 1", durable=True, standby=1)
    net.run()
    events = [net.publish(at=0, event={"x": number}, confirm=True) for number in (2, 3)]
    net.run()
    net.crash(0, disk=False)
    net.promote(desk)
    later = net.publish(at=1, event={"x": 4}, confirm=True)
    net.run()
    assert all(map(net.is_confirmed, [*events, later]))
    assert net.queue(desk) == [*events, later]


def test_a_home_that_returns_after_the_promotion_steps_down() -> None:
    net = Network.star(4)
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
    net.run()
    net.cut((0, 1))
    net.run()
    net.promote(desk)
    net.run()
    alone = net.publish(at=1, event={"x": 2}, confirm=True, settled=False)
    net.run()
    assert not net.is_confirmed(alone), "the old home has confirmed an event under the old epoch"
    event = net.publish(at=3, event={"x": 3}, confirm=True)
    net.run()
    assert net.is_confirmed(event)
    net.mend((0, 1))
    net.run()
    assert net.is_confirmed(alone)
    assert set(net.queue(desk)) == {event, alone}
    assert [host.number for host in hosts(net) if host.disk.queues] == [2]
    check_homes(net, "")


def test_what_ends_at_the_home_ends_at_the_standby_also_when_that_was_away() -> None:
    net = Network.star(3)
    for is_away in (False, True):
        desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
        net.run()
        if is_away:
            net.crash(2)
        net.unsubscribe(desk)
        net.run()
        if is_away:
            net.restart(2)
        net.run()
        assert not any(host.disk.epochs for host in hosts(net))
        assert list(hosts(net)[2].disk.read()) == []


def test_another_standby_takes_the_place_of_the_first() -> None:
    net = Network.star(4)
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
    net.run()
    request = net._clients.request(desk, standby="3")
    net._change(hosts(net)[1], desk.client, request)
    net.run()
    assert net.standby(desk) == 3
    event = net.publish(at=0, event={"x": 2}, confirm=True)
    net.run()
    assert net.is_confirmed(event)
    assert [at for at in (1, 2, 3) if hosts(net)[at].disk.queues] == [1, 3]
    check_homes(net, "")


def test_a_standby_that_does_not_answer_is_refused_with_the_reason() -> None:
    net = Network.star(3)
    net.crash(2)
    net.run()
    desk = net.subscribe(at=1, where="x > 1", durable=True)
    net._change(hosts(net)[1], desk.client, net._clients.request(desk, standby="2"))
    net.run()
    [refused] = net._clients.refusals
    assert "no broker of this network answers as 2" in refused.reason
    event = net.publish(at=0, event={"x": 2}, confirm=True)
    net.run()
    assert net.is_confirmed(event)


def test_the_standby_takes_over_when_its_home_is_given_up() -> None:
    net = Network.star(4)
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
    net.run()
    event = net.publish(at=3, event={"x": 2}, confirm=True)
    net.run()
    net.crash(1, disk=False)
    net.run()
    net.forget(3, 1)
    net.run()
    assert net.queue(desk) == [event]
    assert net.history.places[desk] == 2


def test_a_home_does_without_a_standby_that_is_given_up() -> None:
    net = Network.star(4)
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
    net.run()
    net.crash(2, disk=False)
    event = net.publish(at=3, event={"x": 2}, confirm=True)
    net.run()
    assert not net.is_confirmed(event)
    net.forget(3, 2)
    net.run()
    assert net.is_confirmed(event)
    assert net.standby(desk) is None


def test_the_accepting_broker_confirms_nothing_early_after_a_restart() -> None:
    net = Network.star(4)
    desk = net.subscribe(at=1, where="x > 1", durable=True, standby=2)
    net.run()
    net.crash(2)
    event = net.publish(at=3, event={"x": 2}, confirm=True)
    net.run()
    net.crash(3)
    net.restart(3)  # the publisher sends it again, and it is known by its identity
    net.run()
    assert not net.is_confirmed(event)
    net.restart(2)
    net.run()
    assert net.is_confirmed(event)
    assert net.queue(desk) == [event]


@pytest.mark.parametrize("seed", range(30))
def test_a_standby_goes_with_every_upkeep(seed: int) -> None:
    judged_with_upkeep(COMBINATIONS[31 * seed % len(COMBINATIONS)], seed)


def judged_with_upkeep(combination: Combination, seed: int) -> None:
    circles = seed % 2 == 0
    chosen = replace(combination, options={**combination.options, **({"circles": True} if circles else {})})
    variants = [each for each in upkeep_variants(chosen) if each.tables != "leases"]  # which keeps nothing durable
    judged(variants[seed // 2 % len(variants)], seed, faulty=seed % 4 == 1, circles=circles, operations=50)


@pytest.mark.deep
@every_combination
def test_hundreds_of_seeds(combination: Combination) -> None:
    for seed in range(100, 400):
        judged_with_upkeep(combination, seed)
