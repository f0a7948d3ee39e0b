"""Standby benchmark: brokers are killed every few seconds, and one is lost with its disk, while a million events are
published.

    python benchmarks/standby.py
    python benchmarks/standby.py --events 20000 --batch 5 --whole 60    # recovery of a network that is not saturated

Five brokers in a tree are processes with stores on disk. Fifty durable subscriptions share all events between them, and
each has a standby at another broker; 950 plain subscriptions share them too, and may miss some. For each durable
subscription a publisher publishes confirmed batches, and a batch again until it is confirmed. Every few seconds a
random broker is killed and started again; in the middle of the events a leaf is killed for good, its folder is deleted,
and an operator gives it up (`palio forget`), so that the standbys of its durable subscriptions take over.

The result: confirmed events that a durable subscription never got, deliveries that came more than once, and the time
from the start of a broker until each durable subscription that it has a part in has got an event which was published
then. Kills that follow each other closely leave the network no time to become whole: that time is then theirs too.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from harness.report import figure
from rich.console import Console
from rich.table import Table
from storm import PARENTS, Member, percentile

import palio
from palio.errors import InvalidArgument, Refused

DURABLES = 50
PLAIN = 950
LOST = 4  # a leaf: the others stay joined
DOWN_SECONDS = (0.2, 1.5)  # between a kill and the next start
DRAIN_SECONDS = 120.0


@dataclass
class Outage:
    """A kill, and what came of it; times are of the monotonic clock."""

    broker: int
    killed: float
    started: float  # the broker listens again; of one that is lost: it was given up
    is_lost: bool
    waiting: set[int]  # durable subscriptions that have not got the event of `probe` yet
    recovered: float | None = None


@dataclass
class Run:
    """The network, and what was published, received and measured."""

    members: list[Member]
    folders: list[Path]
    events: int
    batch: int
    every: float
    whole: float
    random: Random
    deadline: float  # of publishing
    confirmed: bytearray = field(init=False)
    received: bytearray = field(init=False)  # how often, by a durable subscription
    plain: int = 0
    next_event: int = 0
    outages: list[Outage] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    places: list[tuple[int, int]] = field(init=False)  # home and standby of each durable subscription
    lost: int | None = None

    def __post_init__(self) -> None:
        self.confirmed, self.received = bytearray(self.events), bytearray(self.events)
        brokers = len(self.members)
        self.places = [
            (each % brokers, (each + 1 + each // brokers % (brokers - 1)) % brokers) for each in range(DURABLES)
        ]
        self.consumers: dict[int, asyncio.Task[None]] = {}
        self.probes: list[asyncio.Task[None]] = []

    def url(self, at: int) -> str:
        return self.members[at if at != self.lost else 0].url

    # Clients

    async def publish(self, topic: int) -> None:
        """Publish the events of one topic, batch by batch; each batch again until it is confirmed."""
        at = (2 * topic + topic // len(self.members)) % len(self.members)
        first = self.next_batch()
        while first is not None:
            try:
                # The name stays, so that a broker knows an event that is published again.
                async with palio.connect(self.url(at), publisher=f"publisher {topic}", patience=2) as broker:
                    while first is not None:
                        numbers = np.arange(first, first + self.batch)
                        topics = np.full(self.batch, topic)
                        rows = pa.table({"n": numbers, "topic": topics, "part": numbers % PLAIN})
                        await broker.publish_many(rows, confirm=True, ids=[str(n) for n in numbers])
                        self.confirmed[first : first + self.batch] = b"\1" * self.batch
                        first = self.next_batch()
            except InvalidArgument:
                raise
            except palio.PalioError as error:
                self.failures[f"publish: {type(error).__name__}"] += 1
                await asyncio.sleep(0.1)

    def next_batch(self) -> int | None:
        """The number of the first event of the next batch; None when all are published."""
        if time.monotonic() > self.deadline:
            self.events = min(self.events, self.next_event)
        first = self.next_event
        if first >= self.events:
            return None
        self.next_event += self.batch
        return first

    async def consume(self, durable: int) -> None:
        """Read a durable subscription at its home, until it is cancelled."""
        while True:
            home, standby = self.places[durable]
            try:
                # Its stream lives through restarts of the broker: it knows what was acknowledged, on disk or not.
                async with (
                    palio.connect(self.members[home].url) as broker,
                    broker.subscribe(
                        f"topic = {durable}", durable=f"durable {durable}", standby=self.members[standby].url
                    ) as events,
                ):
                    async for event in events:
                        self._note(durable, int(str(event.get("n"))))
                        await event.ack()
            except palio.PalioError as error:
                self.failures[f"consume: {type(error).__name__}"] += 1
                await asyncio.sleep(0.1)

    def _note(self, durable: int, number: int) -> None:
        if number >= 0:
            self.received[number] = min(255, self.received[number] + 1)
            return
        outage = self.outages[-1 - number]
        outage.waiting.discard(durable)
        if not outage.waiting and outage.recovered is None:
            outage.recovered = time.monotonic()

    async def probe(self, number: int) -> None:
        """Publish an event for each durable subscription that has a home at the broker of an outage."""
        topics = sorted(self.outages[number].waiting)
        events = [palio.Event.from_dict({"n": -1 - number, "topic": at}, id=f"{number} {at}") for at in topics]
        while True:
            try:
                async with palio.connect(self.url(0), publisher="probe", patience=2) as broker:
                    await broker.publish_all(events, confirm=True)
                return
            except palio.PalioError:
                await asyncio.sleep(0.1)

    async def listen(self, at: int) -> None:
        """The plain subscriptions of one broker, over one connection."""
        wanted = {str(part): f"part = {part}" for part in range(PLAIN) if part % len(self.members) == at}
        while True:
            try:
                async with palio.connect(self.url(at), patience=2) as broker, broker.subscribe_many(wanted) as events:
                    async for batch in events.batches():
                        self.plain += len(batch)
            except palio.PalioError as error:
                self.failures[f"listen: {type(error).__name__}"] += 1
                await asyncio.sleep(0.1)

    # Outages

    async def kill_some(self) -> None:
        """Kill and start brokers until all events are published; in the middle of them one is lost."""
        while self.next_event < self.events:
            until = time.monotonic() + self.whole
            while any(each.recovered is None for each in self.outages) and time.monotonic() < until:
                await asyncio.sleep(0.05)
            await asyncio.sleep(self.every)
            if self.lost is None and self.next_event >= self.events // 2:
                await self._lose(LOST)
                continue
            at = self.random.choice([each for each in range(len(self.members)) if each != self.lost])
            killed = time.monotonic()
            await asyncio.to_thread(self.members[at].kill)
            await asyncio.sleep(self.random.uniform(*DOWN_SECONDS))
            await asyncio.to_thread(self.members[at].start)
            self._note_outage(at, killed)

    async def _lose(self, at: int) -> None:
        number = await self._number_of(at)
        killed = time.monotonic()
        await asyncio.to_thread(self.members[at].kill)
        shutil.rmtree(self.folders[at])
        self.lost = at
        async with palio.connect(self.members[0].url) as operator:
            while True:
                try:
                    await operator.forget(number)
                    break
                except Refused:  # it is not known yet to have ended
                    await asyncio.sleep(0.1)
        self._note_outage(at, killed)
        # Each of its subscriptions gets a second home again.
        for durable, (home, standby) in enumerate(self.places):
            if at in (home, standby):
                left = standby if home == at else home
                self.places[durable] = left, next(each for each in (0, 1, 2) if each != left)
                self.consumers[durable].cancel()
                self.consumers[durable] = asyncio.create_task(self.consume(durable))

    async def _number_of(self, at: int) -> int:
        async with palio.connect(self.members[at].url) as broker:
            return int((await broker.status())["node"])

    def _note_outage(self, at: int, killed: float) -> None:
        has_part = {durable for durable, place in enumerate(self.places) if at in place}
        self.outages.append(Outage(at, killed, time.monotonic(), at == self.lost, has_part))
        self.probes.append(asyncio.create_task(self.probe(len(self.outages) - 1)))

    # Result

    def missing(self) -> int:
        return sum(
            is_confirmed and not count for is_confirmed, count in zip(self.confirmed, self.received, strict=True)
        )


async def run(members: list[Member], folders: list[Path], given: argparse.Namespace) -> tuple[Run, float]:
    deadline = time.monotonic() + given.seconds
    it = Run(members, folders, given.events, given.batch, given.every, given.whole, Random(given.seed), deadline)
    for durable, (home, standby) in enumerate(it.places):
        async with (
            palio.connect(members[home].url) as broker,
            broker.subscribe(
                f"topic = {durable}",
                durable=f"durable {durable}",
                standby=members[standby].url,
                confirm="network",
            ),
        ):
            pass
    it.consumers = {durable: asyncio.create_task(it.consume(durable)) for durable in range(DURABLES)}
    listeners = [asyncio.create_task(it.listen(at)) for at in range(len(members))]
    begin = time.monotonic()
    progress = asyncio.create_task(_show_progress(it))
    killing = asyncio.create_task(it.kill_some())
    await asyncio.gather(*(it.publish(topic) for topic in range(DURABLES)))
    seconds = time.monotonic() - begin
    await killing
    deadline = time.monotonic() + DRAIN_SECONDS
    while (it.missing() or any(each.recovered is None for each in it.outages)) and time.monotonic() < deadline:
        await asyncio.sleep(1)
    tasks = [*it.probes, *it.consumers.values(), *listeners, progress]
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return it, seconds


async def _show_progress(it: Run) -> None:
    while True:
        await asyncio.sleep(10)
        done, came = sum(it.confirmed), len(it.received) - it.received.count(0)
        print(f"{done:,} confirmed, {came:,} received, {len(it.outages)} outages, {dict(it.failures)}", file=sys.stderr)


def show(it: Run, seconds: float) -> None:
    came = len(it.received) - it.received.count(0)
    twice = sum(it.received) - came
    table = Table("standby", "", title=f"{len(it.members)} brokers, {DURABLES} durable and {PLAIN} plain subscriptions")
    table.add_row("events confirmed", f"{figure(sum(it.confirmed))} in {seconds:.0f} s")
    table.add_row("brokers killed and started again", str(sum(not each.is_lost for each in it.outages)))
    table.add_row("brokers lost with their disks", str(sum(each.is_lost for each in it.outages)))
    table.add_row("confirmed events that a durable subscription never got", str(it.missing()))
    table.add_row("delivered more than once", f"{twice:,}, {twice / max(1, came):.3%}")
    table.add_row("deliveries to plain subscriptions", f"{it.plain / it.events:.2%} of the events")
    for what, is_lost in (("a restart", False), ("a loss", True)):
        some = [each for each in it.outages if each.is_lost == is_lost]
        down = [each.started - each.killed for each in some]
        back = [each.recovered - each.started for each in some if each.recovered is not None]
        shown = f"{percentile(back, 0.5):.1f} s, {max(back, default=0):.1f} s"
        table.add_row(
            f"down before {what}: median, longest", f"{percentile(down, 0.5):.1f} s, {max(down, default=0):.1f} s"
        )
        table.add_row(f"recovered after {what} ({len(back)} of {len(some)}): median, longest", shown)
    table.add_row("failed calls of clients", ", ".join(f"{name} {n}" for name, n in sorted(it.failures.items())))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=250, help="events of each publisher that are under way")
    parser.add_argument("--whole", type=float, default=0.0, help="seconds at most to wait for recovery before a kill")
    parser.add_argument("--every", type=float, default=4.0, help="seconds between a start and the next kill")
    parser.add_argument("--seconds", type=float, default=1_200.0, help="publish for so long at most")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.events -= given.events % given.batch
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and the brokers with it
    with tempfile.TemporaryDirectory() as folder:
        members: list[Member] = []
        folders = [Path(folder) / str(place) for place in range(len(PARENTS["tree"]))]
        try:
            for own, dials in zip(folders, PARENTS["tree"], strict=True):
                members.append(Member(own, None if dials is None else members[dials]))
            it, seconds = asyncio.run(run(members, folders, given))
        finally:
            for each in members:
                each.kill()
    show(it, seconds)
    if it.missing():
        raise SystemExit("confirmed events were lost")


if __name__ == "__main__":
    main()
