"""Scenarios for a tree of brokers: steps, and the deliveries expected of any implementation.

It runs in a simulation, in virtual time, and against brokers on real sockets; both answer what each subscription got.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Any

import palio
from palio.network.client.broker import Broker
from palio.network.client.subscription import Subscription
from palio.simulation import Network
from palio.simulation.topologies import Topology

END = "the_end"


@dataclass(frozen=True)
class Subscribe:
    name: str
    at: int
    where: str


@dataclass(frozen=True)
class Unsubscribe:
    name: str


@dataclass(frozen=True)
class Publish:
    at: int
    event: dict[str, Any]


Step = Subscribe | Unsubscribe | Publish
Deliveries = dict[str, Counter[str]]


@dataclass(frozen=True)
class Scenario:
    """`parents[n]` is the broker that broker `n` + 1 links to."""

    parents: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def brokers(self) -> int:
        return len(self.parents) + 1


def scenario(seed: int, brokers: int, steps: int = 40) -> Scenario:
    """Subscriptions and events at random, over few values, so that they meet."""
    random = Random(seed)
    parents = tuple(random.randrange(broker) for broker in range(1, brokers))
    made: list[Step] = []
    live: list[str] = []
    for number in range(steps):
        kind = random.random()
        if kind < 0.3 or not live:
            live.append(f"n{number}")
            made.append(Subscribe(live[-1], random.randrange(brokers), _condition(random)))
        elif kind < 0.4:
            made.append(Unsubscribe(live.pop(random.randrange(len(live)))))
        else:
            event = {"number": number, "x": random.randrange(10), "s": random.choice(["ab", "bc", "cd"])}
            made.append(Publish(random.randrange(brokers), event))
    return Scenario(parents, tuple(made))


def _condition(random: Random) -> str:
    x = random.randrange(10)
    text = random.choice(["ab", "bc"])
    return random.choice(
        [f"x > {x}", f"x <= {x}", f"x = {x} OR s = '{text}'", f"s LIKE '{text[0]}%' AND x <> {x}", "TRUE"]
    )


def simulated(given: Scenario, **choices: Any) -> Deliveries:
    """What the subscriptions get in a simulation."""
    links = tuple((parent, child, None) for child, parent in enumerate(given.parents, 1))
    net = Network(Topology(given.brokers, links), **choices)
    if choices.get("advertisements"):
        for broker in range(given.brokers):
            net.advertise(at=broker, where="TRUE")
    subscriptions = {}
    for step in given.steps:
        match step:
            case Subscribe(name, at, where):
                subscriptions[name] = net.subscribe(at=at, where=where)
            case Unsubscribe(name):
                net.unsubscribe(subscriptions[name])
            case Publish(at, event):
                net.publish(at=at, event=event)
        net.run()
    found: Deliveries = {name: Counter() for name in subscriptions}
    for name, subscription in subscriptions.items():
        for each in net.deliveries:
            if each.subscription is subscription:
                found[name][str(each.event.get("number"))] += 1
    return found


async def on_sockets(
    given: Scenario, urls: Sequence[str], *, advertise: bool = False, tokens: Sequence[str] = ()
) -> Deliveries:
    """What they get from brokers that are linked alike."""
    async with AsyncExitStack() as stack:
        known = zip_longest(urls, tokens, fillvalue="")
        clients = [await stack.enter_async_context(palio.connect(url, token)) for url, token in known]
        if advertise:
            for client in clients:
                await client.advertise("TRUE")
            await _settle(clients[0])
        ends = [await stack.enter_async_context(each.subscribe(f"{END} = 1", confirm="network")) for each in clients]
        subscriptions: dict[str, Subscription] = {}
        at_broker: dict[str, Broker] = {}
        found: Deliveries = {}
        for step in given.steps:
            if not isinstance(step, Publish):
                await _until_quiet(clients, ends)  # an event that a change overtakes may be for it, or not
            match step:
                case Subscribe(name, at, where):
                    at_broker[name] = clients[at]
                    subscriptions[name] = clients[at].subscribe(where, name=name, confirm="network")
                    await subscriptions[name].__aenter__()
                    found[name] = Counter()
                case Unsubscribe(name):
                    subscription = subscriptions[name]
                    await subscription.__aexit__(None, None, None)
                    await _settle(at_broker[name])
                    async for event in subscription:
                        _count(found[name], event)
                case Publish(at, event):
                    await clients[at].publish(event)
        await _until_quiet(clients, ends)
        for name, subscription in subscriptions.items():
            await subscription.__aexit__(None, None, None)
            async for event in subscription:
                _count(found[name], event)
        return found


def _count(found: Counter[str], event: palio.Event) -> None:
    if event.get("number") is not None:
        found[str(event.get("number"))] += 1


async def _settle(client: Broker) -> None:
    """Until all brokers know what this client has asked for: what says so is behind it on every link."""
    async with client.subscribe(f"{END} = 2", confirm="network"):
        pass


async def _until_quiet(clients: Sequence[Broker], ends: Sequence[Subscription]) -> None:
    """Until every event is where it is for: an event of each publisher, behind all others, is at each client."""
    for client in clients:
        await client.publish({END: 1}, confirm=True)
    for end in ends:
        for _ in clients:
            await anext(end)
    await asyncio.gather(*(client.status() for client in clients))
