"""Backpressure: a blocking subscriber holds back a publisher at the other end of the network."""

from __future__ import annotations

import asyncio

import palio
from palio.network.client.broker import Broker
from tests.network.running import broker, line, run, until, url

EVENTS = 2_000  # more than a client takes unread, and what brokers keep
MANY = 2_500  # more than that and the window of a publisher
# Above half of the spill a publisher that was held back is not told to go on.
OPTIONS = {"spill": 50, "window": 20}


def test_a_subscriber_that_blocks_holds_back_a_confirmed_publisher_brokers_away() -> None:
    async def test() -> None:
        async with (
            line(3, options=OPTIONS) as (first, _, last),
            palio.connect(url(first)) as publisher,
            palio.connect(url(last)) as slow,
            slow.subscribe("x >= 0", confirm="network", queue=100, overflow="block") as events,
        ):
            numbers = ({"x": x} for x in range(EVENTS))
            publishing = asyncio.ensure_future(publisher.publish_all(numbers, confirm=True))
            await until(lambda: last.host.backpressure.is_blocked)
            await until(lambda: first.host.node.broker.delivery.unfinished > OPTIONS["spill"] // 2)
            assert not publishing.done()
            found = [(await anext(events)).get("x") for _ in range(EVENTS)]
            assert await publishing == EVENTS
            assert (found, events.dropped) == (list(range(EVENTS)), 0)
            await until(lambda: first.host.node.broker.delivery.unfinished == 0)

    run(test)


def test_a_durable_queue_that_blocks_holds_back_a_confirmed_publisher_brokers_away() -> None:
    async def test() -> None:
        keeping = {"queue_events": 100}  # what is beyond that is refused, and so held back
        async with (
            line(3, options=OPTIONS, keeping=keeping) as (first, _, last),
            palio.connect(url(first)) as publisher,
        ):
            async with (
                palio.connect(url(last)) as client,
                client.subscribe("x >= 0", durable="desk", confirm="network"),
            ):
                pass
            numbers = ({"x": x} for x in range(500))
            publishing = asyncio.ensure_future(publisher.publish_all(numbers, confirm=True))
            await until(lambda: first.host.backpressure.is_blocked)
            await until(lambda: first.host.node.broker.delivery.unfinished > OPTIONS["spill"] // 2)
            assert not publishing.done()
            async with palio.connect(url(last)) as client, client.subscribe("x >= 0", durable="desk") as events:
                found = []
                for _ in range(500):
                    event = await anext(events)
                    found.append(event.get("x"))
                    await event.ack()
            assert await publishing == 500
            assert sorted(map(str, found)) == sorted(map(str, range(500)))

    run(test)


def test_a_subscriber_that_blocks_holds_back_nobody_but_the_publishers_of_its_events() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as busy,
            palio.connect(url(server)) as other,
            palio.connect(url(server)) as client,
            client.subscribe("x >= 0", queue=100, overflow="block") as slow,
            client.subscribe("y >= 0") as quick,
        ):
            numbers = ({"x": x} for x in range(MANY))
            publishing = asyncio.ensure_future(busy.publish_all(numbers, confirm=True))
            await until(lambda: server.host.backpressure.is_blocked)
            for y in range(10):
                await other.publish({"y": y}, confirm=True)  # each is confirmed while the queue is full
                assert (await anext(quick)).get("y") == y
            assert server.host.backpressure.is_blocked
            assert not publishing.done()
            assert [(await anext(slow)).get("x") for _ in range(MANY)] == list(range(MANY))
            assert await publishing == MANY

    run(test)


def test_a_subscriber_that_blocks_holds_back_only_the_links_that_its_events_come_by() -> None:
    async def test() -> None:
        async with (
            line(3, options=OPTIONS) as (left, middle, right),
            palio.connect(url(left)) as busy,
            palio.connect(url(right)) as other,
            palio.connect(url(middle)) as client,
            client.subscribe("x >= 0", confirm="network", queue=100, overflow="block") as slow,
            client.subscribe("y >= 0", confirm="network") as quick,
        ):
            numbers = ({"x": x} for x in range(MANY))
            publishing = asyncio.ensure_future(busy.publish_all(numbers, confirm=True))
            await until(lambda: middle.host.backpressure.is_blocked)
            for y in range(100):  # more than the credit of a link
                await other.publish({"y": y}, confirm=True)
                assert (await anext(quick)).get("y") == y
            assert middle.host.backpressure.is_blocked
            assert not publishing.done()
            assert [(await anext(slow)).get("x") for _ in range(MANY)] == list(range(MANY))
            assert await publishing == MANY

    run(test)


def test_a_subscriber_that_blocks_behind_a_link_holds_back_no_other_publisher_there() -> None:
    async def test() -> None:
        # For long enough that nothing goes on because it ends.
        async with (
            line(3, options=OPTIONS, flow={"block_seconds": 300.0}) as (first, _, last),
            palio.connect(url(first)) as busy,
            palio.connect(url(first)) as other,
            palio.connect(url(last)) as client,
            client.subscribe("x >= 0", confirm="network", queue=100, overflow="block") as slow,
            client.subscribe("y >= 0", confirm="network") as quick,
        ):
            numbers = ({"x": x} for x in range(EVENTS))
            publishing = asyncio.ensure_future(busy.publish_all(numbers, confirm=True))
            await until(lambda: first.status()["withheld"] >= OPTIONS["spill"] // 2)  # there is no room for more
            for y in range(1_100):  # more than the credit of a link, and than a broker has under way
                await other.publish({"y": y}, confirm=True)
                if y % 100 == 99:
                    assert [(await anext(quick)).get("y") for _ in range(100)] == list(range(y - 99, y + 1))
            assert last.host.backpressure.is_blocked
            assert not publishing.done()
            assert [(await anext(slow)).get("x") for _ in range(EVENTS)] == list(range(EVENTS))
            assert await publishing == EVENTS
            await until(lambda: first.status()["withheld"] == 0)

    run(test)


def test_brokers_that_block_and_saturate_each_other_go_on() -> None:
    async def test() -> None:
        async with (
            line(2, options=OPTIONS) as servers,
            palio.connect(url(servers[0])) as left,
            palio.connect(url(servers[1])) as right,
        ):

            async def read(client: Broker, side: str, started: asyncio.Event) -> list[int]:
                wanted = f"side = '{side}'"
                async with client.subscribe(wanted, confirm="network", queue=50, overflow="block") as events:
                    started.set()
                    await until(lambda: all(server.host.backpressure.is_blocked for server in servers))
                    return [(await anext(events)).get("x") for _ in range(EVENTS)]

            started = [asyncio.Event(), asyncio.Event()]
            reading = [
                asyncio.ensure_future(read(*each)) for each in ((left, "r", started[0]), (right, "l", started[1]))
            ]
            for each in started:
                await each.wait()
            said = [[{"side": side, "x": x} for x in range(EVENTS)] for side in ("l", "r")]
            await asyncio.gather(left.publish_all(said[0], confirm=True), right.publish_all(said[1], confirm=True))
            assert await asyncio.gather(*reading) == [list(range(EVENTS))] * 2

    run(test)
