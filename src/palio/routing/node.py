"""Node: a broker with a session on each of its links, as a simulation and a server run it. It, too, has no I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from palio.errors import PalioError
from palio.routing import codec
from palio.routing.broker import Broker
from palio.routing.codec import stamp_read, stamp_written
from palio.routing.combinations import Combination
from palio.routing.completeness import no_clock
from palio.routing.effects import (
    ClientGone,
    Close,
    DefaultOverflow,
    Drop,
    Fetched,
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
    SetTimer,
    TimerFired,
    WorkDone,
)
from palio.routing.link_sessions import (
    BrokerIdentity,
    LinkSession,
    NetworkConstants,
    NodeEffect,
    SessionOutput,
    StreamSession,
    Transmit,
)
from palio.routing.messages import Publish, PublishColumns, Renewal, Watermark
from palio.routing.retransmission import BestEffortSession, DatagramSession
from palio.routing.sealing import Keyring
from palio.routing.spanning_tree import fixed_random
from palio.routing.upkeep.timeliness import AgeHeaders, clock_reading


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
    | Fetched
    | QueueFull
    | QueueFree
    | DefaultOverflow
)


_EMPTY_DISK = Remembered()
_REFERENCES_TIMER: Final = "clock references"
_REFERENCES_INTERVAL_SECONDS: Final = 5.0  # on an idle link; two drifts of 100 ppm widen a bound by 1 ms in this time


class Node:
    """One broker and its links."""

    __slots__ = (
        "_has_streams_only",
        "_identity",
        "_is_reference_timer_set",
        "_session",
        "_sessions",
        "_wall_clock",
        "ages",
        "broker",
    )

    def __init__(
        self,
        node: int,
        incarnation: int,
        combination: Combination,
        constants: NetworkConstants,
        remembered: Remembered = _EMPTY_DISK,
        random: Callable[[], float] = fixed_random,
        wall_clock: Callable[[], float] | None = None,
        watermark_clock: Callable[[], float] = no_clock,
        keys: Keyring | None = None,
    ) -> None:
        """`wall_clock` is a clock apart from the one that goes in with each batch, in seconds since 1970, and may jump.
        With it, events are stamped where they pass links. Watermarks have the time of `watermark_clock`. `keys` are
        those of an edge broker in a network with sealed events."""
        self.broker = Broker(node, incarnation, combination, remembered, random, watermark_clock, keys)
        self._identity = BrokerIdentity(node, incarnation, constants)
        # The session of every link, where an option decides it; else the link does.
        self._session: type[DatagramSession] | None = None
        if combination.is_faulty or combination.has_session:
            self._session = BestEffortSession if combination.loses_messages else DatagramSession
        self._has_streams_only = self._session is None
        self._sessions: dict[int, LinkSession] = {}
        self._wall_clock = wall_clock
        self._is_reference_timer_set = False
        self.ages = AgeHeaders(combination.broker.max_drift) if combination.has_timeliness else None

    def handle_batch(self, inputs: Sequence[NodeInput], now: float) -> list[NodeEffect]:
        """Handle everything that happened at a time; the effects are to be carried out in order."""
        out = SessionOutput()
        touched: dict[int, LinkSession] = {}
        for each in inputs:
            if type(each) is Arrived:
                self._on_frame(each.link, each.data, touched, out, now)
            elif type(each) is Requested:
                out.inputs.append(each)
            elif isinstance(each, Connected | Disconnected):
                self._on_link_change(each, touched, out, now)
            elif isinstance(each, TimerFired) and each.name.startswith("link "):
                self._on_link_timer(int(each.name.removeprefix("link ")), touched, out, now)
            elif self.ages is not None and each == TimerFired(_REFERENCES_TIMER):
                self._is_reference_timer_set = False
                self.ages.renew()
            else:
                out.inputs.append(each)  # type: ignore[arg-type]
        effects = out.effects
        if self.ages is not None:
            out.inputs = self.ages.receive(out.inputs, clock_reading(now))
        # The broker is dirty without inputs at the start, when it has something of an earlier life.
        if out.inputs or self.broker.is_dirty:
            if self._wall_clock is not None:
                _stamp(out.inputs, self._wall_clock())
            for effect in self.broker.handle_batch(out.inputs, now):
                if type(effect) is Send:
                    self._send(effect, touched, out, now)
                else:
                    effects.append(effect)  # type: ignore[arg-type]
        if self.ages is not None:
            self._send_references(self.ages, touched, out, now)
        # Last, so that one frame grants credit or acknowledges for the whole batch.
        for session in touched.values():
            session.finish_batch(out)
        return effects

    def _on_frame(
        self, link: int, data: bytes, touched: dict[int, LinkSession], out: SessionOutput, now: float
    ) -> None:
        session = self._sessions.get(link)
        if session is None:
            out.effects.append(Drop("link not connected"))
            return
        try:
            frame = codec.decode(data)
        except PalioError as error:
            # Such a peer is broken or hostile, and nothing that follows can be trusted.
            out.effects.append(Close(link, str(error)))
            return
        touched[link] = session
        session.on_frame(frame, out, now)

    def _on_link_change(
        self, each: Connected | Disconnected, touched: dict[int, LinkSession], out: SessionOutput, now: float
    ) -> None:
        session = self._sessions.get(each.link)
        if isinstance(each, Disconnected):
            touched.pop(each.link, None)
            if session is not None:
                session.on_disconnected(out)
            return
        if session is None:
            kind = self._session or (DatagramSession if each.datagrams else StreamSession)
            session = self._sessions[each.link] = kind(each.link, self._identity)
            self._has_streams_only = self._has_streams_only and kind is StreamSession
        touched[each.link] = session
        session.on_connected(out, now)

    def _on_link_timer(self, link: int, touched: dict[int, LinkSession], out: SessionOutput, now: float) -> None:
        session = self._sessions.get(link)
        if session is not None:
            touched[link] = session
            session.on_timer(out, now)

    def _send_references(
        self, ages: AgeHeaders, touched: dict[int, LinkSession], out: SessionOutput, now: float
    ) -> None:
        references = ages.references(clock_reading(now))
        for link, reference in references:
            self._send(Send((link,), reference), touched, out, now)
        # Not set anew with every reference: those that the traffic of one link causes would put off all others.
        if references and not self._is_reference_timer_set:
            self._is_reference_timer_set = True
            out.effects.append(SetTimer(_REFERENCES_TIMER, _REFERENCES_INTERVAL_SECONDS, upkeep=True))

    def _send(self, send: Send, touched: dict[int, LinkSession], out: SessionOutput, now: float) -> None:
        """Send one message to several neighbours, encoded once."""
        message = send.message
        lane: Lane = "control"
        if type(message) is Watermark:
            lane = "events"  # behind the events that it vouches for
        elif type(message) is Publish or type(message) is PublishColumns:
            lane = "events"
            if self._wall_clock is not None:
                message = stamp_written(message, self._identity.node, self._wall_clock())
            if self.ages is not None:
                message = self.ages.send(message, clock_reading(now))
        elif type(message) is Renewal and self.ages is not None:
            message = self.ages.send(message, clock_reading(now))
        data = codec.encode(message)
        if self._has_streams_only:
            # Streams add no numbers: the same bytes go to all links in one effect.
            out.effects.append(Transmit(send.links, data, lane, codec.kind_of(data)))
            return
        for link in send.links:
            session = self._sessions.get(link)
            if session is not None and session.is_up:
                touched[link] = session
                session.send(data, lane, out, now)


def _stamp(inputs: Sequence[Input], time: float) -> None:
    for each in inputs:
        if type(each) is Received and isinstance(each.message, Publish | PublishColumns):
            stamp_read(each.message, time)
