"""Confirmations: they wait for nothing but what the event is for, and for a bounded time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import palio
from palio import ConfirmTimeout, DurableSettings, Filter, NotPermitted
from palio.network.client.broker import Broker
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.server.delivery_queues import DeliveryQueue
from tests.network.running import broker, line, run, until, up, url

SPILL = {"spill": 50}


async def publish_each(publisher: Broker, events: list[dict[str, int]]) -> None:
    for each in events:
        await publisher.publish(each, confirm=True)


def test_a_leaf_that_is_away_and_wants_nothing_stops_no_publisher() -> None:
    async def test() -> None:
        async with broker(options=SPILL) as hub, palio.connect(url(hub)) as publisher:
            async with (
                broker(connect=hub.addresses, options=SPILL) as leaf,
                palio.connect(url(leaf)) as client,
                client.subscribe("x < 0", durable="nothing", confirm="network"),
            ):
                pass
            await until(lambda: hub.status()["away"] == [leaf.node])
            await publisher.publish_all(({"x": x} for x in range(200)), confirm=True)
            await until(lambda: hub.status()["unfinished"] == 0)

    run(test)


def test_a_publisher_hears_whom_its_event_waited_for_and_others_go_on() -> None:
    async def test() -> None:
        flow = {"confirm_seconds": 0.2}
        async with broker(options=SPILL, flow=flow) as hub, palio.connect(url(hub)) as publisher:
            async with (
                broker(connect=hub.addresses, options=SPILL) as leaf,
                palio.connect(url(leaf)) as client,
                client.subscribe("kind = 'a'", durable="a", confirm="network"),
            ):
                pass
            await until(lambda: hub.status()["away"] == [leaf.node])
            for x in range(50):
                await publisher.publish({"kind": "a", "x": x}, confirm=True)
            await until(lambda: hub.status()["spilled"] == 50)
            late = asyncio.ensure_future(publisher.publish({"kind": "a"}, confirm=True))
            await until(lambda: hub.host.backpressure.is_blocked)
            await publisher.publish({"kind": "b"}, confirm=True)
            said = f"within 0.2 seconds: busy: 50 confirmed events wait for broker {leaf.node}, which is away"
            with pytest.raises(ConfirmTimeout, match=said):
                await late
            assert not hub.host.backpressure.is_blocked

    run(test)


def test_a_full_durable_queue_stops_only_the_events_that_it_wants() -> None:
    async def test() -> None:
        async with (
            line(2, options=SPILL, flow={"confirm_seconds": 0.2}) as (entry, home),
            palio.connect(url(entry)) as publisher,
            palio.connect(url(home)) as desk,
        ):
            settings = DurableSettings(max_events=5)
            async with desk.subscribe("a > 0", durable="full", settings=settings, confirm="network"):
                pass
            with pytest.raises(ConfirmTimeout, match=f"subscription of broker {home.node}, whose queue is full"):
                await publish_each(publisher, [{"a": x} for x in range(1, 300)])
            async with desk.subscribe("b > 0", durable="free", confirm="network") as events:
                for x in range(1, 300):
                    await publisher.publish({"b": x}, confirm=True)
                    event = await anext(events)
                    assert event.get("b") == x
                    await event.ack()

    run(test)


def test_a_subscription_is_not_confirmed_by_the_network_while_a_neighbour_is_down() -> None:
    async def test() -> None:
        async with line(2, flow={"confirm_seconds": 0.5}) as (first, last), palio.connect(url(last)) as client:
            await first.stop()
            await until(lambda: not up(last))
            with pytest.raises(ConfirmTimeout, match="a neighbour that this broker dials is away"):
                await client.subscribe("x > 0", confirm="network").__aenter__()
            async with client.subscribe("x > 0"):  # which asks for less
                pass

    run(test)


def test_a_subscription_is_not_confirmed_by_the_network_while_a_home_is_away() -> None:
    async def test() -> None:
        async with broker(flow={"confirm_seconds": 0.3}) as hub, palio.connect(url(hub)) as client:
            async with (
                broker(connect=hub.addresses) as leaf,
                palio.connect(url(leaf)) as desk,
                desk.subscribe("x < 0", durable="desk", confirm="network"),
            ):
                pass
            await until(lambda: not up(hub))
            with pytest.raises(ConfirmTimeout, match=f"brokers are away: {leaf.node}"):
                await client.subscribe("x > 0", confirm="network").__aenter__()

    run(test)


def test_a_subscriber_may_hold_publishers_back_for_a_while_and_not_for_ever() -> None:
    async def test() -> None:
        async with (
            broker(flow={"block_seconds": 0.2}) as server,
            palio.connect(url(server)) as publisher,
            palio.connect(url(server)) as stuck,
            stuck.subscribe("x >= 0", queue=5, overflow="block"),
        ):
            await publisher.publish_all(({"x": x} for x in range(3_000)), confirm=True)
            assert server.host.drops["blocked for too long"] == 1
            assert not server.host.backpressure.is_blocked

    run(test)


def test_to_hold_publishers_back_needs_a_grant(tmp_path: Path) -> None:
    async def test() -> None:
        tokens = Tokens(tmp_path)
        everything = Filter.everything
        plain = tokens.add(Principal("plain", may_subscribe=everything))
        blocking = tokens.add(Principal("blocking", may_subscribe=everything, may_block=True))
        async with broker(data=tmp_path) as server:
            async with palio.connect(url(server), token=plain) as client:
                with pytest.raises(NotPermitted, match=r"plain may not hold publishers back: .* grant may_block"):
                    await client.subscribe("x > 0", overflow="block").__aenter__()
            async with (
                palio.connect(url(server), token=blocking) as client,
                client.subscribe("x > 0", overflow="block"),
            ):
                pass

    run(test)


def test_the_queue_of_a_subscriber_that_never_reads_is_bounded_in_bytes() -> None:
    async def test() -> None:
        async with (
            broker(flow={"queue_bytes": 3_000_000}) as server,
            palio.connect(url(server)) as publisher,
            palio.connect(url(server)) as stuck,
            stuck.subscribe("x >= 0"),
        ):
            [session] = [each for each in server.sessions if each.queues]
            [queue] = session.queues.values()
            assert isinstance(queue, DeliveryQueue)
            for x in range(2_000):
                await publisher.publish({"x": x, "text": "y" * 50_000}, confirm=x % 100 == 0)
                assert queue.bytes <= 3_000_000
            assert queue.dropped > 0
            assert queue.bytes == sum(len(each.event.body) for each in queue.waiting)

    run(test)


def test_the_policy_of_a_broker_for_durable_queues_holds_at_other_brokers_while_it_is_away(tmp_path: Path) -> None:
    """Those of its subscriptions that ask for no policy of their own: what waits for them elsewhere is dropped, too."""

    async def test() -> None:
        refusing, dropping = {"data": tmp_path}, {"data": tmp_path, "keeping": {"queue_overflow": "drop_oldest"}}
        async with broker(options=SPILL) as hub, palio.connect(url(hub)) as publisher:
            async with (
                broker(connect=hub.addresses, options=SPILL, **refusing) as leaf,
                palio.connect(url(leaf)) as client,
                client.subscribe("a > 0", durable="plain", confirm="network"),
            ):
                await leaf.reload(leaf.settings.with_changes(dropping))
                # Announcements are in the order of this: the hub has heard of the policy when it knows this one.
                async with client.subscribe("b > 0", durable="later", confirm="network"):
                    pass
            for _ in range(2):
                await until(lambda: hub.status()["away"] == [leaf.node])
                await publisher.publish_all(({"a": 1, "x": x} for x in range(200)), confirm=True)
                await until(lambda: hub.status()["spilled"] == 50)
                # A broker that starts with the policy says so, too.
                async with broker(connect=hub.addresses, options=SPILL, **dropping) as leaf:
                    await until(lambda: hub.status()["spilled"] == 0)

    run(test)


def test_to_refuse_events_before_the_bounds_of_the_broker_needs_a_grant(tmp_path: Path) -> None:
    """A small queue of policy `refuse` holds publishers back, as `block` does."""

    async def test() -> None:
        tokens = Tokens(tmp_path)
        everything = Filter.everything
        plain = tokens.add(Principal("plain", may_subscribe=everything))
        blocking = tokens.add(Principal("blocking", may_subscribe=everything, may_block=True))
        keeping = {"queue_events": 100, "queue_bytes": 100_000}
        async with broker(data=tmp_path, keeping=keeping) as server:
            async with palio.connect(url(server), token=plain) as client:
                for small in (DurableSettings(max_events=99), DurableSettings(max_bytes=10, on_full="refuse")):
                    with pytest.raises(NotPermitted, match=r"plain may not hold publishers back: .* grant may_block"):
                        await client.subscribe("x > 0", durable="d", settings=small).__aenter__()
                for harmless in (
                    DurableSettings(max_events=100, max_bytes=100_000, on_full="refuse"),
                    DurableSettings(max_events=1, on_full="drop_oldest"),
                    DurableSettings(max_events=1, on_full="dead_letter"),
                    DurableSettings(expires_after=60),
                ):
                    async with client.subscribe("x > 0", durable="d", settings=harmless):
                        pass
                with pytest.raises(NotPermitted, match="grant may_block"):
                    await client.limit_durable("d", DurableSettings(max_events=5, on_full="refuse"))
            await server.reload(server.settings.with_changes({"keeping": {"queue_overflow": "drop_newest"}}))
            async with palio.connect(url(server), token=plain) as client:
                async with client.subscribe("x > 0", durable="e", settings=DurableSettings(max_events=5)):
                    pass
                refuse = DurableSettings(on_full="refuse")
                with pytest.raises(NotPermitted, match="grant may_block"):
                    await client.subscribe("x > 0", durable="f", settings=refuse).__aenter__()
            async with (
                palio.connect(url(server), token=blocking) as client,
                client.subscribe("x > 0", durable="d", settings=DurableSettings(max_events=1, on_full="refuse")),
            ):
                pass

    run(test)
