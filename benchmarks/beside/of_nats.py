"""NATS knows subjects: every subscriber gets every event, and filters. Or one consumer asks a `palio.Matcher`.

That consumer, the hard case, knows by itself who wants what; in its first form nobody else is told. In its second it
sends each event on to those who want it, over a subject and a connection for each, as Palio does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

import palio
from beside.system import Publish, Running, System, each_on_its_own, found, free_port, started
from beside.tally import Tally
from beside.work import compiled, condition, read_seen

NO_LIMIT = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}


@contextmanager
def serve() -> Iterator[Running]:
    port = free_port()
    with started([str(found("nats-server")), "-a", "127.0.0.1", "-p", str(port)], port, "nats") as server:
        yield server


async def subscribe(url: str, numbers: Sequence[int], tally: Tally) -> None:
    import nats

    async def one(number: int) -> None:
        wanted = compiled(number)

        async def take(message: Any) -> None:
            event = read_seen(message.data)
            if wanted(event):
                tally.saw(event.sent)

        client = await nats.connect(url, connect_timeout=60)
        await client.subscribe("events", cb=take, **NO_LIMIT)
        await client.flush(60)
        tally.ready()

    await each_on_its_own(numbers, one)


async def subscribe_to_own_subjects(url: str, numbers: Sequence[int], tally: Tally) -> None:
    import nats

    async def one(number: int) -> None:
        async def take(message: Any) -> None:
            tally.saw(read_seen(message.data).sent)

        client = await nats.connect(url, connect_timeout=60)
        await client.subscribe(f"to.{number}", cb=take, **NO_LIMIT)
        await client.flush(60)
        tally.ready()

    await each_on_its_own(numbers, one)


def matcher_of(subscriptions: int) -> palio.Matcher:
    matcher = palio.Matcher()
    matcher.add_many(map(str, range(subscriptions)), map(condition, range(subscriptions)))
    return matcher


async def match_all(url: str, subscriptions: int, tally: Tally) -> None:
    import nats

    matcher = matcher_of(subscriptions)

    async def take(message: Any) -> None:
        matches = matcher.match(message.data)
        if matches:
            tally.aged(read_seen(message.data).sent, len(matches))

    client = await nats.connect(url)
    await client.subscribe("events", cb=take, **NO_LIMIT)
    await client.flush()
    tally.ready()
    await asyncio.Event().wait()


async def match_and_send_on(url: str, subscriptions: int, tally: Tally) -> None:
    import nats

    matcher = matcher_of(subscriptions)
    client = await nats.connect(url)

    async def take(message: Any) -> None:
        for number in matcher.match(message.data):
            await client.publish(f"to.{number}", message.data)

    await client.subscribe("events", cb=take, **NO_LIMIT)
    await client.flush()
    tally.ready()
    await asyncio.Event().wait()


@asynccontextmanager
async def publisher(url: str) -> AsyncIterator[Publish]:
    import nats

    client = await nats.connect(url)

    async def publish(event: dict[str, Any]) -> None:
        await client.publish("events", msgspec.json.encode(event))

    yield publish
    await client.close()


NATS = System("nats", serve, subscribe, publisher, "nats", "nats-server")
NATS_MATCHER = System(
    "nats, 1 Matcher, to itself", serve, subscribe, publisher, "nats", "nats-server", match_all, hands_over=False
)
NATS_MATCHER_SENDS = System(
    "nats, 1 Matcher, sent on",
    serve,
    subscribe_to_own_subjects,
    publisher,
    "nats",
    "nats-server",
    match_and_send_on,
)
