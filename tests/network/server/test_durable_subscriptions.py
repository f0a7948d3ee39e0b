"""Durable subscriptions: every confirmed event arrives, whatever disconnects meanwhile."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import palio
from palio.network.client.subscription import Subscription
from tests.network.processes import Broker, served
from tests.network.running import broker, line, run, until, url


async def take(events: Subscription, count: int, *, ack: bool = True) -> list[object]:
    found = []
    for _ in range(count):
        event = await anext(events)
        found.append(event.get("x"))
        if ack:
            await event.ack()
    return found


def test_events_wait_for_a_subscriber_that_is_away_and_come_until_they_are_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        for data in ("none", str(tmp_path)):
            async with broker(data=data) as server, palio.connect(url(server)) as publisher:
                async with palio.connect(url(server)) as client, client.subscribe("x > 0", durable="desk") as events:
                    await publisher.publish({"x": 1}, confirm=True)
                    assert await take(events, 1) == [1]
                for x in (2, 3, 0, 4):
                    await publisher.publish({"x": x}, confirm=True)
                async with palio.connect(url(server)) as client, client.subscribe("x > 0", durable="desk") as events:
                    assert await take(events, 2) == [2, 3]
                    assert await take(events, 1, ack=False) == [4]
                async with palio.connect(url(server)) as client, client.subscribe("x > 0", durable="desk") as events:
                    assert await take(events, 1) == [4]
                    await events.unsubscribe()
                await until(lambda server=server: not server.host.node.broker.tables.subscriptions.keys())

    run(test)


def test_an_event_that_is_sent_again_is_let_in_once() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", durable="desk") as events,
        ):
            event = palio.Event({"x": 1}, id="one", source="test")
            for _ in range(2):
                async with palio.connect(url(server), publisher="job-7") as publisher:
                    await publisher.publish(event, confirm=True)
            await client.publish({"x": 2}, confirm=True)
            assert await take(events, 2) == [1, 2]

    run(test)


def test_confirmed_events_cross_brokers_to_queues_of_those_who_are_away() -> None:
    async def test() -> None:
        async with line(3) as (first, _, last), palio.connect(url(first)) as publisher:
            async with (
                palio.connect(url(last)) as client,
                client.subscribe("x > 0", durable="desk", confirm="network"),
            ):
                pass
            for x in range(1, 101):
                await publisher.publish({"x": x}, confirm=True)
            async with palio.connect(url(last)) as client, client.subscribe("x > 0", durable="desk") as events:
                assert sorted(map(str, await take(events, 100))) == sorted(map(str, range(1, 101)))

    run(test)


def test_a_slow_durable_subscriber_takes_its_time() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x >= 0", durable="desk") as events,
        ):
            await client.publish_all(({"x": x} for x in range(3000)), confirm=True)
            assert await take(events, 3000) == list(range(3000))
            await until(lambda: server.status()["queued"] == 0)

    run(test)


def test_what_was_confirmed_survives_a_kill_of_its_broker(tmp_path: Path) -> None:
    with served() as hub:
        edge = Broker("--connect", hub.url, data=str(tmp_path))
        try:
            asyncio.run(_subscribe(edge.url))
            confirmed = asyncio.run(_publish_until_killed(edge))
            edge = Broker("--connect", hub.url, data=str(tmp_path), listen=edge.url)
            assert confirmed <= asyncio.run(_drain(edge.url, len(confirmed)))
            edge.send(signal.SIGTERM)
            assert edge.end()[0] == 0
        finally:
            edge.kill()


async def _subscribe(address: str) -> None:
    async with palio.connect(address) as client, client.subscribe("x >= 0", durable="desk"):
        pass


async def _publish_until_killed(edge: Broker) -> set[object]:
    confirmed: set[object] = set()

    async def publish(client: palio.network.client.broker.Broker, x: int) -> None:
        await client.publish({"x": x}, confirm=True)
        confirmed.add(x)

    async with palio.connect(edge.url, patience=0) as client:
        publishing = [asyncio.create_task(publish(client, x)) for x in range(500)]
        while len(confirmed) < 50:
            await asyncio.sleep(0.001)
        edge.send(signal.SIGKILL)
        await asyncio.gather(*publishing, return_exceptions=True)
    assert edge.end()[0] == -signal.SIGKILL
    return confirmed


async def _drain(address: str, least: int) -> set[object]:
    found: set[object] = set()
    async with palio.connect(address) as client, client.subscribe("x >= 0", durable="desk") as events:
        await client.publish({"x": 1_000_000}, confirm=True)
        async with asyncio.timeout(30):
            while len(found) <= least or 1_000_000 not in found:
                found |= set(await take(events, 1))
    return found
