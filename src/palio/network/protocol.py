"""What do a client and its broker say to each other? Small values, written by the codec of the fabric.

A connection begins with a greeting, and that decides what it is: `ClientHello` makes it a client's, `BrokerHello` or
the `Hello` of a link session a broker's. What a client asks for has a number of its own choice; the answer repeats it.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Raw, Struct

from palio.filters.filter import Filter
from palio.network.security.sealing import ID_BYTES, SECRET_BYTES
from palio.routing import codec
from palio.routing.clients import Confirm, Past

VERSION: Final = 1
LONGEST_NAME: Final = 200
LONGEST_TOKEN: Final = 4096
Name: TypeAlias = Annotated[str, Meta(max_length=LONGEST_NAME)]
Overflow: TypeAlias = Literal["block", "drop_oldest", "drop_newest", "disconnect"]
Failure: TypeAlias = Literal[
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
]


class ClientHello(Struct, frozen=True, array_like=True, tag=80):
    """A client greets. `publisher` is what it calls itself over all its connections, so that an event that it sends
    again over another one is known."""

    version: int
    app: Name = ""
    token: Annotated[str, Meta(max_length=LONGEST_TOKEN)] = ""
    publisher: Name = ""


class BrokerHello(Struct, frozen=True, array_like=True, tag=81):
    """A broker greets, before its session does; needed where brokers must say who they are."""

    version: int
    token: Annotated[str, Meta(max_length=LONGEST_TOKEN)] = ""


class AskKey(Struct, frozen=True, array_like=True, tag=97):
    """A broker asks for a key to seal its datagrams with, over TLS; `secret` is its half, `replaces` the key's id that
    it has until now."""

    secret: Annotated[bytes, Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)]
    replaces: Annotated[bytes, Meta(max_length=ID_BYTES)] = b""


class KeyGiven(Struct, frozen=True, array_like=True, tag=113):
    """The key: its id, the other half, and for how many seconds and datagrams it is good."""

    id: Annotated[bytes, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
    secret: Annotated[bytes, Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)]
    seconds: Annotated[float, Meta(gt=0)]
    datagrams: Annotated[int, Meta(gt=1)]


class Welcome(Struct, frozen=True, array_like=True, tag=82):
    """The broker's answer to a client: who it is, in which life, and what it grants.

    `window` is how many confirmed events may be under way; frames and events that are longer are not let in. So many
    events may be published in a second, and so many at once now.
    """

    version: int
    node: int
    incarnation: int
    longest_frame: int
    window: int
    heartbeat: float
    longest_event: int
    events_per_second: float = inf
    events_left: float = inf


class Subscribe(Struct, frozen=True, array_like=True, tag=83):
    """Deliver what matches, under a name that is the client's own; at first so many events, then as `More` says.

    A durable subscription outlives the connection, and its events wait for `Acknowledge`. `queue` and `overflow`: how
    many events may wait at the broker, and what happens to one more; 0 and "" are what the broker thinks best.

    Subscriptions of a `group` share queue and credit, under the name of the group, and each event comes once for all of
    them; a durable one has none. `validity` is for how many seconds it stands unless `Renew` is said; 0 is without end.
    """

    request: int
    name: Name
    wanted: Filter
    durable: bool = False
    confirm: Confirm = "edge"
    credit: int = 1024
    queue: int = 0
    overflow: Overflow | Literal[""] = ""
    group: Name = ""
    validity: float = 0.0


class Renew(Struct, frozen=True, array_like=True, tag=98):
    """A subscription that stands for a while only is to stand for as long again."""

    request: int
    name: Name


class Unsubscribe(Struct, frozen=True, array_like=True, tag=84):
    """Deliver no more; of a durable subscription: forget it, and all that waits."""

    request: int
    name: Name


class Detach(Struct, frozen=True, array_like=True, tag=85):
    """Deliver no more here; a durable subscription goes on collecting."""

    request: int
    name: Name


class Advertise(Struct, frozen=True, array_like=True, tag=86):
    """I am going to publish what matches; where a validity is given, only for so many seconds after I last said so."""

    request: int
    name: Name
    offered: Filter
    validity: float = 0.0


class Unadvertise(Struct, frozen=True, array_like=True, tag=87):
    request: int
    name: Name


class Publish(Struct, frozen=True, array_like=True, tag=88):
    """An event; with a request number its confirmation is asked for, without one (0) it may be lost."""

    request: int
    body: bytes
    header: bytes = b""


class More(Struct, frozen=True, array_like=True, tag=89):
    """So many more events may be sent for a subscription, or for a group."""

    name: Name
    events: int


class Acknowledge(Struct, frozen=True, array_like=True, tag=90):
    """Events of a durable subscription that are dealt with, by the numbers they were delivered with."""

    name: Name
    numbers: tuple[int, ...]


class StatusQuery(Struct, frozen=True, array_like=True, tag=91):
    request: int


class LogQuery(Struct, frozen=True, array_like=True, tag=94):
    """Events of this broker's own log that match, from an offset, or from a time where one is given; 0 is the oldest.

    So many are looked at, whether they match or not; 0 asks only where the log begins and ends.
    """

    request: int
    wanted: Filter
    start: int = 0
    time: float | None = None
    limit: int = 1_000


class ReplayQuery(Struct, frozen=True, array_like=True, tag=95):
    """Confirmed events of all brokers' logs that match: from the offsets that are named, of other logs from a time."""

    request: int
    wanted: Filter
    since: float = 0.0
    places: tuple[tuple[int, int], ...] = ()
    limit: int = 500


class Forget(Struct, frozen=True, array_like=True, tag=96):
    """A broker is not coming back, and nothing waits for it any more. Only an operator may say so."""

    request: int
    broker: int


class Sync(Struct, frozen=True, array_like=True, tag=99):
    """Answer this when all that I said before is dealt with."""

    request: int


class Ping(Struct, frozen=True, array_like=True, tag=92):
    """I am still here. Either end says so where it has nothing else to say."""


class Delivery(Struct, frozen=True, array_like=True, tag=100):
    """An event of a durable subscription, with the number by which it wants to be acknowledged."""

    name: str
    body: bytes
    number: int
    stamps: bytes = b""  # when it passed links, where brokers say so (`routing.stamps`)


class Matched(Struct, frozen=True, array_like=True, tag=107):
    """An event that nobody acknowledges, once for all subscriptions that want it: by the numbers of the requests that
    made them. The same ones come again and again, so they are written and read apart: by `numbers` and `numbers_in`."""

    subscriptions: Raw
    body: bytes
    stamps: bytes = b""


class Done(Struct, frozen=True, array_like=True, tag=101):
    """Requests that were carried out: events that are accepted, subscriptions that stand."""

    requests: tuple[int, ...]


class Failed(Struct, frozen=True, array_like=True, tag=102):
    """A request that was not carried out; 0 where it had no number."""

    request: int
    kind: Failure
    reason: str


class Elsewhere(Struct, frozen=True, array_like=True, tag=110):
    """The answer to a durable subscription that lives at other brokers: their numbers, and the addresses at which it
    can be asked for, empty where they are not known. Without a request (0) it is said of one that stands, by name."""

    request: int
    homes: tuple[tuple[int, str], ...]
    name: str = ""


class Cancelled(Struct, frozen=True, array_like=True, tag=103):
    """The last publisher that could have served a subscription is gone; it stays, in case another comes."""

    name: str


class Dropped(Struct, frozen=True, array_like=True, tag=104):
    """So many events of a subscription or group were thrown away in all, because its queue was full."""

    name: str
    events: int


class Ended(Struct, frozen=True, array_like=True, tag=111):
    """The broker delivers no more for a subscription, and this is why."""

    name: str
    kind: Failure
    reason: str


class StatusAnswer(Struct, frozen=True, array_like=True, tag=105):
    request: int
    status: dict[str, Any]


class LoggedEvent(Struct, frozen=True, array_like=True):
    """An event of a log: when it was logged, in seconds since 1970, and its body."""

    offset: int
    time: float
    body: bytes


class LogAnswer(Struct, frozen=True, array_like=True, tag=108):
    """What was found, from where to go on, the oldest offset that is kept, and the one that the next event gets.

    A `start` before the oldest finds nothing: what is gone is never skipped silently.
    """

    request: int
    node: int
    oldest: int
    after: int
    next: int
    events: tuple[LoggedEvent, ...]


class ReplayAnswer(Struct, frozen=True, array_like=True, tag=109):
    """What all logs have that could be asked, in the order of time."""

    request: int
    past: Past


class Goodbye(Struct, frozen=True, array_like=True, tag=106):
    """The connection is about to be closed, and this is why."""

    kind: Failure
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
    | More
    | Acknowledge
    | StatusQuery
    | LogQuery
    | ReplayQuery
    | Forget
    | Sync
    | Ping
    | Goodbye
)
FromServer: TypeAlias = (
    Welcome
    | Delivery
    | Matched
    | Done
    | Failed
    | Elsewhere
    | Cancelled
    | Dropped
    | Ended
    | StatusAnswer
    | LogAnswer
    | ReplayAnswer
    | Ping
    | Goodbye
)
PING: Final[int] = 92
GOODBYE: Final[int] = 106
BROKER_HELLO: Final[int] = 81
CLIENT_HELLO: Final[int] = 80

encode = codec.encode_any
decode_greeting = codec.reader(ClientHello | BrokerHello | AskKey)
decode_key_answer = codec.reader(KeyGiven | Ping | Goodbye)
decode_from_client = codec.reader(FromClient)
decode_from_server = codec.reader(FromServer)
decode_goodbye = codec.reader(Goodbye)
numbers_in = codec.reader(tuple[int, ...])


def numbers(subscriptions: tuple[int, ...]) -> Raw:
    """The numbers of subscriptions, as `Matched` has them."""
    return Raw(encode(subscriptions))
