"""Links and clients over TLS: authentication, secrecy, and detection of silent connections."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import palio
from palio.filters.filter import Filter
from palio.network.addresses import Address
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.security.tls import ClientTls, ServerTls
from tests.network.certificates import Authority
from tests.network.running import broker, run, until, up, url

SECURE = Address("127.0.0.1", 0, "palio+tls")


def test_clients_and_links_over_tls_with_tokens(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("hub", ("127.0.0.1",))
    tokens = Tokens(tmp_path / "hub")
    edge_token = tokens.add(unrestricted("edge"))
    desk_token = tokens.add(Principal("desk", may_subscribe=Filter.everything))
    trust = ClientTls(authority.certificate)

    async def test() -> None:
        secure = {"listen": (SECURE,), "tls": ServerTls(pair.certificate, pair.key), "data": str(tmp_path / "hub")}
        async with (
            broker(**secure) as hub,
            broker(connect=hub.addresses, trust=trust, token=edge_token) as edge,
            palio.connect(url(hub), desk_token, tls=trust.context()) as desk,
            palio.connect(url(edge)) as publisher,
            desk.subscribe("x > 1", confirm="network") as events,
        ):
            await until(lambda: len(up(edge)) == 1)
            await until(lambda: any(edge.host.node.broker.tables.remote_subscriptions.values()))
            await publisher.publish({"x": 2}, confirm=True)
            assert (await anext(events)).get("x") == 2
            with pytest.raises(palio.NotPermitted):
                await desk.publish({"x": 2}, confirm=True)
            with pytest.raises(palio.NotPermitted):
                await desk.status()
            with pytest.raises(palio.AuthenticationFailed):
                async with palio.connect(url(hub), "palio_wrong", tls=trust.context()):
                    pass
            with pytest.raises(palio.ConnectionFailed, match="certificate"):
                async with palio.connect(url(hub), desk_token):
                    pass

    run(test)


def test_a_client_cannot_link_as_a_broker(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    token = tokens.add(Principal("desk", may_subscribe=Filter.everything))

    async def test() -> None:
        async with broker(data=str(tmp_path)) as hub, broker(connect=hub.addresses, token=token) as edge:
            await until(lambda: "its role is not `broker`" in edge.neighbours.describe()[0]["reason"])
            assert not up(hub)

    run(test)


class Proxy:
    """Between a client and a broker, and able to fall silent without closing anything."""

    def __init__(self, to: Address) -> None:
        self._to = to
        self.is_silent = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> Address:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        out_reader, out_writer = await asyncio.open_connection(self._to.host, self._to.port)
        self._writers += (writer, out_writer)
        for source, sink in ((reader, out_writer), (out_reader, writer)):
            self._tasks.add(asyncio.create_task(self._copy(source, sink)))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if not self.is_silent:
                writer.write(data)

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)


def test_a_link_that_is_half_open_is_noticed_at_both_ends_and_made_again() -> None:
    async def test() -> None:
        async with broker(heartbeat=0.1) as hub:
            proxy = Proxy(hub.addresses[0])
            address = await proxy.start()
            async with broker(connect=(address,), heartbeat=0.1) as edge:
                await until(lambda: len(up(hub)) == 1 and len(up(edge)) == 1)
                proxy.is_silent = True
                await until(lambda: not up(hub) and not up(edge))
                assert "nothing was heard" in edge.neighbours.describe()[0]["reason"]
                proxy.is_silent = False
                await until(lambda: len(up(hub)) == 1 and len(up(edge)) == 1)
            await proxy.stop()

    run(test)
