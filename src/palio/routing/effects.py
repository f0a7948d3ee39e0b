"""Inputs and effects of a broker, which has no I/O of its own.

Effects are carried out in their order, and a crash may come between any two: every prefix of them leaves a state from
which the protocols recover. An effect that must not come before something is on disk is not among those of the batch
that writes it: it comes out when `Persisted` goes in. Inputs and effects of which there is one for each event are
structures of msgspec, which are made in a quarter of the time of a named tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from palio.filters.filter import Filter
from palio.routing.client_messages import Answer, ClientRequest, Refusal
from palio.routing.durable_settings import OnFull
from palio.routing.messages import (
    BEGINS_AT_BROKER,
    LOCAL,
    BrokerLogPage,
    EventId,
    Message,
    Publish,
    PublishColumns,
)

if TYPE_CHECKING:
    from palio.events.batches import EventBatch, Rows

Client: TypeAlias = str
Lane: TypeAlias = Literal["control", "events"]
DEDUPLICATION_WINDOW_KEYS: Final = 100_000  # keys of durable events by which duplicates are known


# Inputs


class Received(Struct, frozen=True, gc=False):
    """A message came from a neighbour."""

    link: int
    message: Message
    at: float


class Requested(Struct, frozen=True, gc=False):
    """A client asked for something."""

    client: Client
    request: ClientRequest | BatchRequest
    at: float


class BatchRequest(Struct, frozen=True, gc=False):
    """Publish a batch of events, without a confirmation; `body` is its encoded form (`columnar_codec`)."""

    batch: EventBatch
    body: bytes
    age: int = BEGINS_AT_BROKER
    aged_at: int = 0


class TimerFired(NamedTuple):
    name: str


class LinkUp(NamedTuple):
    """A neighbour has shaken hands, and grants its first credit; `columns` where it takes batches of events."""

    link: int
    neighbour: int
    credit: int
    columns: bool = False


class LinkDown(NamedTuple):
    link: int


class ClientGone(NamedTuple):
    """A client left; its subscriptions and advertisements end, but for durable ones."""

    client: Client


class Persisted(NamedTuple):
    """All records of a `Persist` are on disk."""

    token: int


class NotPersisted(NamedTuple):
    """No record of a `Persist` is on disk, and none will be."""

    token: int
    reason: str
    kind: Refusal = "refused"


class Credit(NamedTuple):
    """A neighbour grants credit for more events."""

    link: int
    events: int


class WorkDone(NamedTuple):
    """A job is done; the broker calls its result."""

    token: int
    result: Callable[[], None] | None


class ReadDone(NamedTuple):
    """The page of a `Read`; None where the log cannot be read."""

    token: int
    page: BrokerLogPage | None


class Fetched(NamedTuple):
    """The events of a `Fetch` that are still unfinished; None where they cannot be read."""

    token: int
    events: tuple[Publish, ...] | None


class QueueFull(NamedTuple):
    """The queue of a subscription is full: a durable one that refuses events, or one that holds publishers back, for
    some seconds at most."""

    client: Client
    name: str
    seconds: float = 0.0


class QueueFree(NamedTuple):
    """A queue that was full has room again, holds publishers back no longer, or is gone."""

    client: Client
    name: str


class DefaultOverflow(NamedTuple):
    """The overflow policy of this broker for durable subscriptions that ask for none. Other brokers are told which
    policy each has: it decides about what waits there while this broker is away."""

    on_full: OnFull


Input: TypeAlias = (
    Received
    | Requested
    | TimerFired
    | LinkUp
    | LinkDown
    | ClientGone
    | Persisted
    | NotPersisted
    | Credit
    | WorkDone
    | ReadDone
    | Fetched
    | QueueFull
    | QueueFree
    | DefaultOverflow
)


# Effects


class Send(Struct, frozen=True, gc=False):
    """One message to several neighbours."""

    links: tuple[int, ...]
    message: Message


class Recipient(NamedTuple):
    """A client, and which of its subscriptions an event is for."""

    client: Client
    names: tuple[str, ...]


class Deliver(Struct, frozen=True, gc=False):
    """One event to several clients, each once; `link` is where it came from, or `LOCAL`."""

    clients: tuple[Recipient, ...]
    event: Publish
    link: int = LOCAL


class BatchRecipient(NamedTuple):
    """A client, and which rows of a batch are for which of its subscriptions; each row is in one group at most."""

    client: Client
    groups: tuple[tuple[tuple[str, ...], Rows], ...]


class DeliverColumns(Struct, frozen=True, gc=False):
    """Rows of a batch of events to several clients, each row once to each."""

    clients: tuple[BatchRecipient, ...]
    message: PublishColumns
    batch: EventBatch


class Reply(NamedTuple):
    """An answer to a client; `event` is the one that an `Accepted` confirms, unless it was accepted before."""

    client: Client
    answer: Answer
    event: EventId | None = None


class Record(NamedTuple):
    """A request, to be carried out again after a crash; the last one of a name holds."""

    client: Client
    request: ClientRequest


class Logged(NamedTuple):
    """An entry of the event log, unfinished until `Finished`.

    `key` goes into the deduplication window, unless it is empty.
    """

    event: Publish
    publisher: Client
    key: bytes = b""


class Queued(NamedTuple):
    """An event in the durable queues of a client, for each until the client acknowledges it."""

    client: Client
    names: tuple[str, ...]
    event: Publish
    key: bytes = b""


class Finished(NamedTuple):
    """A logged event is in all durable queues that it is for, and need not be routed again after a crash."""

    event: EventId


class LoggedDeadLetter(NamedTuple):
    """A logged event becomes a dead letter: a subscription goes without it, for a reason."""

    event: EventId
    reason: str


class HomeInterest(NamedTuple):
    """A part of the durable interest of a home, as it announced it (`delivery.home_interests`); the last record of a
    part holds."""

    broker: int
    bucket: int
    version: int
    data: bytes


class BrokerStanding(NamedTuple):
    """A broker that has durable subscriptions or a log, and its last standing (`delivery.durable_subscriptions`); the
    last record of a broker holds. One that is `gone` was given up."""

    broker: int
    standing: int
    gone: bool = False


class LinkRecord(NamedTuple):
    """A row of the recovery database (`upkeep.recovery`), by neighbour, part and key; the last record of a key holds.
    One without data removes the row, and without a key as well all rows of the part."""

    neighbour: int
    part: int
    key: bytes | None
    data: bytes | None


class HomeEpoch(NamedTuple):
    """The home and the standby of a durable subscription in an epoch (`delivery.standby`); the last record of a name
    holds, until the subscription ends. `former` is a home that has yet to learn that it is none any more; `address`
    is how the subscriber named the standby."""

    client: Client
    name: str
    epoch: int
    home: int = 0
    standby: int | None = None
    former: int | None = None
    address: str = ""


Entry: TypeAlias = (
    Record | Logged | Queued | Finished | LoggedDeadLetter | BrokerStanding | HomeInterest | LinkRecord | HomeEpoch
)


class Remembered(NamedTuple):
    """The state that a broker persisted in its last life."""

    records: tuple[Record, ...] = ()
    unfinished: tuple[Logged, ...] = ()  # the first ones, in the order in which they were logged
    seen: tuple[bytes, ...] = ()  # keys of events, the oldest first
    homes: tuple[BrokerStanding, ...] = ()
    interests: tuple[HomeInterest, ...] = ()
    window: int = DEDUPLICATION_WINDOW_KEYS  # the most keys there may be
    spilled: tuple[EventId, ...] = ()  # further unfinished events, which are on disk alone
    links: tuple[LinkRecord, ...] = ()
    epochs: tuple[HomeEpoch, ...] = ()


class Persist(NamedTuple):
    """Write records, all or none, then answer with the token."""

    records: tuple[Entry, ...]
    token: int


class Read(NamedTuple):
    """Read at most `limit` events of the log from an offset, or from a time where there is none; answer those that
    match with the token."""

    wanted: Filter
    place: int | None
    since: float
    limit: int
    token: int


class Fetch(NamedTuple):
    """Read unfinished events of the log by their ids; answer with the token."""

    ids: tuple[EventId, ...]
    token: int


class SetTimer(NamedTuple):
    """Fire once after some seconds; a timer of the same name is set anew. One for `upkeep` is set for ever, and does
    not count where a simulation waits until the network is quiet."""

    name: str
    after: float
    upkeep: bool = False


class CancelTimer(NamedTuple):
    name: str


Job: TypeAlias = Callable[[], Callable[[], None] | None]
"""Work for any thread; it may return a rest that the broker itself must do."""


class Work(NamedTuple):
    """Do a job in the background, then answer with the token and its result."""

    job: Job
    token: int


class Close(NamedTuple):
    """Give up a link, and say why."""

    link: int
    reason: str


class Drop(NamedTuple):
    """A message was dropped on purpose; the host counts drops by reason.

    With `UNWANTED` it is an event that came by a link for nothing, and `useless` of its envelope counts the links.
    """

    reason: str
    message: Message | None = None
    link: int | None = None


UNWANTED: Final = "no subscription matches here"
UNREADABLE: Final = "unreadable"  # the begin of the reason


Effect: TypeAlias = (
    Send | Deliver | DeliverColumns | Reply | Persist | Read | Fetch | SetTimer | CancelTimer | Work | Close | Drop
)
