"""Deliveries of several batches leave in one write for each client while a backlog waits, and none is held longer."""

from __future__ import annotations

from typing import Any

import palio
from palio import Event
from palio.network.channel import Channel
from palio.network.server.client_connection import ClientConnection
from palio.network.server.process import Server
from palio.network.server.session import Session
from palio.routing.client_messages import PublishClient
from palio.routing.codec import encode_event
from palio.routing.effects import Requested
from tests.network.running import broker, run, url


class CountedTransport:
    """A transport, and how often it was written to."""

    def __init__(self, transport: Any) -> None:
        self.writes = 0
        self._transport = transport

    def write(self, data: bytes) -> None:
        self.writes += 1
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def counted(server: Server) -> CountedTransport:
    """The transport of the only client."""
    [session] = [each for each in server.host.clients.values() if isinstance(each, Session)]
    connection: ClientConnection = session.on_ready.__self__  # type: ignore[attr-defined]
    channel: Channel = connection._channel
    channel._transport = CountedTransport(channel._transport)
    return channel._transport


def publications(server: Server, count: int, text: str = "") -> list[Any]:
    client = next(iter(server.host.clients))
    bodies = (encode_event(Event({"n": number, "text": text})) for number in range(count))
    return [Requested(client, PublishClient(body), 0.0) for body in bodies]


def test_a_backlog_of_many_batches_is_one_write_for_a_client() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("n >= 0") as events:
            transport = counted(server)
            server.host.enqueue_all(publications(server, 640))
            assert [(await anext(events))["n"] for _ in range(640)] == list(range(640))
            assert transport.writes == 1

    run(doing)


def test_many_bytes_are_not_held_back() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("n >= 0") as events:
            transport = counted(server)
            server.host.enqueue_all(publications(server, 640, "x" * 10_000))
            assert [(await anext(events))["n"] for _ in range(640)] == list(range(640))
            assert transport.writes > 3

    run(doing)
