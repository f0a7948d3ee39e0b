"""Durable claims: a subscription has one home broker, wherever it is requested."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import palio
from palio.filters.filter import Filter
from palio.network.client.subscription import Subscription
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.server.process import Server
from palio.routing.client_messages import Confirm
from tests.network.processes import Broker, command, served
from tests.network.running import broker, line, run, until, url
from tests.network.server.test_durable_subscriptions import take


@asynccontextmanager
async def subscribed(server: Server, token: str = "", confirm: Confirm = "edge") -> AsyncIterator[Subscription]:
    """The durable subscription of these tests, asked for at a broker."""
    connecting = palio.connect(url(server), token)
    async with connecting as client, client.subscribe("x > 0", durable="desk", confirm=confirm) as events:
        yield events


def queues(server: Server) -> list[str]:
    """The durable subscriptions that live at a broker."""
    return server.host.node.broker.tables.subscriptions.clients()


def test_events_follow_a_subscriber_to_another_broker() -> None:
    async def test() -> None:
        async with line(3) as (first, middle, last), palio.connect(url(middle)) as publisher:
            async with subscribed(first, confirm="network") as events:
                await publisher.publish({"x": 1}, confirm=True)
                assert await take(events, 1, ack=False) == [1]
            await publisher.publish({"x": 2}, confirm=True)
            for server in (last, middle, last):
                async with subscribed(server) as events:
                    assert events.address == url(first)
                    assert sorted(map(str, await take(events, 2, ack=False))) == ["1", "2"]
            async with subscribed(last) as events:
                await take(events, 2)
                await publisher.publish({"x": 3}, confirm=True)
                assert await take(events, 1) == [3]
                assert (queues(middle), queues(last)) == ([], [])
                await events.unsubscribe()
                await until(lambda: not queues(first))
            async with subscribed(last) as events:
                assert events.address == url(last)  # once it is forgotten it may live anywhere

    run(test)


def test_a_broker_that_has_just_started_waits_for_those_it_dials() -> None:
    async def test() -> None:
        async with broker() as first:
            async with subscribed(first):
                pass
            async with broker(connect=first.addresses) as second, subscribed(second) as events:
                assert events.address == url(first)
            async with (
                broker(connect=first.addresses) as third,
                palio.connect(url(third)) as client,
                client.subscribe("x > 0", confirm="network"),
            ):
                assert any(first.host.node.broker.tables.remote_subscriptions.values())  # and not before

    run(test)


def test_a_name_is_ended_from_any_broker() -> None:
    async def test() -> None:
        async with line(3) as (first, _, last), palio.connect(url(last)) as client:
            async with subscribed(first):
                pass
            await client.unsubscribe("desk")
            await until(lambda: not queues(first))
            with pytest.raises(palio.PalioError, match="desk"):
                await client.unsubscribe("desk")

    run(test)


def test_a_name_that_is_asked_for_everywhere_at_once_lives_at_one_broker() -> None:
    async def test() -> None:
        async with line(3) as servers:

            async def subscribe(server: Server) -> str:
                async with subscribed(server) as events:
                    return events.address

            found = await asyncio.gather(*map(subscribe, servers), return_exceptions=True)
            # One of them may find another one reading.
            homes = {each for each in found if isinstance(each, str)}
            assert len(homes) == 1
            assert sorted(len(queues(server)) for server in servers) == [0, 0, 1]

    run(test)


def test_a_home_that_is_away_is_named_until_it_is_given_up() -> None:
    async def test() -> None:
        async with line(2, flow={"patience": 0.3}) as (first, second):
            async with (
                palio.connect(url(first)) as client,
                client.subscribe("x > 0", durable="desk", confirm="network"),
            ):
                pass
            async with palio.connect(url(second)) as client:
                for broker, reason in ((first.node, "is within reach"), (7, "no event waits for broker 7")):
                    with pytest.raises(palio.Refused, match=reason):
                        await client.forget(broker)
            await first.stop()
            await until(lambda: second.host.node.broker.delivery.missing == [first.node])
            async with palio.connect(url(second)) as client:
                with pytest.raises(palio.HomeAway, match=f"may live at brokers that are away: {first.node}"):
                    await client.subscribe("x > 0", durable="desk").__aenter__()
                await client.forget(first.node)
                async with client.subscribe("x > 0", durable="desk") as events:
                    assert events.address == url(second)

    run(test)


def test_a_home_that_nobody_can_reach_is_named() -> None:
    async def test() -> None:
        async with broker(public="palio://127.0.0.1:1") as home, broker(connect=home.addresses) as other:
            async with subscribed(home):
                pass
            async with palio.connect(url(other)) as client:
                reason = f"lives at broker {home.node} at palio://127.0.0.1:1; no connection: nothing listens there"
                with pytest.raises(palio.LivesElsewhere, match=reason) as raised:
                    await client.subscribe("x > 0", durable="desk").__aenter__()
                assert raised.value.homes == ((home.node, "palio://127.0.0.1:1"),)
        async with (
            broker(listen="palio://0.0.0.0:0", insecure=True) as home,
            broker(connect=f"palio://127.0.0.1:{home.addresses[0].port}") as other,
            palio.connect(f"palio://127.0.0.1:{home.addresses[0].port}") as client,
            palio.connect(url(other)) as stranger,
        ):
            async with client.subscribe("x > 0", durable="desk"):
                pass
            with pytest.raises(palio.LivesElsewhere, match="an address that it does not say"):
                await stranger.subscribe("x > 0", durable="desk").__aenter__()

    run(test)


def test_a_broker_that_claims_to_be_the_home_is_not_sent_the_token(tmp_path: Path) -> None:
    """A spoke that names an address of its own as the home of everything gets no connection there."""
    hears = Filter.everything
    tokens = Tokens(tmp_path / "hub")
    desk = tokens.add(Principal("desk", may_subscribe=hears))
    link = tokens.add(Principal("spoke", "broker", may_subscribe=hears, may_publish=hears))
    received: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(4_096))
        writer.close()

    async def test() -> None:
        thief = await asyncio.start_server(receive, "127.0.0.1", 0)
        stolen_to = f"palio://127.0.0.1:{thief.sockets[0].getsockname()[1]}"
        spokes = Tokens(tmp_path / "spoke")
        own = spokes.add(Principal("desk", may_subscribe=hears))
        async with (
            broker(data=str(tmp_path / "hub")) as hub,
            broker(data=str(tmp_path / "spoke"), connect=hub.addresses, token=link, public=stolen_to) as spoke,
        ):
            async with subscribed(spoke, own):
                pass
            async with palio.connect(url(hub), desk) as client:
                with pytest.raises(palio.LivesElsewhere, match="sends no token unless"):
                    await client.subscribe("x > 0", durable="desk").__aenter__()
        thief.close()
        assert received == []

    run(test)


def test_a_name_is_of_a_principal_and_says_nothing_to_others(tmp_path: Path) -> None:
    tokens = [Tokens(tmp_path / each) for each in ("first", "second")]
    hears = Filter.everything
    desk = [each.add(Principal("desk", may_subscribe=hears)) for each in tokens]
    other = tokens[1].add(Principal("other", may_subscribe=hears))
    link = tokens[0].add(Principal("second", "broker", may_subscribe=hears, may_publish=hears))

    async def test() -> None:
        async with (
            broker(data=str(tmp_path / "first")) as first,
            broker(data=str(tmp_path / "second"), connect=first.addresses, token=link) as second,
        ):
            async with subscribed(first, desk[0]):
                pass
            async with subscribed(second, other) as events:
                assert events.address == url(second)
            # The home itself looks at the token, which a client sends nowhere but where its user said.
            for known, expected in [
                (url(second), palio.LivesElsewhere),
                (f"{url(second)},{url(first)}", palio.AuthenticationFailed),
            ]:
                async with palio.connect(known, desk[1]) as client:
                    with pytest.raises(expected):
                        await client.subscribe("x > 0", durable="desk").__aenter__()
            assert queues(second) == ["durable other/desk"]

    run(test)


def test_a_client_with_tls_is_not_led_away_from_it() -> None:
    async def test() -> None:
        async with broker() as server:
            # The referral is followed by hand; no broker with TLS listens there.
            client = palio.connect("palio+tls://localhost:1")._broker
            with pytest.raises(palio.LivesElsewhere, match="without TLS"):
                await client.at_home("desk", ((server.node, url(server)),))

    run(test)


def test_a_command_follows_to_a_home_that_was_killed_meanwhile(tmp_path: Path) -> None:
    with served() as hub, served("--connect", hub.url) as edge:
        home = Broker("--connect", hub.url, data=str(tmp_path))
        try:
            asyncio.run(_subscribe(home.url))
            home.kill()
            asyncio.run(_publish(edge.url))
            home = Broker("--connect", hub.url, data=str(tmp_path), listen=home.url)
            wants = ("subscribe", "x > 0", "--durable", "desk", "--count", "1", "--connect", edge.url)
            assert command(*wants) == (0, '{"x": 1}\n', "")
        finally:
            home.kill()


async def _publish(address: str) -> None:
    async with palio.connect(address) as client:
        await client.publish({"x": 1}, confirm=True)


async def _subscribe(address: str) -> None:
    async with palio.connect(address) as client, client.subscribe("x > 0", durable="desk", confirm="network"):
        pass


def test_a_subscriber_at_another_broker_outlives_its_home(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker() as edge, palio.connect(url(edge)) as client:
            async with broker(connect=edge.addresses, data=str(tmp_path)) as home:
                await _subscribe(url(home))
                events = await client.subscribe("x > 0", durable="desk").__aenter__()
                await client.publish({"x": 1}, confirm=True)
                assert await take(events, 1) == [1]
                await until(lambda: home.status()["queued"] == 0)
            await client.publish({"x": 2}, confirm=True)
            async with broker(connect=edge.addresses, data=str(tmp_path), listen=url(home)):
                assert await take(events, 1) == [2]

    run(test)


@pytest.mark.parametrize("how", [{"durable": "desk"}, {"group": "desk"}], ids=["exclusive", "group"])
def test_of_two_homes_that_met_late_one_is_emptied_and_forgets(how: dict[str, Any]) -> None:
    async def test() -> None:
        async with broker() as one, broker() as other, broker() as bridge:
            last, first = sorted((one, other), key=lambda each: each.node)
            for x, server in enumerate((last, first), 1):
                async with palio.connect(url(server)) as client, client.subscribe("x > 0", **how):
                    await client.publish({"x": x}, confirm=True)
            client = await palio.connect(url(last)).__aenter__()
            events = await client.subscribe("x > 0", **how).__aenter__()
            assert await take(events, 1, ack=False) == [1]
            await bridge.neighbours.dial(one.addresses[0])
            await bridge.neighbours.dial(other.addresses[0])
            assert await take(events, 1) == [2]  # it was led to the other home, and
            assert await take(events, 1) == [1]  # back, when that was empty
            assert (len(queues(first)), len(queues(last)), events.address) == (0, 1, url(last))
            async with palio.connect(url(first)) as publisher:
                await publisher.publish({"x": 3}, confirm=True)
            assert await take(events, 1) == [3]
            await client.close()

    run(test)
