"""What do brokers and clients say to each other? Small frozen values; `codec` writes them.

Between brokers a filter has a key, sixteen bytes. With simple routing that is the key of one subscription, so that
equal filters of two subscribers are told apart; with every other propagation it is the digest of the filter, so that
they are not (Shen §3.3, where both are needed). What travels with an event is an envelope around bytes: the body is
decoded by whoever must look at its content, once, and passed on as it came.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from palio.filters.filter import Filter

Key: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
LOCAL: Final = 0  # the interface of a broker's own clients; links to neighbours are numbered from 1


class EventId(Struct, frozen=True, array_like=True, order=True):
    """Which event this is, in the whole network: who let it in, in which life, and the how manieth it was."""

    node: int
    incarnation: int
    sequence: int


# Between brokers, in the control lane: never dropped, never behind events.


class Begin(Struct, frozen=True, array_like=True, tag=1):
    """What follows on this link replaces everything that was said on it before.

    In a spanning tree a link is used for as long as either end chose the other as its parent, and each choice has a
    number: what follows holds for these two choices, the sender's and the receiver's, and no others. `answers` is set
    where the other end began again and is told again: it need not repeat itself for that.
    """

    mine: int = 0
    yours: int = 0
    answers: bool = False


class Subscribe(Struct, frozen=True, array_like=True, tag=2):
    """Send me events that match."""

    key: Key
    wanted: Filter


class Unsubscribe(Struct, frozen=True, array_like=True, tag=3):
    """What was asked for under this key is not wanted any more."""

    key: Key


class Advertise(Struct, frozen=True, array_like=True, tag=4):
    """Events that match may come from here."""

    key: Key
    offered: Filter


class Unadvertise(Struct, frozen=True, array_like=True, tag=5):
    """What was offered under this key will not come any more."""

    key: Key


class Settle(Struct, frozen=True, array_like=True, tag=6):
    """Answer `Settled` when all that I said before this has reached everyone behind you."""

    wave: EventId


class Settled(Struct, frozen=True, array_like=True, tag=7):
    """The answer to `Settle`; not `whole` where a link broke meanwhile, and the question must be asked again."""

    wave: EventId
    whole: bool = True


class Announce(Struct, frozen=True, array_like=True, tag=8):
    """Something all brokers must know, such as a new routing tree; the highest version of a topic holds."""

    topic: str
    version: int
    data: bytes


class Report(Struct, frozen=True, array_like=True, tag=11):
    """What the clients of a broker want, for whoever makes routing trees (`reports`).

    `anew`: this is all they want, whatever was reported before.
    """

    node: int
    anew: bool
    added: tuple[tuple[Key, Filter], ...]
    removed: tuple[Key, ...]


class Offer(Struct, frozen=True, array_like=True, tag=9):
    """Where I stand in the spanning tree, and the number of my choice where I chose you as my parent, otherwise 0."""

    root: int
    epoch: int
    distance: int
    chosen: int


class Request(Struct, frozen=True, array_like=True, tag=10):
    """The root shall begin an epoch after this one: somebody found no way to it that is sure to have no loop."""

    root: int
    epoch: int


class Reach(Struct, frozen=True, array_like=True, tag=12):
    """Which brokers with durable subscriptions are behind me, since I last said so: those with the lives they are in
    that came, and those that went.

    It follows all that they want: who is told of one has been told of its subscriptions (`keeping.reach`).
    """

    added: tuple[tuple[int, int], ...]
    removed: tuple[int, ...] = ()


class Acknowledged(Struct, frozen=True, array_like=True):
    """What became of one attempt to bring an event where it is wanted: not `whole` where it must be made again, and
    then `unwritten` are the homes whose disks did not take it."""

    id: EventId
    attempt: int
    whole: bool = True
    unwritten: tuple[int, ...] = ()


class Acknowledge(Struct, frozen=True, array_like=True, tag=13):
    """Behind me these kept events are in every durable queue that they are for."""

    events: tuple[Acknowledged, ...]


class PastEvent(Struct, frozen=True, array_like=True):
    """An event of a log: its offset there, when it was logged, who it is (`Kept`), and its body."""

    offset: int
    time: float
    identity: bytes
    body: bytes


class LogPage(Struct, frozen=True, array_like=True):
    """A piece of one broker's log, of which `events` are wanted: from `start`, which is kept where it is not before
    `oldest`, up to before `next`, and to a time; the log goes up to before `end`."""

    broker: int
    oldest: int
    start: int
    next: int
    end: int
    until: float
    events: tuple[PastEvent, ...] = ()


class Replay(Struct, frozen=True, array_like=True, tag=14):
    """Answer with what your log has, and those behind you: from the offsets that are named, otherwise from a time."""

    id: EventId
    wanted: Filter
    since: float
    places: tuple[tuple[int, int], ...]
    limit: int


class Replayed(Struct, frozen=True, array_like=True, tag=15):
    """The answer to `Replay`: a page of each log that could be read."""

    id: EventId
    pages: tuple[LogPage, ...]


class Lives(Struct, frozen=True, array_like=True, order=True):
    """A broker that has a durable subscription, and where clients reach it; empty where it does not say."""

    broker: int
    address: str


class Seek(Struct, frozen=True, array_like=True, tag=17):
    """Have you this durable subscription, or anybody behind you? I want to be its home (`claims`)."""

    id: EventId
    key: Key


class Found(Struct, frozen=True, array_like=True, tag=18):
    """The answer to `Seek`: who has it, which homes were asked, and which are known of; not `whole` where a link broke
    meanwhile, and the question must be asked again."""

    id: EventId
    lives: tuple[Lives, ...]
    homes: tuple[int, ...]
    known: tuple[int, ...]
    whole: bool = True


class Holds(Struct, frozen=True, array_like=True, tag=19):
    """A broker has these durable subscriptions; who has one of them too says so to all."""

    lives: Lives
    keys: tuple[Key, ...]


# Between brokers, in the event lane.


class Kept(Struct, frozen=True, array_like=True):
    """On an event that its publisher was or is to be assured of: who it is, and the how manieth attempt this is.

    The identity is the digest of publisher, source and id: the same at every broker by which a publisher lets it in.
    Attempts of a later life of the broker have higher numbers.
    """

    identity: Key
    attempt: int


class Publish(Struct, frozen=True, array_like=True, tag=16):
    """An event under way: its body, encoded, and what brokers write on its envelope.

    `header` is what the last broker found out (`forwarding.headers`), empty where it is none. `hops` counts links,
    `useless` those since it was last of use: since a broker that delivered it or sent it more than one way (Shen
    §5.6). `epoch` is that of the spanning tree. `publisher` numbers the events of one publisher at the broker that
    let them in. `stamps` are the times at which it passed links, where brokers have wall clocks (`stamps`). `kept` is
    there where every hop acknowledges (`keeping`).
    """

    id: EventId
    body: bytes
    header: bytes = b""
    hops: int = 0
    useless: int = 0
    epoch: int = 0
    publisher: int = 0
    stamps: bytes = b""
    kept: Kept | None = None


Control: TypeAlias = (
    Begin
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Settle
    | Settled
    | Announce
    | Report
    | Offer
    | Request
    | Reach
    | Acknowledge
    | Replay
    | Replayed
    | Seek
    | Found
    | Holds
)
Message: TypeAlias = Control | Publish
