"""Requests of clients to their broker, and its answers; `codec` encodes them.

The second byte of each tells what it is, as for the messages between brokers (`messages`), whose tags are lower.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from palio.filters.filter import Filter
from palio.routing.durable_settings import DurableSettings
from palio.routing.messages import BEGINS_AT_BROKER, EventId, HomeBroker, PastEvent, Time

Confirm: TypeAlias = Literal["no", "edge", "network"]
Refusal: TypeAlias = Literal["refused", "unadvertised", "busy", "full", "broken"]


class SubscribeClient(Struct, frozen=True, array_like=True, tag=32):
    """Deliver events that match, under a name that is the client's own.

    `confirm` asks for a `Confirmed`: when the broker has stored it (`edge`), or when all brokers know (`network`).
    What is `durable` has a queue on disk, and lasts until it is taken back: also while its client is away. With
    `completeness` the client gets `Complete` for each stretch of events; a durable one does not. `settings` are those
    of what is durable; without them it keeps those that it has. `standby` is the broker that is to be its second home,
    by address or number; without one it keeps the one that it has.
    """

    name: str
    wanted: Filter
    confirm: Confirm = "no"
    durable: bool = False
    completeness: bool = False
    settings: DurableSettings | None = None
    standby: str = ""


class UnsubscribeClient(Struct, frozen=True, array_like=True, tag=33):
    """Stop delivering for a name."""

    name: str


class AdvertiseClient(Struct, frozen=True, array_like=True, tag=34):
    """The client is going to publish events that match."""

    name: str
    offered: Filter


class UnadvertiseClient(Struct, frozen=True, array_like=True, tag=35):
    """End the advertisement of a name."""

    name: str


class PublishClient(Struct, frozen=True, array_like=True, tag=36):
    """Publish an encoded event, with a header where the client, a Spark job say, has matched it already.

    `number` is the client's own, and the answer repeats it: `Refused`, or `Accepted` where `confirm` asks for it.
    `publisher` is the principal that publishes it, by which duplicates are known; empty for the client's name. `age`
    and `aged_at` are those of `Publish`, by the clock of the broker; `BEGINS_AT_BROKER` is 0 when it is accepted.
    """

    body: bytes
    header: bytes = b""
    number: int = 0
    confirm: bool = False
    publisher: str = ""
    age: int = BEGINS_AT_BROKER
    aged_at: int = 0


class PublishBatch(Struct, frozen=True, array_like=True, tag=41):
    """Publish several events, all accepted in one write or none. Each is answered under its own number; `busy` is
    answered under the first alone."""

    events: tuple[PublishClient, ...]


class ForgetClient(Struct, frozen=True, array_like=True, tag=38):
    """Give up a broker that is not coming back: no event waits for its durable subscriptions any more. Only an operator
    may ask. `Accepted` or `Refused` answers, under a number of the client's own."""

    broker: int
    number: int = 0


class PromoteClient(Struct, frozen=True, array_like=True, tag=42):
    """Make this broker, the standby of an owner's durable subscription, its home. Only an operator may ask. `Accepted`
    or `Refused` answers, under a number of the client's own."""

    owner: str
    name: str
    number: int = 0


class DoneClient(Struct, frozen=True, array_like=True, tag=43):
    """Events of a durable subscription that its consumers have acknowledged here: its standby need not keep them."""

    name: str
    events: tuple[EventId, ...]


class ReplayClient(Struct, frozen=True, array_like=True, tag=39):
    """Replay confirmed events that match, of all logs: from the offsets in `places`, of other logs from the time
    `since`, in seconds since 1970. At most `limit` events of each log are read; `Past` answers."""

    number: int
    wanted: Filter
    since: Time = 0.0
    places: tuple[tuple[int, int], ...] = ()
    limit: int = 500


class ClaimClient(Struct, frozen=True, array_like=True, tag=40):
    """Ask whether this broker may be the home of an owner's durable subscription; `Claimed` answers."""

    owner: str
    name: str
    number: int = 0


class Confirmed(Struct, frozen=True, array_like=True, tag=48):
    """A subscription is stored, or known everywhere, as `confirm` asked."""

    name: str


class Cancelled(Struct, frozen=True, array_like=True, tag=49):
    """The last advertisement that could serve a subscription is gone; the subscription stays, in case another comes."""

    name: str


class Refused(Struct, frozen=True, array_like=True, tag=50):
    """A request that was not carried out: an event of this number, a subscription or an advertisement of this name.

    It may be repeated after `Proceed` where the broker is `busy`, and when there is room where its disk is `full`; a
    broker that is `broken` accepts nothing until it restarts.
    """

    reason: str
    kind: Refusal = "refused"
    number: int = 0
    name: str = ""


class Accepted(Struct, frozen=True, array_like=True, tag=51):
    """Confirmation: the event of this number is logged, and will be in every durable queue that it is for."""

    number: int


class Proceed(Struct, frozen=True, array_like=True, tag=52):
    """There is room again for events that are to be confirmed; ends `busy`."""


class Past(Struct, frozen=True, array_like=True, tag=53):
    """The answer to `ReplayClient`: events in the order of their times, each once, with the broker whose log has them.

    `places` are the offsets to go on from; there is no more where it is `complete`. Logs that could not be read are
    `missing`, and the answer is then partial. Requested offsets that are not in the log any more, or not yet, are
    `expired`, each with the oldest that is.
    """

    number: int
    events: tuple[tuple[int, PastEvent], ...]
    places: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    expired: tuple[tuple[int, int], ...]
    complete: bool


class Claimed(Struct, frozen=True, array_like=True, tag=54):
    """The answer to `ClaimClient`: granted where both are empty; `elsewhere` are its present home brokers, and `away`
    are brokers that could not be asked and may have it."""

    number: int
    elsewhere: tuple[HomeBroker, ...] = ()
    away: tuple[int, ...] = ()


class Divided(Struct, frozen=True, array_like=True, tag=55):
    """A durable subscription has other home brokers too, because the network was torn when it was made."""

    name: str


class Moved(Struct, frozen=True, array_like=True, tag=57):
    """A durable subscription is not at home here any more: it goes on at another broker, which was its standby."""

    name: str
    home: HomeBroker


class Consumed(Struct, frozen=True, array_like=True, tag=58):
    """At a standby: events that were acknowledged at the home of the subscription."""

    name: str
    events: tuple[EventId, ...]


class Complete(Struct, frozen=True, array_like=True, tag=56):
    """Of the events that a broker accepted in one incarnation, numbered after `after` up to `up_to`, all that these
    subscriptions want were delivered before this. `time` is when the broker said so, by its wall clock; `sources`
    published in the stretch, each with the number of its last event."""

    names: tuple[str, ...]
    broker: int
    incarnation: int
    after: int
    up_to: int
    time: float
    sources: tuple[tuple[str, int], ...] = ()


ClientRequest: TypeAlias = (
    SubscribeClient
    | UnsubscribeClient
    | AdvertiseClient
    | UnadvertiseClient
    | PublishClient
    | PublishBatch
    | ForgetClient
    | ReplayClient
    | ClaimClient
    | PromoteClient
    | DoneClient
)
Answer: TypeAlias = (
    Confirmed | Cancelled | Refused | Accepted | Proceed | Past | Claimed | Divided | Moved | Consumed | Complete
)
