"""Overflow of delivery queues and durable queues: no confirmed event is lost, and nothing hangs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import palio
from palio.network.client.subscription import Subscription
from palio.network.store.interface import Retention
from tests.network.running import broker, line, run, until, url


async def heard(events: Subscription, count: int) -> list[int]:
    found = []
    for _ in range(count):
        event = await anext(events)
        found.append(event.get("x"))
        await event.ack()
    return found


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_a_full_durable_queue_held_back_comes_when_there_is_room(on_disk: bool, tmp_path: Path) -> None:
    async def test() -> None:
        settings = {"data": tmp_path if on_disk else None, "keeping": Retention(queue_events=20)}
        async with broker(**settings) as server, palio.connect(url(server)) as client:
            async with client.subscribe("x >= 0", durable="desk"):
                pass
            await client.publish_all([{"x": x} for x in range(100)], confirm=True)
            async with client.subscribe("x >= 0", durable="desk") as events:
                assert sorted(await heard(events, 100)) == list(range(100))

    run(test)


def test_what_was_held_back_comes_after_a_restart_too(tmp_path: Path) -> None:
    async def test() -> None:
        settings = {"data": tmp_path, "keeping": Retention(queue_events=20)}
        async with broker(**settings) as server, palio.connect(url(server)) as client:
            async with client.subscribe("x >= 0", durable="desk"):
                pass
            await client.publish_all([{"x": x} for x in range(100)], confirm=True)
        async with (
            broker(**settings) as server,
            palio.connect(url(server)) as client,
            client.subscribe("x >= 0", durable="desk") as events,
        ):
            assert sorted(await heard(events, 100)) == list(range(100))

    run(test)


def test_what_a_full_durable_queue_drops_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with broker(keeping=Retention(queue_events=5)) as server, palio.connect(url(server)) as client:
            async with client.subscribe("x >= 0", durable="desk"):
                pass
            for x in range(50):
                await client.publish({"x": x})
            await until(lambda: server.host.drops["the queue of a subscription is full"] == 45)
            assert set(server.host.drops) == {"the queue of a subscription is full"}
        lines = [each for each in caplog.records if each.getMessage() == "a durable queue is full"]
        assert len(lines) == 1
        assert "desk" in lines[0].__dict__["reason"]

    run(test)


def test_a_confirmed_event_that_waits_for_a_full_durable_queue_does_not_count_as_dropped() -> None:
    async def test() -> None:
        async with broker(keeping=Retention(queue_events=5)) as server, palio.connect(url(server)) as client:
            async with client.subscribe("x >= 0", durable="desk"):
                pass
            await client.publish_all([{"x": x} for x in range(8)], confirm=True)
            await until(lambda: server.status()["spilled"] > 0)
            status = server.status()
            assert (status["drops"], status["full"], status["unfinished"]) == ({}, 1, 3)

    run(test)


def test_an_event_that_is_larger_than_its_queue_is_taken_alone() -> None:
    async def test() -> None:
        async with (
            broker(keeping=Retention(queue_bytes=1_000)) as server,
            palio.connect(url(server)) as client,
            client.subscribe("x >= 0", durable="desk") as events,
        ):
            await client.publish_all([{"x": x, "text": "y" * 2_000} for x in range(5)], confirm=True)
            assert sorted(await heard(events, 5)) == list(range(5))

    run(test)


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_subscriber_that_blocks_loses_nothing_of_publishers_who_ask_for_confirmation(brokers: int) -> None:
    async def test() -> None:
        async with (
            line(brokers) as servers,
            palio.connect(url(servers[0])) as publisher,
            palio.connect(url(servers[-1])) as subscriber,
            subscriber.subscribe("x >= 0", queue=100, overflow="block", confirm="network") as events,
        ):
            # More than the subscriber's credit, its queue and the publisher's window hold together.
            count = 2_500
            publishing = asyncio.ensure_future(publisher.publish_all([{"x": x} for x in range(count)], confirm=True))
            await until(lambda: servers[-1].host.backpressure.is_blocked)
            assert not publishing.done()
            assert await heard(events, count) == list(range(count))
            assert await publishing == count
            assert events.dropped == 0

    run(test)
