"""Flow control between two brokers that flood each other: they go on, and count drops."""

from __future__ import annotations

import asyncio

import palio
from palio.network.client.broker import Broker
from tests.network.running import line, run, url

EVENTS = 4_000
PAD = "x" * 2_000


async def flood(broker: Broker, side: str) -> None:
    for number in range(EVENTS):
        await broker.publish({"side": side, "number": number, "pad": PAD})
    await broker.publish({"side": side, "last": True}, confirm=True)


async def count(broker: Broker, side: str, started: asyncio.Event, last: asyncio.Event) -> int:
    """How many events of the other side came, until its last one, which is sent until it comes."""
    seen = 0
    async with broker.subscribe(f"side = '{side}'", confirm="network", queue=500) as events:
        started.set()
        async for event in events:
            if event.get("last"):
                last.set()
                return seen + events.dropped
            seen += 1
    raise AssertionError("the subscription ended")


def test_two_brokers_that_saturate_each_other_do_not_stop() -> None:
    async def test() -> None:
        async with (
            line(2, options={"queue": 200}) as (one, other),
            palio.connect(url(one)) as left,
            palio.connect(url(other)) as right,
        ):
            started, lasts = [asyncio.Event() for _ in range(2)], [asyncio.Event() for _ in range(2)]
            counting = [
                asyncio.create_task(count(left, "right", started[0], lasts[0])),
                asyncio.create_task(count(right, "left", started[1], lasts[1])),
            ]
            for each in started:
                await each.wait()
            await asyncio.gather(flood(left, "left"), flood(right, "right"))
            for publisher, side, last in ((left, "left", lasts[1]), (right, "right", lasts[0])):
                while not last.is_set():
                    await publisher.publish({"side": side, "last": True}, confirm=True)
                    await asyncio.sleep(0.05)
            seen = await asyncio.gather(*counting)
            dropped = [sum(each.host.drops.values()) for each in (one, other)]
            assert sum(seen) > 0
            assert sum(seen) + sum(dropped) >= 2 * EVENTS, (seen, dropped)

    run(test)
