"""Costly conditions: parsing, joining and matching them does not delay other clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import palio
from palio import Filter
from palio.network import protocol
from palio.network.channel import FrameReader, frame_header
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.server.process import Server
from palio.routing import codec
from palio.routing.link_sessions import NetworkConstants
from palio.routing.messages import Hello, Subscribe
from tests.network.gateway.serving import client_of, serving
from tests.network.links.test_udp import DATAGRAMS
from tests.network.running import ANY_PORT, broker, run, until, up, url


def costly(bytes_: int, start: int = 0) -> str:
    """A condition of this length in characters that takes as long to parse as any."""
    parts = [f"(x > {n} OR y < {n})" for n in range(start + 1_000, start + 1_000 + bytes_ // 24)]
    return " AND ".join(parts)


class Raw:
    """A connection that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._heard: list[bytes] = []

    @classmethod
    async def to(cls, server: Server, *said: bytes) -> Raw:
        made = cls(*await asyncio.open_connection(server.addresses[0].host, server.addresses[0].port))
        made.say(*said)
        return made

    def say(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frame_header(len(frame)) + frame for frame in frames))

    async def hear(self) -> Any:
        """The next thing that is said to it."""
        while not self._heard:
            data = await self._reader.read(65_536)
            assert data, "the connection was closed"
            self._heard += self._frames.feed(data)
        return protocol.decode_from_server(self._heard.pop(0))

    def close(self) -> None:
        self._writer.close()


def greeting(server: Server) -> bytes:
    return codec.encode(Hello(4_000_000_000, 1, NetworkConstants.of(server.settings.combination).values, 1024))


async def round_trip(server: Server, token: str = "") -> None:
    """Somebody else is served."""
    async with palio.connect(url(server), token) as client, client.subscribe("alive") as events:
        await client.publish({"alive": True}, confirm=True)
        assert (await anext(events)).get("alive")


@contextmanager
def slow_reading(server: Server) -> Iterator[None]:
    """What is read beside the loop takes until the end of this, however fast the machine is."""
    end = threading.Event()
    server.host.run_off_loop(end.wait)
    try:
        yield
    finally:
        end.set()


def test_others_are_served_while_a_long_condition_is_read_and_its_own_requests_wait_in_order(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    owner = tokens.add(unrestricted("owner"))
    desk = tokens.add(Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME' OR region = 'eu'")))
    text = costly(9_000)

    async def test() -> None:
        async with broker(data=tmp_path) as server:
            await round_trip(server, owner)
            frame = protocol.encode(protocol.Subscribe(1, "a", Filter.nothing)).replace(b"FALSE", b"_____")
            # The bytes of a message are made by hand, to hold what no honest broker writes.
            short = codec._encoder.encode(text)
            asked = frame.replace(b"\xa5_____", short)
            assert len(asked) > 9_000
            client = await Raw.to(server, protocol.encode(protocol.ClientHello(protocol.VERSION, "", desk)))
            assert type(await client.hear()) is protocol.Welcome
            with slow_reading(server):
                client.say(
                    asked, protocol.encode(protocol.Unsubscribe(2, "a")), protocol.encode(protocol.Unsubscribe(3, "a"))
                )
                answers = asyncio.create_task(collect(client, 2))
                await round_trip(server, owner)
                assert not answers.done()
            said = await answers
            failed = [each for each in said if type(each) is protocol.Failed]
            # Joined with the grant it is too many alternatives, so that there never was what was to end.
            assert [(each.request, each.kind) for each in failed][:2] == [(1, "limit"), (2, "refused")]
            client.close()

    run(test)


async def collect(client: Raw, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        said = await client.hear()
        if type(said) is not protocol.Ping:
            found.append(said)
    return found


def test_others_are_served_while_a_neighbours_long_condition_is_read() -> None:
    async def test() -> None:
        async with broker() as server:
            await round_trip(server)
            link = await Raw.to(server, greeting(server))
            await until(lambda: bool(server.neighbours.describe()))
            handled = server.host.drops  # of a neighbour that is in no tree yet, each message is counted there
            long, late = (Subscribe(bytes([n]) * 16, Filter.parse(f"late = {n}")) for n in (1, 2))
            # As above.
            short, written = map(codec._encoder.encode, ("late = 1", costly(30_000)))
            with slow_reading(server):
                link.say(codec.encode(long).replace(short, written), codec.encode(late))
                await round_trip(server)
                assert handled["link not in use"] == 0  # nor was what came behind it, which keeps its place
            await until(lambda: handled["link not in use"] == 2)
            link.close()

    run(test)


def test_long_conditions_cross_links_of_datagrams() -> None:
    async def test() -> None:
        text = " OR ".join(f"symbol = 'S{n}'" for n in range(200))
        async with (
            broker(listen=(ANY_PORT, DATAGRAMS)) as hub,
            broker(connect=hub.addresses[1:]) as edge,
            palio.connect(url(edge)) as subscriber,
            palio.connect(url(hub)) as publisher,
        ):
            await until(lambda: bool(up(edge)))
            async with subscriber.subscribe(text, confirm="network") as events:
                await publisher.publish({"symbol": "S7"})
                assert (await anext(events)).get("symbol") == "S7"

    run(test)


def test_others_are_served_while_long_conditions_of_http_are_read() -> None:
    async def test() -> None:
        async with serving() as (server, client), client_of(server) as other:
            await round_trip(server)
            with slow_reading(server):
                asked = asyncio.create_task(client.get("/events", params={"where": costly(7_000)}))
                assert (await other.get("/health")).status_code == 200
                await round_trip(server)
                assert not asked.done()
            assert (await asked).json()["limit"] == "filter_conjunctions"

    run(test)


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_fifty_regular_expressions_in_one_condition_are_read_and_matched(word: str) -> None:
    async def test() -> None:
        patterns = [f"(a|b{n})*c+[x-z]*" for n in range(50)]
        condition = f" {word} ".join(f"text RLIKE '{pattern}'" for pattern in patterns)
        long = "ab" * 20_000  # which a search that tries again and again would take for ever to refuse
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe(condition) as events,
        ):
            for n, text in ((1, long), (2, long + "c"), (3, "c")):
                await client.publish({"n": n, "text": text}, confirm=True)
            assert [(await anext(events)).get("n") for _ in range(2)] == [2, 3]

    run(test)
