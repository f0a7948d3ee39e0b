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


class Circle:
    """Four brokers, each linked to the next one and the last to the first."""

    def __init__(self, started: ExitStack, *arguments: str) -> None:
        self._arguments = ("--http", "off", "--option", "circles=true", *arguments)
        self._started = started
        self.brokers: list[Broker] = []
        for place in range(4):
            neighbours = [self.brokers[place - 1].url] if place else []
            if place == 3:
                neighbours.append(self.brokers[0].url)
            self.brokers.append(self._start("palio://127.0.0.1:0", neighbours))

    def _start(self, listen: str, neighbours: list[str]) -> Broker:
        dialled = [part for url in neighbours for part in ("--connect", url)]
        broker = Broker(*self._arguments, *dialled, listen=listen)
        self._started.callback(broker.kill)
        return broker

    def restart(self, place: int) -> None:
        self.brokers[place] = self._start(self.brokers[place].url, [self.brokers[place - 1].url])

    async def wait_for_links(self) -> None:
        """Wait until every broker has two neighbours, and the first one knows of all of them."""
        async with asyncio.timeout(SECONDS):
            for each in self.brokers:
                async with palio.connect(each.url) as broker:
                    while sum(link["up"] for link in (await broker.status())["neighbours"]) < 2:
                        await asyncio.sleep(0.02)
            async with palio.connect(self.brokers[0].url) as broker, broker.subscribe("FALSE", confirm="network"):
                pass


def test_events_go_on_by_a_backup_when_either_way_is_killed() -> None:
    with ExitStack() as started:
        circle = Circle(started, "--paths", "failover")
        first, opposite = circle.brokers[0], circle.brokers[2]
        asyncio.run(wait_for_event(opposite.url, first.url))
        circle.brokers[1].kill()
        asyncio.run(wait_for_event(opposite.url, first.url))
        circle.restart(1)
        asyncio.run(circle.wait_for_links())
        circle.brokers[3].kill()
        asyncio.run(wait_for_event(opposite.url, first.url))


async def publish_while_killing(circle: Circle, victim: Broker, count: int) -> list[int]:
    """Events from the first broker to the opposite one, while one between them is killed; the numbers that arrive."""
    await circle.wait_for_links()
    first, opposite = circle.brokers[0], circle.brokers[2]
    found: list[int] = []
    async with (
        asyncio.timeout(SECONDS),
        palio.connect(opposite.url) as subscriber,
        palio.connect(first.url) as publisher,
        subscriber.subscribe("number >= 0", confirm="network") as received,
    ):
        for number in range(count):
            await publisher.publish({"number": number})
            if number == count // 3:
                victim.kill()
            await asyncio.sleep(0.002)
        while len(set(found)) < count:
            event = await anext(aiter(received))
            found.append(event["number"])
    return found


def test_no_event_is_lost_when_one_of_two_ways_is_killed() -> None:
    with ExitStack() as started:
        circle = Circle(started, "--paths", "redundant", "--forwarding", "group", "--option", "trees=publisher")
        found = asyncio.run(publish_while_killing(circle, circle.brokers[1], 300))
        assert sorted(found) == list(range(300))
