"""The store on disk does what the one in plain dictionaries does, whatever is written in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from palio import DurableSettings, Filter
from palio.errors import PalioError
from palio.network.store.interface import (
    Acknowledged,
    ConsumerLost,
    DeadLetterAdded,
    DeadLettersRemoved,
    DeliveriesFailed,
    Recovered,
    Retention,
    Writable,
)
from palio.network.store.memory import MemoryStore
from palio.network.store.sqlite import SqliteStore
from palio.network.store.writer import JUMP_ACCEPTED_SECONDS
from palio.routing.client_messages import AdvertiseClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.durable_settings import ON_FULL_POLICIES
from palio.routing.effects import BrokerStanding, Finished, Logged, Queued, Record
from palio.routing.messages import Publish
from tests.network.store.making import event, subscribed

CLIENTS = ("desk", "über")
NAMES = ("a", "b")
MEMORY = Path("/dev/shm")  # where syncing costs nothing
names = st.sampled_from(NAMES)
clients = st.sampled_from(CLIENTS)
settings_of_queues = st.builds(
    DurableSettings,
    max_events=st.sampled_from([None, 1, 2]),
    max_bytes=st.sampled_from([None, 1, 300]),
    on_full=st.sampled_from([None, *ON_FULL_POLICIES]),
)


class Stores(RuleBasedStateMachine):
    """Both stores get the same, and must answer the same."""

    @initialize(
        overflow=st.sampled_from(ON_FULL_POLICIES),
        log_bytes=st.sampled_from([None, 0, 300, 2_000]),
        log_seconds=st.sampled_from([None, 0.0, 5.0]),
        queue_bytes=st.sampled_from([250, 10_000]),
    )
    def begin(self, overflow: str, log_bytes: int | None, log_seconds: float | None, queue_bytes: int) -> None:
        self.path = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        keeping = Retention(duplicates=4, dead_letters=3, queue_events=3)
        self.keeping = replace(
            keeping,
            log_bytes=log_bytes,
            log_seconds=log_seconds,
            queue_bytes=queue_bytes,
            queue_overflow=overflow,  # type: ignore[arg-type]
        )
        self.now = 1_000.0
        self.disk = SqliteStore(self.path, self.keeping, clock=lambda: self.now)
        self.memory = MemoryStore(self.keeping, clock=lambda: self.now)
        self.node = self.disk.open().node
        self.memory.open()
        self.lives = 1
        self.logged: list[Publish] = []

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.disk.close()
            shutil.rmtree(self.path)

    def write(self, *entries: Writable) -> None:
        answers: list[str | None] = []
        for store in (self.disk, self.memory):
            try:
                store.write(entries)
            except PalioError as error:
                answers.append(f"{type(error).__name__}: {error}")
            else:
                answers.append(None)
        assert answers[0] == answers[1]
        self.disk.retain()
        self.memory.retain()

    def waiting(self, client: str, name: str) -> list[int]:
        return [number for number, _ in self.memory.queue(client, name).read(0, 100)]

    @rule(padding=st.integers(0, 300), queue=st.lists(st.tuples(clients, st.lists(names, min_size=1)), max_size=2))
    def log(self, padding: int, queue: list[tuple[str, list[str]]]) -> None:
        made = event(len(self.logged) + 1, padding=padding)
        self.logged.append(made)
        entries: list[Writable] = [Logged(made, "exchange", made.body[:8])]
        self.write(*entries, *(Queued(client, tuple(wanted), made) for client, wanted in queue))

    @rule(client=clients, wanted=st.lists(names, min_size=1), sequence=st.integers(1, 9), key=st.booleans())
    def take_from_a_neighbour(self, client: str, wanted: list[str], sequence: int, key: bool) -> None:
        made = event(sequence, node=7)
        self.write(Queued(client, tuple(wanted), made, b"neighbour" if key else b""))

    @rule(data=st.data(), client=clients, name=names)
    def queue_what_was_logged(self, data: st.DataObject, client: str, name: str) -> None:
        if self.logged:
            self.write(Queued(client, (name,), data.draw(st.sampled_from(self.logged))))

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if self.logged:
            self.write(*(Finished(each.id) for each in data.draw(st.lists(st.sampled_from(self.logged), max_size=3))))

    @rule(data=st.data(), client=clients, name=names)
    def acknowledge(self, data: st.DataObject, client: str, name: str) -> None:
        numbers = st.sampled_from(self.waiting(client, name)) if self.waiting(client, name) else st.integers(0, 50)
        self.write(Acknowledged(client, name, tuple(data.draw(st.lists(numbers, max_size=3)))))

    @rule(data=st.data(), client=clients, name=names, most=st.sampled_from([None, 1, 2]))
    def fail_deliveries(self, data: st.DataObject, client: str, name: str, most: int | None) -> None:
        numbers = st.sampled_from(self.waiting(client, name)) if self.waiting(client, name) else st.integers(0, 50)
        failed = tuple(data.draw(st.lists(numbers, max_size=3)))
        self.write(DeliveriesFailed(client, name, failed, "why", most))

    @rule(data=st.data(), client=clients, name=names, most=st.sampled_from([None, 2]))
    def lose_a_consumer(self, data: st.DataObject, client: str, name: str, most: int | None) -> None:
        last = max(self.waiting(client, name), default=3) + 1
        acknowledged, delivered = sorted(data.draw(st.tuples(st.integers(0, last), st.integers(0, last))))
        self.write(ConsumerLost(client, name, acknowledged, delivered, most))

    @rule(client=clients, name=names, bound=st.integers(0, 3), offered=st.booleans())
    def ask(self, client: str, name: str, bound: int, offered: bool) -> None:
        offer = Record(client, AdvertiseClient(name, Filter.parse(f"x > {bound}")))
        self.write(offer if offered else subscribed(name, f"x > {bound}", client))

    @rule(client=clients, name=names, settings=settings_of_queues)
    def ask_for_a_bounded_queue(self, client: str, name: str, settings: DurableSettings) -> None:
        self.write(subscribed(name, "x > 1", client, settings))

    @rule(client=clients, name=names, offered=st.booleans(), again=st.booleans())
    def take_back(self, client: str, name: str, offered: bool, again: bool) -> None:
        request = UnadvertiseClient(name) if offered else UnsubscribeClient(name)
        after = [Queued(client, (name,), event(1, node=8))] if again else []
        self.write(Queued(client, (name,), event(2, node=8)), Record(client, request), *after)

    @rule(broker=st.integers(1, 3), number=st.integers(1, 5), gone=st.booleans())
    def hear_of_a_home(self, broker: int, number: int, gone: bool) -> None:
        self.write(BrokerStanding(broker, number, gone))

    @rule(client=clients, name=names, data=st.binary(max_size=10))
    def bury(self, client: str, name: str, data: bytes) -> None:
        self.write(DeadLetterAdded(client, name, "why", data))

    @rule(numbers=st.lists(st.integers(1, 6), max_size=3))
    def exhume(self, numbers: list[int]) -> None:
        self.write(DeadLettersRemoved(tuple(numbers)))

    @rule(seconds=st.sampled_from([-100, -1, 1, 4, 20]))
    def set_the_clock(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def begin_another_life(self) -> None:
        self.disk.close()
        recovered, expected = self.disk.open(), self.memory.open()
        self.lives += 1
        assert (recovered.node, recovered.incarnation) == (self.node, self.lives)
        assert _comparable(recovered) == _comparable(expected)
        # The store on disk does not expire by a clock that may be wrong after a start; it believes one that lasts.
        self.now += 100 * JUMP_ACCEPTED_SECONDS
        self.disk.retain()
        self.memory.retain()

    @invariant()
    def both_keep_the_same(self) -> None:
        if not hasattr(self, "disk"):
            return
        for client in CLIENTS:
            for name in NAMES:
                on_disk, in_memory = self.disk.queue(client, name), self.memory.queue(client, name)
                assert on_disk.read(0, 100) == in_memory.read(0, 100)
                assert on_disk.size()[:2] == in_memory.size()[:2]
                assert on_disk.oldest() == in_memory.oldest()
                numbers = self.waiting(client, name)
                assert on_disk.failures(numbers) == in_memory.failures(numbers)
        assert self.disk.log.bounds() == self.memory.log.bounds()
        assert self.disk.log.size() == self.memory.log.size()
        first, _ = self.memory.log.bounds()
        assert self.disk.log.read(first, 3) == self.memory.log.read(first, 3)
        assert self.disk.log.find(self.now) == self.memory.log.find(self.now)
        assert self.disk.dead_letters.read(0, 10) == self.memory.dead_letters.read(0, 10)
        assert self.disk.dead_letters.counts() == self.memory.dead_letters.counts()


def _comparable(recovered: Recovered) -> tuple[object, ...]:
    return set(recovered.records), recovered.unfinished, recovered.seen, set(recovered.homes)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=max(5, settings.default.max_examples // 4), stateful_step_count=30)
