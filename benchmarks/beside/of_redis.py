"""Redis knows channels: every subscriber gets every event, and filters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from beside.system import Publish, Running, System, each_on_its_own, found, free_port, in_background, started
from beside.tally import Tally
from beside.work import compiled, read_seen


@contextmanager
def serve() -> Iterator[Running]:
    port = free_port()
    command = f"--port {port} --bind 127.0.0.1 --appendonly no --maxclients 19000 --daemonize no --save".split()
    limits = ["", "--client-output-buffer-limit", "pubsub 0 0 0"]  # nobody is cut off for being slow
    with started([str(found("redis-server")), *command, *limits], port, "redis") as server:
        yield server


async def subscribe(url: str, numbers: Sequence[int], tally: Tally) -> None:
    from redis.asyncio import Redis

    async def listen(channel: Any, number: int) -> None:
        wanted = compiled(number)
        async for message in channel.listen():
            if message["type"] != "message":
                continue
            event = read_seen(message["data"])
            if wanted(event):
                tally.saw(event.sent)

    async def one(number: int) -> None:
        channel = Redis.from_url(url, socket_connect_timeout=60).pubsub()
        await channel.subscribe("events")
        in_background(listen(channel, number))
        tally.ready()

    await each_on_its_own(numbers, one)


@asynccontextmanager
async def publisher(url: str) -> AsyncIterator[Publish]:
    """Those who publish much send several commands together; one that waits for each answer would be the slowest."""
    from redis.asyncio import Redis

    client = Redis.from_url(url)
    waiting = client.pipeline(transaction=False)
    sending: asyncio.Task[Any] | None = None

    async def flush() -> None:
        nonlocal waiting
        while len(waiting):
            full, waiting = waiting, client.pipeline(transaction=False)
            await full.execute()

    async def publish(event: dict[str, Any]) -> None:
        nonlocal sending
        waiting.publish("events", msgspec.json.encode(event))
        if sending is None or sending.done():
            if sending is not None:
                sending.result()
            sending = asyncio.create_task(flush())
        if len(waiting) >= 64:
            await sending

    yield publish
    if sending is not None:
        await asyncio.wait([sending])
    await client.aclose()


REDIS = System("redis", serve, subscribe, publisher, "redis", "redis-server")
