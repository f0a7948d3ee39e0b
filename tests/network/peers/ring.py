"""Peers of one process, on real sockets, for as long as a test needs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from palio.network.peers.drivers import RingDriver
from palio.network.peers.server import PeerServer, RingSettings
from palio.network.server.settings import Settings
from palio.peers.ring_description import RingDescription
from tests.network.running import ANY_PORT, until

QUICK = RingDescription(period=0.1, retry=0.3, lease=3.0)


@asynccontextmanager
async def peer(
    *contacts: PeerServer, description: RingDescription = QUICK, **changes: Any
) -> AsyncIterator[PeerServer]:
    """A peer on a free port, which joins by others or founds a ring."""
    server = await begin(*contacts, description=description, **changes)
    try:
        yield server
    finally:
        await server.stop()


async def begin(
    *contacts: PeerServer, description: RingDescription = QUICK, virtual_nodes: int = 1, **changes: Any
) -> PeerServer:
    join = tuple(each.addresses[0] for each in contacts)
    settings = Settings(listen=(ANY_PORT,)).with_changes(changes)
    server = PeerServer(settings, RingSettings(join, description, virtual_nodes=virtual_nodes))
    await server.start()
    return server


@asynccontextmanager
async def ring(count: int, **changes: Any) -> AsyncIterator[list[PeerServer]]:
    """Peers of one ring that has settled."""
    async with AsyncExitStack() as stack:
        servers: list[PeerServer] = []
        for _ in range(count):
            servers.append(await stack.enter_async_context(peer(*servers[:1], **changes)))
        await until(lambda: is_settled(servers))
        yield servers


def is_settled(servers: list[PeerServer]) -> bool:
    """Whether all peers are in their places: each has the next one for its successor."""
    if any(each.ring is None for each in servers):
        return False
    places = {
        position: node.driver.peer.membership
        for each in servers
        for position, node in each._nodes.items()
        if isinstance(node.driver, RingDriver)
    }
    nodes = sorted(places)
    return all(
        places[node].is_member
        and places[node].predecessor == nodes[at - 1]
        and places[node].successors[0] == nodes[(at + 1) % len(nodes)]
        for at, node in enumerate(nodes)
    )


async def crash(server: PeerServer) -> None:
    """End a peer without a word to its ring."""
    for node in server._nodes.values():
        node.driver.leave = lambda: None  # type: ignore[method-assign]
    await server.stop()
