"""A broker with a session on each of its links: what a simulation and a server run. It, too, has no I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from palio.errors import PalioError
from palio.routing import codec
from palio.routing.broker import Broker
from palio.routing.combinations import Combination
from palio.routing.constants import Constants
from palio.routing.datagram import DatagramSession
from palio.routing.effects import (
    ClientGone,
    Close,
    Drop,
    Input,
    Lane,
    NotPersisted,
    Persisted,
    QueueFree,
    QueueFull,
    ReadDone,
    Received,
    Remembered,
    Requested,
    Send,
    TimerFired,
    WorkDone,
)
from palio.routing.messages import Publish
from palio.routing.session import Identity, NodeEffect, Out, Session, StreamSession, Transmit
from palio.routing.spanning import no_chance
from palio.routing.stamps import stamp_read, stamp_written


class Connected(NamedTuple):
    """A link carries bytes; one of `datagrams` may lose, double and reorder them."""

    link: int
    datagrams: bool = False


class Disconnected(NamedTuple):
    link: int


class Arrived(Struct, frozen=True, gc=False):
    """Bytes came by a link."""

    link: int
    data: bytes
    at: float


NodeInput: TypeAlias = (
    Connected
    | Disconnected
    | Arrived
    | Requested
    | TimerFired
    | ClientGone
    | Persisted
    | NotPersisted
    | WorkDone
    | ReadDone
    | QueueFull
    | QueueFree
)


_NOTHING = Remembered()


class Node:
    """One broker and its links."""

    __slots__ = ("_has_streams_only", "_identity", "_repairs", "_sessions", "_wall", "broker")

    def __init__(
        self,
        node: int,
        incarnation: int,
        combination: Combination,
        constants: Constants,
        remembered: Remembered = _NOTHING,
        random: Callable[[], float] = no_chance,
        wall: Callable[[], float] | None = None,
    ) -> None:
        """`wall` is a clock apart from the one that goes in with each batch, in seconds since 1970, and may jump. With
        it, events are stamped where they pass links."""
        self.broker = Broker(node, incarnation, combination, remembered, random)
        self._identity = Identity(node, incarnation, constants)
        self._repairs = combination.has_session  # all links; otherwise those of datagrams
        self._has_streams_only = not combination.has_session
        self._sessions: dict[int, Session] = {}
        self._wall = wall

    def handle_batch(self, inputs: Sequence[NodeInput], now: float) -> list[NodeEffect]:
        """Everything that happened at a time, and what is to be done about it, in order."""
        out = Out()
        touched: dict[int, Session] = {}
        for each in inputs:
            if type(each) is Arrived:
                self._arrived(each.link, each.data, touched, out, now)
            elif type(each) is Requested:
                out.inputs.append(each)
            elif isinstance(each, Connected | Disconnected):
                self._linked(each, touched, out, now)
            elif isinstance(each, TimerFired) and each.name.startswith("link "):
                self._fired(int(each.name.removeprefix("link ")), touched, out, now)
            else:
                out.inputs.append(each)  # type: ignore[arg-type]
        effects = out.effects
        if out.inputs or self.broker.keeping.stirs:
            if self._wall is not None:
                _stamp(out.inputs, self._wall())
            for effect in self.broker.handle_batch(out.inputs, now):
                if type(effect) is Send:
                    self._send(effect, touched, out, now)
                else:
                    effects.append(effect)  # type: ignore[arg-type]
        for session in touched.values():
            session.settle(out)
        return effects

    def _arrived(self, link: int, data: bytes, touched: dict[int, Session], out: Out, now: float) -> None:
        session = self._sessions.get(link)
        if session is None:
            out.effects.append(Drop("link not connected"))
            return
        try:
            frame = codec.decode(data)
        except PalioError as error:
            out.effects.append(Close(link, str(error)))
            return
        touched[link] = session
        session.arrived(frame, out, now)

    def _linked(self, each: Connected | Disconnected, touched: dict[int, Session], out: Out, now: float) -> None:
        session = self._sessions.get(each.link)
        if isinstance(each, Disconnected):
            touched.pop(each.link, None)
            if session is not None:
                session.disconnected(out)
            return
        if session is None:
            kind = DatagramSession if self._repairs or each.datagrams else StreamSession
            session = self._sessions[each.link] = kind(each.link, self._identity)
            self._has_streams_only = self._has_streams_only and kind is StreamSession
        touched[each.link] = session
        session.connected(out, now)

    def _fired(self, link: int, touched: dict[int, Session], out: Out, now: float) -> None:
        session = self._sessions.get(link)
        if session is not None:
            touched[link] = session
            session.fired(out, now)

    def _send(self, send: Send, touched: dict[int, Session], out: Out, now: float) -> None:
        """One message to several neighbours, written once."""
        message = send.message
        lane: Lane = "control"
        if type(message) is Publish:
            lane = "events"
            if self._wall is not None:
                message = stamp_written(message, self._identity.node, self._wall())
        data = codec.encode(message)
        if self._has_streams_only:
            out.effects.append(Transmit(send.links, data, lane, codec.kind_of(data)))
            return
        for link in send.links:
            session = self._sessions.get(link)
            if session is not None and session.is_up:
                touched[link] = session
                session.send(data, lane, out, now)


def _stamp(inputs: Sequence[Input], time: float) -> None:
    for each in inputs:
        if type(each) is Received and type(each.message) is Publish:
            stamp_read(each.message, time)
