"""Store contract: what a broker writes durably and reads back; a disk or memory implements it.

All changes go in by `submit`, in the order of the calls, all or none of each, and are answered once they are durable. A
broker submits the records of its `Persist` effects; the server adds acknowledgements and dead letters. Reads see what
has been answered. All calls may be made from any thread; answers come in a thread of the store's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from palio.errors import PalioError
from palio.network.settings_validation import check_minimum
from palio.routing.durable_settings import DurableSettings, OnFull
from palio.routing.effects import BrokerStanding, Client, Entry, HomeEpoch, HomeInterest, LinkRecord, Logged, Record
from palio.routing.messages import EventId, Publish


@dataclass(frozen=True)
class Retention:
    """Bounds of the log, the queues and the other tables; None is unbounded."""

    log_seconds: float | None = 7 * 24 * 3600.0
    log_bytes: int | None = 8 * 2**30
    # Of one durable subscription. An empty queue takes any event: otherwise one that is larger than the queue would
    # wait for ever, and all others behind it.
    queue_events: int = 1_000_000
    queue_bytes: int = 2**30
    queue_overflow: OnFull = "refuse"
    duplicates: int = 100_000  # size of the deduplication window
    dead_letters: int = 10_000
    disk_bytes: int | None = None  # of the whole database, the WAL aside

    def __post_init__(self) -> None:
        check_minimum(self, log_seconds=0, log_bytes=0, duplicates=0, dead_letters=0)
        check_minimum(self, queue_events=1, queue_bytes=1, disk_bytes=1)


class QueueBounds(NamedTuple):
    """Bounds and overflow policy of one durable queue."""

    events: int
    bytes: int
    on_full: OnFull

    def admits(self, events: int, bytes: int) -> bool:
        """Whether a queue takes one more event beside `events` others, with which it would have `bytes`."""
        return events == 0 or (events < self.events and bytes <= self.bytes)


def queue_bounds(settings: DurableSettings | None, retention: Retention) -> QueueBounds:
    """The bounds of a durable queue: those that its subscription asks for, else those of the broker.

    A subscriber cannot raise the broker's bounds, since the disk belongs to all of them.
    """
    if settings is None:
        return QueueBounds(retention.queue_events, retention.queue_bytes, retention.queue_overflow)
    return QueueBounds(
        min(settings.max_events or retention.queue_events, retention.queue_events),
        min(settings.max_bytes or retention.queue_bytes, retention.queue_bytes),
        settings.on_full or retention.queue_overflow,
    )


QUEUE_FULL_LETTER: Final = "its durable queue was full"  # the reason of a dead letter


# Unfinished events that a start reads into memory; what a broker has under way has the same bounds by default.
MAX_RECOVERED_EVENTS: Final = 10_000
MAX_RECOVERED_BYTES: Final = 64 * 2**20


class Recovered(NamedTuple):
    """State that a broker starts with."""

    node: int  # generated once
    incarnation: int  # grows by one at each start
    records: tuple[Record, ...]  # requests of clients that still stand
    unfinished: tuple[Logged, ...]  # the first accepted events not delivered everywhere, in log order
    seen: tuple[bytes, ...]  # duplicate keys, the oldest first
    homes: tuple[BrokerStanding, ...] = ()  # the last durable claim of each broker
    interests: tuple[HomeInterest, ...] = ()  # what each home announced last
    spilled: tuple[EventId, ...] = ()  # the other such events, which stay on disk until they are asked for
    links: tuple[LinkRecord, ...] = ()  # the recovery database
    epochs: tuple[HomeEpoch, ...] = ()  # the homes of durable subscriptions that have or had a standby


class Acknowledged(NamedTuple):
    """Events of a durable subscription that its client has processed."""

    client: Client
    name: str
    numbers: tuple[int, ...]


class DeliveriesFailed(NamedTuple):
    """Events of a durable subscription that were delivered, and not acknowledged for a reason. Each failed delivery is
    counted; an event with `most` of them becomes a dead letter. None is no limit."""

    client: Client
    name: str
    numbers: tuple[int, ...]
    reason: str
    most: int | None


class ConsumerLost(NamedTuple):
    """The only consumer of a durable subscription has gone. It had got the events up to `delivered`, and acknowledged
    none after `acknowledged`.

    The delivery of those that it passed over has failed, and that of the first one after them, which it was about to
    process. The others it may not have looked at: they were sent ahead.
    """

    client: Client
    name: str
    acknowledged: int
    delivered: int
    most: int | None


MAX_FAILED_AT_ONCE: Final = 1_024  # deliveries that one `ConsumerLost` counts
CONSUMER_GONE: Final = "its consumer went without acknowledging it"


def letter_reason(failures: int, reason: str) -> str:
    """The reason of a dead letter whose deliveries have failed."""
    return f"{failures:,} {'delivery' if failures == 1 else 'deliveries'} without an acknowledgement; {reason}"


class DeadLetterAdded(NamedTuple):
    """A message that could not be decoded or delivered, and why; the data are as received."""

    client: Client
    name: str
    reason: str
    data: bytes


class DeadLettersRemoved(NamedTuple):
    """Dead letters that are not needed any more."""

    numbers: tuple[int, ...]


Writable: TypeAlias = Entry | Acknowledged | DeliveriesFailed | ConsumerLost | DeadLetterAdded | DeadLettersRemoved
OnWritten: TypeAlias = Callable[[PalioError | None], None]


class LogEntry(NamedTuple):
    """An event of the log. Times are seconds since 1970, and never go back."""

    offset: int
    time: float
    publisher: Client
    event: Publish


class DeadLetter(NamedTuple):
    """A stored dead letter."""

    number: int
    time: float
    client: Client
    name: str
    reason: str
    data: bytes


class Size(NamedTuple):
    """Size of a queue, and the events that its overflow policy dropped since the store was opened."""

    events: int
    bytes: int
    dropped: int = 0


def is_half_empty(waiting: Size, bounds: QueueBounds) -> bool:
    """Whether a queue that was full takes events again; with one free place it would be full again at once."""
    return waiting.events == 0 or (2 * waiting.events <= bounds.events and 2 * waiting.bytes <= bounds.bytes)


MAX_READ_BYTES: Final = 4 * 2**20  # of events that are read together; the one that exceeds it is the last


def is_end_of_queue(events: Sequence[tuple[int, Publish]], limit: int) -> bool:
    """Whether a read of a queue has reached its end: it has fewer events than it might, and they are not long."""
    return len(events) < limit and sum([len(each.body) for _, each in events]) < MAX_READ_BYTES // 2


class Queue(Protocol):
    """Queue of a durable subscription; each event has a number that grows."""

    def read(self, after: int, limit: int) -> list[tuple[int, Publish]]:
        """The next events after a number, 0 for the first; they stay until they are acknowledged. There are fewer than
        `limit` at the end of the queue, and where they exceed `MAX_READ_BYTES`."""
        ...

    def size(self) -> Size: ...

    def failures(self, numbers: Sequence[int]) -> dict[int, int]:
        """The numbers of failed deliveries of some events; those without any are left out."""
        ...

    def oldest(self) -> float | None:
        """When the oldest waiting event was queued, in seconds since 1970; None where none waits."""
        ...


class Log(Protocol):
    """Event log: the events accepted here, by offsets that grow by one."""

    def bounds(self) -> tuple[int, int]:
        """The oldest offset, and the one that the next event will get."""
        ...

    def read(self, start: int, limit: int) -> list[LogEntry]:
        """The next events from an offset, fewer than `limit` as of a queue; `ExpiredOffset` where it is older than the
        oldest."""
        ...

    def find(self, time: float) -> int:
        """The offset of the first event that was logged at a time or later."""
        ...

    def size(self) -> Size: ...


class DeadLetters(Protocol):
    """Messages that could not be decoded or delivered."""

    def read(self, after: int, limit: int) -> list[DeadLetter]: ...

    def counts(self) -> Counter[tuple[Client, str]]:
        """Number of those of each subscription."""
        ...

    def size(self) -> Size: ...


class Store(Protocol):
    """Durable state of one broker."""

    @property
    def log(self) -> Log: ...

    @property
    def dead_letters(self) -> DeadLetters: ...

    @property
    def retention(self) -> Retention:
        """The bounds that are in force."""
        ...

    @property
    def takes_events(self) -> bool:
        """Whether there is room for events: False from a write that failed until there is space again."""
        ...

    def open(self) -> Recovered:
        """Start an incarnation; `StoreError` where that fails."""
        ...

    def submit(self, entries: Sequence[Writable], answer: OnWritten) -> None:
        """Write all or none of these; the answer is None once they are durable, or the error.

        `StoreFull` and `QueueFull` are temporary: the same may be submitted again later.
        """
        ...

    def write(self, entries: Sequence[Writable]) -> None:
        """Submit, and wait for the answer."""
        ...

    def unfinished(self, ids: Sequence[EventId]) -> list[Publish]:
        """Those of some logged events that are not finished, in the order of the ids."""
        ...

    def queue(self, client: Client, name: str) -> Queue:
        """The queue of a subscription; an empty one where there is none."""
        ...

    def change_retention(self, retention: Retention) -> None:
        """Apply other bounds from now on, but for the size of the database and of the deduplication window."""
        ...

    def is_half_empty(self, client: Client, name: str) -> bool:
        """Whether at most half of what may wait in the queue of a subscription does."""
        ...

    def retain(self) -> None:
        """Run retention at once; a store also does so by itself."""
        ...

    def close(self) -> None:
        """Close, after all submissions are answered."""
        ...
