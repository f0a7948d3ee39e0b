"""Workload of clients under a schedule of faults: the same operations at the same times, whatever breaks meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from palio import NotAdvertised, PalioError
from palio.routing.combinations import Combination
from palio.simulation import Faults, FaultSchedule, Network, Subscription, Topology
from tests.simulation.scenarios import condition, event, topology

SECONDS = 3.0
FAULTS = {
    "crashes": 0.15,
    "cuts": 0.1,
    "partitions": 0.2,
    "slow": 0.15,
    "disk_full": 0.1,
    "clock_jumps": 0.1,
    "seconds": SECONDS,
    "outage": 0.4,
}
FAULTY_LINKS = {"loss": 0.1, "duplication": 0.1, "reordering": 0.1, "drift": 1e-4}


def drawn_network(seed: int) -> tuple[Topology, FaultSchedule]:
    """A small network and its faults; links lose, double and reorder in one of three."""
    random = Random(seed)
    shape = topology(random, circles=seed % 4 == 3)
    rates: dict[str, Any] = {**FAULTS, **(FAULTY_LINKS if seed % 3 == 0 else {})}
    return shape, Faults(seed=seed, **rates).schedule(shape)


def run_scenario(
    choices: Mapping[str, Any], shape: Topology, schedule: FaultSchedule, seed: int, operations: int = 40
) -> tuple[Network, float]:
    """Clients subscribe, unsubscribe and publish while faults come and go; then all faults end. The network, and the
    time at which nothing was to be left of them."""
    net = Network(shape, seed=seed, faults=schedule, **choices)
    clients = _ClientWorkload(net, Random(seed))
    for _ in range(operations):
        clients.act()
    net.run()
    net.heal()
    net.run(settling_seconds(net))
    net.run()
    settled_at = net.now
    net.run(0.001)
    clients.publish_everywhere()
    net.run()
    return net, settled_at


def settling_seconds(net: Network) -> float:
    return 0.0


def choices_of(combination: Combination) -> dict[str, Any]:
    """The arguments that make a network of a combination."""
    return {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "tables": combination.tables,
        "crash_log": combination.crash_log,
        "paths": combination.paths,
        "options": dict(combination.options),
    }


class _ClientWorkload:
    """Operations that are drawn without a look at the network; those at a broker that is down are left out."""

    def __init__(self, net: Network, random: Random) -> None:
        self._net = net
        self._random = random
        self._subscriptions: list[Subscription | None] = []
        self._advertisements: list[Any] = []

    def act(self) -> None:
        random = self._random
        self._net.run(random.random() * 2 * SECONDS / 40)
        kinds: list[Callable[[int], None]] = [self._subscribe] * 4 + [self._publish] * 6 + [self._unsubscribe]
        if self._net.combination.advertisements:
            kinds += [self._advertise] * 4 + [self._unadvertise]
        random.choice(kinds)(random.randrange(self._net.topology.brokers))

    def publish_everywhere(self) -> None:
        for at in range(self._net.topology.brokers):
            if self._net.combination.advertisements:
                self._advertise(at)
        self._net.run()
        for at in range(self._net.topology.brokers):
            self._publish(at)
            self._publish(at)

    def _subscribe(self, at: int) -> None:
        wanted, durable = condition(self._random), self._random.random() < 0.5
        made = self._net.subscribe(at, wanted, durable=durable) if self._net.is_running(at) else None
        self._subscriptions.append(made)

    def _unsubscribe(self, _: int) -> None:
        if self._subscriptions:
            made = self._subscriptions.pop(self._random.randrange(len(self._subscriptions)))
            if made is not None and self._net.is_running(made.at):
                self._net.unsubscribe(made)

    def _advertise(self, at: int) -> None:
        offered = condition(self._random)
        self._advertisements.append(self._net.advertise(at, offered) if self._net.is_running(at) else None)

    def _unadvertise(self, _: int) -> None:
        if self._advertisements:
            made = self._advertisements.pop(self._random.randrange(len(self._advertisements)))
            if made is not None and self._net.is_running(made.at):
                self._net.unadvertise(made)

    def _publish(self, at: int) -> None:
        content, confirm = event(self._random), self._random.random() < 0.5
        if not self._net.is_running(at):
            return
        try:
            self._net.publish(at, content, settled=False, confirm=confirm)
        except NotAdvertised:
            assert self._net.combination.advertisements
        except PalioError as error:
            assert "disk is full" in str(error) or "busy" in str(error)
