"""What does a client ask of its broker, and what is it answered? Events come by the effect `Deliver`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from palio.filters.filter import Filter
from palio.routing.messages import Lives, PastEvent, Report

Confirm: TypeAlias = Literal["no", "edge", "network"]
Refusal: TypeAlias = Literal["refused", "unadvertised", "busy", "full", "broken"]


class SubscribeClient(Struct, frozen=True, array_like=True, tag=32):
    """Deliver events that match, under a name that is the client's own.

    `confirm` asks for a `Confirmed`: when the broker has stored it (`edge`), or when all brokers know (`network`).
    What is `durable` has a queue on disk, and lasts until it is taken back: also while its client is away.
    """

    name: str
    wanted: Filter
    confirm: Confirm = "no"
    durable: bool = False


class UnsubscribeClient(Struct, frozen=True, array_like=True, tag=33):
    """Stop delivering for a name."""

    name: str


class AdvertiseClient(Struct, frozen=True, array_like=True, tag=34):
    """I am going to publish what matches this."""

    name: str
    offered: Filter


class UnadvertiseClient(Struct, frozen=True, array_like=True, tag=35):
    """I am not going to any more."""

    name: str


class PublishClient(Struct, frozen=True, array_like=True, tag=36):
    """An event, encoded; a header where the client, a Spark job say, has looked at its content already.

    `number` is the client's own, and the answer repeats it: `Refused`, or `Accepted` where `confirm` asks for it.
    `publisher` is whose event it is, where that is known better than by the client's name: duplicates are known by it.
    """

    body: bytes
    header: bytes = b""
    number: int = 0
    confirm: bool = False
    publisher: str = ""


class PublishTogether(Struct, frozen=True, array_like=True, tag=41):
    """Several events, all of them to be let in and written as one, or none. Each is answered under its own number; that
    the broker is busy is said of the first."""

    events: tuple[PublishClient, ...]


class AnnounceClient(Struct, frozen=True, array_like=True, tag=37):
    """Tell all brokers; see `messages.Announce`."""

    topic: str
    version: int
    data: bytes


class ForgetClient(Struct, frozen=True, array_like=True, tag=38):
    """A broker is not coming back: no event waits for its durable subscriptions any more. Only an operator may ask. It
    is answered by `Accepted` or `Refused`, under a number of the client's own."""

    broker: int
    number: int = 0


class ReplayClient(Struct, frozen=True, array_like=True, tag=39):
    """Tell me what was confirmed in the past and matches, of all logs: of those that are named from an offset, of the
    others from a time, in seconds since 1970. At most so many of each log are looked at; a `Past` answers."""

    number: int
    wanted: Filter
    since: float = 0.0
    places: tuple[tuple[int, int], ...] = ()
    limit: int = 500


class ClaimClient(Struct, frozen=True, array_like=True, tag=40):
    """May the durable subscription of this name, and of this owner, live here? A `Claimed` answers."""

    owner: str
    name: str
    number: int = 0


class Confirmed(Struct, frozen=True, array_like=True, tag=48):
    """A subscription is stored, or known everywhere, as it was asked for."""

    name: str


class Cancelled(Struct, frozen=True, array_like=True, tag=49):
    """The last publisher that could have served a subscription is gone; it stays, in case another comes."""

    name: str


class Refused(Struct, frozen=True, array_like=True, tag=50):
    """A request that was not carried out: an event of this number, a subscription or an advertisement of this name.

    It may be later, after `Proceed`, where the broker is `busy`, and when there is room where its disk is `full`; one
    that is `broken` takes nothing in this life.
    """

    reason: str
    kind: Refusal = "refused"
    number: int = 0
    name: str = ""


class Accepted(Struct, frozen=True, array_like=True, tag=51):
    """The event of this number is on disk, and will be in every durable queue that it is for."""

    number: int


class Proceed(Struct, frozen=True, array_like=True, tag=52):
    """There is room again for events that are to be confirmed."""


class Past(Struct, frozen=True, array_like=True, tag=53):
    """The answer to `ReplayClient`: events in the order of their times, each once, with the broker whose log has them.

    `places` are the offsets to go on from; there is no more where it is `complete`. Logs that could not be asked are
    `missing`, and what is said is part of what there is. Offsets that were asked for and are not kept any more, or
    are not given yet, are `expired`, each with the oldest that is kept.
    """

    number: int
    events: tuple[tuple[int, PastEvent], ...]
    places: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    expired: tuple[tuple[int, int], ...]
    complete: bool


class Claimed(Struct, frozen=True, array_like=True, tag=54):
    """The answer to `ClaimClient`. It may live here where nothing else is said; `elsewhere` is where it lives already,
    and `away` are brokers that could not be asked and may have it."""

    number: int
    elsewhere: tuple[Lives, ...] = ()
    away: tuple[int, ...] = ()


class Divided(Struct, frozen=True, array_like=True, tag=55):
    """A durable subscription lives at other brokers too, since they were apart when it was asked for."""

    name: str


ClientRequest: TypeAlias = (
    SubscribeClient
    | UnsubscribeClient
    | AdvertiseClient
    | UnadvertiseClient
    | PublishClient
    | PublishTogether
    | AnnounceClient
    | ForgetClient
    | ReplayClient
    | ClaimClient
)
Answer: TypeAlias = Confirmed | Cancelled | Refused | Accepted | Proceed | Past | Claimed | Divided | Report
