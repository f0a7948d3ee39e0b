"""Storm benchmark: brokers are killed and started again while confirmed events are published to durable subscriptions.

    python benchmarks/storm.py
    python benchmarks/storm.py --shape tree --seconds 300 --kills 36

Brokers are processes with stores on disk. An entry broker has a publisher, which publishes one confirmed event after
the other; every durable subscription wants a part of them and has a consumer, which connects again when its broker is
back. The result: confirmed events that some subscription that wants them never got, the share of deliveries that came
more than once, and how long confirmations took at entry brokers that were up while another broker was down.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from harness.report import figure
from rich.console import Console
from rich.table import Table

import palio
from palio.network.client.broker import Broker

PARENTS = {"line": (None, 0, 1), "tree": (None, 0, 0, 1, 1)}  # the broker that each dials
DURABLES = 20
TOPICS = 10
DOWN_SECONDS = (0.5, 3.0)  # between a kill and the next start
DRAIN_SECONDS = 60.0


def _port() -> int:
    """A free port that is no client's own end: one of those is taken while the broker that listened there is down."""
    for port in Random().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise SystemExit("no port is free")


class Member:
    """One broker of the network, through all its lives."""

    def __init__(self, folder: Path, dials: Member | None) -> None:
        self._arguments = ["--data", str(folder), "--http", "off", "--option", "circles=false"]
        self._arguments += ["--connect", dials.url] if dials is not None else []
        self.url: str = f"palio://127.0.0.1:{_port()}"
        self._errors = folder.with_suffix(".log")
        self.is_up = False
        self.lives = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "palio", "serve", "--json", "--listen", self.url, *self._arguments]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a broker did not start at {self.url}: {self._errors.read_text()[-500:]}")
        self.lives += 1
        self.is_up = True

    def kill(self) -> None:
        self.is_up = False
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@dataclass
class Storm:
    """What was published, received and measured."""

    members: list[Member]
    random: Random
    confirmed: dict[str, int] = field(default_factory=dict)  # topic by event
    received: dict[int, Counter[str]] = field(default_factory=dict)  # by durable subscription
    seconds_alone: list[float] = field(default_factory=list)  # of confirmations while all brokers were up
    seconds_down: list[float] = field(default_factory=list)  # while another one was down
    failures: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    async def publish(self, entry: int) -> None:
        """Publish for as long as the storm lasts; an event whose confirmation did not come is published again."""
        number = 0
        while not self.is_over:
            try:
                # The name stays, so that a broker knows an event that is published again.
                async with palio.connect(self.members[entry].url, publisher=f"entry {entry}") as broker:
                    while not self.is_over:
                        topic = number % TOPICS
                        id = f"{entry}-{number}"
                        event = palio.Event.from_dict({"topic": topic, "n": id}, id=id)
                        await self._confirm(broker, entry, event)
                        self.confirmed[id] = topic
                        number += 1
            except palio.PalioError as error:
                self.failures[type(error).__name__] += 1
                await asyncio.sleep(0.1)

    async def _confirm(self, broker: Broker, entry: int, event: palio.Event) -> None:
        life, was_down = self.members[entry].lives, self._others_down(entry)
        begin = time.perf_counter()
        await broker.publish(event, confirm=True)
        seconds = time.perf_counter() - begin
        if life != self.members[entry].lives or not self.members[entry].is_up:
            return  # its own broker was killed meanwhile
        if was_down or self._others_down(entry):
            self.seconds_down.append(seconds)
        else:
            self.seconds_alone.append(seconds)

    def _others_down(self, entry: int) -> bool:
        return any(not each.is_up for place, each in enumerate(self.members) if place != entry)

    async def consume(self, durable: int) -> None:
        """Read a durable subscription at its home, until it is cancelled."""
        home = self.members[durable % len(self.members)]
        found = self.received[durable] = Counter()
        while True:
            try:
                async with (
                    palio.connect(home.url) as broker,
                    broker.subscribe(f"topic = {durable % TOPICS}", durable=f"durable {durable}") as events,
                ):
                    async for event in events:
                        found[str(event.get("n"))] += 1
                        await event.ack()
            except palio.PalioError:
                await asyncio.sleep(0.1)

    async def kill_some(self, seconds: float, kills: int) -> None:
        begin = time.monotonic()
        for number in range(kills):
            await asyncio.sleep(max(0.0, begin + (number + 0.5) * seconds / kills - time.monotonic()))
            victim = self.random.choice(self.members)
            await asyncio.to_thread(victim.kill)
            await asyncio.sleep(self.random.uniform(*DOWN_SECONDS))
            await asyncio.to_thread(victim.start)
        await asyncio.sleep(max(0.0, begin + seconds - time.monotonic()))

    def missing(self) -> int:
        return sum(
            1
            for durable, found in self.received.items()
            for id, topic in list(self.confirmed.items())
            if topic == durable % TOPICS and id not in found
        )


async def run(members: list[Member], seconds: float, kills: int, seed: int) -> Storm:
    storm = Storm(members, Random(seed))
    for durable in range(DURABLES):
        home = members[durable % len(members)]
        async with (
            palio.connect(home.url) as broker,
            broker.subscribe(f"topic = {durable % TOPICS}", durable=f"durable {durable}", confirm="network"),
        ):
            pass
    consumers = [asyncio.create_task(storm.consume(durable)) for durable in range(DURABLES)]
    publishers = [asyncio.create_task(storm.publish(entry)) for entry in range(len(members))]
    await storm.kill_some(seconds, kills)
    storm.is_over = True
    await asyncio.gather(*publishers)
    deadline = time.monotonic() + DRAIN_SECONDS
    while storm.missing() and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    for each in consumers:
        each.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    return storm


def percentile(seconds: Iterable[float], share: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def show(storm: Storm, shape: str, kills: int) -> None:
    deliveries = sum(sum(found.values()) for found in storm.received.values())
    twice = sum(count - 1 for found in storm.received.values() for count in found.values())
    table = Table("storm", shape, title=f"{kills} kills")
    table.add_row("events confirmed", figure(len(storm.confirmed)))
    table.add_row("deliveries", figure(deliveries))
    table.add_row("lost", str(storm.missing()))
    table.add_row("delivered more than once", f"{twice / max(1, deliveries):.3%}")
    for what, seconds in (("all up", storm.seconds_alone), ("another broker down", storm.seconds_down)):
        shown = f"{percentile(seconds, 0.5):.3f} s, {percentile(seconds, 0.99):.3f} s, {max(seconds, default=0):.3f} s"
        table.add_row(f"confirmed in, {what} ({len(seconds):,}): median, p99, longest", shown)
    table.add_row("failed publications, by error", ", ".join(f"{name} {n}" for name, n in storm.failures.items()))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=PARENTS, default="line")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        members: list[Member] = []
        try:
            for place, dials in enumerate(PARENTS[given.shape]):
                members.append(Member(Path(folder) / str(place), None if dials is None else members[dials]))
            storm = asyncio.run(run(members, given.seconds, given.kills, given.seed))
        finally:
            for each in members:
                each.kill()
    show(storm, given.shape, given.kills)
    if storm.missing():
        raise SystemExit("confirmed events were lost")


if __name__ == "__main__":
    main()
