"""Messages between peers, and what a peer asks of whoever runs it.

Peers are named by their positions on the ring. Whoever runs a peer carries its messages, and tells it when one could
not be delivered: a refused connection over sockets, a crashed host in a simulation.

A message is an array that begins with its tag; `network.peers` puts it into a frame of its own.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.rendezvous_mappings import Arc, Key
from palio.peers.ring import Runs


class Interest(Struct, frozen=True, array_like=True, tag=1):
    """A subscription as owners of its keys store it. Of two with one id, that of the higher version holds.

    For one that is `durable`, owners keep events while its peer cannot be reached.
    """

    id: str
    version: int
    subscriber: int
    wanted: Filter
    arcs: tuple[Arc, ...]
    lease_seconds: float
    has_ended: bool = False
    durable: bool = False


class Occurrence(Struct, frozen=True, array_like=True, tag=2):
    """An event, with the keys it is published under."""

    event: Event
    keys: tuple[Key, ...]


class Kept(Struct, frozen=True, array_like=True, tag=40):
    """An event that waits for the peer of a durable subscription, stored by the owner of the key under which they met,
    with copies."""

    id: str  # of the subscription
    event: Event
    key: Key


class Lookup(Struct, frozen=True, array_like=True, tag=3):
    """A question for the owner of a key."""


Payload: TypeAlias = Interest | Occurrence | Lookup


class Cast(Struct, frozen=True, array_like=True, tag=4):
    """A message to all owners of keys (m-cast). `origin` numbers what it sends, and waits for its answers."""

    keys: Runs
    payload: Payload
    origin: int
    number: int
    sender: int
    to_successor: bool
    hops: int


class Taken(Struct, frozen=True, array_like=True, tag=5):
    """An owner has done what a cast asked for, for these keys; it is responsible from its predecessor to itself."""

    number: int
    keys: Runs
    predecessor: int | None
    successors: tuple[int, ...]
    hops: int


class AskNeighbours(Struct, frozen=True, array_like=True, tag=6):
    """A question for the neighbours of a node."""


class Neighbours(Struct, frozen=True, array_like=True, tag=7):
    """The neighbours of a node, the nearest successor first."""

    predecessor: int | None
    successors: tuple[int, ...]


class Notify(Struct, frozen=True, array_like=True, tag=8):
    """The sender holds the receiver for its successor. A `is_member` is responsible for its arc already."""

    is_member: bool


class Transfer(Struct, frozen=True, array_like=True, tag=9):
    """Everything about the arc that the receiver becomes responsible for: (predecessor, receiver]."""

    predecessor: int | None
    interests: tuple[Interest, ...]
    kept: tuple[Kept, ...] = ()


class Transferred(Struct, frozen=True, array_like=True, tag=10):
    """The sender is responsible for its arc from now on."""


class Leave(Struct, frozen=True, array_like=True, tag=11):
    """The sender leaves; its successor becomes responsible for its arc."""

    predecessor: int | None
    successors: tuple[int, ...]
    interests: tuple[Interest, ...]
    kept: tuple[Kept, ...] = ()


class Replicate(Struct, frozen=True, array_like=True, tag=12):
    """Interests and events that the receiver stores for the sender, their owner; it answers by number."""

    number: int
    interests: tuple[Interest, ...]
    kept: tuple[Kept, ...] = ()


class Replicated(Struct, frozen=True, array_like=True, tag=13):
    number: int


class Digest(Struct, frozen=True, array_like=True, tag=14):
    """The digest of all that is stored of the sender's arc, for those who store copies."""

    low: int
    digest: bytes
    is_new: bool = False  # whether the sender owns a part of it since a short time only, and may lack some
    is_hot: bool = False  # whether the sender wants to leave events to those whose copies are equal


class Agreed(Struct, frozen=True, array_like=True, tag=45):
    """The sender's copy of the receiver's arc is equal to it; it has had so many events in a period itself."""

    low: int
    load: int


class Shed(Struct, frozen=True, array_like=True, tag=46):
    """An event for the receiver to match in place of the owner of its keys; or, `back`, for that owner after all."""

    cast: Cast
    back: bool = False


class AskInterests(Struct, frozen=True, array_like=True, tag=15):
    """The receiver's arc differs from the sender's copy of it, which comes with this where the arc is new to it."""

    interests: tuple[Interest, ...] = ()
    kept: tuple[Kept, ...] = ()


class Copies(Struct, frozen=True, array_like=True, tag=16):
    """All that is stored of the sender's arc (low, sender]."""

    low: int
    interests: tuple[Interest, ...]
    kept: tuple[Kept, ...] = ()


class Notification(Struct, frozen=True, array_like=True, tag=17):
    """An event for subscriptions of the receiver; it answers by number."""

    number: int
    ids: tuple[str, ...]
    event: Event


class Notified(Struct, frozen=True, array_like=True, tag=18):
    """The receiver's notifications of these numbers are done."""

    numbers: tuple[int, ...]


class Notifications(Struct, frozen=True, array_like=True, tag=42):
    """Notifications that were held back together."""

    notifications: tuple[Notification, ...]


class Collected(Struct, frozen=True, array_like=True):
    """A notification on its way to the `agent`, the node in the middle of its subscription's keys, after some steps."""

    subscriber: int
    agent: int | None
    steps: int
    notification: Notification


class Collect(Struct, frozen=True, array_like=True, tag=43):
    """Notifications that the receiver is nearer to the agents of; it answers by their numbers."""

    entries: tuple[Collected, ...]


class Undelivered(Struct, frozen=True, array_like=True, tag=44):
    """The subscribers of these notifications, which the sender has taken over, cannot be reached."""

    numbers: tuple[int, ...]


class Released(Struct, frozen=True, array_like=True, tag=41):
    """Kept events that their subscribers have now, by subscription and `identity`: copies are dropped."""

    pairs: tuple[tuple[str, str], ...]


Message: TypeAlias = (
    Cast
    | Taken
    | AskNeighbours
    | Neighbours
    | Notify
    | Transfer
    | Transferred
    | Leave
    | Replicate
    | Replicated
    | Digest
    | Agreed
    | Shed
    | AskInterests
    | Copies
    | Notification
    | Notified
    | Notifications
    | Collect
    | Undelivered
    | Released
)


# What a peer asks of whoever runs it


class Send(Struct, frozen=True):
    to: int
    message: Message


class SetTimer(Struct, frozen=True):
    """Call `on_timer` with this name after some seconds; `upkeep` goes on for ever."""

    name: str
    after: float
    upkeep: bool = False


class Deliver(Struct, frozen=True):
    """An event for subscriptions of this peer's own clients. Whoever runs the peer calls `on_delivered` with the
    receipt when the event is safe with it, or `on_refused`; until then it comes again."""

    receipt: int
    ids: tuple[str, ...]
    event: Event


class Confirmed(Struct, frozen=True):
    """What was requested under a number is done everywhere."""

    number: int


class Failed(Struct, frozen=True):
    """What was requested under a number was not answered for some keys, whoever was asked."""

    number: int
    keys: Runs


Effect: TypeAlias = Send | SetTimer | Deliver | Confirmed | Failed


def identity(event: Event) -> str:
    """The source and id of an event in one text: two events are the same iff both are equal."""
    return event.id if event.source is None else f"{event.source} {event.id}"


def mentioned(message: Message) -> set[int]:
    """The peers that a message names, by their positions: whoever gets it may want to send to them."""
    match message:
        case Shed():
            return mentioned(message.cast)
        case Cast():
            found = {message.origin, message.sender}
            if isinstance(message.payload, Interest):
                found.add(message.payload.subscriber)
            return found
        case Taken() | Neighbours():
            return _neighbourhood(message)
        case Leave():
            return _neighbourhood(message) | {each.subscriber for each in message.interests}
        case Transfer():
            found = {each.subscriber for each in message.interests}
            return found if message.predecessor is None else found | {message.predecessor}
        case Collect():
            return {each.subscriber for each in message.entries}
        case Replicate() | Copies() | AskInterests():
            return {each.subscriber for each in message.interests}
    return set()


def _neighbourhood(message: Taken | Neighbours | Leave) -> set[int]:
    found = set(message.successors)
    return found if message.predecessor is None else found | {message.predecessor}
