"""Thousands of mostly idle connections in little memory."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

import palio
from palio.network.client.subscription import Subscription
from tests.network.memory import resident_bytes
from tests.network.processes import Broker, served

BYTES_EACH = 60 * 1024  # that a plain connection with a subscription may cost the broker
SPARE_FILES = 200
EVENTS = 20


@contextmanager
def files_allowed(soft: int) -> Iterator[None]:
    """So many files may be open, in processes that begin meanwhile too."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def started_with_few_files(config: Path) -> Iterator[Broker]:
    """A broker that has to raise the limit itself."""
    with files_allowed(256):
        broker = served("--http", "off", "--config", str(config))
        running = broker.__enter__()
    try:
        yield running
    finally:
        broker.__exit__(None, None, None)


async def connected(broker: Broker, number: int, stack: AsyncExitStack) -> Subscription:
    client = await stack.enter_async_context(palio.connect(broker.url, timeout=60))
    wanted = "active" if number % 100 == 0 else f"idle {number}"
    return await stack.enter_async_context(client.subscribe(f"who = '{wanted}' AND price > {number % 7}"))


async def all_connected(broker: Broker, count: int, stack: AsyncExitStack) -> list[Subscription]:
    numbers = iter(range(count))

    async def some() -> list[Subscription]:
        return [await connected(broker, number, stack) for number in numbers]

    return [each for found in await asyncio.gather(*(some() for _ in range(50))) for each in found]


async def heard(subscription: Subscription) -> list[object]:
    return [(await anext(subscription)).get("number") for _ in range(EVENTS)]


async def hold(broker: Broker, count: int) -> None:
    async with palio.connect(broker.url) as publisher, AsyncExitStack() as stack:
        await all_connected(broker, 20, stack)
        await publisher.publish({"who": "nobody", "price": 1}, confirm=True)
        before = resident_bytes(broker.pid)
        subscriptions = await all_connected(broker, count, stack)
        each = (resident_bytes(broker.pid) - before) / count
        print(f"{count:,} connections: {each / 1024:.1f} KB each")
        assert each <= BYTES_EACH
        assert len((await publisher.status())["clients"]) == count + 21
        active = [each for each in subscriptions if "active" in str(each.wanted)]
        assert len(active) == count // 100
        hearing = [asyncio.create_task(heard(each)) for each in active]
        for number in range(EVENTS):
            await publisher.publish({"who": "active", "price": 10, "number": number})
        assert await asyncio.gather(*hearing) == [list(range(EVENTS))] * len(active)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.deep)])
def test_connections_are_many_and_small(count: int, tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count + SPARE_FILES:
        pytest.skip(f"{count:,} connections need as many files, and this system allows {most:,} to a process")
    config = tmp_path / "broker.toml"
    config.write_text(f"[limits]\nconnections_per_principal = {2 * count}\n")
    with started_with_few_files(config) as broker, files_allowed(most):
        asyncio.run(hold(broker, count))
