"""Stopped processes: peers that stop answering with all connections open."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import palio
from tests.network.processes import Broker, Process
from tests.network.running import broker, run, until, up, url
from tests.network.server.test_durable_subscriptions import take

HEARTBEAT = 0.3


def test_a_broker_that_is_stopped_is_given_up_and_found_again(tmp_path: Path) -> None:
    config = tmp_path / "edge.toml"
    config.write_text(f"heartbeat = {HEARTBEAT}\n")

    async def test() -> None:
        async with broker(heartbeat=HEARTBEAT) as hub, palio.connect(url(hub)) as publisher:
            options = ("--http", "off", "--config", str(config), "--connect", url(hub))
            edge = await asyncio.to_thread(Broker, *options, data=str(tmp_path / "edge"))
            try:
                connecting = palio.connect(edge.url)
                async with connecting as client, client.subscribe("x > 0", durable="desk", confirm="network"):
                    pass
                await until(lambda: not hub.host.node.broker.delivery.missing and len(up(hub)) == 1)
                edge.send(signal.SIGSTOP)
                await until(lambda: not up(hub))
                await publisher.publish({"x": 1}, confirm=True)  # nobody waits for who is stopped
                assert len(hub.host.node.broker.delivery.missing) == 1
                edge.send(signal.SIGCONT)
                await until(lambda: hub.host.node.broker.delivery.unfinished == 0)
                async with palio.connect(edge.url) as client, client.subscribe("x > 0", durable="desk") as events:
                    assert await take(events, 1) == [1]
            finally:
                edge.send(signal.SIGCONT)
                edge.kill()

    run(test)


def test_a_subscriber_that_is_stopped_holds_nobody_up() -> None:
    async def test() -> None:
        async with broker(heartbeat=HEARTBEAT) as server, palio.connect(url(server)) as publisher:
            wants = ("subscribe", "x > 0", "--durable", "desk", "--connect", url(server))
            reader = await asyncio.to_thread(Process, *wants)
            try:
                await until(lambda: any(session.queues for session in server.sessions))
                reader.send(signal.SIGSTOP)
                await publisher.publish_all(({"x": x} for x in range(1, 301)), confirm=True)
                await until(lambda: not any(session.queues for session in server.sessions))
                async with palio.connect(url(server)) as client, client.subscribe("x > 0", durable="desk") as events:
                    assert await take(events, 300) == list(range(1, 301))
            finally:
                reader.send(signal.SIGCONT)
                reader.kill()

    run(test)
