"""A broker with a full disk: publishers get an error, and everything else goes on."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

import palio
from palio import StoreFull
from palio.cli.main import palio as main
from palio.network.client.broker import Broker
from tests.network.gateway.serving import serving
from tests.network.running import broker, run, until, url


async def publish_until_refused(client: Broker) -> int:
    """How many events were confirmed before there was no room."""
    for confirmed in range(100):
        try:
            await client.publish({"n": confirmed, "note": "x" * 50_000}, confirm=True)
        except StoreFull as full:
            assert str(full) == "the broker: there is no room left for the store"
            return confirmed
    raise AssertionError("there is always room")


def test_a_full_disk_is_an_error_to_publishers_and_nothing_else_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=tmp_path, keeping={"disk_bytes": 600_000}) as server,
            palio.connect(url(server)) as client,
            client.subscribe("n >= 0") as events,
        ):
            async with client.subscribe("n < 500", durable="slow"):  # without which the log would give way
                pass
            confirmed = await publish_until_refused(client)
            assert 3 < confirmed < 30
            await client.publish({"n": 1_000})  # which nobody asked to be kept
            received = [(await anext(events)).get("n") for _ in range(confirmed + 1)]
            assert received == [*range(confirmed), 1_000]
            assert server.store.log.bounds() == (1, confirmed + 1)
            await client.publish({"n": 2_000}, confirm=True)  # which is small, and finds room

    run(test)


def test_a_full_disk_is_named_over_http(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(data=tmp_path, keeping={"disk_bytes": 600_000}) as (_, client):
            await client.post("/durable/slow", json={"where": "TRUE"})  # without which the log would give way
            assert (await client.get("/ready")).status_code == 200
            for _ in range(30):
                answer = await client.post("/events", json={"note": "x" * 50_000})
                if answer.status_code != 200:
                    break
            assert (answer.status_code, answer.json()["title"]) == (507, "store full")
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()) == (503, {"ready": False, "reason": "the disk takes no events"})
            assert str(tmp_path) not in answer.text

    run(test)


def test_whoever_subscribes_durably_is_told_that_the_disk_is_full(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=tmp_path, keeping={"disk_bytes": 600_000}) as server,
            palio.connect(url(server)) as client,
        ):
            condition = f"note = '{'x' * 15_000}'"

            async def subscribe_for_ever() -> None:
                for number in count():
                    async with client.subscribe(condition, durable=f"d{number}"):
                        pass

            with pytest.raises(StoreFull):
                await subscribe_for_ever()
            async with client.subscribe("n >= 0") as events:  # which needs no disk
                await client.publish({"n": 1})
                assert (await anext(events)).get("n") == 1

    run(test)


def test_a_broker_says_whose_full_disk_the_events_wait_for_that_it_let_in(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=tmp_path / "entry") as entry,
            broker(data=tmp_path / "between", connect=entry.addresses) as between,
            broker(data=tmp_path / "home", connect=between.addresses, keeping={"disk_bytes": 600_000}) as home,
            palio.connect(url(between)) as neighbour,
            palio.connect(url(home)) as desk,
            palio.connect(url(entry)) as publisher,
            neighbour.subscribe("n >= 0", durable="near", confirm="network"),
            desk.subscribe("n >= 0", durable="far", confirm="network") as events,
        ):
            for number in range(20):
                await publisher.publish({"n": number, "note": "x" * 50_000}, confirm=True)
            await until(lambda: bool(entry.status()["not_writing"]))
            status = await publisher.status()
            assert (status["away"], status["not_writing"]) == ([], [home.node])
            assert 0 < status["unfinished"] < 20
            shown = await asyncio.to_thread(CliRunner().invoke, main, ["status", "--connect", url(entry)])
            said = " ".join(shown.stdout.split())
            assert f"under way; waiting for broker {home.node}, whose disk takes no more" in said
            received = set()
            while len(received) < 20:
                event = await anext(events)
                received.add(event.get("n"))
                await event.ack()
            await until(lambda: entry.status()["unfinished"] == 0)
            assert entry.status()["not_writing"] == []

    run(test)
