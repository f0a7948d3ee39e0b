"""Sealed datagram links over real sockets, with an attacker in between."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import palio
from palio import Filter
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.channel import frame_header
from palio.network.links.key_exchange import FORGED, NOT_SEALED, REPLAYED, UNKNOWN_KEY, key_id_of
from palio.network.protocol import AskKey, BrokerHello
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.security.tls import ClientTls, ServerTls
from palio.network.server.process import Server
from palio.network.server.settings import Settings
from tests.network.certificates import Authority
from tests.network.running import ANY_PORT, broker, run, until, up, url

SECURE = Address("127.0.0.1", 0, "palio+tls")
DATAGRAMS = Address("127.0.0.1", 0, "palio+udp")
LEAF = Principal("leaf", "broker", Filter.parse("region = 'eu'"), Filter.everything)


class Between(asyncio.DatagramProtocol):
    """Somebody on the way from one broker to another, who sees all, keeps all, and can say anything to either."""

    def __init__(self, to: Address) -> None:
        self.seen: list[bytes] = []
        self.answers: list[bytes] = []
        self._hub = (to.host, to.port)
        self._leaf: Any = None
        self.address = DATAGRAMS

    def connection_made(self, transport: Any) -> None:
        self._socket = transport
        self.address = Address(*transport.get_extra_info("sockname"), "palio+udp")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if addr == self._hub:
            self.answers.append(data)
            self._socket.sendto(data, self._leaf)
        else:
            self._leaf = addr
            self.seen.append(data)
            self._socket.sendto(data, self._hub)

    def say(self, data: bytes) -> None:
        self._socket.sendto(data, self._hub)

    def answer(self, data: bytes) -> None:
        self._socket.sendto(data, self._leaf)

    def close(self) -> None:
        self._socket.close()


class World:
    """A hub with TLS, tokens and datagrams, and what a leaf needs to dial it."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        pair = self.authority.sign("hub", ("127.0.0.1",))
        self.data = folder / "hub"
        self.tokens = Tokens(self.data)
        self.owner, self.leaf = self.tokens.add(unrestricted("owner")), self.tokens.add(LEAF)
        self.trust = ClientTls(self.authority.certificate)
        tls = ServerTls(pair.certificate, pair.key, self.authority.certificate)
        self.secure: dict[str, Any] = {"tls": tls, "data": str(self.data), "watch": 0.05, "heartbeat": 0.3}

    def hub(self, **changes: Any) -> Any:
        return broker(**{"listen": (SECURE, DATAGRAMS, ANY_PORT), **self.secure, **changes})

    def edge(self, hub: Server, through: Address | None = None, **changes: Any) -> Any:
        to = through or hub.addresses[1]
        keys = {"at": {str(to): hub.addresses[0]}}
        given = {"connect": (to,), "keys": keys, "trust": self.trust, "token": self.leaf, "heartbeat": 0.3}
        return broker(**{**given, **changes})

    @asynccontextmanager
    async def linked(self, **changes: Any) -> AsyncIterator[tuple[Server, Server, Between]]:
        async with self.hub(**changes) as hub:
            loop = asyncio.get_running_loop()
            _, between = await loop.create_datagram_endpoint(lambda: Between(hub.addresses[1]), ("127.0.0.1", 0))
            async with self.edge(hub, between.address) as edge:
                await until(lambda: bool(up(hub) and up(edge)))
                yield hub, edge, between
            between.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def passes(world: World, hub: Server, edge: Server, n: int = 1) -> None:
    """Events go both ways."""
    async with (
        palio.connect(str(hub.addresses[2]), world.owner) as one,
        palio.connect(url(edge)) as other,
        one.subscribe(f"n = {n}", confirm="network") as at_hub,
        other.subscribe(f"n = {n}", confirm="network") as at_edge,
    ):
        await other.publish({"n": n, "region": "eu", "text": "for nobody else"})
        await one.publish({"n": n, "region": "us"})  # which the leaf may not hear
        await one.publish({"n": n, "region": "eu", "by": "hub"})
        assert sorted([str((await anext(at_hub)).get("region")) for _ in range(3)]) == ["eu", "eu", "us"]
        assert {(await anext(at_edge)).get("by") for _ in range(2)} == {None, "hub"}


def test_what_passes_is_what_was_granted_and_nobody_between_can_read_it(world: World) -> None:
    async def test() -> None:
        async with world.linked() as (hub, edge, between):
            await passes(world, hub, edge)
            assert not [
                each for each in (*between.seen, *between.answers) if b"nobody else" in each or b"n = 1" in each
            ]
            assert not {NOT_SEALED, FORGED, REPLAYED} & hub.host.drops.keys()

    run(test)


def test_who_was_given_a_token_or_an_authority_seals_what_it_says_to_this_machine_too(world: World) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as place:
            port = place.getsockname()[1]
        both = (Address("127.0.0.1", port, "palio+tls"), Address("127.0.0.1", port, "palio+udp"))
        given = {"token": world.leaf, "trust": world.trust}
        async with broker(listen=both, **world.secure) as hub, broker(connect=both[1:], **given) as edge:
            await until(lambda: bool(up(hub) and up(edge)))
            assert hub.host.drops[NOT_SEALED] == 0

    run(test)


def test_what_is_forged_changed_or_said_again_is_counted_and_never_answered(world: World) -> None:
    async def test() -> None:
        async with world.linked() as (hub, edge, between):
            await passes(world, hub, edge, 1)
            said, answers = list(between.seen), list(between.answers)
            chance = random.Random(1)
            for one, old in ((between.say, said), (between.answer, answers)):
                for each in old:
                    one(each)
                    changed = bytearray(each)
                    changed[chance.randrange(9, len(each))] ^= 1 << chance.randrange(8)
                    one(bytes(changed))
                    one(bytes(8) + each[8:])
                    one(each[:1] + bytes(8) + each[9:])
                one(b"")
                one(protocol.encode(protocol.Goodbye("unavailable", "go away")))
            plain = 1 + len(said)  # what does not begin as a sealed datagram does, and the goodbye
            await until(lambda: hub.host.drops[NOT_SEALED] >= plain and hub.host.drops[UNKNOWN_KEY] >= len(said))
            await until(lambda: hub.host.drops[REPLAYED] + hub.host.drops[FORGED] >= 2 * len(said))
            await until(lambda: edge.host.drops[REPLAYED] + edge.host.drops[FORGED] >= 2 * len(answers))
            assert up(hub)
            assert up(edge)
            await passes(world, hub, edge, 2)
            stranger = await silent_stranger(hub, [*said, b"\xc1" * 60, b"hello"])
            assert stranger == []

    run(test)


async def silent_stranger(hub: Server, datagrams: list[bytes]) -> list[bytes]:
    """What somebody is answered who sends these from another address."""
    heard: list[bytes] = []

    class Stranger(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            heard.append(data)

    loop = asyncio.get_running_loop()
    to, before = hub.addresses[1], hub.host.drops.total()
    socket, _ = await loop.create_datagram_endpoint(Stranger, remote_addr=(to.host, to.port))
    for each in datagrams:
        socket.sendto(each)
    # A datagram is answered when it is read, if at all: once all are counted, answers have arrived here.
    await until(lambda: hub.host.drops.total() >= before + len(datagrams))
    await asyncio.sleep(0)
    socket.close()
    return heard


def test_keys_change_and_the_link_does_not_notice(world: World) -> None:
    async def test() -> None:
        async with world.linked(keys={"seconds": 2.0}) as (hub, edge, between):
            connections = edge.host.node._sessions[1]._connection  # type: ignore[attr-defined]
            for n in (1, 2):
                await passes(world, hub, edge, n)
                first = key_id_of(between.seen[-1])
                await until(lambda first=first: key_id_of(between.seen[-1]) != first != key_id_of(between.answers[-1]))
            assert edge.host.node._sessions[1]._connection == connections  # type: ignore[attr-defined]
            assert edge.neighbours.describe()[0]["up"]
            between.say(between.seen[0])
            await until(lambda: hub.host.drops[UNKNOWN_KEY] + hub.host.drops[REPLAYED] > 0)

    run(test)


def test_a_key_that_is_used_up_by_datagrams_is_changed_too(world: World) -> None:
    async def test() -> None:
        async with world.linked(keys={"datagrams": 30}) as (hub, edge, between):
            first = key_id_of(between.seen[0])
            await until(lambda: key_id_of(between.seen[-1]) != first)
            await passes(world, hub, edge)

    run(test)


def test_a_broker_that_was_started_again_gives_a_new_key(world: World) -> None:
    async def test() -> None:
        async with world.hub() as hub:
            addresses = hub.addresses
            async with world.edge(hub) as edge:
                await until(lambda: bool(up(edge)))
                await hub.stop()
                await until(lambda: not up(edge))
                async with world.hub(listen=addresses) as again:
                    await until(lambda: bool(up(edge) and up(again)))
                    await passes(world, again, edge)

    run(test)


def test_a_principal_that_is_removed_is_heard_no_more(world: World) -> None:
    async def test() -> None:
        async with world.linked() as (hub, edge, between):
            world.tokens.change(replace(LEAF, may_subscribe=Filter.parse("region = 'asia'")))
            link_filters = hub.host.node.broker.link_filters
            await until(lambda: all(str(each.exports) == "region = 'asia'" for each in link_filters.values()))
            world.tokens.remove("leaf")
            await until(lambda: not up(hub) and not up(edge))
            await until(lambda: "no principal has this token" in edge.neighbours.describe()[0]["reason"])
            before = hub.host.drops[UNKNOWN_KEY]
            between.say(between.seen[-1])
            await until(lambda: hub.host.drops[UNKNOWN_KEY] > before)

    run(test)


def test_a_certificate_is_as_good_as_a_token(world: World) -> None:
    own = world.authority.sign("branch")
    world.tokens.add(replace(LEAF, name="branch"), certificates=("branch",))

    async def test() -> None:
        trust = ClientTls(world.authority.certificate, own.certificate, own.key)
        async with world.hub() as hub, world.edge(hub, token="", trust=trust) as edge:
            await until(lambda: bool(up(hub) and up(edge)))
            await passes(world, hub, edge)

    run(test)


def test_who_may_not_link_gets_no_key(world: World) -> None:
    desk = world.tokens.add(Principal("desk", may_subscribe=Filter.everything))

    async def test() -> None:
        async with world.hub() as hub:
            for changes, reason in [
                ({"token": desk}, "its role is not `broker`"),
                ({"token": "palio_00000000_guess"}, "no principal has this token"),
                ({"token": ""}, "a token is needed"),
                ({"trust": ClientTls()}, "certificate"),
            ]:
                async with world.edge(hub, **changes) as edge:
                    await until(lambda edge=edge, why=reason: why in edge.neighbours.describe()[0]["reason"])
                    assert not up(hub)

    run(test)


async def answered(address: Address, tls: Any, *said: Any) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    for each in map(protocol.encode, said):
        writer.write(frame_header(len(each)) + each)
    answer = await reader.read()
    writer.close()
    return answer


def test_keys_are_given_over_tls_alone_and_by_those_who_take_datagrams(world: World) -> None:
    async def test() -> None:
        hello, ask = BrokerHello(protocol.VERSION, world.leaf), AskKey(bytes(32))
        async with world.hub() as hub, world.hub(listen=(SECURE,), data=None) as other:
            assert b"over TLS only" in await answered(hub.addresses[2], None, hello, ask)
            tls = world.trust.context()
            assert b"takes no sealed datagrams" in await answered(other.addresses[0], tls, hello, ask)
            assert b"a second greeting" in await answered(hub.addresses[0], tls, hello, hello)
            assert b"a token is needed" in await answered(hub.addresses[0], tls, ask)
            assert b"the key is issued" in await answered(hub.addresses[0], tls, hello, ask)

    run(test)


def test_nobody_takes_the_place_of_a_broker_by_saying_its_number(world: World) -> None:
    other = world.tokens.add(replace(LEAF, name="other"))

    async def test() -> None:
        async with world.hub() as hub:
            for to in (hub.addresses[1], hub.addresses[2]):
                async with world.edge(
                    hub, connect=(to,), keys={"at": {str(hub.addresses[1]): hub.addresses[0]}}
                ) as edge:
                    await until(lambda: bool(up(hub)))
                    impostor = Server(edge.settings.with_changes({"token": other}))
                    impostor.store.open = edge.store.open  # type: ignore[method-assign]
                    await impostor.start()
                    try:
                        # It is refused with a reason over TCP. Over datagrams it gets no answer, and asks for a new key
                        # after some heartbeats; private, because nobody else needs to know how many keys there are.
                        keys, count = hub.neighbours._keys, len(hub.neighbours._keys or ())
                        await until(
                            lambda count=count, keys=keys, impostor=impostor: (
                                "another principal" in impostor.neighbours.describe()[0]["reason"]
                                or len(keys or ()) > count + 1
                            )
                        )
                        assert not up(impostor)
                        assert [each["node"] for each in hub.neighbours.describe() if each["up"]] == [edge.node]
                    finally:
                        await impostor.stop()
                await until(lambda: not up(hub))

    run(test)


def test_datagrams_from_elsewhere_need_tls_to_agree_on_keys() -> None:
    async def test() -> None:
        settings = Settings(listen=(ANY_PORT, Address("0.0.0.0", 0, "palio+udp")))
        with pytest.raises(palio.InvalidArgument, match="no tokens"):
            Server(settings)
        server = Server(settings.with_changes({"insecure": True}))
        with pytest.raises(palio.InvalidArgument, match="agreed on over TLS"):
            await server.start()

    run(test)
