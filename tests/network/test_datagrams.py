"""Are brokers on one machine linked by datagrams as they are by streams?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import palio
from palio.network.addresses import Address
from palio.network.security.principals import unrestricted
from palio.network.security.tokens import Tokens
from tests.network.running import ANY_PORT, broker, run, until, up, url

DATAGRAMS = Address("127.0.0.1", 0, "palio+udp")


def test_events_cross_links_of_both_kinds() -> None:
    async def test() -> None:
        async with (
            broker(listen=(ANY_PORT, DATAGRAMS)) as hub,
            broker(connect=hub.addresses[1:]) as near,
            broker(connect=hub.addresses[:1]) as far,
        ):
            await until(lambda: (len(up(hub)), len(up(near)), len(up(far))) == (2, 1, 1))
            async with (
                palio.connect(url(near)) as one,
                palio.connect(url(far)) as other,
                one.subscribe("x >= 0", confirm="network") as events,
            ):
                for x in range(1500):
                    await other.publish({"x": x})
                assert [(await anext(events)).get("x") for _ in range(1500)] == list(range(1500))

    run(test)


def test_a_link_of_datagrams_outlives_the_broker_at_its_other_end() -> None:
    async def test() -> None:
        async with broker(listen=(ANY_PORT, DATAGRAMS), heartbeat=0.2) as hub:
            addresses = hub.addresses
            async with broker(connect=addresses[1:], heartbeat=0.2) as edge:
                await until(lambda: len(up(edge)) == 1)
                await hub.stop()
                await until(lambda: not up(edge))
                async with broker(listen=addresses, heartbeat=0.2) as again:
                    await until(lambda: len(up(edge)) == 1 and len(up(again)) == 1)

    run(test)


def test_with_the_first_token_plain_datagrams_end(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(listen=(ANY_PORT, DATAGRAMS), data=str(tmp_path), watch=0.05, heartbeat=0.1) as hub,
            broker(connect=hub.addresses[1:], heartbeat=0.1) as edge,
        ):
            await until(lambda: bool(up(hub) and up(edge)))
            Tokens(tmp_path).add(unrestricted("owner"))
            await until(lambda: not up(hub) and not up(edge))
            await asyncio.sleep(0.5)
            assert not up(hub)

    run(test)


def test_a_message_that_fits_no_datagram_ends_the_link_with_the_reason() -> None:
    async def test() -> None:
        async with broker(listen=(ANY_PORT, DATAGRAMS)) as hub, broker(connect=hub.addresses[1:]) as edge:
            await until(lambda: len(up(edge)) == 1)
            async with (
                palio.connect(url(hub)) as subscriber,
                subscriber.subscribe("TRUE", confirm="network"),
                palio.connect(url(edge)) as publisher,
            ):
                await publisher.publish({"text": "x" * 100_000})
                await until(lambda: "does not fit into a datagram" in edge.neighbours.describe()[0]["reason"])

    run(test)
