"""Events that are published as batches arrive as they do when they are published one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import Event
from palio.events.batches import EventBatch, batch_of_events
from palio.routing.client_messages import PublishClient
from palio.routing.codec import encode_event
from palio.routing.columnar_codec import encode_batch
from palio.routing.combinations import Combination, legal_combinations
from palio.routing.effects import BatchRequest, Requested
from palio.routing.forwarding.strategy import forwarding_names
from palio.simulation import Network, topologies
from tests.simulation.scenarios import WORDS, condition, hosts

COMBINATIONS = [each for each in legal_combinations() if each.forwarding in forwarding_names()]


def contents(random: Random, count: int) -> list[Event]:
    """Events with the same attributes, some of them null."""
    return [
        Event(
            {
                "x": random.choice([None, *range(7)]),
                "y": random.randrange(7),
                "s": random.choice([None, *WORDS]),
            },
            id=str(random.random()),
            source=random.choice([None, "desk"]),
        )
        for _ in range(count)
    ]


def batch_of(events: list[Event]) -> EventBatch:
    batch = batch_of_events(events)
    assert batch is not None
    return batch


def arrivals(seed: int, as_batches: bool, combination: Combination, durable: bool) -> list[Any]:
    """What each subscription got, in order: by content, by the numbers of the network and of the publisher, by ways."""
    random = Random(seed)
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "options": combination.options,
    }
    brokers = random.randrange(1, 6)
    is_mesh = bool(combination.options.get("circles")) and brokers > 2
    shape = topologies.random_mesh(brokers, 2, random) if is_mesh else topologies.random_tree(brokers, random)
    net = Network(shape, seed=seed, **choices)
    net.run()
    if combination.advertisements:
        for at in range(brokers):
            net.advertise(at, "y < 5")
    subscribed = [
        net.subscribe(
            random.randrange(brokers),
            condition(random),
            client=random.choice("abc"),
            durable=durable and random.random() < 0.2,
        )
        for _ in range(random.randrange(12))
    ]
    net.run()
    for _ in range(4):
        at, client = random.randrange(brokers), random.choice("ab")
        before, batched, after = contents(random, 2), contents(random, random.randrange(1, 40)), contents(random, 1)
        requests: list[Any] = [PublishClient(encode_event(each)) for each in before]
        if as_batches:
            batch = batch_of(batched)
            requests.append(BatchRequest(batch, encode_batch(batch)))
        else:
            requests += [PublishClient(encode_event(each)) for each in batched]
        requests += [PublishClient(encode_event(each)) for each in after]
        net._engine.handle(hosts(net)[at], [Requested(client, each, net.now) for each in requests])
        net.run()
    return [
        [
            (sent.id, sent.body, sent.hops, sent.useless, sent.publisher)
            for sent in (delivery.envelope for delivery in net.deliveries_of(each))
        ]
        for each in subscribed
    ]


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_batches_arrive_as_single_events_do(combination: Combination) -> None:
    for seed in range(6):
        durable = bool(seed % 2)
        one_by_one = arrivals(seed, False, combination, durable)
        assert arrivals(seed, True, combination, durable) == one_by_one, f"seed {seed}"


@pytest.mark.parametrize("propagation", ["flooding", "simple", "identity", "covering", "merging"])
def test_batches_arrive_as_single_events_do_in_networks_with_circles(propagation: str) -> None:
    combination = Combination(propagation, "content", options={"circles": True})
    for seed in range(20):
        one_by_one = arrivals(seed, False, combination, durable=False)
        assert arrivals(seed, True, combination, durable=False) == one_by_one, f"seed {seed}"


@pytest.mark.deep
@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_batches_arrive_as_single_events_do_in_many_networks(combination: Combination) -> None:
    for seed in range(100, 400):
        durable = bool(seed % 3 == 0)
        one_by_one = arrivals(seed, False, combination, durable)
        assert arrivals(seed, True, combination, durable) == one_by_one, f"seed {seed}"
