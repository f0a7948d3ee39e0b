"""What goes into a broker, and what does it want done? A broker has no I/O: these are all its senses and hands.

Effects are carried out in their order, and a crash may come between any two: every prefix of them leaves a state from
which the protocols recover. What must not happen before something is on disk is not among the effects of the batch
that asked for it: it comes out when `Persisted` goes in. Those of which there is one for each event are structures of
msgspec, which are made in a quarter of the time of a named tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from palio.filters.filter import Filter
from palio.routing.clients import Answer, ClientRequest, Refusal
from palio.routing.messages import EventId, LogPage, Message, Publish

Client: TypeAlias = str
Lane: TypeAlias = Literal["control", "events"]
REMEMBERED: Final = 100_000  # keys of events by which duplicates are known


# Inputs


class Received(Struct, frozen=True, gc=False):
    """A message came from a neighbour."""

    link: int
    message: Message
    at: float


class Requested(Struct, frozen=True, gc=False):
    """A client asked for something."""

    client: Client
    request: ClientRequest
    at: float


class TimerFired(NamedTuple):
    name: str


class LinkUp(NamedTuple):
    """A neighbour is there, and has the same constants; so many events may be sent before more is granted."""

    link: int
    neighbour: int
    credit: int


class LinkDown(NamedTuple):
    link: int


class ClientGone(NamedTuple):
    """A client left, and all it asked for ends, but for what is durable."""

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
    """The neighbour takes so many more events."""

    link: int
    events: int


class WorkDone(NamedTuple):
    """A job is done, and returned something."""

    token: int
    result: Callable[[], None] | None


class ReadDone(NamedTuple):
    """What a `Read` has found; None where the log cannot be read."""

    token: int
    page: LogPage | None


class QueueFull(NamedTuple):
    """A durable queue that blocks publishers can take no more."""

    client: Client
    name: str


class QueueFree(NamedTuple):
    """It can again."""

    client: Client
    name: str


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
    | QueueFull
    | QueueFree
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
    """One event to several clients, each once."""

    clients: tuple[Recipient, ...]
    event: Publish


class Reply(NamedTuple):
    """What a client is told beside events."""

    client: Client
    answer: Answer


class Record(NamedTuple):
    """What a client asked for, so that it can be asked for again after a crash; the last one of a name holds."""

    client: Client
    request: ClientRequest


class Logged(NamedTuple):
    """An event was let in here by a publisher who is to be told: it goes to the log, unfinished until `Finished`.

    `key` is what duplicates of it are known by: remembered for a window of stated size, and not where it is empty.
    """

    event: Publish
    publisher: Client
    key: bytes = b""


class Queued(NamedTuple):
    """An event for durable subscriptions of a client; it is kept for each until the client acknowledges it."""

    client: Client
    names: tuple[str, ...]
    event: Publish
    key: bytes = b""


class Finished(NamedTuple):
    """A logged event has reached everyone that it is for, and need not be routed again after a crash."""

    event: EventId


class Home(NamedTuple):
    """A broker that has durable subscriptions or a log, and what was last heard of it (`keeping.reach`); the last
    record of a broker holds. One that is `gone` is not waited for any more."""

    broker: int
    standing: int
    gone: bool = False


Entry: TypeAlias = Record | Logged | Queued | Finished | Home


class Remembered(NamedTuple):
    """What the last life of a broker wrote down and did not take back."""

    records: tuple[Record, ...] = ()
    unfinished: tuple[Logged, ...] = ()  # in the order in which they were logged
    seen: tuple[bytes, ...] = ()  # keys of events, the oldest first
    homes: tuple[Home, ...] = ()
    window: int = REMEMBERED  # how many keys there may be


class Persist(NamedTuple):
    """Write records, all or none, then answer with the token."""

    records: tuple[Entry, ...]
    token: int


class Read(NamedTuple):
    """Look at so many events of the log, from an offset, or from a time where there is none; find those that match, and
    answer with the token."""

    wanted: Filter
    place: int | None
    since: float
    limit: int
    token: int


class SetTimer(NamedTuple):
    """Fire once after so many seconds; a timer of the same name is set anew. One that is only for upkeep, and goes on
    for ever, keeps nobody from saying that a network is quiet."""

    name: str
    after: float
    upkeep: bool = False


class CancelTimer(NamedTuple):
    name: str


Job: TypeAlias = Callable[[], Callable[[], None] | None]
"""What can be done beside everything else, in any thread; it may return what is left for its broker to do itself."""


class Work(NamedTuple):
    """Do a job beside everything else, then answer with the token and what it returned."""

    job: Job
    token: int


class Close(NamedTuple):
    """Give up a link, and say why."""

    link: int
    reason: str


class Drop(NamedTuple):
    """Something was thrown away on purpose; whoever carries this out counts it.

    With `UNWANTED` it is an event that came by a link for nothing, and `useless` of its envelope counts the links.
    """

    reason: str
    message: Message | None = None
    link: int | None = None


UNWANTED: Final = "nobody wants it here"


Effect: TypeAlias = Send | Deliver | Reply | Persist | Read | SetTimer | CancelTimer | Work | Close | Drop
