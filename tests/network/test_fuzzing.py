"""Random and malformed bytes: the connection ends with a reason, the broker goes on."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import palio
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.channel import FrameReader, frame_header
from palio.network.protocol import Goodbye
from palio.network.server.handshake import MAX_FIRST_FRAME_BYTES
from palio.network.server.process import Server
from palio.routing import codec
from palio.routing.codec import MAX_FRAME_BYTES
from palio.routing.link_sessions import NetworkConstants
from palio.routing.messages import EventId, Grant, Hello, Packet, Publish, Subscribe
from tests.network.running import broker, url

OFTEN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
KEY = bytes(16)
WANTED = Filter.parse("x > 1")
FROM_CLIENTS = [
    protocol.Subscribe(1, "a", WANTED),
    protocol.Unsubscribe(2, "a"),
    protocol.Detach(2, "a"),
    protocol.Advertise(3, "b", WANTED),
    protocol.Unadvertise(4, "b"),
    protocol.Publish(5, codec.encode_event(palio.Event({"x": 5}))),
    protocol.Publish(0, b"no event"),
    protocol.More("a", 10),
    protocol.More("a", -10),
    protocol.Acknowledge("a", (1, 2)),
    protocol.StatusQuery(6),
    protocol.Ping(),
    protocol.ClientHello(1),
]
FROM_BROKERS = [
    Subscribe(KEY, WANTED),
    Publish(EventId(7, 1, 1), codec.encode_event(palio.Event({"x": 5}))),
    Publish(EventId(7, 1, 2), b"no event"),
    Grant(10),
    Packet(1, 2, 3, 4, 5),
]
ENCODED = st.sampled_from([codec.encode_any(each) for each in (*FROM_CLIENTS, *FROM_BROKERS)])


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A frame that was whole once."""
    frame = bytearray(draw(ENCODED))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(frame) - 1))
        frame[place] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, len(frame)))
    return bytes(frame[:cut]) if draw(st.booleans()) and cut >= 2 else bytes(frame)


FRAMES = st.lists(st.one_of(mutated(), ENCODED, st.binary(min_size=2, max_size=60)), min_size=1, max_size=6)


def hello(server: Server) -> bytes:
    constants = NetworkConstants.of(server.settings.combination)
    return codec.encode(Hello(4_000_000_000, 1, constants.values, 1024))


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[asyncio.Runner, Server]]:
    """A broker that all examples are sent to, and the loop in which it lives."""
    with asyncio.Runner() as runner:
        context = broker(heartbeat=60.0)
        server = runner.run(context.__aenter__())
        yield runner, server
        runner.run(context.__aexit__(None, None, None))


async def said(server: Server, data: bytes) -> list[bytes]:
    """What the broker says to some bytes, until it or this end closes the connection."""
    reader, writer = await asyncio.open_connection(server.addresses[0].host, server.addresses[0].port)
    writer.write(data)
    writer.write_eof()
    frames = FrameReader()
    found: list[bytes] = []
    async with asyncio.timeout(20):
        while piece := await reader.read(65_536):
            found += frames.feed(piece)
    writer.close()
    return found


async def lives(server: Server) -> None:
    """A client is served as ever."""
    async with palio.connect(url(server)) as client, client.subscribe("alive = 1") as events:
        await client.publish({"alive": 1}, confirm=True)
        async with asyncio.timeout(20):
            assert (await anext(events)).get("alive") == 1


def framed(*frames: bytes) -> bytes:
    return b"".join(frame_header(len(frame)) + frame for frame in frames)


@given(st.binary(max_size=200))
@OFTEN
def test_bytes_at_random_end_a_connection_and_nothing_else(place: tuple[asyncio.Runner, Server], data: bytes) -> None:
    runner, server = place
    runner.run(said(server, data))
    runner.run(lives(server))


@given(FRAMES, st.sampled_from(["client", "broker"]))
@OFTEN
def test_frames_that_are_almost_right_harm_nobody(
    place: tuple[asyncio.Runner, Server], frames: list[bytes], who: str
) -> None:
    runner, server = place
    greeting = codec.encode_any(protocol.ClientHello(1)) if who == "client" else hello(server)
    runner.run(said(server, framed(greeting, *frames)))
    runner.run(lives(server))
    assert not [each for each in server.sessions if each.app == "left behind"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">I", 2**31), f"where one has from 2 to {MAX_FIRST_FRAME_BYTES:,}"),
        (framed(codec.encode_any(protocol.ClientHello(99))), "version 99 is spoken there and 1 here"),
        (framed(b"\x91\x05"), ""),
        (framed(codec.encode_any(protocol.ClientHello(1)), b"\x92\xcc\xff\x00"), ""),
        (
            framed(codec.encode_any(protocol.ClientHello(1))) + struct.pack(">I", MAX_FRAME_BYTES + 1),
            "where one has from 2 to",
        ),
    ],
)
def test_whoever_speaks_wrongly_is_told_why(place: tuple[asyncio.Runner, Server], data: bytes, reason: str) -> None:
    runner, server = place
    last = runner.run(said(server, data))[-1]
    assert last[1] == protocol.GOODBYE
    goodbye = protocol.decode_goodbye(last)
    assert isinstance(goodbye, Goodbye)
    assert goodbye.reason
    assert reason in goodbye.reason


def test_nothing_is_left_of_those_who_spoke_wrongly(place: tuple[asyncio.Runner, Server]) -> None:
    runner, server = place

    async def settled() -> None:
        async with asyncio.timeout(20):
            while server.sessions or server.unauthenticated or server.host.clients or server.host.node.broker.links:
                await asyncio.sleep(0.01)

    runner.run(settled())
    wants = server.host.node.broker.tables.subscriptions
    owners = [client for key in wants.keys() for client, _ in wants.owners(key)]  # noqa: SIM118
    assert [client for client in owners if not client.startswith("durable ")] == []
