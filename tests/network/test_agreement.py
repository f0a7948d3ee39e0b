"""Agreement of brokers on real sockets with simulated ones."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

import palio
from tests.network.processes import served
from tests.network.running import broker, run, until, up, url
from tests.network.scenarios import on_sockets, scenario, simulated

STRATEGIES: list[dict[str, Any]] = [
    {"propagation": "flooding"},
    {"propagation": "simple", "forwarding": "reuse", "options": {"mode": "always"}},
    {"propagation": "identity", "forwarding": "prefix"},
    {"propagation": "identity", "forwarding": "bloom"},
    {"propagation": "covering"},
    {"propagation": "xroute", "options": {"router": "counters"}},
    {"propagation": "merging", "advertisements": True},
    {"propagation": "covering", "forwarding": "group", "options": {"trees": "publisher"}},
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("choices", STRATEGIES, ids=lambda choices: "-".join(map(str, choices.values())))
def test_brokers_of_one_process_deliver_what_simulated_ones_do(choices: dict[str, Any], seed: int) -> None:
    given = scenario(seed, brokers=4)
    expected = simulated(given, **choices)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(broker(**choices))]
            for parent in given.parents:
                linked = broker(connect=servers[parent].addresses, **choices)
                servers.append(await stack.enter_async_context(linked))
            await until(lambda: sum(len(up(each)) for each in servers) == 2 * len(given.parents))
            found = await on_sockets(given, [url(each) for each in servers], advertise="advertisements" in choices)
            assert found == expected

    assert sum(map(len, expected.values())) > 10
    run(test)


def test_brokers_in_processes_of_their_own_deliver_what_simulated_ones_do() -> None:
    given = scenario(seed=7, brokers=3, steps=80)
    expected = simulated(given, propagation="covering")
    with ExitStack() as stack:
        brokers = [stack.enter_context(served("--propagation", "covering"))]
        for parent in given.parents:
            brokers.append(stack.enter_context(served("--propagation", "covering", "--connect", brokers[parent].url)))
        until_linked([each.url for each in brokers], 2 * len(given.parents))
        assert asyncio.run(on_sockets(given, [each.url for each in brokers])) == expected


def until_linked(urls: list[str], ends: int) -> None:
    with ExitStack() as stack:
        brokers = [stack.enter_context(palio.connect_blocking(url)) for url in urls]
        while sum(each["up"] for broker in brokers for each in broker.status()["neighbours"]) < ends:
            time.sleep(0.01)
