"""History of a simulated network: the operations that the oracle judges deliveries by.

Time is counted in rests: moments at which the network was quiet. An operation before a rest had settled by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from sys import maxsize
from typing import Final

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.codec import Stamp, stamps_in
from palio.routing.messages import Publish

_NOT_YET: Final = maxsize  # after every operation and every rest


@dataclass(frozen=True, slots=True, eq=False)
class Subscription:
    """What `Network.subscribe` returns."""

    number: int
    at: int
    wanted: Filter
    client: str
    durable: bool = False

    def __str__(self) -> str:
        return f"subscription {self.number} at broker {self.at}: {self.wanted}"


@dataclass(frozen=True, slots=True, eq=False)
class Advertisement:
    """What `Network.advertise` returns."""

    number: int
    at: int
    offered: Filter
    client: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of an event to a subscription: at which broker, at what time, and in which envelope."""

    subscription: Subscription
    event: Event
    at: int
    time: float
    envelope: Publish = field(repr=False)
    age: float | None = None
    """The highest age that the event may have had then, in seconds, where the option `timeliness` is set; None where it
    is unknown."""

    def is_timely(self, seconds: float) -> bool:
        """Whether the event is known to be at most so old. One of unknown age is not."""
        return self.age is not None and self.age <= seconds

    @property
    def hops(self) -> int:
        """The links it came over."""
        return self.envelope.hops

    @property
    def sequence(self) -> int:
        """Its number among the events of its publisher, at the broker that accepted it."""
        return self.envelope.publisher

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """The times on the way, where the option `stamps` is set."""
        return stamps_in(self.envelope.stamps)


@dataclass(frozen=True, slots=True)
class Completion:
    """The statement that a subscription has all events that it wanted of a stretch: of those that a broker accepted in
    one incarnation, numbered after `after` up to `up_to`. `deliveries` were made to it before."""

    subscription: Subscription
    broker: int
    incarnation: int
    after: int
    up_to: int
    time: float
    sources: tuple[tuple[str, int], ...]
    deliveries: int


@dataclass(slots=True)
class Lifetime:
    """The operations that began and ended something, and the number of rests before each."""

    made: int
    made_after: int
    ended: int | None = None
    ended_after: int | None = None
    made_at: float = 0.0
    """Virtual seconds; of a request that a full disk refused, infinite until it is repeated."""
    ended_at: float = inf


@dataclass(frozen=True, slots=True)
class Publication:
    """An event, where it was accepted, and the state of the network then."""

    event: Event
    at: int
    client: str
    operation: int
    after: int
    components: tuple[int, ...]
    confirm: bool = False
    owed: tuple[Subscription, ...] = ()
    """The durable subscriptions that were known where it was accepted, should it be confirmed."""
    time: float = 0.0
    guarded: tuple[Subscription, ...] = ()
    """Those of them whose standby was known there."""


@dataclass(slots=True)
class History:
    """All operations on a network. Where disks are slow, requests take effect only later."""

    slow_disks: bool = False
    advertised: bool = False
    """Whether only advertised events are admitted; elsewhere advertisements change nothing."""
    clock: Callable[[], float] = float
    """The virtual time."""
    rests: int = 0
    operations: int = 0
    subscriptions: dict[Subscription, Lifetime] = field(default_factory=dict)
    advertisements: dict[Advertisement, Lifetime] = field(default_factory=dict)
    publications: list[Publication] = field(default_factory=list)
    disturbed: set[int] = field(default_factory=set)
    """The rests after which links or brokers came or went before the next one."""
    corrupted: set[int] = field(default_factory=set)
    """The rests after which events may have met corrupted tables: then any delivery may come, or be missing."""
    crashed: set[tuple[int, int]] = field(default_factory=set)
    """The brokers that crashed, with the rests after which they did."""

    full: set[tuple[int, int]] = field(default_factory=set)
    """The brokers whose disks were full, with the rests after which they were."""
    full_now: set[int] = field(default_factory=set)

    refused: set[str] = field(default_factory=set)
    """The ids of events that a full disk refused after they were published; publishers repeat them."""
    accepted: set[str] = field(default_factory=set)
    """The ids of events that were confirmed."""
    places: dict[Subscription, int] = field(default_factory=dict)
    """Where durable subscriptions are at home whose standby was promoted."""
    guarded: dict[Subscription, set[int]] = field(default_factory=dict)
    """The brokers at which the standby of each durable subscription was known at some rest, unless it is promoted."""
    settled: dict[Subscription, set[int]] = field(default_factory=dict)
    """The brokers at which each durable subscription was known at some rest."""

    def rest(self, components: Callable[[], Sequence[int | None]]) -> None:
        """Note that the network is quiet: all joined brokers know all requests. None is a broker that is down."""
        self.rests += 1
        self.full.update((self.rests, broker) for broker in self.full_now)
        if self.settled:
            labels = components()
            for subscription, brokers in self.settled.items():
                if self.subscriptions[subscription].made == _NOT_YET:
                    continue
                here = labels[self.place(subscription)]
                brokers.update(at for at, label in enumerate(labels) if label == here is not None)

    def place(self, subscription: Subscription) -> int:
        """The home of a subscription."""
        return self.places.get(subscription, subscription.at)

    def owed(self, at: int) -> tuple[Subscription, ...]:
        """The durable subscriptions that are known at a broker and not ended."""
        lives = self.subscriptions
        return tuple(each for each, brokers in self.settled.items() if at in brokers and lives[each].ended is None)

    def guard(self, subscription: Subscription, labels: Sequence[int | None]) -> None:
        """Note that a durable subscription has a standby, which all brokers joined to its home know."""
        here = labels[self.place(subscription)]
        joined = {at for at, label in enumerate(labels) if label == here is not None}
        self.guarded.setdefault(subscription, set()).update(joined)

    def next(self) -> int:
        self.operations += 1
        return self.operations

    def begin(self) -> Lifetime:
        return Lifetime(self.next(), self.rests, made_at=self.clock())

    def fill(self, broker: int) -> None:
        """Note that the disk of a broker is full from now on."""
        self.full_now.add(broker)
        self.full.add((self.rests, broker))

    def postpone(self, life: Lifetime) -> None:
        """Note that the last request of a lifetime, its begin or its end, has not taken effect."""
        if life.ended is None:
            life.made = life.made_after = _NOT_YET
            life.made_at = inf
        else:
            life.ended = life.ended_after = _NOT_YET
            life.ended_at = inf

    def resume(self, life: Lifetime) -> None:
        """Note that a postponed request is made again."""
        if life.ended is None and life.made == _NOT_YET:
            life.made, life.made_after, life.made_at = self.next(), self.rests, self.clock()
        elif life.ended == _NOT_YET:
            self.end(life)

    def end(self, life: Lifetime) -> None:
        life.ended, life.ended_after, life.ended_at = self.next(), self.rests, self.clock()
