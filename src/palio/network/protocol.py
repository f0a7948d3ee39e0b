"""Binary protocol between a client and its broker: the messages and their encoding.

The first frame decides what a connection is: `ClientHello` makes it a client's, `BrokerHello` or the `Hello` of a link
session a broker's. A client numbers its requests as it likes; the answer repeats the number.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from msgspec import Meta, Raw, Struct

from palio.filters.filter import Filter
from palio.routing import codec
from palio.routing.client_messages import Complete, Confirm, Past
from palio.routing.durable_settings import DurableSettings
from palio.routing.messages import BEGINS_AT_BROKER, UNKNOWN_AGE, ClockReference, Duration, Time

VERSION: Final = 1
KEY_ID_BYTES: Final = 8  # of a key for sealed datagrams
KEY_SECRET_BYTES: Final = 32  # that each end contributes to such a key
MAX_NAME_LENGTH: Final = 200
MAX_TOKEN_LENGTH: Final = 4096
MAX_REASON_LENGTH: Final = 500  # of a rejection
MAX_REJECTED_EVENTS: Final = 1_024  # by one message
DEFAULT_WINDOW_EVENTS: Final = 32  # that a member of a consumer group holds unacknowledged
DEFAULT_ACK_SECONDS: Final = 300.0  # after which such an event goes to another member
Name: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_LENGTH)]
Overflow: TypeAlias = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
OVERFLOW_POLICIES: Final[tuple[Overflow, ...]] = get_args(Overflow)
ErrorCode: TypeAlias = Literal[
    "refused",
    "not permitted",
    "not authenticated",
    "not advertised",
    "limit",
    "full",
    "broken",
    "wire",
    "unavailable",
    "away",
    "in use",
    "timeout",
]


# Messages are arrays that begin with their tag. Tags are below 128, one byte in MessagePack, and differ from those of
# `routing.messages` and `routing.client_messages`: the second byte of a frame tells what it is, without decoding it.


class ClientHello(Struct, frozen=True, array_like=True, tag=80):
    """Greeting of a client. `publisher` is a name that it keeps over its connections, by which an event
    retransmitted over another one is recognised as a duplicate. With `columns` it takes `MatchedMany` and
    `MatchedColumns`; to a client without it each event comes as a `Matched`. `instance` is its own alone: by it a
    client that is back takes over its durable subscriptions from a connection whose loss the broker has not noticed
    yet."""

    version: int
    app: Name = ""
    token: Annotated[str, Meta(max_length=MAX_TOKEN_LENGTH)] = ""
    publisher: Name = ""
    columns: bool = False
    instance: Name = ""


class BrokerHello(Struct, frozen=True, array_like=True, tag=81):
    """Authentication of a broker, before the greeting of its link session."""

    version: int
    token: Annotated[str, Meta(max_length=MAX_TOKEN_LENGTH)] = ""


class AskKey(Struct, frozen=True, array_like=True, tag=97):
    """Request of a broker, over TLS, for a key of sealed datagrams; `secret` is its half, `replaces` the id of the
    key that it has until now."""

    secret: Annotated[bytes, Meta(min_length=KEY_SECRET_BYTES, max_length=KEY_SECRET_BYTES)]
    replaces: Annotated[bytes, Meta(max_length=KEY_ID_BYTES)] = b""


class KeyGiven(Struct, frozen=True, array_like=True, tag=113):
    """The key: its id, the other half, and its lifetime in seconds and datagrams."""

    id: Annotated[bytes, Meta(min_length=KEY_ID_BYTES, max_length=KEY_ID_BYTES)]
    secret: Annotated[bytes, Meta(min_length=KEY_SECRET_BYTES, max_length=KEY_SECRET_BYTES)]
    seconds: Annotated[float, Meta(gt=0)]
    datagrams: Annotated[int, Meta(gt=1)]


class Welcome(Struct, frozen=True, array_like=True, tag=82):
    """Answer of the broker to a client's greeting: its number, its incarnation and its limits.

    `window` bounds the confirmed events in flight; `events_left` may be published at once now. `batch_events` bounds
    the events of one `PublishColumns`; a broker with 0 takes none. `max_drift` is the highest relative error of clocks
    by which it bounds delays; one with 0 bounds none, and exchanges no `ClockReference`.
    """

    version: int
    node: int
    incarnation: int
    longest_frame: int
    window: int
    heartbeat: Duration
    longest_event: int
    events_per_second: Duration = inf
    events_left: Duration = inf
    batch_events: int = 0
    max_drift: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class GroupMembership(Struct, frozen=True, array_like=True):
    """Membership in a consumer group: the attribute by whose values events are processed in order, empty without one,
    and the seconds within which an event is acknowledged."""

    key: Name = ""
    ack_seconds: Annotated[float, Meta(gt=0)] = DEFAULT_ACK_SECONDS


class Subscribe(Struct, frozen=True, array_like=True, tag=83):
    """Subscription under a name of the client's own, with an initial credit that `More` adds to.

    A durable subscription outlives the connection, and its events wait for `Acknowledge`. `queue` and `overflow` are
    the bound and the overflow policy of the delivery queue; 0 and "" are the broker's defaults.

    Subscriptions of a `set_name` share queue and credit under that name, and each event comes once for all of them; a
    durable one is in no set. `validity` is the length of its lease in seconds; 0 is without end. With
    `completeness` the broker sends `Completed`. `settings` are those of a durable one; without them it keeps those
    that it has. With `group` it is one member of the consumer group that reads the durable subscription of this name,
    and `credit` is how many events it holds unacknowledged. `standby` is the address of the broker that is to be the
    second home of a durable one; without it the subscription keeps the one that it has.
    """

    request: int
    name: Name
    wanted: Filter
    durable: bool = False
    confirm: Confirm = "edge"
    credit: int = 1024
    queue: int = 0
    overflow: Overflow | Literal[""] = ""
    set_name: Name = ""
    validity: Duration = 0.0
    completeness: bool = False
    settings: DurableSettings | None = None
    group: GroupMembership | None = None
    standby: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""


class Renew(Struct, frozen=True, array_like=True, tag=98):
    """Renewal of the lease of a subscription."""

    request: int
    name: Name


class Unsubscribe(Struct, frozen=True, array_like=True, tag=84):
    """End of a subscription; a durable one is removed with all events that wait. An operator may name another `owner`
    of a durable one."""

    request: int
    name: Name
    owner: Name = ""


class Detach(Struct, frozen=True, array_like=True, tag=85):
    """End of delivery to this connection; a durable subscription goes on collecting."""

    request: int
    name: Name


class Advertise(Struct, frozen=True, array_like=True, tag=86):
    """Announcement that the client is going to publish matching events; `validity` is its lease in seconds."""

    request: int
    name: Name
    offered: Filter
    validity: Duration = 0.0


class Unadvertise(Struct, frozen=True, array_like=True, tag=87):
    request: int
    name: Name


class Publish(Struct, frozen=True, array_like=True, tag=88):
    """A published event; with a request number it is confirmed, without one (0) it may be lost.

    `age` is the highest age that it may have had at the reading `aged_at` of the client's clock, in nanoseconds; -1 is
    unknown, and with -2 it begins at the broker.
    """

    request: int
    body: bytes
    header: bytes = b""
    age: int = BEGINS_AT_BROKER
    aged_at: int = 0


class PublishColumns(Struct, frozen=True, array_like=True, tag=93):
    """A batch of published events as columns (`routing.columnar_codec`), accepted as a whole or not at all.

    With a request number all of them are confirmed by one answer, without one (0) any may be lost. `age` and `aged_at`
    are those of `Publish`.
    """

    request: int
    body: bytes
    age: int = BEGINS_AT_BROKER
    aged_at: int = 0


class More(Struct, frozen=True, array_like=True, tag=89):
    """Additional credit of a subscription or set."""

    name: Name
    events: int


class Acknowledge(Struct, frozen=True, array_like=True, tag=90):
    """Processed events of a durable subscription, by the numbers of their deliveries."""

    name: Name
    numbers: tuple[int, ...]


class Reject(Struct, frozen=True, array_like=True, tag=120):
    """Events of a durable subscription that could not be processed, by the numbers of their deliveries: delivered
    again, or with `requeue` off dead letters at once."""

    name: Name
    numbers: Annotated[tuple[int, ...], Meta(max_length=MAX_REJECTED_EVENTS)]
    requeue: bool = True
    reason: Annotated[str, Meta(max_length=MAX_REASON_LENGTH)] = ""


class DurableQuery(Struct, frozen=True, array_like=True, tag=119):
    """Query of the durable subscriptions that this broker holds: of the client's principal, or for operators of all.
    With a name, of one, which another broker may hold. `StatusAnswer` answers, with a page of them and `next`, which is
    `after` in the query for the next page."""

    request: int
    name: Name = ""
    owner: Name = ""
    after: Annotated[str, Meta(max_length=3 * MAX_NAME_LENGTH)] = ""


class DurableLimit(Struct, frozen=True, array_like=True, tag=121):
    """New settings of a durable subscription; an operator may name another `owner`."""

    request: int
    name: Name
    settings: DurableSettings
    owner: Name = ""


class DurablePromote(Struct, frozen=True, array_like=True, tag=122):
    """Make this broker, the standby of a durable subscription, its home; only an operator may ask, and may name another
    `owner`."""

    request: int
    name: Name
    owner: Name = ""


class StatusQuery(Struct, frozen=True, array_like=True, tag=91):
    request: int


class LogQuery(Struct, frozen=True, array_like=True, tag=94):
    """Query of this broker's own log, from an offset or from a time where one is given; 0 is the oldest offset.

    `limit` bounds the events examined, matching or not; 0 asks only for the bounds of the log.
    """

    request: int
    wanted: Filter
    start: int = 0
    time: Time | None = None
    limit: int = 1_000


class ReplayQuery(Struct, frozen=True, array_like=True, tag=95):
    """Query of all brokers' logs: from an offset for the brokers in `places`, from a time for the others."""

    request: int
    wanted: Filter
    since: Time = 0.0
    places: tuple[tuple[int, int], ...] = ()
    limit: int = 500


class Forget(Struct, frozen=True, array_like=True, tag=96):
    """Removal of a broker that does not come back, so that nothing waits for it any more; for operators."""

    request: int
    broker: int


class Drain(Struct, frozen=True, array_like=True, tag=118):
    """Orderly end of the broker within some seconds; answered when clients are gone, or were left; for operators."""

    request: int
    seconds: float


class Sync(Struct, frozen=True, array_like=True, tag=99):
    """Barrier: answered when all earlier messages of this connection are handled."""

    request: int


class Ping(Struct, frozen=True, array_like=True, tag=92):
    """Heartbeat of an end that has nothing else to send."""


class Delivery(Struct, frozen=True, array_like=True, tag=100):
    """An event of a durable subscription, with the number by which it is acknowledged.

    `age` is the highest age that it may have had at the reading `aged_at` of the broker's clock, in nanoseconds; below
    0 it is unknown.
    """

    name: str
    body: bytes
    number: int
    stamps: bytes = b""  # times at which it passed links (`routing.codec`)
    deliveries: int = 1  # 1 + the number of its deliveries that have failed
    age: int = UNKNOWN_AGE
    aged_at: int = 0


class Matched(Struct, frozen=True, array_like=True, tag=107):
    """An event of subscriptions without acknowledgement, once for all that match, by the numbers of their requests.

    The same sets of numbers come again and again, so that they are encoded apart (`encode_numbers`, `decode_numbers`)
    and both ends remember the result. `age` and `aged_at` are those of `Delivery`.
    """

    subscriptions: Raw
    body: bytes
    stamps: bytes = b""
    age: int = UNKNOWN_AGE
    aged_at: int = 0


class MatchedMany(Struct, frozen=True, array_like=True, tag=115):
    """Consecutive events that match the same subscriptions, as one `Matched` each would bring them."""

    subscriptions: Raw
    bodies: tuple[bytes, ...]
    stamps: bytes = b""
    age: int = UNKNOWN_AGE
    aged_at: int = 0


class MatchedColumns(Struct, frozen=True, array_like=True, tag=116):
    """A batch of events as columns: groups of the subscriptions that match, as in `Matched`, and of their rows.

    Rows are numbers of four bytes, ascending; none in the only group are all rows. The events are in the order of rows.
    """

    groups: tuple[tuple[Raw, bytes], ...]
    body: bytes
    stamps: bytes = b""
    age: int = UNKNOWN_AGE
    aged_at: int = 0


class Done(Struct, frozen=True, array_like=True, tag=101):
    """Requests that succeeded: events that are accepted, subscriptions that stand."""

    requests: tuple[int, ...]


class Failed(Struct, frozen=True, array_like=True, tag=102):
    """A request that failed; 0 where it had no number."""

    request: int
    kind: ErrorCode
    reason: str


class Elsewhere(Struct, frozen=True, array_like=True, tag=110):
    """Referral to the home brokers of a durable subscription, with their addresses, empty where unknown.

    With request 0 it concerns a subscription that stands, by name.
    """

    request: int
    homes: tuple[tuple[int, str], ...]
    name: str = ""


class Cancelled(Struct, frozen=True, array_like=True, tag=103):
    """The last publisher that could serve a subscription is gone; the subscription stays for the next one."""

    name: str


class Dropped(Struct, frozen=True, array_like=True, tag=104):
    """Total of the events of a subscription or set that its full queue dropped."""

    name: str
    events: int


class Completed(Struct, frozen=True, array_like=True, tag=114):
    """A stretch of which all events that some subscriptions wanted were sent before this."""

    stretch: Complete


class Ended(Struct, frozen=True, array_like=True, tag=111):
    """End of a subscription by the broker, with the reason."""

    name: str
    kind: ErrorCode
    reason: str


class StatusAnswer(Struct, frozen=True, array_like=True, tag=105):
    request: int
    status: dict[str, Any]


class LogAnswerEvent(Struct, frozen=True, array_like=True):
    """An event of a log; the time is when it was logged, in seconds since 1970."""

    offset: int
    time: Time
    body: bytes


class LogAnswer(Struct, frozen=True, array_like=True, tag=108):
    """Matching events, the offset to continue from, and the bounds of the log.

    A `start` before the oldest offset finds nothing: expired events are never skipped silently.
    """

    request: int
    node: int
    oldest: int
    after: int
    next: int
    events: tuple[LogAnswerEvent, ...]


class ReplayAnswer(Struct, frozen=True, array_like=True, tag=109):
    """Past events of all brokers that could be asked, in the order of time."""

    request: int
    past: Past


class Goodbye(Struct, frozen=True, array_like=True, tag=106):
    """Announcement that the connection is about to be closed, with the reason."""

    kind: ErrorCode
    reason: str


FromClient: TypeAlias = (
    ClientHello
    | Subscribe
    | Renew
    | Unsubscribe
    | Detach
    | Advertise
    | Unadvertise
    | Publish
    | PublishColumns
    | More
    | Acknowledge
    | Reject
    | DurableQuery
    | DurableLimit
    | StatusQuery
    | LogQuery
    | ReplayQuery
    | Forget
    | DurablePromote
    | Drain
    | Sync
    | ClockReference
    | Ping
    | Goodbye
)
FromServer: TypeAlias = (
    Welcome
    | Delivery
    | Matched
    | MatchedMany
    | MatchedColumns
    | Done
    | Failed
    | Elsewhere
    | Cancelled
    | Dropped
    | Completed
    | Ended
    | StatusAnswer
    | LogAnswer
    | ReplayAnswer
    | ClockReference
    | Ping
    | Goodbye
)
# The channel's own messages, which it knows by their tags.
PING: Final[int] = 92
GOODBYE: Final[int] = 106
PEER_HELLO: Final[int] = 70  # greeting between peers of a ring (`network.peers.wire`)

encode = codec.encode_any
decode_greeting = codec.reader(ClientHello | BrokerHello | AskKey)
decode_key_answer = codec.reader(KeyGiven | Ping | Goodbye)
decode_from_client = codec.reader(FromClient)
decode_from_server = codec.reader(FromServer)
decode_goodbye = codec.reader(Goodbye)
decode_numbers = codec.reader(tuple[int, ...])


def encode_numbers(subscriptions: tuple[int, ...]) -> Raw:
    """The numbers of subscriptions in the form of `Matched`."""
    return Raw(encode(subscriptions))
