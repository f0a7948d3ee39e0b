"""Mosquitto speaks MQTT, which knows topics: every subscriber gets every event, and filters. Quality of service 0."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from beside.system import Publish, Running, System, each_on_its_own, found, free_port, in_background, started
from beside.tally import Tally
from beside.work import compiled, read_seen


@contextmanager
def serve() -> Iterator[Running]:
    port = free_port()
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "mosquitto.conf"
        told = [f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0", "max_connections -1"]
        config.write_text("\n".join(told) + "\n")
        with started([str(found("mosquitto")), "-c", str(config)], port, "mqtt") as server:
            yield server


def client_of(url: str) -> Any:
    from aiomqtt import Client

    host, _, port = url.partition("://")[2].partition(":")
    return Client(host, int(port), timeout=60, keepalive=600)


async def subscribe(url: str, numbers: Sequence[int], tally: Tally) -> None:
    async def listen(client: Any, number: int) -> None:
        wanted = compiled(number)
        async for message in client.messages:
            event = read_seen(message.payload)
            if wanted(event):
                tally.saw(event.sent)

    async def one(number: int) -> None:
        client = await client_of(url).__aenter__()
        await client.subscribe("events")
        in_background(listen(client, number))
        tally.ready()

    await each_on_its_own(numbers, one)


@asynccontextmanager
async def publisher(url: str) -> AsyncIterator[Publish]:
    async with client_of(url) as client:

        async def publish(event: dict[str, Any]) -> None:
            await client.publish("events", msgspec.json.encode(event))

        yield publish


MOSQUITTO = System("mosquitto", serve, subscribe, publisher, "aiomqtt", "mosquitto")
