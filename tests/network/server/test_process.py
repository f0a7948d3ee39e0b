"""A broker on sockets, with clients and neighbours."""

from __future__ import annotations

import asyncio

import pytest

import palio
from palio.network.protocol import Overflow
from palio.network.server.delivery_queues import SubscribeOptions
from palio.routing import codec
from tests.network.running import broker, line, run, until, up, url


def test_a_subscriber_gets_what_it_asked_for_and_nothing_else() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            async with client.subscribe("price > 100") as events:
                for price in (120, 20, 130):
                    await client.publish({"price": price})
                assert [(await anext(events)).get("price") for _ in range(2)] == [120, 130]
            await until(lambda: not server.host.node.broker.tables.subscriptions.names("session 1.1"))

    run(test)


def test_events_cross_three_brokers() -> None:
    async def test() -> None:
        async with (
            line(3) as (first, _, last),
            palio.connect(url(first)) as near,
            palio.connect(url(last)) as far,
            far.subscribe("x > 1", confirm="network") as events,
        ):
            await near.publish({"x": 2}, confirm=True)
            assert (await anext(events)).get("x") == 2

    run(test)


def test_a_broker_that_comes_back_is_linked_again_and_told_what_is_wanted() -> None:
    async def test() -> None:
        async with (
            broker() as hub,
            palio.connect(url(hub)) as subscriber,
            subscriber.subscribe("x > 1") as events,
        ):
            for life in range(2):
                async with broker(connect=hub.addresses) as edge, palio.connect(url(edge)) as publisher:
                    await until(lambda edge=edge: any(edge.host.node.broker.tables.remote_subscriptions.values()))
                    await publisher.publish({"x": 5 + life}, confirm=True)
                    assert (await anext(events)).get("x") == 5 + life
                await until(lambda: not up(hub))

    run(test)


def test_who_comes_again_and_again_is_counted() -> None:
    async def test() -> None:
        async with broker() as hub:
            for _ in range(3):
                async with palio.connect(url(hub)):
                    pass
                async with broker(connect=hub.addresses, data=None) as edge:
                    await until(lambda: len(up(edge)) == 1)
                    [neighbour] = edge.status()["neighbours"]
                    assert neighbour["arrivals"] == 1
            assert hub.status()["arrivals"] == {"anyone": 3}
            assert sum(each["arrivals"] for each in hub.status()["neighbours"]) == 3

    run(test)


def test_brokers_of_different_networks_refuse_each_other_with_the_reason_at_both_ends() -> None:
    async def test() -> None:
        async with broker() as hub, broker(connect=hub.addresses, propagation="covering") as edge:
            await until(lambda: any("propagation is" in each for each in hub.host.drops))
            await until(lambda: "propagation is" in edge.neighbours.describe()[0]["reason"])
            assert not up(hub)
            assert not up(edge)

    run(test)


def test_two_brokers_that_dial_each_other_have_one_link() -> None:
    async def test() -> None:
        async with broker() as first, broker(connect=first.addresses) as second:
            await first.neighbours.dial(second.addresses[0])
            brokers = (first.neighbours, second.neighbours)
            await until(lambda: any("two links" in link["reason"] for each in brokers for link in each.describe()))
            await until(lambda: len(up(first)) == 1 and len(up(second)) == 1)
            assert (len(up(first)), len(up(second))) == (1, 1)

    run(test)


def test_what_was_not_advertised_is_refused_and_a_subscriber_hears_when_the_last_publisher_goes() -> None:
    async def test() -> None:
        cancelled: list[str] = []
        async with broker(advertisements=True) as server, palio.connect(url(server)) as client:
            with pytest.raises(palio.NotAdvertised):
                await client.publish({"x": 1}, confirm=True)
            await client.advertise("x > 0")
            subscription = client.subscribe("x > 0", on_cancel=lambda which: cancelled.append(which.name))
            async with subscription as events:
                await client.publish({"x": 1}, confirm=True)
                assert (await anext(events)).get("x") == 1
                await client.unadvertise("x > 0")
                await until(lambda: cancelled == [subscription.name])

    run(test)


@pytest.mark.parametrize(("overflow", "kept"), [("drop_oldest", (90, 99)), ("drop_newest", (0, 9))])
def test_a_full_queue_drops_by_its_rule_and_counts(overflow: Overflow, kept: tuple[int, int]) -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            session = server.open_session(server.authenticate(""), "slow")
            await session.subscribe("mine", palio.Filter.parse("x >= 0"), SubscribeOptions(queue=10, overflow=overflow))
            for x in range(100):
                await client.publish({"x": x}, confirm=x == 99)
            queue = session.queues["mine"]
            await until(lambda: queue.dropped == 90)
            batch = await session.next_batch()
            assert len(batch) == 10
            assert server.host.drops[f"subscriber slow: {overflow}"] == 90
            found = [codec.decode_event(each.event.body).get("x") for each in batch]
            assert (found[0], found[-1]) == kept
            server.close_session(session)

    run(test)


def test_a_subscriber_that_is_to_be_disconnected_when_slow_is_told_why() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            palio.connect(url(server)) as slow,
            slow.subscribe("x >= 0", queue=10, overflow="disconnect") as events,
        ):
            for x in range(3000):
                await client.publish({"x": x})
            await client.publish({"y": 1}, confirm=True)  # now all of them came, and nobody has taken any
            with pytest.raises(palio.LimitReached, match="too many events wait for 's1-"):
                async for _ in events:
                    pass

    run(test)


def test_a_confirmed_publisher_waits_for_a_subscriber_that_blocks_and_nobody_else_does() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            session = server.open_session(server.authenticate(""), "slow")
            await session.subscribe("mine", palio.Filter.parse("x >= 0"), SubscribeOptions(queue=5, overflow="block"))
            publishing = [asyncio.ensure_future(client.publish({"x": x}, confirm=True)) for x in range(8)]
            await until(lambda: server.host.backpressure.is_blocked)
            await client.publish({"y": 1})
            assert not all(each.done() for each in publishing)
            assert len(await session.next_batch()) == 8
            await asyncio.gather(*publishing)
            assert session.queues["mine"].dropped == 0
            server.close_session(session)

    run(test)


def test_a_client_that_lost_its_broker_comes_back_with_its_subscriptions() -> None:
    async def test() -> None:
        async with broker() as server:
            address = server.addresses
            connecting = palio.connect(url(server))
            client = await connecting.__aenter__()
            subscription = client.subscribe("x > 1")
            events = await subscription.__aenter__()
        async with broker(listen=address) as server, palio.connect(url(server)) as publisher:
            await until(lambda: sum(len(each.queues) for each in server.sessions) == 1)
            await publisher.publish({"x": 7})
            assert (await anext(events)).get("x") == 7
            await connecting.__aexit__(None, None, None)

    run(test)


def test_nothing_that_listens_is_said_with_what_would_help() -> None:
    async def test() -> None:
        async with broker() as server:
            address = url(server)
        with pytest.raises(palio.ConnectionFailed, match="nothing listens there; start a broker with `palio serve`"):
            async with palio.connect(address, patience=0):
                pass

    run(test)


def test_the_first_connection_waits_for_a_broker_that_is_about_to_start() -> None:
    async def test() -> None:
        async with broker() as server:
            listen = server.addresses
        connecting = asyncio.ensure_future(palio.connect(str(listen[0])).__aenter__())
        await asyncio.sleep(0)
        async with broker(listen=listen):
            client = await connecting
            await client.publish({"x": 1}, confirm=True)
            await client.close()

    run(test)


def test_a_client_goes_to_the_next_address_when_its_broker_stops() -> None:
    async def test() -> None:
        async with line(2) as (first, second):
            both = f"{url(first)},{url(second)}"
            async with palio.connect(both) as client, client.subscribe("x > 0", confirm="network") as events:
                assert client.address == url(first)
                await client.publish({"x": 1}, confirm=True)
                assert (await anext(events)).get("x") == 1
                await first.stop()
                await client.publish({"x": 2}, confirm=True)
                assert client.address == url(second)
                assert (await anext(events)).get("x") == 2
            async with palio.connect(both) as client:  # at first, too
                assert client.address == url(second)
        with pytest.raises(palio.InvalidArgument, match="is no address"):
            palio.connect(f"{both},")

    run(test)


def test_scripts_wait_for_what_they_ask() -> None:
    async def test() -> None:
        async with broker() as server:
            await asyncio.to_thread(script, url(server))

    def script(address: str) -> None:
        with palio.connect_blocking(address) as client, client.subscribe("x > 1") as events:
            client.publish({"x": 2}, confirm=True)
            assert next(events).get("x") == 2
            assert events.get(timeout=0) is None
            assert client.status()["subscriptions"] == 1

    run(test)
