"""What can be asked of a store? To write entries, all or none, and to say when they are safe; to read what is kept.

Everything that changes goes in by `submit`, in the order of the calls, and is answered once it is on disk: a broker
hands over what its effect `Persist` holds, and a server adds what only it knows of, acknowledgements and dead letters.
What is read is what has been answered. All calls may be made from any thread; answers come on a thread of the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from palio.errors import PalioError
from palio.network.choices import check_lowest
from palio.routing.effects import Client, Entry, Home, Logged, Record
from palio.routing.messages import Publish

Overflow: TypeAlias = Literal["refuse", "drop_oldest", "drop_newest"]


@dataclass(frozen=True)
class Keeping:
    """How much is kept, and for how long; None is without end."""

    log_seconds: float | None = 7 * 24 * 3600.0
    log_bytes: int | None = 8 * 2**30
    queue_events: int = 1_000_000  # that wait for one durable subscription
    queue_bytes: int = 2**30
    queue_overflow: Overflow = "refuse"
    duplicates: int = 100_000  # the last so many keys by which duplicates are known
    dead_letters: int = 10_000
    disk_bytes: int | None = None  # of the whole store on disk, but for what was written last

    def __post_init__(self) -> None:
        check_lowest(self, log_seconds=0, log_bytes=0, duplicates=0, dead_letters=0)
        check_lowest(self, queue_events=1, queue_bytes=1, disk_bytes=1)

    def has_room(self, events: int, bytes: int) -> bool:
        """Whether a queue of so many events takes one more, with which it has so many bytes. An empty one always does:
        otherwise an event that is larger than the queue would wait for ever, and all others behind it."""
        return events == 0 or (events < self.queue_events and bytes <= self.queue_bytes)


class Recovered(NamedTuple):
    """What a broker begins a life with."""

    node: int  # made once, kept for ever
    incarnation: int  # one more in each life
    records: tuple[Record, ...]  # what clients asked for and did not take back
    unfinished: tuple[Logged, ...]  # in the order in which they were logged
    seen: tuple[bytes, ...]  # keys of events, the oldest first
    homes: tuple[Home, ...] = ()  # the last record of each broker


class Acknowledged(NamedTuple):
    """A client has dealt with events of a durable subscription: they are not kept for it any more."""

    client: Client
    name: str
    numbers: tuple[int, ...]


class Buried(NamedTuple):
    """Something could not be read or delivered, and why; the data are as they came."""

    client: Client
    name: str
    reason: str
    data: bytes


class Exhumed(NamedTuple):
    """Dead letters that were dealt with, and need not be kept."""

    numbers: tuple[int, ...]


Writable: TypeAlias = Entry | Acknowledged | Buried | Exhumed
Answer: TypeAlias = Callable[[PalioError | None], None]


class LogEntry(NamedTuple):
    """An event of the log. Times are seconds since 1970, and never before that of an earlier entry."""

    offset: int
    time: float
    publisher: Client
    event: Publish


class DeadLetter(NamedTuple):
    """What was buried."""

    number: int
    time: float
    client: Client
    name: str
    reason: str
    data: bytes


class Size(NamedTuple):
    """How much waits, and how much was dropped by the rule for overflow since the store was opened."""

    events: int
    bytes: int
    dropped: int = 0


class Queue(Protocol):
    """The events that wait for a durable subscription, each with a number that grows."""

    def read(self, after: int, limit: int) -> list[tuple[int, Publish]]:
        """The next ones behind a number, 0 for the first; they stay until they are acknowledged."""
        ...

    def size(self) -> Size: ...

    def oldest(self) -> float | None:
        """Since when the first of them waits, in seconds since 1970; None where none does."""
        ...


class Log(Protocol):
    """The events that were let in here, by offsets that grow by one."""

    def bounds(self) -> tuple[int, int]:
        """The oldest offset that is kept, and the one that the next event will get."""
        ...

    def read(self, start: int, limit: int) -> list[LogEntry]:
        """The next ones from an offset; `ExpiredOffset` where it is older than what is kept."""
        ...

    def find(self, time: float) -> int:
        """The offset of the first event that was logged at a time or later."""
        ...

    def size(self) -> Size: ...


class DeadLetters(Protocol):
    """What could not be read or delivered."""

    def read(self, after: int, limit: int) -> list[DeadLetter]: ...

    def size(self) -> Size: ...


class Store(Protocol):
    """Where a broker keeps what must outlive it."""

    @property
    def log(self) -> Log: ...

    @property
    def dead_letters(self) -> DeadLetters: ...

    def open(self) -> Recovered:
        """Begin a life; `StoreError` where that cannot be."""
        ...

    def submit(self, entries: Sequence[Writable], answer: Answer) -> None:
        """Write all or none of these, and answer None when they are safe, or the error why they are not.

        The answer is a `StoreFull` or a `QueueFull` where there is no room; the same may be tried again later.
        """
        ...

    def write(self, entries: Sequence[Writable]) -> None:
        """The same, and wait for it."""
        ...

    def queue(self, client: Client, name: str) -> Queue:
        """What waits for a subscription; nothing where there is none."""
        ...

    def retain(self) -> None:
        """Let go of what is too old or too much, at once; a store does so by itself now and then."""
        ...

    def close(self) -> None:
        """End a life, after all that was submitted is answered."""
        ...
