"""Link sessions: handshake, credit, and reliable ordered messages over a link.

A session is an object without I/O, like the broker above it. It appends inputs for the broker to `inputs`, and what is
to be done to `effects`. `StreamSession` is for links that keep order and lose nothing while they are up, as TCP does.
`DatagramSession` (`retransmission`) is for links that lose, duplicate and reorder.

The handshake compares the constants of the network. A header means something only to brokers that hash, split and
number alike: the width and the number of hashes of Bloom filters, the canonical text of predicates, the limit on
conjunctions. A neighbour with another constant is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from palio.routing import codec
from palio.routing.codec import CANONICAL_TEXT_VERSION, WIRE_VERSION
from palio.routing.combinations import Combination
from palio.routing.conjunctions import CONJUNCTION_LIMIT
from palio.routing.effects import (
    CancelTimer,
    Close,
    Credit,
    Deliver,
    DeliverColumns,
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
from palio.routing.link_credit import CREDIT_WINDOW_BYTES, bytes_of
from palio.routing.messages import Frame, Grant, Hello, Message, Packet, Publish, PublishColumns, Watermark
from palio.routing.strategies import LOCAL_OPTIONS

CREDIT_WINDOW_EVENTS: Final = 1024  # that may be under way to one end of a link


class NetworkConstants(Struct, frozen=True, array_like=True):
    """Names and values that all brokers of a network share."""

    values: dict[str, bool | int | float | str]

    @classmethod
    def of(cls, combination: Combination) -> NetworkConstants:
        """The constants of a network in which every broker makes these choices."""
        options: Mapping[str, Any] = combination.options
        return cls(
            {
                "version": WIRE_VERSION,
                "text": CANONICAL_TEXT_VERSION,
                "conjunctions": CONJUNCTION_LIMIT,
                "propagation": combination.propagation,
                "forwarding": combination.forwarding,
                "advertisements": combination.advertisements,
                "tables": combination.tables,
                "crash_log": combination.crash_log,
                "paths": combination.paths,
                **{name: value for name, value in sorted(options.items()) if name not in LOCAL_OPTIONS},
            }
        )

    def difference(self, other: NetworkConstants) -> str | None:
        """The first constant in which two networks differ, as a sentence; None where there is none."""
        for name in sorted(self.values.keys() | other.values.keys()):
            mine, theirs = self.values.get(name), other.values.get(name)
            if mine != theirs:
                return f"{name} is {mine!r} here and {theirs!r} there"
        return None


class Transmit(Struct, frozen=True, gc=False):
    """Put bytes on links; those of the control lane before those of events that still wait there.

    `kind` is the tag of the message inside, so that counters need not decode it.
    """

    links: tuple[int, ...]
    data: bytes
    lane: Lane
    kind: int


NodeEffect: TypeAlias = (
    Transmit | Deliver | DeliverColumns | Reply | Persist | Read | SetTimer | CancelTimer | Work | Close | Drop
)


@dataclass(slots=True)
class SessionOutput:
    """The output of sessions: inputs upwards for the broker, effects downwards for the host."""

    inputs: list[Input] = field(default_factory=list)
    effects: list[NodeEffect] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What a broker says of itself in the handshake."""

    node: int
    incarnation: int
    constants: NetworkConstants


class LinkSession(Protocol):
    """One end of one link."""

    @property
    def is_up(self) -> bool: ...

    def on_connected(self, out: SessionOutput, now: float) -> None:
        """The link carries bytes."""

    def on_disconnected(self, out: SessionOutput) -> None:
        """The link carries no bytes any more, and those under way are lost."""

    def on_frame(self, frame: Message | Frame, out: SessionOutput, now: float) -> None:
        """A frame came by the link."""

    def send(self, message: bytes, lane: Lane, out: SessionOutput, now: float) -> None:
        """Send a message of the broker; the session is up."""

    def on_timer(self, out: SessionOutput, now: float) -> None:
        """The timer of this session, `link` with its number, has fired."""

    def finish_batch(self, out: SessionOutput) -> None:
        """Send what one frame can tell for the whole batch: credit, or an acknowledgement."""


class StreamSession:
    """Session for a link that keeps order and loses nothing while it is up."""

    __slots__ = ("_identity", "_link", "_taken", "_taken_bytes", "is_up")

    def __init__(self, link: int, identity: BrokerIdentity) -> None:
        self._link = link
        self._identity = identity
        self._taken = 0  # events received since credit was last granted
        self._taken_bytes = 0
        self.is_up = False

    def on_connected(self, out: SessionOutput, now: float) -> None:
        me = self._identity
        hello = Hello(me.node, me.incarnation, me.constants.values, CREDIT_WINDOW_EVENTS, columns=True)
        out.effects.append(Transmit((self._link,), codec.encode(hello), "control", codec.HELLO))

    def on_disconnected(self, out: SessionOutput) -> None:
        if self.is_up:
            self.is_up = False
            out.inputs.append(LinkDown(self._link))

    def on_frame(self, frame: Message | Frame, out: SessionOutput, now: float) -> None:
        # Events first: they are by far the most frequent.
        if (type(frame) is Publish or type(frame) is Watermark) and self.is_up:
            self._taken += 1
            self._taken_bytes += bytes_of(frame)
            out.inputs.append(Received(self._link, frame, now))
        elif type(frame) is PublishColumns and self.is_up:
            self._taken += frame.count
            self._taken_bytes += bytes_of(frame)
            out.inputs.append(Received(self._link, frame, now))
        elif type(frame) is Hello:
            self._on_hello(frame, out)
        elif not self.is_up:
            out.effects.append(Drop("no handshake yet"))
        elif type(frame) is Grant:
            out.inputs.append(Credit(self._link, frame.events))
        elif isinstance(frame, Hello | Grant | Packet):
            out.effects.append(Close(self._link, "packets of a retransmitting session on a reliable link"))
        else:
            out.inputs.append(Received(self._link, frame, now))

    def _on_hello(self, hello: Hello, out: SessionOutput) -> None:
        reason = handshake_refusal(self._identity, hello)
        if reason is not None:
            out.effects.append(Close(self._link, reason))
            return
        # A second `Hello` on one stream: the other end has restarted, and all that it knew is gone.
        if self.is_up:
            out.inputs.append(LinkDown(self._link))
        self.is_up = True
        self._taken = self._taken_bytes = 0
        out.inputs.append(LinkUp(self._link, hello.node, hello.credit, hello.columns))

    def send(self, message: bytes, lane: Lane, out: SessionOutput, now: float) -> None:
        out.effects.append(Transmit((self._link,), message, lane, codec.kind_of(message)))

    def on_timer(self, out: SessionOutput, now: float) -> None:
        pass

    def finish_batch(self, out: SessionOutput) -> None:
        # At half of a window, so that the sender never waits, and grants are few.
        if self._taken >= CREDIT_WINDOW_EVENTS // 2 or self._taken_bytes >= CREDIT_WINDOW_BYTES // 2:
            out.effects.append(Transmit((self._link,), codec.encode(Grant(self._taken)), "control", codec.GRANT))
            self._taken = self._taken_bytes = 0


def handshake_refusal(identity: BrokerIdentity, hello: Hello) -> str | None:
    """The reason to refuse a neighbour; None where there is none."""
    differs = identity.constants.difference(NetworkConstants(hello.constants))
    if differs is not None:
        return f"the neighbour is of another network: {differs}"
    return "the neighbour has this broker's own number" if hello.node == identity.node else None
