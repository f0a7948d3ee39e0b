"""Limits of connections: silent and surplus ones are closed, over TCP and TLS."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import palio
from palio import ConnectionFailed, Filter
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.gateway.metrics import write_metrics
from palio.network.gateway.settings import HttpSettings
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.security.quotas import BrokerLimits
from palio.network.security.tls import ClientTls, ServerTls
from palio.network.server.handshake import MAX_REFUSED_CONNECTIONS, listening_sockets
from palio.network.server.process import Server
from tests.network.certificates import Authority
from tests.network.running import PATIENCE, broker, run, until, url


async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(server.addresses[0].host, server.addresses[0].port)


def test_who_does_not_greet_in_time_is_told_so_and_leaves_nothing() -> None:
    async def test() -> None:
        async with broker(limits=BrokerLimits(handshake_seconds=0.2)) as server:
            hello = protocol.encode(protocol.BrokerHello(protocol.VERSION))
            for said in (b"", b"\0\0", len(hello).to_bytes(4, "big") + hello):
                reader, writer = await connect(server)
                writer.write(said)
                assert b"no greeting in time" in await reader.read()
                writer.close()
            await until(lambda: not server.unauthenticated)

    run(test)


def test_a_handshake_of_tls_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    pair = Authority(tmp_path).sign("hub", ("127.0.0.1",))

    async def test() -> None:
        secure = {"listen": (Address("127.0.0.1", 0, "palio+tls"),), "tls": ServerTls(pair.certificate, pair.key)}
        limits = BrokerLimits(handshake_seconds=0.2)
        async with broker(limits=limits, http=HttpSettings(port=0), **secure) as server:
            assert server.gateway is not None
            for place in ((server.addresses[0].host, server.addresses[0].port), server.gateway.address):
                reader, writer = await asyncio.open_connection(*place)
                assert await reader.read() == b""
                writer.close()

    run(test)


def test_handshakes_of_tls_that_fail_are_counted_by_kind_whatever_is_spoken_behind(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    hub, forged = authority.sign("hub", ("127.0.0.1",)), stranger.sign("desk")
    tls = ServerTls(hub.certificate, hub.key, authority.certificate)
    secure = {"listen": (Address("127.0.0.1", 0, "palio+tls"),), "tls": tls}
    trusting = ClientTls(authority.certificate).context()
    distrusting = ClientTls(stranger.certificate).context()
    forging = ClientTls(authority.certificate, forged.certificate, forged.key).context()
    narrow = ClientTls(authority.certificate).context()
    narrow.maximum_version = ssl.TLSVersion.TLSv1_2
    narrow.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")  # for which the hub has no key

    def shake(place: tuple[str, int], context: ssl.SSLContext) -> None:
        """As most programs do, and not as asyncio does, which leaves without saying why."""
        plain = socket.create_connection(place)
        secured = context.wrap_socket(plain, server_hostname="127.0.0.1", do_handshake_on_connect=False)
        with secured, suppress(OSError):
            secured.do_handshake()
            secured.recv(1)

    async def test() -> None:
        async with broker(limits=BrokerLimits(handshake_seconds=2), http=HttpSettings(port=0), **secure) as server:
            assert server.gateway is not None
            addresses = ((server.addresses[0].host, server.addresses[0].port), server.gateway.address)
            silent = [await asyncio.open_connection(*place) for place in addresses]
            for place in addresses:
                for said in (b"this is no TLS", b"GET / HTTP/1.1\r\n\r\n"):
                    reader, writer = await asyncio.open_connection(*place)
                    writer.write(said)
                    await reader.read()
                    writer.close()
                _, gone = await asyncio.open_connection(*place)
                gone.close()
                with pytest.raises(ConnectionFailed, match="certificate verify failed"):
                    await palio.connect(str(Address(*place, "palio+tls")), tls=distrusting, patience=0).__aenter__()
                for context in (distrusting, forging, narrow):
                    await asyncio.to_thread(shake, place, context)
            for reader, writer in silent:
                assert await reader.read() == b""
                writer.close()
            await until(lambda: not len(server.acceptor))
            async with palio.connect(url(server), tls=trusting) as client:
                status = await client.status()
            counts = {"silent": 2, "no TLS": 4, "closed": 4, "certificate": 4, "other": 2}
            assert status["failed_handshakes"] == counts
            assert 'palio_failed_handshakes_total{kind="no TLS"} 4\n' in write_metrics(status)

    run(test)


def test_handshakes_of_tls_are_counted_and_not_waited_for_whatever_is_spoken_behind(tmp_path: Path) -> None:
    pair = Authority(tmp_path).sign("hub", ("127.0.0.1",))
    secure = {"listen": (Address("127.0.0.1", 0, "palio+tls"),), "tls": ServerTls(pair.certificate, pair.key)}

    async def test() -> None:
        limits = BrokerLimits(handshake_seconds=PATIENCE, connections=1)  # all are under way together, however slowly
        async with broker(limits=limits, http=HttpSettings(port=0), **secure) as server:
            assert server.gateway is not None
            for place in ((server.addresses[0].host, server.addresses[0].port), server.gateway.address):
                silent = [await asyncio.open_connection(*place) for _ in range(1 + MAX_REFUSED_CONNECTIONS)]
                await until(lambda: len(server.acceptor) == 1 + MAX_REFUSED_CONNECTIONS)
                reader, last = await asyncio.open_connection(*place)
                assert await reader.read() == b""  # at once
                assert len(server.acceptor) == 1 + MAX_REFUSED_CONNECTIONS
                silent[0][1].write(b"this is no TLS")
                for _, each in silent[1:]:
                    each.close()
                await until(lambda: len(server.acceptor) == 0)
                for _, each in (*silent, (reader, last)):
                    each.close()
            context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
            async with palio.connect(url(server), tls=context):
                pass
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                assert (await client.get(f"https://127.0.0.1:{server.gateway.address[1]}/health")).status_code == 200

    run(test)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_connection_that_comes_in_the_turn_in_which_the_broker_stops_is_closed(tmp_path: Path, secure: bool) -> None:
    pair = Authority(tmp_path).sign("hub", ("127.0.0.1",))
    tls = {"listen": (Address("127.0.0.1", 0, "palio+tls"),), "tls": ServerTls(pair.certificate, pair.key)}

    async def test() -> None:
        for turns in range(5):
            async with broker(**(tls if secure else {})) as server:
                dialled = socket.create_connection((server.addresses[0].host, server.addresses[0].port))
                for _ in range(turns):
                    await asyncio.sleep(0)
            dialled.settimeout(PATIENCE)
            with dialled, suppress(ConnectionResetError):
                while await asyncio.to_thread(dialled.recv, 1_024):
                    pass

    run(test)
    gc.collect()  # a transport that was left open is reported here, and fails the test


def test_so_many_may_connect_known_or_not_and_no_more() -> None:
    async def test() -> None:
        async with broker(limits=BrokerLimits(connections=3)) as server, palio.connect(url(server)):
            waiting = [await connect(server) for _ in range(2)]
            await until(lambda: len(server.unauthenticated) == 2)
            reader, writer = await connect(server)
            assert b"3 connections are as many as there may be" in await reader.read()
            for _, each in (*waiting, (reader, writer)):
                each.close()
            await until(lambda: not server.unauthenticated)
            async with palio.connect(url(server)):
                pass

    run(test)


def test_who_asks_for_ever_and_reads_no_answer_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "palio.server")

    async def test() -> None:
        async with broker(limits=BrokerLimits(frame_bytes=100_000)) as server:
            # Answers first fill the buffers of the kernel, which grow to megabytes unless the receiver's is small.
            end = socket.socket()
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            end.setblocking(False)
            await asyncio.get_running_loop().sock_connect(end, (server.addresses[0].host, server.addresses[0].port))
            _, writer = await asyncio.open_connection(sock=end, limit=1_024)
            said = [protocol.ClientHello(protocol.VERSION), *[protocol.Unsubscribe(1, "x" * 190)] * 1_000]
            frames = [protocol.encode(each) for each in said]
            data = b"".join(len(each).to_bytes(4, "big") + each for each in frames)
            again = data[4 + len(frames[0]) :]
            writer.write(data)
            await until(lambda: len(server.sessions) == 1)
            while server.sessions:
                writer.write(again)
                with suppress(ConnectionError):
                    await writer.drain()
                await asyncio.sleep(0)
            writer.close()

    run(test)
    [left] = [each for each in caplog.records if each.getMessage() == "left"]
    assert left.__dict__["reason"] == "it does not read what it is answered"


def test_so_many_of_one_principal_may_connect(tmp_path: Path) -> None:
    token, other = (Tokens(tmp_path).add(Principal(name, may_subscribe=Filter.everything)) for name in ("a", "b"))

    async def test() -> None:
        async with (
            broker(data=tmp_path, limits=BrokerLimits(connections_per_principal=1)) as server,
            palio.connect(url(server), token),
            palio.connect(url(server), other),
        ):
            again = palio.connect(url(server), token, patience=0)
            with pytest.raises(palio.LimitReached, match="connections_per_principal"):
                await again.__aenter__()

    run(test)


def test_an_address_that_this_machine_does_not_have_is_left_out_where_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async def found(*arguments: Any, **options: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in hosts]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
        hosts = ["192.0.2.1", "127.0.0.1"]  # the first is nobody's (RFC 5737)
        [place] = await listening_sockets("some", 0)
        assert place.getsockname()[0] == "127.0.0.1"
        place.close()
        hosts = ["192.0.2.1"]
        with pytest.raises(OSError, match="assign"):
            await listening_sockets("some", 0)

    asyncio.run(test())


def test_what_is_accepted_sends_at_once() -> None:
    async def test() -> None:
        [place] = await listening_sockets("127.0.0.1", 0)
        with place, socket.create_connection(place.getsockname()):
            accepted, _ = place.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(test)
