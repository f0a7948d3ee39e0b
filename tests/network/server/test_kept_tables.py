"""Routing tables of brokers in processes that are killed: resumed after a restart, or taken over by a backup."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

import palio
from palio.network.data_directory import DATABASE_FILE
from tests.network.processes import Broker

SECONDS = 60  # until something that must happen has
DURABLE = 20


async def make_durable(url: str) -> None:
    async with palio.connect(url) as broker:
        for number in range(DURABLE):
            async with broker.subscribe(f"x = {number}", durable=f"desk {number}", confirm="network"):
                pass


async def wait_for_event(at: str, published_at: str) -> None:
    """Publish until an event arrives at another broker: brokers may still be finding each other."""
    async with (
        asyncio.timeout(SECONDS),
        palio.connect(at) as subscriber,
        palio.connect(published_at) as publisher,
        subscriber.subscribe("y = 1") as received,
    ):
        arrival = asyncio.ensure_future(anext(aiter(received)))
        while not arrival.done():
            await publisher.publish({"y": 1})
            await asyncio.wait([arrival], timeout=0.05)


def rows(folder: Path, part: int) -> list[tuple[int, bytes]]:
    """The rows of a part of a broker's recovery database, by neighbour."""
    with closing(sqlite3.connect(f"file:{folder / DATABASE_FILE}?mode=ro", uri=True)) as connection:
        return sorted(connection.execute("SELECT neighbour, data FROM links WHERE part = ?", (part,)))


def streams(folder: Path) -> dict[int, tuple[int, int]]:
    """The streams to and from each neighbour."""
    progress = [(neighbour, msgspec.msgpack.decode(data)) for neighbour, data in rows(folder, 0)]
    return {neighbour: (sent, received) for neighbour, (sent, _, received, _) in progress}


def test_a_killed_broker_goes_on_with_its_tables(tmp_path: Path) -> None:
    recover = ("--http", "off", "--crash-log", "recover")
    folder = tmp_path / "middle"
    with ExitStack() as started:
        first = Broker(*recover, data=str(tmp_path / "first"))
        started.callback(first.kill)
        middle = Broker(*recover, "--connect", first.url, data=str(folder))
        started.callback(middle.kill)
        last = Broker(*recover, "--connect", middle.url, data=str(tmp_path / "last"))
        started.callback(last.kill)
        asyncio.run(wait_for_event(last.url, first.url))
        asyncio.run(make_durable(first.url))
        before = streams(folder)
        middle.kill()
        assert len(rows(folder, 1)) == DURABLE, "the filters of the first broker are on disk"
        again = Broker(*recover, "--connect", first.url, listen=middle.url, data=str(folder))
        started.callback(again.kill)
        asyncio.run(wait_for_event(last.url, first.url))
        assert streams(folder) == before, "nothing was told anew"
        assert len(before) == 2
