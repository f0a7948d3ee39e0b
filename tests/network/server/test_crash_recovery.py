"""Crash recovery: brokers and clients in processes that are killed at any moment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import palio
from tests.network.processes import ROOT, Broker

PUBLISH = """
import asyncio, sys, palio
async def publish(url, number):
    async with palio.connect(url) as broker:
        while True:
            await broker.publish({"x": number}, confirm=True)
            print(number, flush=True)
            number += 1
asyncio.run(publish(sys.argv[1], int(sys.argv[2])))
"""
SUBSCRIBE = """
import asyncio, sys, palio
async def subscribe(url):
    async with palio.connect(url) as broker, broker.subscribe("TRUE", durable="desk") as events:
        async for event in events:
            print(event.get("x"), flush=True)
            await event.ack()
asyncio.run(subscribe(sys.argv[1]))
"""


class Client:
    """A program that prints a number when it is sure of it."""

    def __init__(self, said: Path, code: str, *arguments: str) -> None:
        self._said = said
        with said.open("ab") as out, said.with_suffix(".errors").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def said(self) -> list[int]:
        """All that it said, and those before it that wrote to the same file."""
        lines = self._said.read_text().splitlines(keepends=True)
        return [int(line) for line in lines if line.endswith("\n")]


class Line:
    """Three brokers with disks, each of which dials the one before it; a publisher and a subscriber of theirs."""

    def __init__(self, folder: Path, random: Random) -> None:
        self._folder = folder
        self._random = random
        self._publishers = 0
        self.brokers: list[Broker] = []
        for place in range(3):
            self.brokers.append(self._broker(place, "palio://127.0.0.1:0"))
        asyncio.run(subscribe(self.brokers[0].url))
        self.publisher, self.subscriber = self._publisher(), self._subscriber()

    def _broker(self, place: int, listen: str) -> Broker:
        connect = ("--connect", self.brokers[place - 1].url) if place else ()
        return Broker("--http", "off", *connect, listen=listen, data=str(self._folder / str(place)))

    def _publisher(self) -> Client:
        self._publishers += 1
        first = str(self._publishers * 1_000_000)
        return Client(self._folder / "published", PUBLISH, self._random.choice(self.brokers).url, first)

    def _subscriber(self) -> Client:
        return Client(self._folder / "received", SUBSCRIBE, self._random.choice(self.brokers).url)

    def kill_somebody(self) -> None:
        """And begin another life of it."""
        victim = self._random.choice([0, 1, 2, "publisher", "subscriber"])
        if victim == "publisher":
            self.publisher.kill()
            self.publisher = self._publisher()
        elif victim == "subscriber":
            self.subscriber.kill()
            self.subscriber = self._subscriber()
        else:
            broker = self.brokers[int(victim)]
            broker.kill()
            self.brokers[int(victim)] = self._broker(int(victim), broker.url)

    def end(self) -> None:
        for each in (self.publisher, self.subscriber, *self.brokers):
            each.kill()


async def subscribe(url: str) -> None:
    async with palio.connect(url) as broker, broker.subscribe("TRUE", durable="desk", confirm="network"):
        pass


async def drained(url: str, missing: set[int]) -> list[int]:
    """What is still in the queue, until nothing is missing."""
    found: list[int] = []
    async with (
        asyncio.timeout(60),
        palio.connect(url) as broker,
        broker.subscribe("TRUE", durable="desk") as events,
    ):
        while not missing <= set(found):
            event = await anext(events)
            found.append(event.get("x"))
            await event.ack()
    return found


def killed(folder: Path, seed: int, rounds: int) -> None:
    random = Random(seed)
    line = Line(folder, random)
    try:
        while not line.publisher.said:
            time.sleep(0.05)
        for _ in range(rounds):
            time.sleep(random.random() * 0.5)
            line.kill_somebody()
        line.publisher.kill()
        line.subscriber.kill()
        missing = set(line.publisher.said) - set(line.subscriber.said)
        found = asyncio.run(drained(random.choice(line.brokers).url, missing))
        assert len(found) == len(set(found))
    finally:
        line.end()


def test_what_was_confirmed_survives_kills_of_brokers_and_clients(tmp_path: Path) -> None:
    killed(tmp_path, seed=7, rounds=2)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(24))
def test_what_was_confirmed_survives_many_kills(tmp_path: Path, seed: int) -> None:
    killed(tmp_path, seed, rounds=10)
