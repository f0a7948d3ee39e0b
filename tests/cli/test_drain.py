"""`palio drain`: clients get what waits for them, go elsewhere, and the broker ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import palio
from tests.network.gateway.serving import serving
from tests.network.processes import Broker, Process, command, running
from tests.network.running import broker, run, until, url


def test_a_subscriber_gets_what_waits_and_goes_to_the_next_broker(tmp_path: Path) -> None:
    async def test(first: Broker, second: Broker) -> Process:
        async with (
            palio.connect(f"{first.url},{second.url}") as client,
            client.subscribe("x > 0", durable="desk") as events,
            palio.connect(first.url) as publisher,
        ):
            for number in range(1, 101):
                await publisher.publish({"x": number}, confirm=True)
            draining = Process("drain", "--connect", first.url, "--json")
            found = []
            while len(found) < 100:  # taken one by one: the broker waits for the acknowledgements
                event = await anext(events)
                found.append(event.get("x"))
                await event.ack()
                await asyncio.sleep(0)
            assert found == list(range(1, 101))
            async with asyncio.timeout(60):
                while client.address != second.url:
                    await asyncio.sleep(0.01)
        return draining

    with running(Broker("--http", "off", data=str(tmp_path / "first"))) as first:
        assert isinstance(first, Broker)
        with running(Broker("--http", "off")) as second:
            assert isinstance(second, Broker)
            draining = asyncio.run(test(first, second))
            assert first.end()[0] == 0
            code, out, err = draining.end()
            assert (code, json.loads(out)["drained"]) == (0, True), err


def test_where_nothing_listens_no_broker_is_said_to_have_ended() -> None:
    code, _, said = command("drain", "--connect", "palio://127.0.0.1:1")
    assert code == 2
    assert "nothing listens there" in said
    assert "ended" not in said


def test_new_clients_are_refused_and_the_broker_is_not_ready() -> None:
    async def test() -> None:
        ended = asyncio.Event()
        async with serving() as (server, http), palio.connect(url(server)) as busy, palio.connect(url(server)) as admin:
            server.on_drained = ended.set
            assert (await http.get("/ready")).status_code == 200
            async with busy.subscribe("x > 0", durable="desk") as events:
                await busy.publish({"x": 1}, confirm=True)
                event = await anext(events)  # not acknowledged: the broker waits
                draining = asyncio.ensure_future(admin.drain(60))
                await until(lambda: server.drain is not None)
                assert (await http.get("/ready")).status_code == 503
                assert (await http.post("/events", json={"x": 2})).status_code == 503
                with pytest.raises(palio.ConnectionFailed, match="draining, and takes no new clients"):
                    async with palio.connect(url(server), patience=0):
                        pass
                with pytest.raises(palio.Refused, match="drains already"):
                    await admin.drain(1)
                status = await admin.status()
                assert (status["draining"]["clients"], status["draining"]["events"]) == (1, 1)
                assert 0 < status["draining"]["seconds_left"] <= 60
                assert not draining.done()
                await event.ack()
                await draining
                await ended.wait()

    run(test)


def test_what_is_left_at_the_time_limit_is_said() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as slow,
            palio.connect(url(server)) as admin,
            slow.subscribe("x > 0", durable="desk"),
        ):
            await slow.publish({"x": 1}, confirm=True)
            with pytest.raises(palio.Refused, match="1 clients and 1 events for them were left"):
                await admin.drain(0)

    run(test)


def test_only_an_operator_may_drain(tmp_path: Path) -> None:
    code, token, _ = command("token", "add", "desk", "--data", str(tmp_path))
    assert code == 0
    with running(Broker("--http", "off", data=str(tmp_path))) as process:
        assert isinstance(process, Broker)
        code, _, err = command("drain", "--connect", process.url, "--token", token.strip())
        assert (code, "desk may not drain the broker: it needs the role admin" in err) == (2, True)


def test_an_idle_broker_is_drained_at_once_and_ends_with_0() -> None:
    with running(Broker("--http", "127.0.0.1:0")) as process:
        assert isinstance(process, Broker)
        assert command("drain", "--connect", process.url)[:2] == (0, "drained; the broker has ended\n")
        assert process.end()[0] == 0
