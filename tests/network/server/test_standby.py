"""Standbys of durable subscriptions on real brokers: promotion, referral of consumers, and a home that returns."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

import palio
from palio.errors import InvalidArgument, Refused
from palio.network.client.broker import Broker
from tests.network.processes import PATIENCE, command, served
from tests.network.processes import Broker as Served
from tests.network.running import line, run, until, url


async def _publish(broker: Broker, numbers: range) -> None:
    for number in numbers:
        await broker.publish({"n": number}, confirm=True)


async def _take(broker: Broker, count: int, standby: str | None = None) -> list[int]:
    taken: list[int] = []
    async with broker.subscribe("n >= 0", durable="desk-7", standby=standby) as events:
        async for event in events:
            taken.append(event.get("n"))
            await event.ack()
            if len(taken) == count:
                break
    return taken


def test_consumers_go_on_at_the_standby_that_is_promoted() -> None:
    async def check() -> None:
        async with (
            line(3) as [home, between, standby],
            palio.connect(url(standby)) as there,
            palio.connect(f"{url(home)},{url(standby)}") as at_home,
        ):
            async with at_home.subscribe("n >= 0", durable="desk-7", standby=url(standby)) as events:
                found = await there.durable("desk-7")
                assert found["broker"] == home.node
                assert found["standby"]["broker"] == standby.node
                async with palio.connect(url(between)) as publisher:
                    await _publish(publisher, range(3))
                    await there.promote_durable("desk-7")
                    await _publish(publisher, range(3, 5))
                taken = set()
                while len(taken) < 5:
                    event = await anext(events)
                    taken.add(event.get("n"))
                    await event.ack()
                assert taken == set(range(5))
                await until(lambda: events.address == url(standby))
            await until(lambda: not list(home.host.durable_keys()))
            assert (await there.durable("desk-7"))["standby"]["state"] == "none"

    run(check)


def test_what_is_acknowledged_at_the_home_leaves_the_queue_of_the_standby() -> None:
    async def check() -> None:
        async with (
            line(2) as [home, standby],
            palio.connect(url(home)) as broker,
            broker.subscribe("n >= 0", durable="desk-7", standby=url(standby)) as events,
        ):
            await _publish(broker, range(20))
            [(client, name)] = home.host.durable_keys()
            assert standby.store.queue(client, name).size().events == 20
            for _ in range(20):
                await (await anext(events)).ack()
            await until(lambda: standby.store.queue(client, name).size().events == 0)

    run(check)


def test_only_a_durable_subscription_has_a_standby_and_only_a_standby_is_promoted() -> None:
    async def check() -> None:
        async with line(1) as [server], palio.connect(url(server)) as broker:
            with pytest.raises(InvalidArgument, match="second home of a durable subscription"):
                broker.subscribe("TRUE", standby=url(server))
            with pytest.raises(Refused, match="a standby is another broker"):
                async with broker.subscribe("TRUE", durable="desk-7", standby=url(server)):
                    pass
            with pytest.raises(Refused, match="nothing to promote"):
                await broker.promote_durable("desk-7")

    run(check)


def test_a_home_that_is_killed_with_its_disk_loses_nothing_and_steps_down_when_it_returns(tmp_path: Path) -> None:
    disk = tmp_path / "home"
    with served(data=str(tmp_path / "standby")) as standby:
        home = Served("--connect", standby.url, data=str(disk))
        try:

            async def before() -> list[int]:
                async with palio.connect(home.url) as broker:
                    async with broker.subscribe("n >= 0", durable="desk-7", standby=standby.url):
                        pass
                    await _publish(broker, range(30))
                    return await _take(broker, 10)

            taken = asyncio.run(before())
            assert taken == list(range(10))
            home.send(signal.SIGKILL)
        finally:
            home.kill()
        disk.rename(tmp_path / "lost")
        code, out, _ = command("durable", "promote", "desk-7", "--connect", standby.url, "--json")
        assert code == 0, out

        async def after() -> set[int]:
            async with palio.connect(standby.url) as broker:
                await _publish(broker, range(30, 35))
                left: set[int] = set()
                async with broker.subscribe("n >= 0", durable="desk-7") as events:
                    while not left >= set(range(10, 35)):
                        event = await asyncio.wait_for(anext(events), PATIENCE)
                        left.add(event.get("n"))
                        await event.ack()
                return left

        assert asyncio.run(after()) >= set(range(10, 35))
        with served("--connect", standby.url, data=str(tmp_path / "lost")) as returned:

            async def again() -> None:
                async with palio.connect(returned.url) as broker:
                    while (await broker.durables())["durables"]:
                        await asyncio.sleep(0.05)
                    found = await broker.durable("desk-7")
                    assert found["address"] == standby.url
                    assert found["standby"]["epoch"] == 2

            asyncio.run(asyncio.wait_for(again(), PATIENCE))
