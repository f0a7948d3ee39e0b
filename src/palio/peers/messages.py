"""Messages between peers, and what a peer asks of whoever runs it.

Peers are named by their positions on the ring. Whoever runs a peer carries its messages, and tells it when one could
not be delivered (`Unreachable`): a refused connection over sockets, a crashed host in a simulation.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.rendezvous_mappings import Arc, Key
from palio.peers.ring import Runs


class Interest(Struct, frozen=True):
    """A subscription as owners of its keys store it. Of two with one id, that of the higher version holds."""

    id: str
    version: int
    subscriber: int
    wanted: Filter
    arcs: tuple[Arc, ...]
    lease_seconds: float
    has_ended: bool = False


class Occurrence(Struct, frozen=True):
    """An event, with the keys it is published under."""

    event: Event
    keys: tuple[Key, ...]


class Lookup(Struct, frozen=True):
    """A question for the owner of a key."""


Payload: TypeAlias = Interest | Occurrence | Lookup


class Cast(Struct, frozen=True):
    """A message to all owners of keys (m-cast). `origin` numbers what it sends, and waits for its answers."""

    keys: Runs
    payload: Payload
    origin: int
    number: int
    sender: int
    to_successor: bool
    hops: int


class Taken(Struct, frozen=True):
    """An owner has done what a cast asked for, for these keys; it is responsible from its predecessor to itself."""

    number: int
    keys: Runs
    predecessor: int | None
    successors: tuple[int, ...]
    hops: int


class AskNeighbours(Struct, frozen=True):
    """A question for the neighbours of a node."""


class Neighbours(Struct, frozen=True):
    """The neighbours of a node, the nearest successor first."""

    predecessor: int | None
    successors: tuple[int, ...]


class Notify(Struct, frozen=True):
    """The sender holds the receiver for its successor. A `is_member` is responsible for its arc already."""

    is_member: bool


class Transfer(Struct, frozen=True):
    """Everything about the arc that the receiver becomes responsible for: (predecessor, receiver]."""

    predecessor: int | None
    interests: tuple[Interest, ...]


class Transferred(Struct, frozen=True):
    """The sender is responsible for its arc from now on."""


class Leave(Struct, frozen=True):
    """The sender leaves; its successor becomes responsible for its arc."""

    predecessor: int | None
    successors: tuple[int, ...]
    interests: tuple[Interest, ...]


class Replicate(Struct, frozen=True):
    """Interests that the receiver stores for the sender, their owner; it answers by number."""

    number: int
    interests: tuple[Interest, ...]


class Replicated(Struct, frozen=True):
    number: int


class Digest(Struct, frozen=True):
    """The digest of all interests of the sender's arc, for those who store copies."""

    low: int
    digest: bytes


class AskInterests(Struct, frozen=True):
    """The receiver's arc differs from the sender's copy of it."""


class Copies(Struct, frozen=True):
    """All interests of the sender's arc (low, sender]."""

    low: int
    interests: tuple[Interest, ...]


class Notification(Struct, frozen=True):
    """An event for subscriptions of the receiver; it answers by number."""

    number: int
    ids: tuple[str, ...]
    event: Event


class Notified(Struct, frozen=True):
    number: int


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
    | AskInterests
    | Copies
    | Notification
    | Notified
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
    """An event for a subscription of this peer's own client."""

    id: str
    event: Event


class Confirmed(Struct, frozen=True):
    """What was requested under a number is done everywhere."""

    number: int


class Failed(Struct, frozen=True):
    """What was requested under a number was not answered for some keys, whoever was asked."""

    number: int
    keys: Runs


Effect: TypeAlias = Send | SetTimer | Deliver | Confirmed | Failed
