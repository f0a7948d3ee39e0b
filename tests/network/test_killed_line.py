"""Three brokers in processes of their own, killed at any moment: does what was confirmed come out at the other end?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

import palio
from palio.errors import PalioError
from tests.network.processes import Broker

ROUNDS = 6
EVENTS = 25


class Line:
    """Brokers with disks; each dials the one before it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.brokers: list[Broker] = []
        for place in range(3):
            connect = ("--connect", self.brokers[-1].url) if place else ()
            self.brokers.append(Broker(*connect, data=str(folder / str(place))))

    def kill_and_restart(self, place: int) -> None:
        url = self.brokers[place].url
        self.brokers[place].kill()
        connect = ("--connect", self.brokers[place - 1].url) if place else ()
        self.brokers[place] = Broker(*connect, listen=url, data=str(self._folder / str(place)))

    def end(self) -> None:
        for broker in self.brokers:
            broker.kill()


async def publish(url: str, first: int, confirmed: list[int]) -> None:
    async with palio.connect(url) as broker:
        for number in range(first, first + EVENTS):
            try:
                await broker.publish({"x": number}, confirm=True)
            except PalioError:
                return
            confirmed.append(number)
            await asyncio.sleep(0.01)


async def drained(url: str, wanted: set[int]) -> list[int]:
    found: list[int] = []
    async with palio.connect(url) as broker, broker.subscribe("TRUE", durable="desk") as events:
        async with asyncio.timeout(60):
            async for event in events:
                found.append(event.get("x"))
                await event.ack()
                if wanted <= set(found):
                    return found
    return found


async def linked(line: Line) -> None:
    """Wait until the broker in the middle has both of its links."""
    async with palio.connect(line.brokers[1].url) as middle:
        while sum(each["up"] for each in (await middle.status())["neighbours"]) < 2:
            await asyncio.sleep(0.05)


async def killed(line: Line, random: Random) -> list[int]:
    confirmed: list[int] = []
    await linked(line)
    async with (
        palio.connect(line.brokers[0].url) as broker,
        broker.subscribe("TRUE", durable="desk", confirm="network"),
    ):
        pass
    for round in range(ROUNDS):
        publishing = asyncio.ensure_future(publish(line.brokers[2].url, round * EVENTS, confirmed))
        await asyncio.sleep(random.random() * 0.3)
        await asyncio.to_thread(line.kill_and_restart, random.randrange(3))
        await publishing
    return confirmed


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_what_was_confirmed_survives_kills_of_brokers_in_a_line(tmp_path: Path, seed: int) -> None:
    line = Line(tmp_path)
    try:
        confirmed = asyncio.run(killed(line, Random(seed)))
        assert confirmed
        found = asyncio.run(drained(line.brokers[0].url, set(confirmed)))
        assert set(confirmed) <= set(found)
        assert len(found) == len(set(found))
    finally:
        line.end()
