"""A broker whose disk is full: publishers are told, and everything else goes on."""

from __future__ import annotations

from pathlib import Path

import palio
from palio import PalioError
from palio.network.client.broker import Broker
from tests.network.running import broker, run, url


async def publish_until_refused(client: Broker) -> int:
    """How many events were confirmed before there was no room."""
    for confirmed in range(100):
        try:
            await client.publish({"n": confirmed, "note": "x" * 50_000}, confirm=True)
        except PalioError as refused:
            assert "no room left" in str(refused)
            return confirmed
    raise AssertionError("there is always room")


def test_a_full_disk_is_an_error_to_publishers_and_nothing_else_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=tmp_path, keeping={"disk_bytes": 600_000}) as server,
            palio.connect(url(server)) as client,
            client.subscribe("n >= 0") as events,
        ):
            confirmed = await publish_until_refused(client)
            assert 3 < confirmed < 30
            await client.publish({"n": 1_000})  # which nobody asked to be kept
            received = [(await anext(events)).get("n") for _ in range(confirmed + 1)]
            assert received == [*range(confirmed), 1_000]
            assert server.store.log.bounds() == (1, confirmed + 1)
            await client.publish({"n": 2_000}, confirm=True)  # which is small, and finds room

    run(test)
