"""What lies between a broker and a link? A session: it greets, compares constants, carries messages, grants credit.

A session is an object without I/O, like the broker above it. It puts what the broker should hear into `inputs`, and
what should be done into `effects`. `StreamSession` is for links that keep order and lose nothing while they are up, as
TCP does; `datagram.DatagramSession` for all others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from palio.routing import codec
from palio.routing.constants import Constants
from palio.routing.effects import (
    CancelTimer,
    Close,
    Credit,
    Deliver,
    Drop,
    Input,
    Lane,
    LinkDown,
    LinkUp,
    Persist,
    Read,
    Received,
    Reply,
    SetTimer,
    Work,
)
from palio.routing.frames import Frame, Grant, Hello, Packet
from palio.routing.messages import Message, Publish

WINDOW: Final = 1024  # events that may be under way to one end of a link


class Transmit(Struct, frozen=True, gc=False):
    """Put bytes on links; those of the control lane before those of events that still wait there.

    `kind` is the tag of the message inside, so that whoever counts need not read it.
    """

    links: tuple[int, ...]
    data: bytes
    lane: Lane
    kind: int


NodeEffect: TypeAlias = Transmit | Deliver | Reply | Persist | Read | SetTimer | CancelTimer | Work | Close | Drop


@dataclass(slots=True)
class Out:
    """What comes out of sessions: upwards for the broker, downwards for whoever carries effects out."""

    inputs: list[Input] = field(default_factory=list)
    effects: list[NodeEffect] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who greets."""

    node: int
    incarnation: int
    constants: Constants


class Session(Protocol):
    """One end of one link."""

    @property
    def is_up(self) -> bool: ...

    def connected(self, out: Out, now: float) -> None:
        """The link carries bytes."""

    def disconnected(self, out: Out) -> None:
        """It does not any more, and what was under way is lost."""

    def arrived(self, frame: Message | Frame, out: Out, now: float) -> None:
        """Something came by the link."""

    def send(self, message: bytes, lane: Lane, out: Out, now: float) -> None:
        """Send a message of the broker; the session is up."""

    def fired(self, out: Out, now: float) -> None:
        """The timer of this session has run out."""

    def settle(self, out: Out) -> None:
        """A batch is over: say what can be said once for all of it."""


class StreamSession:
    """For a link that keeps order and loses nothing while it is up."""

    __slots__ = ("_identity", "_link", "_taken", "is_up")

    def __init__(self, link: int, identity: Identity) -> None:
        self._link = link
        self._identity = identity
        self._taken = 0  # events since credit was last granted
        self.is_up = False

    def connected(self, out: Out, now: float) -> None:
        me = self._identity
        hello = Hello(me.node, me.incarnation, me.constants.values, WINDOW)
        out.effects.append(Transmit((self._link,), codec.encode(hello), "control", codec.HELLO))

    def disconnected(self, out: Out) -> None:
        if self.is_up:
            self.is_up = False
            out.inputs.append(LinkDown(self._link))

    def arrived(self, frame: Message | Frame, out: Out, now: float) -> None:
        kind = type(frame)
        if kind is Publish and self.is_up:
            self._taken += 1
            out.inputs.append(Received(self._link, frame, now))  # type: ignore[arg-type]
        elif type(frame) is Hello:
            self._greeted(frame, out)
        elif not self.is_up:
            out.effects.append(Drop("no greeting yet"))
        elif type(frame) is Grant:
            out.inputs.append(Credit(self._link, frame.events))
        elif isinstance(frame, Hello | Grant | Packet):
            out.effects.append(Close(self._link, "packets on a link that keeps order and loses nothing"))
        else:
            out.inputs.append(Received(self._link, frame, now))

    def _greeted(self, hello: Hello, out: Out) -> None:
        reason = refusal(self._identity, hello)
        if reason is not None:
            out.effects.append(Close(self._link, reason))
            return
        if self.is_up:  # the other end began anew
            out.inputs.append(LinkDown(self._link))
        self.is_up = True
        self._taken = 0
        out.inputs.append(LinkUp(self._link, hello.node, hello.credit))

    def send(self, message: bytes, lane: Lane, out: Out, now: float) -> None:
        out.effects.append(Transmit((self._link,), message, lane, codec.kind_of(message)))

    def fired(self, out: Out, now: float) -> None:
        pass

    def settle(self, out: Out) -> None:
        if self._taken >= WINDOW // 2:
            out.effects.append(Transmit((self._link,), codec.encode(Grant(self._taken)), "control", codec.GRANT))
            self._taken = 0


def refusal(identity: Identity, hello: Hello) -> str | None:
    """Why a neighbour is refused; None where it is not."""
    differs = identity.constants.difference(Constants(hello.constants))
    if differs is not None:
        return f"the neighbour is of another network: {differs}"
    return "the neighbour has this broker's own number" if hello.node == identity.node else None
