"""Deliveries of several batches leave in one write for each client while a backlog waits, and none is held longer.

Events for the same subscriptions of a client leave in runs, one message for each.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import palio
from palio import Event
from palio.errors import Refused
from palio.network.channel import Channel
from palio.network.server.client_connection import ClientConnection
from palio.network.server.process import Server
from palio.network.server.session import Session
from palio.routing.client_messages import PublishClient
from palio.routing.codec import encode_event
from palio.routing.effects import Requested
from tests.network.running import broker, run, until, url


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


def test_events_of_several_subscriptions_keep_their_order_across_runs() -> None:
    async def doing() -> None:
        conditions = {"all": "n >= 0", "late": "n >= 320", "odd": "n % 7 = 3"}
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe_many(conditions, queue=1_000) as events,
        ):
            server.host.enqueue_all(publications(server, 640))
            received = [await anext(events) for _ in range(640)]
            assert [event["n"] for event in received] == list(range(640))
            for n, event in enumerate(received):
                wanted = {name for name, holds in (("all", True), ("late", n >= 320), ("odd", n % 7 == 3)) if holds}
                assert set(event.subscriptions) == wanted

    run(doing)


def test_a_run_takes_no_more_events_than_there_is_credit() -> None:
    async def doing() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("n >= 0", window=10, queue=1_000) as events,
        ):
            [session] = [each for each in server.host.clients.values() if isinstance(each, Session)]
            server.host.enqueue_all(publications(server, 640))
            await until(lambda: not server.host._inputs)
            [queue] = session.delivery.queues()
            assert (queue.taken, queue.credit, queue.queued) == (10, 0, 630)
            assert [(await anext(events))["n"] for _ in range(640)] == list(range(640))

    run(doing)


def test_long_events_of_a_run_leave_in_messages_of_bounded_length() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("n >= 0") as events:
            lengths: list[int] = []
            channel = client.connection._channel
            assert channel is not None
            read = channel._reader.feed

            def feed(data: bytes) -> list[bytes]:
                frames = read(data)
                lengths.extend(map(len, frames))
                return frames

            channel._reader = SimpleNamespace(feed=feed, buffered_bytes=0, complete_frames=0)  # type: ignore[assignment]
            server.host.enqueue_all(publications(server, 64, "x" * 100_000))
            assert [(await anext(events))["n"] for _ in range(64)] == list(range(64))
            assert len(lengths) > 16
            assert max(lengths) < 400_000

    run(doing)


def test_events_of_a_run_come_before_the_goodbye() -> None:
    async def doing() -> None:
        async with (
            broker() as server,
            palio.connect(url(server), patience=0) as client,
            client.subscribe("n >= 0") as events,
        ):
            [session] = [each for each in server.host.clients.values() if isinstance(each, Session)]
            server.host.enqueue_all(publications(server, 640))
            await until(lambda: not server.host._inputs)
            session.end("enough")
            assert [(await anext(events))["n"] for _ in range(640)] == list(range(640))
            with pytest.raises(Refused, match="enough"):
                await anext(events)

    run(doing)
