"""Cancelled calls of a client leave no subscription, connection or event behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import palio
from palio.network.security.quotas import BrokerLimits
from palio.network.server.process import Server
from palio.network.server.settings import Flow
from tests.network.running import broker, line, run, until, url


async def given_up(doing: Any, turns: int = 1) -> None:
    """Begin something, and cancel it after some turns of the loop."""
    task = asyncio.ensure_future(doing)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("confirm", ["edge", "network"])
def test_a_subscription_that_nobody_waited_for_does_not_stand(confirm: Any) -> None:
    async def test() -> None:
        async with line(2) as (server, _), palio.connect(url(server)) as client:
            for turns in (1, 2, 1):
                await given_up(client.subscribe("x > 0", confirm=confirm).__aenter__(), turns)
            await given_up(client.subscribe_many({"a": "x > 0", "b": "x > 1"}, confirm=confirm).__aenter__())
            async with client.subscribe("x > 0", name="a") as events:  # and its name is free
                await client.publish({"x": 1}, confirm=True)
                assert (await anext(events)).get("x") == 1
                assert (await client.status())["subscriptions"] == 1
            await client.publish({"x": 2})
            await until(lambda: server.status()["subscriptions"] == 0)

    run(test)


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_durable_subscription_is_entered_again_after_somebody_gave_up(turns: int) -> None:
    async def test() -> None:
        async with line(2) as servers, palio.connect(url(servers[1])) as client:
            await given_up(client.subscribe("x > 0", durable="desk").__aenter__(), turns)
            async with client.subscribe("x > 0", durable="desk") as events:
                await client.publish({"x": 1}, confirm=True)
                event = await anext(events)
                assert event.get("x") == 1
                await event.ack()
            await client.publish({"x": 2})  # nothing was refused

    run(test)


def test_a_connection_that_nobody_waited_for_is_not_kept() -> None:
    async def test() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1024):
                arrived.set()
            writer.close()
            left.set()

        arrived, left = asyncio.Event(), asyncio.Event()
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            connecting = asyncio.ensure_future(palio.connect(f"palio://127.0.0.1:{port}").__aenter__())
            await arrived.wait()
            connecting.cancel()
            async with asyncio.timeout(5):  # silence for three heartbeats would end it, too
                await left.wait()

    run(test)


def test_events_that_nobody_waits_for_any_more_keep_their_places_in_the_window(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(flow=Flow(window=64), data=tmp_path) as server, palio.connect(url(server)) as client:
            for _ in range(5):
                many = asyncio.ensure_future(client.publish_all(({"x": x} for x in range(10**6)), confirm=True))
                await asyncio.sleep(0.01)
                await given_up(many, 0)
                await asyncio.gather(*(client.publish({"x": -x}, confirm=True) for x in range(100)))
            assert server.refusals.counts == {}

    run(test)


def test_a_place_is_free_where_somebody_gives_up_in_the_turn_in_which_the_answer_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with broker(flow=Flow(window=1)) as server, palio.connect(url(server)) as client:
            with monkeypatch.context() as patch:
                publishing = asyncio.ensure_future(client.publish({"x": 1}, confirm=True))
                # The cancellation must fall into the very turn of the loop in which the answer arrives.
                answer = client.connection._answer

                def answer_and_cancel(*said: Any) -> None:
                    answer(*said)
                    publishing.cancel()

                patch.setattr(client.connection, "_answer", answer_and_cancel)
                with pytest.raises(asyncio.CancelledError):
                    await publishing
            await client.publish({"x": 2}, confirm=True)

    run(test)


async def publish(server: Server, events: int, failing: bool = False) -> None:
    async with palio.connect(url(server)) as client:
        for x in range(events):
            await client.publish({"x": x})
        if failing:
            raise ZeroDivisionError


def test_what_was_refused_is_raised_at_the_end_where_nobody_heard_of_it_before() -> None:
    async def test() -> None:
        async with broker(limits=BrokerLimits(events_per_second=1, burst_events=50)) as server:
            with pytest.raises(palio.LimitReached, match="events_per_second"):
                await publish(server, 200)
            with pytest.raises(ZeroDivisionError):  # which is more urgent
                await publish(server, 1, failing=True)
        async with broker(advertisements=True) as server:
            with pytest.raises(palio.NotAdvertised):
                await publish(server, 1)
            async with palio.connect(url(server)) as client:
                await client.advertise("x > 0")
                await client.publish({"x": 1})

    run(test)


def test_scripts_hear_of_it_too() -> None:
    async def test() -> None:
        async with broker(advertisements=True) as server:

            def script() -> None:
                with palio.connect_blocking(url(server)) as client:
                    client.publish({"x": 1})

            with pytest.raises(palio.NotAdvertised):
                await asyncio.to_thread(script)

    run(test)


@pytest.mark.parametrize(
    "said", [{"durable": ""}, {"name": ""}, {"durable": "\ud800"}, {"name": "x" * 201}, {"queue": 10**30}, {"name": 5}]
)
def test_what_no_subscription_can_be_is_said_at_once(said: dict[str, Any]) -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(palio.InvalidArgument):
                client.subscribe("x > 0", **said)
            with pytest.raises(palio.InvalidArgument):
                await client.unsubscribe("\ud800")
            assert (await client.status())["durable"] == []

    run(test)


@pytest.mark.parametrize(
    "said", [{"token": "\ud800"}, {"app": "\ud800"}, {"publisher": "\ud800"}, {"token": "x" * 4097}, {"token": b"x"}]
)
def test_what_no_connection_can_say_is_said_at_once(said: dict[str, Any]) -> None:
    with pytest.raises(palio.InvalidArgument) as caught:
        palio.connect("palio://127.0.0.1:7420", **said)
    assert "x" * 10 not in str(caught.value)


def test_names_that_are_given_are_never_those_that_are_made() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", durable="s1") as first,
            client.subscribe("x > 0") as second,
            client.subscribe("x > 0", name="g4") as third,
            client.subscribe_many({"s2": "x > 0", "g2": "x > 0"}) as many,
        ):
            await client.publish({"x": 1}, confirm=True)
            for events in (first, second, third, many):
                assert (await anext(events)).get("x") == 1

    run(test)
