"""Semantic overlays on sockets: events find those who want them, with no keys and nothing stored for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import palio
from palio import Refused
from palio.network.client.broker import Broker
from palio.network.peers.drivers import CommunityDriver
from palio.network.peers.server import PeerServer
from palio.peers.communities.overlays import OVERLAYS
from palio.peers.ring_description import RingDescription
from tests.network.peers.ring import begin, crash, peer
from tests.network.running import run, until, url

SAMPLE = tuple(palio.Event({"price": price, "city": city}) for price in range(0, 200, 10) for city in ("Oslo", "Rome"))


def described(overlay: str) -> RingDescription:
    return RingDescription(mapping=overlay, events=SAMPLE, period=0.1)


def members(server: PeerServer) -> CommunityDriver:
    assert isinstance(server.ring, CommunityDriver)
    return server.ring


def is_placed(servers: list[PeerServer]) -> bool:
    return all(each.is_placed for server in servers for each in members(server).peer.members.values())


@asynccontextmanager
async def overlay_of(count: int, overlay: str) -> AsyncIterator[tuple[list[PeerServer], list[Broker]]]:
    async with AsyncExitStack() as stack:
        servers: list[PeerServer] = []
        for _ in range(count):
            servers.append(await stack.enter_async_context(peer(*servers[:1], description=described(overlay))))
            await until(lambda: servers[-1].ring is not None)
        clients = [await stack.enter_async_context(palio.connect(url(each))) for each in servers]
        yield servers, clients


async def published_until(client: Broker, event: dict[str, Any], has_come: Callable[[], bool]) -> None:
    """Publish again and again: what went by a link that has broken is lost."""
    while not has_come():
        await client.publish(event, confirm=True)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_event_reaches_those_who_want_it_once(overlay: str) -> None:
    async def body() -> None:
        async with overlay_of(4, overlay) as (servers, clients), AsyncExitStack() as stack:
            wanted = ["price > 0", "price > 50", "price > 100 AND city = 'Oslo'", "price > 100"]
            streams = [
                await stack.enter_async_context(client.subscribe(where))
                for client, where in zip(clients, wanted, strict=True)
            ]
            await until(lambda: is_placed(servers))
            for client in clients:
                await client.publish({"price": 120, "city": "Oslo"}, confirm=True)
            for stream in streams:
                assert [(await anext(stream))["price"] for _ in clients] == [120] * 4
            await clients[0].publish({"price": 60, "city": "Rome"}, confirm=True)
            assert [(await anext(stream))["price"] for stream in streams[:2]] == [60, 60]
            for server in servers:
                found = server.status()["ring"]
                assert (found["overlay"], found["members"], found["placed"]) == (overlay, 1, 1)
                assert found["neighbours"] > 0

    run(body)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_that_was_empty_begins_anew_at_another_peer(overlay: str) -> None:
    async def body() -> None:
        async with overlay_of(3, overlay) as (_, clients):
            for client in (clients[1], clients[2], clients[0]):
                async with client.subscribe("price > 0") as stream:
                    await clients[1].publish({"price": 120}, confirm=True)
                    assert (await anext(stream))["price"] == 120

    run(body)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_members_find_other_neighbours_when_peers_crash(overlay: str) -> None:
    async def body() -> None:
        async with overlay_of(3, overlay) as (servers, clients), AsyncExitStack() as stack:
            doomed = [await begin(servers[0], description=described(overlay)) for _ in range(2)]
            streams = [
                await stack.enter_async_context(client.subscribe(f"price > {low}"))
                for client, low in zip(clients, (40, 60, 80), strict=True)
            ]
            for each, low in zip(doomed, (0, 50), strict=True):
                client = await stack.enter_async_context(palio.connect(url(each)))
                await stack.enter_async_context(client.subscribe(f"price > {low}"))
            await until(lambda: is_placed([*servers, *doomed]))
            got: list[set[int]] = [set() for _ in streams]

            async def take(place: int) -> None:
                async for event in streams[place]:
                    got[place].add(int(event["n"]))  # type: ignore[call-overload]

            taking = [asyncio.create_task(take(place)) for place in range(len(streams))]
            for each in doomed:
                await crash(each)
            await published_until(clients[2], {"price": 120, "n": 1}, lambda: all(1 in each for each in got))
            for each in taking:
                each.cancel()
            await asyncio.gather(*taking, return_exceptions=True)

    run(body)


def test_what_an_overlay_does_not_promise_is_refused() -> None:
    async def body() -> None:
        async with overlay_of(1, "containment") as (servers, clients):
            with pytest.raises(Refused, match="nobody keeps events for a subscription whose peer is away"):
                async with clients[0].subscribe("price > 0", durable="desk"):
                    pass
            assert not members(servers[0]).peer.members
            async with clients[0].subscribe("price > 0") as stream:
                await clients[0].publish({"price": 1}, confirm=True)
                assert (await anext(stream))["price"] == 1

    run(body)


def test_a_peer_of_a_ring_is_not_let_into_an_overlay() -> None:
    async def body() -> None:
        async with overlay_of(1, "containment") as (servers, _):
            other = await begin(servers[0], description=RingDescription())
            try:
                await until(lambda: other.ring is not None)
                assert members(other).overlay == "containment", "it takes the description that it finds"
            finally:
                await other.stop()

    run(body)
