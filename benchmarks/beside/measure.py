"""Measurement of one system at one number of subscriptions: rate, cost, and age of events on arrival.

First as fast as events go: so many are under way that the system is busy, and not so many that they pile up for more
than a fraction of a second. Then at half of that rate, by the clock, where ages are taken from the moment at which an
event was due. Everything has a bound in time; what was reached until then is what is said.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from selectors import SelectSelector
from typing import Any

from broker_processes import cpu_of_tree, own_cpu

from beside.system import Publish, System
from beside.tally import Tally, ages_of, milliseconds_at
from beside.work import Expected, event

CONNECTING = 90.0  # seconds that all connections may take together
DRAINING = 4.0  # seconds in which what is under way has to arrive
WARMING = 2.0
MOST_UNDER_WAY = 512
SHORT = 0.5  # seconds; while all that is under way arrives sooner than that, there may be more of it
PEOPLE_TOGETHER = 2_500  # subscribers in one process


@dataclass(frozen=True)
class Row:
    """Ages in milliseconds. `note` says what did not come to its end."""

    system: str
    subscriptions: int
    events_per_second: float = math.nan
    delivered_per_cpu_second: float = math.nan
    p50: float = math.nan
    p99: float = math.nan
    p999: float = math.nan
    broker_cpu_share: float = math.nan  # of all processor time
    deliveries: int = 0
    connecting_seconds: float = math.nan
    note: str = ""


def measure(system: System, subscriptions: int, seconds: float) -> Row:
    """A cell of the table, with a server and clients of its own."""
    row = Row(system.name, subscriptions)
    missing = system.missing()
    if missing:
        return replace(row, note=f"{missing}: not installed")
    try:
        with system.serve() as server, crowd(system, server.url, subscriptions) as people:
            begun = time.perf_counter()
            while people.standing < people.wanted:
                if time.perf_counter() - begun > CONNECTING:
                    return replace(row, note=f"stopped after {CONNECTING:.0f} s: {people.standing:,} were connected")
                if not people.is_alive:
                    return replace(row, note="a process of subscribers failed")
                time.sleep(0.05)
            row = replace(row, connecting_seconds=time.perf_counter() - begun)
            # Unlike epoll, select waits for parts of a millisecond: the sender must not be late by its own clock.
            with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(SelectSelector())) as runner:
                return runner.run(_published(system, server.url, server.pid, people, row, seconds))
    except (OSError, RuntimeError) as error:
        return replace(row, note=str(error) or type(error).__name__)


@dataclass
class People:
    """The processes in which subscribers are."""

    wanted: int  # connections
    tallies: list[Tally] = field(default_factory=list)
    processes: list[Any] = field(default_factory=list)

    @property
    def standing(self) -> int:
        return sum(each.standing for each in self.tallies)

    @property
    def seen(self) -> int:
        return sum(each.seen for each in self.tallies)

    @property
    def is_alive(self) -> bool:
        return all(each.is_alive() for each in self.processes)

    def cpu(self) -> float:
        return own_cpu() + sum(cpu_of_tree(each.pid) for each in self.processes)


@contextmanager
def crowd(system: System, url: str, subscriptions: int) -> Iterator[People]:
    """Everybody who listens; the one who decides for all, where there is one, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    people = People(0)

    def begin(numbers: range | None) -> None:
        people.tallies.append(Tally())
        given = (system.name, url, numbers, subscriptions, people.tallies[-1])
        people.processes.append(context.Process(target=_listen, args=given, daemon=True))
        people.processes[-1].start()

    try:
        if system.dispatch is not None:
            people.wanted += 1
            begin(None)
        if system.hands_over:
            people.wanted += subscriptions
            for first in range(0, subscriptions, PEOPLE_TOGETHER):
                begin(range(first, min(subscriptions, first + PEOPLE_TOGETHER)))
        yield people
    finally:
        for each in people.processes:
            each.kill()
            each.join()


def _listen(name: str, url: str, numbers: range | None, subscriptions: int, tally: Tally) -> None:
    from beside.systems import SYSTEMS
    from palio.network.event_loop import run_event_loop

    system = SYSTEMS[name]
    if numbers is not None:
        run_event_loop(system.subscribe(url, numbers, tally))
    else:
        assert system.dispatch is not None
        run_event_loop(system.dispatch(url, subscriptions, tally))


async def _published(system: System, url: str, server: int, people: People, row: Row, seconds: float) -> Row:
    expected = Expected(row.subscriptions)
    async with system.publisher(url) as publish:
        sender = Sender(publish, people, expected)
        await sender.as_fast_as_they_go(WARMING)
        before = people.seen, cpu_of_tree(server), people.cpu(), time.perf_counter(), ages_of(people.tallies)
        await sender.as_fast_as_they_go(seconds)
        took = time.perf_counter() - before[3]
        deliveries, broker_cpu, cpu = people.seen - before[0], cpu_of_tree(server) - before[1], people.cpu() - before[2]
        rate = deliveries / took / (expected.upto(20_000) / 20_000)
        row = replace(
            row,
            events_per_second=rate,
            delivered_per_cpu_second=deliveries / (broker_cpu + cpu),
            broker_cpu_share=broker_cpu / (broker_cpu + cpu),
            deliveries=deliveries,
        )
        if await sender.drained():
            before_ages = ages_of(people.tallies)
            await sender.by_the_clock(rate / 2, seconds)
            if await sender.drained():
                return _with_ages(row, before_ages, people)
            return replace(_with_ages(row, before_ages, people), note="fell behind at half of its rate")
        note = (
            f"stopped after {seconds + WARMING + DRAINING:.0f} s with {sender.under_way:,} under way; ages are of these"
        )
        return replace(_with_ages(row, before[4], people), note=note)


def _with_ages(row: Row, before: list[int], people: People) -> Row:
    ages = [now - then for now, then in zip(ages_of(people.tallies), before, strict=True)]
    p50, p99, p999 = (milliseconds_at(ages, share) for share in (0.5, 0.99, 0.999))
    return replace(row, p50=p50, p99=p99, p999=p999)


class Sender:
    """Publishes, and sees from what has arrived how much is under way."""

    def __init__(self, publish: Publish, people: People, expected: Expected) -> None:
        self._publish = publish
        self._people = people
        self._expected = expected
        self._sent = 0
        self._most = 1

    async def as_fast_as_they_go(self, seconds: float) -> None:
        now = time.perf_counter()
        end, turned, mark = now + seconds, now, self._sent
        while now < end:
            if self.under_way < self._most:
                await self._send(now)
            else:
                await asyncio.sleep(0.0005)
            now = time.perf_counter()
            if self._sent - self.under_way > mark:
                if now - turned < SHORT:
                    self._most = min(2 * self._most, MOST_UNDER_WAY)
                turned, mark = now, self._sent

    async def by_the_clock(self, rate: float, seconds: float) -> None:
        begun = time.perf_counter()
        for number in range(max(1, int(rate * seconds))):
            due = begun + number / rate
            while (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            if time.perf_counter() > begun + 2 * seconds:
                return
            await self._send(due)

    async def drained(self) -> bool:
        """Whether all arrives in time."""
        end = time.perf_counter() + DRAINING
        while self._people.seen < self._expected.upto(self._sent):
            if time.perf_counter() > end:
                return False
            await asyncio.sleep(0.001)
        return True

    @property
    def under_way(self) -> int:
        """Events that not all have got who want them."""
        return self._sent - self._expected.complete(self._people.seen)

    async def _send(self, at: float) -> None:
        await self._publish(event(self._sent, at))
        self._sent += 1
        self._expected.upto(self._sent)
