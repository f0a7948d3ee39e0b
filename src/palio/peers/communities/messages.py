"""Messages between the members of semantic overlays, and what their peers ask of whoever runs them.

A peer takes part in an overlay once for each of its subscriptions: as so many *members*. The address of a member is the
number of its peer and its own number at that peer. Every message names the member it is for and the one it is from.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.messages import Confirmed, SetTimer

Address: TypeAlias = tuple[int, int]  # of a member: its peer, and its number there
Order: TypeAlias = tuple[int, int, int]  # among equivalent members: rank, then the address it was given to
ANY_MEMBER: Final = -1  # whichever member a peer has


class Enter(Struct, frozen=True, array_like=True, tag=101):
    """A search for a place, which climbs to the top of the overlay; from the receiver down, if it `starts_here`."""

    to: int
    sender: Address
    origin: Address
    number: int
    wanted: Filter
    order: Order | None
    mode: str
    starts_here: bool = False
    hops: int = 0


class Begun(Struct, frozen=True, array_like=True, tag=102):
    """A search has begun with so many probes; with -1, it could not."""

    to: int
    sender: Address
    number: int
    probes: int


class Alone(Struct, frozen=True, array_like=True, tag=103):
    """The receiver is the first member of the overlay."""

    to: int
    sender: Address
    number: int


class Probe(Struct, frozen=True, array_like=True, tag=104):
    """A search for a place in the containment tree (JOIN): `depth` and `children` are those of the sender."""

    to: int
    sender: Address
    origin: Address
    number: int
    wanted: Filter
    order: Order | None
    mode: str
    depth: int
    children: int


class Found(Struct, frozen=True, array_like=True, tag=105):
    """The answer to a probe, which went on to `forwarded` others. `children` are those of the member, or of its parent
    where the member would go below the newcomer."""

    to: int
    sender: Address
    number: int
    forwarded: int
    relation: int = 0
    depth: int = 0
    children: int = 0
    order: Order | None = None


class Attach(Struct, frozen=True, array_like=True, tag=106):
    """The sender wants the receiver for its parent."""

    to: int
    sender: Address
    child: Address
    wanted: Filter
    order: Order | None


class Attached(Struct, frozen=True, array_like=True, tag=107):
    """The sender is the receiver's parent, at this depth, below these ancestors; `tops` are some top-level members."""

    to: int
    sender: Address
    depth: int
    ancestors: tuple[Address, ...]
    tops: tuple[Address, ...]
    order: Order


class Refused(Struct, frozen=True, array_like=True, tag=108):
    """The sender is not the receiver's parent."""

    to: int
    sender: Address


class Detach(Struct, frozen=True, array_like=True, tag=109):
    """The sender is no longer a child of the receiver; or, where it `was_sibling`, no longer at the top level."""

    to: int
    sender: Address
    was_sibling: bool = False


class Reorganise(Struct, frozen=True, array_like=True, tag=110):
    """The receiver, with all below it, belongs below the sender (REORG)."""

    to: int
    sender: Address
    wanted: Filter
    order: Order


class Sibling(Struct, frozen=True, array_like=True, tag=111):
    """The sender is a member of the top level."""

    to: int
    sender: Address
    asks_all: bool


class Siblings(Struct, frozen=True, array_like=True, tag=112):
    """So is the sender, and these are others: all, or those that came last."""

    to: int
    sender: Address
    known: tuple[Address, ...]


class Compare(Struct, frozen=True, array_like=True, tag=113):
    """A digest of the top level as the sender knows it; whoever knows it otherwise answers with `Siblings`."""

    to: int
    sender: Address
    digest: int


class Ping(Struct, frozen=True, array_like=True, tag=114):
    """A sign of life to a parent or a neighbour."""

    to: int
    sender: Address


class Check(Struct, frozen=True, array_like=True, tag=131):
    """A parent looks after its child, which answers if it is not."""

    to: int
    sender: Address


class Pong(Struct, frozen=True, array_like=True, tag=115):
    """A parent's answer: its place now."""

    to: int
    sender: Address
    depth: int
    ancestors: tuple[Address, ...]
    tops: tuple[Address, ...]


class Move(Struct, frozen=True, array_like=True, tag=116):
    """The sender leaves: its child goes to another parent, or to the top level with these siblings. In a full leave it
    searches for its place from there."""

    to: int
    sender: Address
    parent: Address | None
    siblings: tuple[Address, ...]
    is_full: bool


class Inherit(Struct, frozen=True, array_like=True, tag=117):
    """A leaf of an equivalence tree takes the place of the member that leaves."""

    to: int
    sender: Address
    leaving: Address
    order: Order
    depth: int
    parent: Address | None
    ancestors: tuple[Address, ...]
    tops: tuple[Address, ...]
    equivalents: tuple[Address, ...]
    others: tuple[Address, ...]
    siblings: tuple[Address, ...]


class Succeed(Struct, frozen=True, array_like=True, tag=118):
    """The sender has taken the place of a member that leaves."""

    to: int
    sender: Address
    leaving: Address


class Reevaluate(Struct, frozen=True, array_like=True, tag=119):
    """The sender has lost depth: its child looks for a better place."""

    to: int
    sender: Address


class Forward(Struct, frozen=True, array_like=True, tag=120):
    """An event between neighbours. In a tree it `climbs` to the parent; in a graph `indulged` counts the members that
    passed it on without wanting it."""

    to: int
    sender: Address
    event: Event
    climbs: bool
    hops: int
    indulged: int = 0


class Seek(Struct, frozen=True, array_like=True, tag=121):
    """A search for neighbours, which floods a similarity graph (JOIN)."""

    to: int
    sender: Address
    origin: Address
    number: int
    wanted: Filter


class Similar(Struct, frozen=True, array_like=True, tag=122):
    """The answer to a search: how close the interest of the sender is, and how many neighbours it has. It has passed
    the search on to `forwarded` others. Who was asked before has no proximity to tell: -1."""

    to: int
    sender: Address
    number: int
    forwarded: int
    proximity: float
    neighbours: int


class Connect(Struct, frozen=True, array_like=True, tag=123):
    """The sender has chosen the receiver, for its interest or at random. One that does not know how close they are
    (-1) is told."""

    to: int
    sender: Address
    is_random: bool
    proximity: float
    wanted: Filter


class Connected(Struct, frozen=True, array_like=True, tag=124):
    """How close the receiver's interest is to the sender's."""

    to: int
    sender: Address
    proximity: float


class Disconnect(Struct, frozen=True, array_like=True, tag=125):
    """The receiver is no longer among those that the sender has chosen for their interests."""

    to: int
    sender: Address


class AskLinks(Struct, frozen=True, array_like=True, tag=126):
    """A question for the neighbours of a member."""

    to: int
    sender: Address


class Links(Struct, frozen=True, array_like=True, tag=127):
    """The neighbours of the sender, by what they were chosen for; they are its last words if it `leaves`."""

    to: int
    sender: Address
    semantic: tuple[Address, ...]
    random: tuple[Address, ...]
    leaves: bool


class AskContacts(Struct, frozen=True, array_like=True, tag=128):
    """A question of a peer without subscriptions for other peers."""

    to: int
    sender: Address


class Contacts(Struct, frozen=True, array_like=True, tag=129):
    """Some peers, of which some are members of the overlay."""

    to: int
    sender: Address
    peers: tuple[int, ...]


ContainmentMessage: TypeAlias = (
    Enter | Begun | Alone | Probe | Found | Attach | Attached | Refused | Detach | Reorganise | Sibling | Siblings
    | Compare | Ping | Pong | Check | Move | Inherit | Succeed | Reevaluate | Forward
)  # fmt: skip
SimilarityMessage: TypeAlias = (
    Enter | Begun | Alone | Seek | Similar | Connect | Connected | Disconnect | AskLinks | Links | Ping | Forward
)
MemberMessage: TypeAlias = ContainmentMessage | SimilarityMessage


class Returned(Struct, frozen=True, array_like=True, tag=130):
    """A message comes back: its peer lives, and the member is gone."""

    to: int
    sender: Address
    message: MemberMessage


Message: TypeAlias = MemberMessage | AskContacts | Contacts | Returned


# What a peer asks of whoever runs it


class Send(Struct, frozen=True):
    to: int  # a peer
    message: Message


class Deliver(Struct, frozen=True):
    """An event for a subscription of this peer's own client, after so many hops."""

    id: str
    event: Event
    hops: int


class Useless(Struct, frozen=True):
    """An event came in vain to the member of a subscription: a false positive, for statistics alone."""

    id: str
    event: Event
    hops: int


Effect: TypeAlias = Send | SetTimer | Deliver | Useless | Confirmed


def mentioned(message: Message) -> set[int]:
    """The peers that a message names: whoever gets it may want to send to them."""
    named = {message.sender[0]}
    match message:
        case Enter() | Probe() | Seek():
            named.add(message.origin[0])
        case Attach():
            named.add(message.child[0])
        case Attached() | Pong():
            named.update(peer for peer, _ in (*message.ancestors, *message.tops))
        case Siblings():
            named.update(peer for peer, _ in message.known)
        case Move():
            named.update(peer for peer, _ in message.siblings)
            if message.parent is not None:
                named.add(message.parent[0])
        case Inherit():
            every = (*message.ancestors, *message.tops, *message.equivalents, *message.others, *message.siblings)
            named.update(peer for peer, _ in every)
            if message.parent is not None:
                named.add(message.parent[0])
        case Links():
            named.update(peer for peer, _ in (*message.semantic, *message.random))
        case Contacts():
            named.update(message.peers)
    return named
