"""Flat memory of broker and client under many events."""

from __future__ import annotations

import asyncio

import pytest

import palio
from palio.network.client.subscription import Subscription
from palio.routing import codec
from tests.network.memory import resident_bytes
from tests.network.processes import Broker, served

UNDER_WAY = 5_000
REMEMBERED = 65_536  # events by which a broker knows what it has seen: so long its memory grows
LEEWAY = 16 * 2**20  # bytes, by which an allocator may differ from one time to the next; 130,000 events are 60 MB


def event(number: int) -> dict[str, object]:
    """200 bytes, as it is on the wire."""
    return {"number": number, "price": 120.5, "symbol": "ACME", "text": "x" * 112}


def test_an_event_has_200_bytes() -> None:
    assert len(codec.encode_event(palio.Event.read(event(100_000)))) == 200


async def through(broker: Broker, count: int) -> None:
    beginning = max(count // 5, REMEMBERED + UNDER_WAY)
    early: list[tuple[int, int]] = []
    seen = 0
    some_came = asyncio.Event()

    async def listen(events: Subscription) -> None:
        nonlocal seen
        async for received in events:
            assert received.get("number") == seen
            seen += 1
            if seen % 1_000 == 0:
                some_came.set()
            if seen == beginning:
                early.append(held(broker))
            if seen == count:
                return

    async with (
        palio.connect(broker.url) as publisher,
        palio.connect(broker.url) as subscriber,
        subscriber.subscribe("price > 100", queue=2 * UNDER_WAY) as events,
    ):
        listening = asyncio.create_task(listen(events))
        for number in range(count):
            while number - seen >= UNDER_WAY and not listening.done():
                some_came.clear()
                await some_came.wait()
            await publisher.publish(event(number))
        await listening
        grown = [after - before for before, after in zip(early[0], held(broker), strict=True)]
    print(f"{count:,} events: the broker grew by {grown[0]:,} bytes, its client by {grown[1]:,}")
    assert max(grown) < LEEWAY + 2 * (count - beginning)  # one pointer kept for each event is more, in the long run


def held(broker: Broker) -> tuple[int, int]:
    return resident_bytes(broker.pid), resident_bytes()


@pytest.mark.parametrize("count", [200_000, pytest.param(10_000_000, marks=pytest.mark.deep)])
def test_memory_is_flat(count: int) -> None:
    with served("--http", "off") as broker:
        asyncio.run(through(broker, count))
