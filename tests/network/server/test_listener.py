"""Listeners of a broker: connections that wait while no file may be opened, and those that break as they begin."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Iterator

import pytest

from palio.network.server.handshake import Acceptor, listening_socket
from tests.network.running import run, until

CONNECTIONS = 100


class Greeting(asyncio.Protocol):
    """Answers each connection with one byte."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"!")
        transport.close()


@pytest.fixture
def dialling() -> Iterator[list[socket.socket]]:
    """Sockets that are not connected yet: connecting them opens no further file in this process."""
    sockets = [socket.socket() for _ in range(CONNECTIONS)]
    yield sockets
    for each in sockets:
        each.close()


def test_connections_that_came_while_no_file_could_be_opened_are_accepted_later(
    dialling: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    async def doing() -> None:
        acceptor = Acceptor(10.0, 1_000)
        listening = listening_socket(("127.0.0.1", 0), socket.AF_INET)
        listener = acceptor.listen(listening, None, Greeting, lambda: 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))  # no number below it is free
        try:
            for each in dialling:
                each.connect(listening.getsockname())
            await until(lambda: "cannot accept" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        loop = asyncio.get_running_loop()
        for each in dialling:
            each.setblocking(False)
            assert await loop.sock_recv(each, 1) == b"!"
        listener.close()
        await acceptor.stop()

    with caplog.at_level(logging.ERROR, "palio.server"):
        run(doing)
    assert caplog.text.count("cannot accept") < CONNECTIONS


def test_a_connection_that_breaks_as_it_begins_is_closed_and_counted(
    dialling: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> asyncio.Protocol:
        raise ConnectionResetError("gone")

    async def doing() -> None:
        acceptor = Acceptor(10.0, 1_000)
        listening = listening_socket(("127.0.0.1", 0), socket.AF_INET)
        listener = acceptor.listen(listening, None, broken, lambda: 0)
        loop = asyncio.get_running_loop()
        for each in dialling:
            each.connect(listening.getsockname())
            each.setblocking(False)
            assert await loop.sock_recv(each, 1) == b""
        await until(lambda: not len(acceptor))
        assert acceptor.failures == {"closed": CONNECTIONS}
        listener.close()
        await acceptor.stop()

    run(doing)
    assert "never retrieved" not in caplog.text


def test_a_closed_listener_closes_what_waits_for_it(dialling: list[socket.socket]) -> None:
    async def doing() -> None:
        acceptor = Acceptor(10.0, 1_000)
        listening = listening_socket(("127.0.0.1", 0), socket.AF_INET)
        listener = acceptor.listen(listening, None, Greeting, lambda: 0)
        for each in dialling:
            each.connect(listening.getsockname())
        await asyncio.sleep(0)  # one turn of the loop: some are accepted, and the others are not
        listener.close()
        listener.close()
        await acceptor.stop()
        loop = asyncio.get_running_loop()
        for each in dialling:
            each.setblocking(False)
            try:
                assert await loop.sock_recv(each, 1) in (b"", b"!")
            except ConnectionResetError:
                continue

    run(doing)
