"""Latency of events across three brokers in a line, each in a process of its own.

Events of 740 bytes go in at the first and come out at the third; their age is taken by one clock, from the moment at
which each was due, so that a sender that falls behind shows. First at a given rate, then as fast as they go, then at
half of that. Then at the same two rates over three processes that only pass bytes on: what the machine itself adds.

    python benchmarks/broker.py line --rate 1000 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from selectors import SelectSelector

from broker_processes import Served, cpu_of, own_cpu, served
from broker_relays import connected

import palio
from palio.network.client.broker import Broker
from palio.network.client.subscription import Subscription
from palio.routing import codec

BYTES = 740
WINDOW = 1_000  # events under way while the maximum is measured
TICK = 0.0005  # seconds for which a sender sleeps at least: to wake costs what a broker takes for an event
PATIENCE = 10  # seconds that the last of some events may be late


@dataclass(frozen=True)
class Measured:
    """Ages in milliseconds."""

    what: str
    events: int
    rate: float
    p50: float
    p99: float
    p999: float
    worst: float
    broker_cpu: float
    client_cpu: float


def event(due: float) -> dict[str, object]:
    """An event of which the body has so many bytes."""
    return {"due": due, "price": 120.5, "symbol": "ACME", "text": "x" * (BYTES - 96)}


async def main_async(rate: int, seconds: float) -> list[Measured]:
    found = []
    with served() as first, served("--connect", first.url) as middle, served("--connect", middle.url) as last:
        brokers = [first, middle, last]
        async with palio.connect(first.url) as publisher, palio.connect(last.url) as subscriber:
            while len((await publisher.status())["neighbours"]) < 1:
                await asyncio.sleep(0.05)
            while not all(each["up"] for each in (await subscriber.status())["neighbours"]):
                await asyncio.sleep(0.05)
            async with subscriber.subscribe("price > 100", confirm="network", queue=1_000_000) as events:
                size = len(codec.encode_event(palio.Event.read(event(time.perf_counter()))))
                print(f"an event has {size} bytes", flush=True)
                await paced(publisher, events, brokers, 500, 1.0, "warm-up")
                found.append(await paced(publisher, events, brokers, rate, seconds, f"{rate:,} a second"))
                most = await fastest(publisher, events, brokers, seconds)
                found.append(most)
                found.append(await paced(publisher, events, brokers, int(most.rate / 2), seconds, "half of that"))
    rates = int(found[0].rate), int(found[2].rate)
    return [*found, *[await relayed(rate, seconds, f"relays, {rate:,} a second") for rate in rates]]


async def relayed(rate: int, seconds: float, what: str) -> Measured:
    """The same events by the same clock, over processes that do nothing with them."""
    count = int(rate * seconds)
    found: list[float] = []
    with ExitStack() as stack:
        send = await connected(3, BYTES, lambda due: found.append(time.perf_counter() - due), stack)
        client_cpu = own_cpu()
        began = time.perf_counter()
        await by_the_clock(rate, count, began, send)
        async with asyncio.timeout(PATIENCE):
            while len(found) < count:
                await asyncio.sleep(0.01)
        took = time.perf_counter() - began
    return measured(what, found, took, math.nan, own_cpu() - client_cpu)


async def by_the_clock(rate: int, count: int, began: float, send: Callable[[float], object]) -> None:
    """Send events, each when it is due."""
    for number in range(count):
        due = began + number / rate
        while (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(max(wait, TICK))
        sent = send(due)
        if isinstance(sent, Awaitable):
            await sent


async def paced(
    publisher: Broker, events: Subscription, brokers: list[Served], rate: int, seconds: float, what: str
) -> Measured:
    """Send by the clock, and listen."""
    count = int(rate * seconds)
    listening = asyncio.create_task(ages(events, count, seconds))
    broker_cpu, client_cpu = cpu_of(brokers), own_cpu()
    began = time.perf_counter()
    await by_the_clock(rate, count, began, lambda due: publisher.publish(event(due)))
    found = await listening
    took = time.perf_counter() - began
    return measured(what, found, took, cpu_of(brokers) - broker_cpu, own_cpu() - client_cpu)


async def fastest(publisher: Broker, events: Subscription, brokers: list[Served], seconds: float) -> Measured:
    """Send whenever there is room for one more under way, and listen."""
    broker_cpu, client_cpu = cpu_of(brokers), own_cpu()
    found: list[float] = []
    sent = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        while sent - len(found) < WINDOW:
            await publisher.publish(event(time.perf_counter()))
            sent += 1
        found += await ages(events, min(100, sent - len(found)), 0)
    found += await ages(events, sent - len(found), 0)
    took = time.perf_counter() - began
    return measured("as fast as they go", found, took, cpu_of(brokers) - broker_cpu, own_cpu() - client_cpu)


async def ages(events: Subscription, count: int, within: float) -> list[float]:
    """Of so many events; that fewer come is an error, as at most as many are sent as brokers can take."""
    found: list[float] = []
    try:
        async with asyncio.timeout(within + PATIENCE):
            for _ in range(count):
                received = await anext(events)
                due = received.get("due")
                assert isinstance(due, float)
                found.append(time.perf_counter() - due)
    except TimeoutError:
        raise RuntimeError(
            f"only {len(found):,} of {count:,} events came; brokers that are too busy drop what nobody confirms"
        ) from None
    return found


def measured(what: str, found: list[float], took: float, broker_cpu: float, client_cpu: float) -> Measured:
    ordered = sorted(each * 1e3 for each in found)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99, 0.999)]
    return Measured(what, len(found), len(found) / took, *at, ordered[-1], broker_cpu, client_cpu)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="broker.py line", description=__doc__.splitlines()[0])
    options.add_argument("--rate", type=int, default=1_000)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--json", action="store_true")
    given = options.parse_args(arguments)
    # Unlike epoll, select waits for parts of a millisecond; otherwise the sender would be late by its own clock.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(SelectSelector())) as runner:
        found = runner.run(main_async(given.rate, given.seconds))
    if given.json:
        print(json.dumps([asdict(each) for each in found]))
        return 0
    print(f"{'':28} {'events/s':>9} {'p50 ms':>8} {'p99 ms':>8} {'p99.9':>8} {'worst':>8}  CPU s of brokers, clients")
    for each in found:
        numbers = f"{each.rate:9,.0f} {each.p50:8.3f} {each.p99:8.3f} {each.p999:8.3f} {each.worst:8.1f}"
        print(f"{each.what:28} {numbers}  {each.broker_cpu:.2f}, {each.client_cpu:.2f}")
    _, _, half, _, bare = found
    print(f"at half of the maximum p99 is {half.p99 / bare.p99:.1f} times that of relays that look at nothing")
    return 0
