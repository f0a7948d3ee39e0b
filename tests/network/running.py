"""Brokers of one process, on real sockets, for as long as a test needs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from palio.network import event_loop
from palio.network.addresses import Address
from palio.network.server.process import Server
from palio.network.server.settings import Settings

ANY_PORT = Address("127.0.0.1", 0)
PATIENCE = 120.0  # seconds after which a test counts as hanging; a busy machine takes ten times as long as an idle one


def run(doing: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in a loop of its own; one that hangs fails."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await doing()

    event_loop.run_event_loop(bounded())


@asynccontextmanager
async def broker(**changes: Any) -> AsyncIterator[Server]:
    """A broker on a free port."""
    server = Server(Settings(listen=(ANY_PORT,)).with_changes(changes))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def line(length: int, **changes: Any) -> AsyncIterator[list[Server]]:
    """Brokers in a line, all links up."""
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        for _ in range(length):
            connect = servers[-1].addresses if servers else ()
            servers.append(await stack.enter_async_context(broker(connect=connect, **changes)))
        await until(lambda: all(len(up(server)) == wanted(server, servers) for server in servers))
        yield servers


def wanted(server: Server, servers: list[Server]) -> int:
    return (server is not servers[0]) + (server is not servers[-1])


def up(server: Server) -> list[int]:
    """The neighbours that a broker routes to."""
    return server.host.node.broker.links


def url(server: Server) -> str:
    return str(server.addresses[0])


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is going to be so; the test's own bound ends it where it is not."""
    while not holds():
        await asyncio.sleep(0.005)
