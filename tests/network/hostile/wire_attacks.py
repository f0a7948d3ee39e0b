"""Attacks by the binary protocol: frames, handshakes, MessagePack, roles, tokens and connections."""

from __future__ import annotations

import asyncio
import os

import palio
from palio import Filter
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.channel import frame_header
from palio.network.gateway.settings import HttpSettings
from palio.network.security.tls import ServerTls
from palio.routing import codec, messages
from palio.routing.link_sessions import NetworkConstants
from palio.routing.messages import Hello
from tests.network.certificates import Authority
from tests.network.hostile.arena import LIMITS, Arena, attack, body
from tests.network.running import broker, until, url

_CLOSED = "who breaks the protocol is disconnected, alone"
_NAMED = "a refusal names what was wrong"


@attack(_CLOSED)
async def frame_of_four_gigabytes(arena: Arena) -> None:
    wire = await arena.raw()
    wire.writer.write(b"\xff\xff\xff\xff")
    assert "a frame of 4,294,967,295 bytes" in (await wire.hear_failure()).reason


@attack(_CLOSED)
async def frame_without_content(arena: Arena) -> None:
    wire = await arena.wire()
    wire.writer.write(bytes(4))
    assert "a frame of 0 bytes" in (await wire.hear_failure()).reason


@attack("an unauthenticated peer buffers no long frame")
async def long_first_frame(arena: Arena) -> None:
    wire = await arena.raw()
    wire.writer.write(frame_header(100_000))
    assert "from 2 to 65,536" in (await wire.hear_failure()).reason


@attack("a frame arrives at a least rate, however alive its sender is")
async def frame_dripped_a_byte_at_a_time(arena: Arena) -> None:
    wire = await arena.wire()
    wire.beats = False
    wire.writer.write(frame_header(500_000))
    closed = asyncio.create_task(wire.hear_failure())
    while not closed.done():
        wire.writer.write(b"x")
        await asyncio.sleep(0.02)
    assert "bytes a second" in closed.result().reason


@attack("bytes of incomplete frames are bounded for all connections together")
async def half_written_frames_of_many(arena: Arena) -> None:
    wires = [await arena.wire() for _ in range(8)]
    for wire in wires:
        wire.beats = False
        wire.writer.write(frame_header(1_000_000) + bytes(900_000))
    said = [asyncio.create_task(wire.hear_failure()) for wire in wires]
    done, pending = await asyncio.wait(said, return_when=asyncio.FIRST_COMPLETED)
    assert any("unread_bytes" in str(getattr(each.result(), "reason", "")) for each in done)
    for each in pending:
        each.cancel()


@attack(_CLOSED)
async def random_bytes(arena: Arena) -> None:
    for _ in range(20):
        wire = await arena.raw()
        wire.writer.write(os.urandom(2_000))
        assert await wire.is_closed()


@attack(_CLOSED)
async def http_on_the_wrong_port(arena: Arena) -> None:
    wire = await arena.raw()
    wire.writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert "HTTP" in (await wire.hear_failure()).reason


@attack("a silent connection is closed in time")
async def connection_that_says_nothing(arena: Arena) -> None:
    wires = [await arena.raw() for _ in range(20)]
    for wire in wires:
        assert "no greeting in time" in (await wire.hear_failure()).reason


@attack("a silent connection is closed in time")
async def greeting_of_one_byte(arena: Arena) -> None:
    wire = await arena.raw()
    wire.writer.write(b"\0")
    assert "no greeting in time" in (await wire.hear_failure()).reason


@attack(_NAMED)
async def greeting_of_another_version(arena: Arena) -> None:
    wire = await arena.raw()
    wire.tell(protocol.ClientHello(9_999, "", arena.eve))
    assert "version" in (await wire.hear_failure()).reason


@attack(_NAMED)
async def request_before_the_greeting(arena: Arena) -> None:
    wire = await arena.raw()
    wire.tell(protocol.Publish(1, body(eve=1)))
    assert await wire.hear_failure() is not None
    assert await wire.is_closed()


@attack(_CLOSED)
async def second_greeting(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.ClientHello(protocol.VERSION, "", arena.eve))
    assert await wire.hear_failure() is not None


@attack("a wrong token opens nothing, and says nothing of others")
async def guessed_tokens(arena: Arena) -> None:
    for token in ("", "honest", "honest.guess", arena.eve[:-1] + "x", "x" * 1_000):
        wire = await arena.raw()
        wire.tell(protocol.ClientHello(protocol.VERSION, "", token))
        said = await wire.hear_failure()
        assert said is None or said.kind in ("not authenticated", "wire"), said
        assert "honest" not in str(getattr(said, "reason", ""))


@attack("a token has a bounded length")
async def token_of_sixty_kilobytes(arena: Arena) -> None:
    wire = await arena.raw()
    wire.tell(protocol.ClientHello(protocol.VERSION, "", "x" * 60_000))
    assert (await wire.hear_failure()).kind == "wire"


@attack("connections of one principal are bounded")
async def many_connections_of_a_principal(arena: Arena) -> None:
    refused = None
    for _ in range(70):
        wire = await arena.raw()
        wire.tell(protocol.ClientHello(protocol.VERSION, "", arena.eve))
        said = await wire.hear()
        refused = said if type(said) is protocol.Goodbye else refused
    assert refused is not None
    assert "connections_per_principal = 60" in refused.reason


@attack("connections of one address are bounded")
async def many_connections_of_an_address(arena: Arena) -> None:
    wires = [await arena.raw() for _ in range(100)]
    said = [await wire.hear_failure() for wire in wires]
    assert any("connections_per_address = 90" in str(getattr(each, "reason", "")) for each in said)
    await until(lambda: sum(arena.server.quotas.addresses.values()) < 10)


@attack("what is no message ends its connection")
async def deeply_nested_messagepack(arena: Arena) -> None:
    wire = await arena.wire()
    wire.say(b"\x93\x58\x01" + b"\x91" * 100_000 + b"\xc0")
    assert (await wire.hear_failure()).kind == "wire"


@attack("what is no message ends its connection")
async def messagepack_array_that_claims_to_be_huge(arena: Arena) -> None:
    wire = await arena.wire()
    wire.say(b"\x93\x58\x01\xdd\xff\xff\xff\xff")
    assert (await wire.hear_failure()).kind == "wire"


@attack("a deeply nested event is refused by name")
async def deeply_nested_event(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Publish(1, b"\x94\xa1x\xa3eve\xc0\x81\xa3eve" + b"\x81\xa1a" * 5_000 + b"\xc0"))
    assert await wire.hear_failure() is not None


@attack("an event with one key twice is refused")
async def event_with_a_key_twice(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Publish(1, b"\x94\xa1x\xa3eve\xc0\x82\xa3eve\x01\xa3eve\x02"))
    assert await wire.hear_failure() is not None


@attack("an event has a bounded size")
async def event_of_almost_a_frame(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Publish(1, body(eve="x" * 900_000)))
    assert "event_bytes" in (await wire.hear_failure()).reason


@attack("an event of a million attributes is refused")
async def event_of_many_attributes(arena: Arena) -> None:
    wire = await arena.wire()
    names = b"".join(b"\xa4" + f"{n:04x}".encode() + b"\x01" for n in range(60_000))
    wire.tell(protocol.Publish(1, b"\x94\xa1x\xa3eve\xc0\xde\xea\x60" + names))
    assert await wire.hear_failure() is not None


@attack("a client opens no link between brokers")
async def client_that_greets_as_a_broker(arena: Arena) -> None:
    wire = await arena.raw()
    constants = NetworkConstants.of(arena.server.settings.combination).values
    wire.tell(protocol.BrokerHello(protocol.VERSION, arena.eve))
    wire.say(codec.encode(Hello(4_000_000_000, 1, constants, 1_024)))
    said = await wire.hear_failure()
    assert said.kind == "not permitted", said
    assert not arena.server.neighbours.describe()


@attack("messages between brokers mean nothing from a client")
async def broker_messages_from_a_client(arena: Arena) -> None:
    for message in (
        messages.Subscribe(b"k" * 16, Filter.everything),
        messages.Begin(),
        messages.Announce("optimiser", 1, b"x"),
    ):
        wire = await arena.wire()
        wire.say(codec.encode(message))
        assert (await wire.hear_failure()).kind == "wire"


@attack("keys of datagrams are issued to brokers over TLS alone")
async def key_asked_for_in_plain(arena: Arena) -> None:
    wire = await arena.raw()
    wire.tell(protocol.AskKey(bytes(32)))
    assert await wire.hear_failure() is not None


@attack("a client decides by no header where its events go")
async def forged_forwarding_headers(arena: Arena) -> None:
    wire = await arena.wire()
    for number in range(5):
        wire.tell(protocol.Publish(1, body(eve=1), bytes([number, *bytes(64)])))
        assert (await wire.hear_failure()).kind == "not permitted"


@attack("a source belongs to its principal")
async def forged_source(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Publish(1, codec.encode_event(palio.Event({"eve": 1}, source="honest"))))
    assert (await wire.hear_failure()).kind == "not permitted"


@attack("a grant holds for every element of an array")
async def publication_beside_the_grant(arena: Arena) -> None:
    wire = await arena.wire()
    wire.tell(protocol.Publish(1, body(honest=5)))
    assert (await wire.hear_failure()).kind == "not permitted"


@attack("datagrams of strangers are dropped")
async def datagrams_of_a_stranger(arena: Arena) -> None:
    from tests.network.links.test_udp import DATAGRAMS

    async with broker(listen=(arena.server.settings.listen[0], DATAGRAMS)) as other:
        loop = asyncio.get_running_loop()
        place = (other.addresses[1].host, other.addresses[1].port)
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=place)
        for size in (1, 10, 100, 1_400):
            for _ in range(50):
                transport.sendto(os.urandom(size))
        transport.close()
        async with palio.connect(url(other)) as client, client.subscribe("n = 1") as events:
            await client.publish({"n": 1}, confirm=True)
            assert (await anext(events)).get("n") == 1
        assert not [each for each in other.neighbours.describe() if each["up"]]


@attack("who asks and does not read the answers is disconnected")
async def answers_that_nobody_reads(arena: Arena) -> None:
    wire = await arena.wire()
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    asked = b"".join(
        frame_header(len(each)) + each for each in [protocol.encode(protocol.Unsubscribe(1, "x" * 200))] * 2_000
    )
    while arena.server.quotas.connections.used_by("eve") > 0:
        if not wire.writer.transport.is_closing():
            wire.writer.write(asked)
        await asyncio.sleep(0.001)


@attack("a TLS handshake that stops is closed in time, over both protocols")
async def tls_handshakes_that_stop(arena: Arena) -> None:
    assert arena.server.settings.data is not None
    pair = Authority(arena.server.settings.data).sign("hub", ("127.0.0.1",))
    secure = {"listen": (Address("127.0.0.1", 0, "palio+tls"),), "tls": ServerTls(pair.certificate, pair.key)}
    async with broker(limits=LIMITS, http=HttpSettings(port=0), **secure) as server:
        assert server.gateway is not None
        for place in ((server.addresses[0].host, server.addresses[0].port), server.gateway.address):
            for said in (b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n"):
                reader, writer = await asyncio.open_connection(*place)
                writer.write(said)
                await reader.read()
                writer.close()
        assert server.acceptor.failures.total() == 8
