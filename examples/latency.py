"""Latency of events across three brokers: the latency application of Jerzak §8.

Three brokers in a chain, on one machine and so by one clock. A publisher at the first advertises `ST > 0` and publishes
the time, ten times a second; at the third an application subscribes to that, and prints the age of each event.

    python examples/latency.py --events 20
"""

from __future__ import annotations

import argparse
import asyncio
import time

import palio
from palio.network.addresses import Address
from palio.network.server.process import Server
from palio.network.server.settings import Settings


async def publish(url: str, pause: float) -> None:
    async with palio.connect(url, app="clock") as broker:
        await broker.advertise("ST > 0")
        while True:
            await broker.publish({"ST": time.time_ns()})
            await asyncio.sleep(pause)


async def listen(url: str, events: int) -> None:
    def cancelled(subscription: object) -> None:
        """The last publisher has left; another may come."""

    async with (
        palio.connect(url, app="latency") as broker,
        broker.subscribe("ST > 0", on_cancel=cancelled) as received,
    ):
        for number in range(1, events + 1):
            event = await anext(received)
            sent = event.get("ST")
            assert isinstance(sent, int)
            print(f"{number}  {(time.time_ns() - sent) / 1e6:.3f} ms")


async def main(ports: list[int], events: int, pause: float) -> None:
    brokers: list[Server] = []
    for port in ports:
        neighbour = brokers[-1].addresses if brokers else ()
        here = Settings(listen=(Address("127.0.0.1", port),), connect=neighbour, advertisements=True)
        brokers.append(Server(here))
        await brokers[-1].start()
    publishing = asyncio.create_task(publish(str(brokers[0].addresses[0]), pause))
    await listen(str(brokers[-1].addresses[0]), events)
    publishing.cancel()
    for broker in brokers:
        await broker.stop()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--ports", type=int, nargs=3, default=[4050, 4060, 4070], help="where the brokers listen")
    options.add_argument("--events", type=int, default=20)
    options.add_argument("--pause", type=float, default=0.1, help="seconds between two events")
    given = options.parse_args()
    asyncio.run(main(given.ports, given.events, given.pause))
