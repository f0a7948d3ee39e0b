"""Self-stabilising tables over sockets: quiet when right, and right again after a table was corrupted."""

from __future__ import annotations

from random import Random

import pytest

import palio
from palio.network.server.process import Server
from palio.routing.upkeep.stabilising import Stabiliser
from palio.simulation.corruption import corrupt_tables
from tests.network.running import broker, run, until, url


def stabiliser(server: Server) -> Stabiliser:
    found = server.host.node.broker.stabiliser
    assert found is not None
    return found


@pytest.mark.parametrize("forwarding", ["content", "bloom", "group"])
def test_three_brokers_recover_from_corrupted_tables_and_are_quiet_then(forwarding: str) -> None:
    async def doing() -> None:
        settings = {"tables": "stabilising", "forwarding": forwarding, "options": {"round_period": 0.2}}
        async with (
            broker(**settings) as first,
            broker(connect=first.addresses, **settings) as second,
            broker(connect=second.addresses, **settings) as third,
        ):
            servers = first, second, third
            async with (
                palio.connect(url(first)) as publisher,
                palio.connect(url(third)) as subscriber,
                subscriber.subscribe("x > 1", confirm="network") as events,
            ):
                tables = second.host.node.broker.tables
                right = {link: dict(known) for link, known in tables.remote_subscriptions.items() if known}
                assert right
                corrupt_tables(second.host.node.broker, 1.0, Random(5))
                begun = [stabiliser(each).rounds for each in servers]

                def have_made_rounds(count: int) -> bool:
                    return all(stabiliser(each).rounds >= at + count for each, at in zip(servers, begun, strict=True))

                await until(lambda: have_made_rounds(8))
                assert {link: dict(known) for link, known in tables.remote_subscriptions.items() if known} == right
                corrections = [stabiliser(each).corrections for each in servers]
                begun = [stabiliser(each).rounds for each in servers]
                await until(lambda: have_made_rounds(3))
                assert [stabiliser(each).corrections for each in servers] == corrections
                for number in range(6):
                    await publisher.publish({"x": number})
                seen = []
                async for event in events:
                    seen.append(event["x"])
                    if event["x"] == 5:
                        break
                assert seen == [2, 3, 4, 5]

    run(doing)
