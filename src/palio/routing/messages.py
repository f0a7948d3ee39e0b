"""Messages between brokers, and the frames of link sessions that carry them; `codec` encodes them.

Between brokers a filter has a key, sixteen bytes. With simple routing that is the key of one subscription, so that
equal filters of two subscribers stay two; with every other propagation it is the digest of the filter, so that they are
one (Shen §3.3, where both are needed). An event travels as an envelope around bytes: a broker that must look
at its content decodes the body once, and passes it on as it came.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from palio.filters.filter import Filter
from palio.routing.durable_settings import DurableSettings

# Times and durations in seconds. A bound, whichever, refuses NaN, which would pass every later comparison.
Time: TypeAlias = Annotated[float, Meta(ge=-1e300)]
Duration: TypeAlias = Annotated[float, Meta(ge=0)]
Key: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
KEY_BYTES: Final = 16
UNKNOWN_AGE: Final = -1  # of an event, where no bound on a delay was known on its way
BEGINS_AT_BROKER: Final = -2  # age of an event whose publisher knows none: it begins where the event is accepted
LOCAL: Final = 0  # the interface of a broker's own clients; links to neighbours are numbered from 1


class EventId(Struct, frozen=True, array_like=True, order=True):
    """The identifier of an event in the whole network: the broker that accepted it, its incarnation, and a count."""

    node: int
    incarnation: int
    sequence: int


# Between brokers, in the control lane: never dropped, never behind events.


class Begin(Struct, frozen=True, array_like=True, tag=1):
    """The messages that follow on this link replace all that were sent on it before.

    In a spanning tree a link is used for as long as either end chose the other as its parent, and each choice has a
    number: what follows holds for these two choices, the sender's and the receiver's, and no others. `answers` is set
    where this answers a `Begin` of the other end, which need not repeat itself.
    """

    mine: int = 0
    yours: int = 0
    answers: bool = False


class Subscribe(Struct, frozen=True, array_like=True, tag=2):
    """Send me events that match; where filters have home brokers, they are for clients of `home` (`home_tables`)."""

    key: Key
    wanted: Filter
    home: int | None = None


class Unsubscribe(Struct, frozen=True, array_like=True, tag=3):
    """Withdraw the subscription of this key."""

    key: Key


class Advertise(Struct, frozen=True, array_like=True, tag=4):
    """Events that match may come from here."""

    key: Key
    offered: Filter


class Unadvertise(Struct, frozen=True, array_like=True, tag=5):
    """Withdraw the advertisement of this key."""

    key: Key


class Registration(Struct, frozen=True, array_like=True):
    """So many more registrations of a filter, or fewer, and of others that it stands for."""

    wanted: Filter
    own: int
    others: int


class Register(Struct, frozen=True, array_like=True, tag=31):
    """Changes of the registrations behind the sender, the main one first; they belong together
    (`propagation.registration_table`)."""

    registrations: Annotated[tuple[Registration, ...], Meta(min_length=1)]


class Renewal(Struct, frozen=True, array_like=True, tag=30):
    """Subscriptions and advertisements under lease, new ones and renewed ones (`upkeep.leases`).

    They hold for `validity` seconds from their arrival, and for the bound on the delay of this message; or `until` a
    time of the wall clock, where that is not 0. `age` and `aged_at` are those of `Publish`.
    """

    validity: Duration
    subscriptions: tuple[Subscribe, ...] = ()
    advertisements: tuple[Advertise, ...] = ()
    age: int = UNKNOWN_AGE
    aged_at: int = 0
    until: Time = 0.0


class Resume(Struct, frozen=True, array_like=True, tag=27):
    """After `Begin`: the sender has the first `received` updates of a stream of the receiver's, 0 where it has none
    (`upkeep.recovery`)."""

    stream: int
    received: int


TableChange: TypeAlias = Subscribe | Unsubscribe | Advertise | Unadvertise


class Update(Struct, frozen=True, array_like=True, tag=28):
    """Numbered changes of a table, from 1 on in each stream; a neighbour applies all of them or none."""

    stream: int
    number: int
    changes: tuple[TableChange, ...]


class Stored(Struct, frozen=True, array_like=True, tag=29):
    """The sender has the updates of a stream up to a number, and a crash does not lose them."""

    stream: int
    number: int


class Settle(Struct, frozen=True, array_like=True, tag=6):
    """Query of an echo: answer `Settled` when every broker behind you has handled what was sent before this."""

    query_id: EventId


class Settled(Struct, frozen=True, array_like=True, tag=7):
    """The answer to `Settle`; not `whole` where a link broke meanwhile, and the query must be repeated."""

    query_id: EventId
    whole: bool = True


class Announce(Struct, frozen=True, array_like=True, tag=8):
    """Announcement to all brokers, such as a new routing tree; the highest version of a topic holds."""

    topic: str
    version: int
    data: bytes


class Report(Struct, frozen=True, array_like=True, tag=11):
    """The filters of a broker's clients, for the optimiser of routing trees (`announcements`).

    `anew`: this replaces all earlier reports.
    """

    node: int
    anew: bool
    added: tuple[tuple[Key, Filter], ...]
    removed: tuple[Key, ...]


class Candidate(Struct, frozen=True, array_like=True, order=True, tag=20):
    """The best candidate for making the routing trees on the sender's side of a link: the lowest (`election`)."""

    rank: int
    node: int
    incarnation: int


class LinkState(Struct, frozen=True, array_like=True, tag=21):
    """The neighbours of a broker, for trees of publishers (`link_states`); the highest version holds."""

    node: int
    incarnation: int
    version: int
    neighbours: tuple[int, ...]


class ClockReference(Struct, frozen=True, array_like=True, tag=26):
    """Readings of clocks for bounds on delays (`upkeep.timeliness`), in nanoseconds.

    `sent` is when this was sent. The helper is a message of the receiver: when it was sent by the receiver's clock and
    received by the sender's, and the lower bound of its delay. The report is of another message of the receiver, with
    the upper bound of its delay. A bound below 0: there is none yet.
    """

    sent: int
    helper_sent: int
    helper_received: int
    helper_lower_bound: int
    report_sent: int
    report_received: int
    report_upper_bound: int


class TableSketch(Struct, frozen=True, array_like=True):
    """A Bloom filter of the entries of a table, and their number (`upkeep.sketches`)."""

    entries: Annotated[int, Meta(ge=0)]
    hashes: Annotated[int, Meta(ge=1, le=64)]
    vector: Annotated[bytes, Meta(min_length=1)]


class Observe(Struct, frozen=True, array_like=True, tag=90):
    """Sketches of what the receiver should have from the sender: its subscriptions, then its advertisements
    (`upkeep.stabilising`). A receiver that has something else answers with `Listing`.

    `seed` is that of the hashes in this round. `brokers` counts those on the sender's side of the link.
    """

    round: int
    seed: Annotated[int, Meta(ge=0)]
    brokers: Annotated[int, Meta(ge=1)]
    sketches: tuple[TableSketch, ...]


class Listing(Struct, frozen=True, array_like=True, tag=91):
    """A page of the entries that the sender has from the receiver, after an `Observe` of this round.

    `table` is 0 for subscriptions, 1 for advertisements. An entry has 32 bytes: its key, and the digest of its filter,
    which for a filter with a home broker is that of both.
    """

    round: int
    table: Annotated[int, Meta(ge=0, le=1)]
    entries: bytes
    is_last: bool = True


class Offer(Struct, frozen=True, array_like=True, tag=9):
    """The sender's place in the spanning tree, and the number of its choice where the receiver is its parent, else 0.
    `path` are the brokers from the root to the sender, with failover."""

    root: int
    epoch: int
    distance: int
    chosen: int
    path: tuple[int, ...] = ()


class Request(Struct, frozen=True, array_like=True, tag=10):
    """The root shall begin an epoch after this one: a broker found no way to it that is sure to have no loop."""

    root: int
    epoch: int


class Reach(Struct, frozen=True, array_like=True, tag=12):
    """Brokers with durable subscriptions or logs behind the sender: those that came, with their standing, and those
    that went.

    It follows their subscriptions on the link (`delivery.durable_subscriptions`). One that `answers` some candidates of
    a hierarchy has all that are behind the sender.
    """

    added: tuple[tuple[int, int], ...]
    removed: tuple[int, ...] = ()
    answers: int = 0


class AttemptOutcome(Struct, frozen=True, array_like=True):
    """The outcome of one delivery attempt: not `whole` where it must be made again, and then `unwritten` are the home
    brokers whose disks did not take it."""

    id: EventId
    attempt: int
    whole: bool = True
    unwritten: tuple[int, ...] = ()


class Acknowledge(Struct, frozen=True, array_like=True, tag=13):
    """Behind the sender these durable events are in every durable queue that they are for."""

    events: tuple[AttemptOutcome, ...]


class PastEvent(Struct, frozen=True, array_like=True):
    """An event of a log: its offset there, when it was logged, its identity (`DeliveryTag`), and its body."""

    offset: int
    time: Time
    identity: bytes
    body: bytes


class BrokerLogPage(Struct, frozen=True, array_like=True):
    """A page of one broker's log with those `events` that match: from `start`, which has expired where it is before
    `oldest`, up to before `next`, and to the time `until`; the log goes up to before `end`."""

    broker: int
    oldest: int
    start: int
    next: int
    end: int
    until: Time
    events: tuple[PastEvent, ...] = ()


class Replay(Struct, frozen=True, array_like=True, tag=14):
    """Query of an echo: answer with a page of each log, from the offset in `places`, or else from the time `since`."""

    id: EventId
    wanted: Filter
    since: Time
    places: tuple[tuple[int, int], ...]
    limit: int


class Replayed(Struct, frozen=True, array_like=True, tag=15):
    """The answer to `Replay`: a page of each log that could be read."""

    id: EventId
    pages: tuple[BrokerLogPage, ...]


class HomeBroker(Struct, frozen=True, array_like=True, order=True):
    """The home broker of a durable subscription, and the address for clients; empty where it has none."""

    broker: int
    address: str


class Seek(Struct, frozen=True, array_like=True, tag=17):
    """Query of an echo: which brokers have this durable subscription? The initiator claims it (`durable_claims`)."""

    id: EventId
    key: Key


class Found(Struct, frozen=True, array_like=True, tag=18):
    """The answer to `Seek`: the brokers that have it, the home brokers that were asked, and those that are known of;
    not `whole` where a link broke meanwhile, and the query must be repeated."""

    id: EventId
    lives: tuple[HomeBroker, ...]
    homes: tuple[int, ...]
    known: tuple[int, ...]
    whole: bool = True


class Holds(Struct, frozen=True, array_like=True, tag=19):
    """A broker has these durable subscriptions; one that has any of them too answers all with a `Holds` of its own."""

    lives: HomeBroker
    keys: tuple[Key, ...]


NoticeKind: TypeAlias = Literal["hold", "held", "refuse", "check", "end", "fence", "fenced", "rival", "done"]


class StandbyNotice(Struct, frozen=True, array_like=True, tag=22):
    """From one home of a durable subscription to the other (`delivery.standby`), over the brokers between them.

    `to` is the number of a broker, or an address of the one that is asked for the first time. `sender` is where the
    notice is from, and what is `wanted` and the `settings` go with `hold`.
    """

    kind: NoticeKind
    to: str
    sender: HomeBroker
    client: str
    name: str
    epoch: int
    wanted: Filter | None = None
    settings: DurableSettings | None = None
    reason: str = ""
    hops: int = 0
    events: tuple[EventId, ...] = ()  # acknowledged at the home


# Between brokers, in the event lane.


class DeliveryTag(Struct, frozen=True, array_like=True):
    """The mark of a durable event: its identity, and the number of the delivery attempt.

    The identity is the digest of publisher, source and id: equal at every broker that accepts the event. Attempts of a
    later incarnation have higher numbers.
    """

    identity: Key
    attempt: int


class Publish(Struct, frozen=True, array_like=True, tag=16):
    """An event under way: its encoded body, and the envelope that brokers write.

    `header` is the forwarding information of the last broker (`forwarding.headers`), or empty. `hops` counts links,
    `useless` those since it was last of use: since a broker that delivered it or sent it more than one way (Shen
    §5.6). `epoch` is that of the spanning tree. `publisher` numbers the events of one publisher at the broker that
    accepted them. `stamps` are the times at which it passed links, where brokers have wall clocks (`codec`). `kept`
    marks a durable event, which every hop acknowledges (`delivery`). `age` is the highest age that it may have had at
    the reading `aged_at` of the sender's clock, in nanoseconds; below 0 it is unknown (`upkeep.timeliness`).
    """

    id: EventId
    body: bytes
    header: bytes = b""
    hops: int = 0
    useless: int = 0
    epoch: int = 0
    publisher: int = 0
    stamps: bytes = b""
    kept: DeliveryTag | None = None
    age: int = UNKNOWN_AGE
    aged_at: int = 0


class PublishColumns(Struct, frozen=True, array_like=True, tag=25):
    """Events under way as columns (`columnar_codec`), with the envelope of all of them; none is durable.

    They are `count` of a batch that one client published: `rows` are their places in it, four bytes each, or empty
    where these are all. `id` and `publisher` are the numbers of the first event of that batch, and each event has its
    place added. `useless` has four bytes for each event, or none where all are 0. `age` and `aged_at` are those of
    `Publish`. Only a neighbour whose `Hello` has `columns` is sent this.
    """

    id: EventId
    count: Annotated[int, Meta(ge=1)]
    body: bytes
    rows: bytes = b""
    hops: int = 0
    useless: bytes = b""
    epoch: int = 0
    publisher: int = 0
    stamps: bytes = b""
    age: int = UNKNOWN_AGE
    aged_at: int = 0


class Watermark(Struct, frozen=True, array_like=True, tag=24):
    """Of the events that a broker accepted, numbered after `after` up to `up_to`, all that the receiver wants were sent
    before this on the link (`completeness`).

    That holds for the `seen` first updates of the receiver's tables on this connection, and for none where it is below
    0. `sent` counts the sender's own updates before this. `serial` numbers the watermarks of a broker, `time` is that
    of its wall clock, and `sources` are those that published in the stretch, sealed where events are.
    """

    node: int
    incarnation: int
    serial: int
    after: int
    up_to: int
    seen: int
    sent: int
    time: float = 0.0
    sources: bytes = b""


Control: TypeAlias = (
    Begin
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Register
    | Renewal
    | Resume
    | Update
    | Stored
    | Settle
    | Settled
    | Announce
    | Report
    | Candidate
    | LinkState
    | ClockReference
    | Observe
    | Listing
    | Offer
    | Request
    | Reach
    | Acknowledge
    | Replay
    | Replayed
    | Seek
    | Found
    | Holds
    | StandbyNotice
)
Message: TypeAlias = Control | Publish | PublishColumns | Watermark


# Frames of link sessions, around the messages.


class Hello(Struct, frozen=True, array_like=True, tag=64):
    """Handshake: broker, incarnation, constants of the network, and the first credit.

    `connection` numbers this end's connections; `seen` is the other end's, where that is known, otherwise 0. `answers`
    is set on a `Hello` that needs no answer. `columns` tells that this end takes batches of events (`PublishColumns`).
    """

    node: int
    incarnation: int
    constants: dict[str, bool | int | float | str]
    credit: int
    connection: int = 0
    seen: int = 0
    answers: bool = False
    columns: bool = False


class Grant(Struct, frozen=True, array_like=True, tag=65):
    """Credit for more events."""

    events: int


class Packet(Struct, frozen=True, array_like=True, tag=66):
    """A numbered message of one lane, with cumulative acknowledgements of both lanes in the other direction.

    Without a message it is a bare acknowledgement. `to` and `by` are the connections of the two ends: a packet of
    another connection than the present one is dropped. `granted` is the credit since the connection began.
    """

    to: int
    by: int
    control: int
    events: int
    granted: int
    lane: int = 0
    number: int = 0
    message: bytes = b""


Frame: TypeAlias = Hello | Grant | Packet
