"""Link session over datagrams: retransmission, order and deduplication on links that lose, duplicate and reorder.

Each lane numbers its messages. The receiver hands them up in order, once, and acknowledges cumulatively; the sender
retransmits with exponential backoff, and after long silence treats the link as broken and shakes hands again. A
connection has a number at each end, made of the broker's incarnation and a count: packets of another connection, from
before a crash or a cut, are dropped. Control and events have lanes of their own, so that a lost event never holds up
control.
"""

from __future__ import annotations

from typing import ClassVar, Final

from palio.errors import PalioError
from palio.routing import codec
from palio.routing.effects import (
    CancelTimer,
    Close,
    Credit,
    Lane,
    LinkDown,
    LinkUp,
    Received,
    SetTimer,
)
from palio.routing.link_sessions import (
    CREDIT_WINDOW_EVENTS,
    BrokerIdentity,
    SessionOutput,
    Transmit,
    handshake_refusal,
)
from palio.routing.messages import Frame, Hello, Message, Packet

_FIRST_RETRANSMISSION_SECONDS: Final = 0.25
_MAX_RETRANSMISSION_SECONDS: Final = 4.0
_SILENCE_SECONDS: Final = 60.0  # without an acknowledgement, after which a link counts as broken
_MAX_RETRANSMITTED: Final = 64  # messages of a lane that are repeated together
_LANES: Final[tuple[Lane, Lane]] = ("control", "events")


class _LaneState:
    """One lane in both directions."""

    __slots__ = ("early", "handed_up", "sent", "since", "unacknowledged")

    def __init__(self) -> None:
        self.sent = 0
        self.since = 0.0  # when the first of the unacknowledged became the first
        self.unacknowledged: dict[int, bytes] = {}
        self.handed_up = 0
        self.early: dict[int, bytes] = {}

    def assign_number(self, message: bytes, now: float) -> int:
        if not self.unacknowledged:
            self.since = now
        self.sent += 1
        self.unacknowledged[self.sent] = message
        return self.sent

    def acknowledge(self, upto: int, now: float) -> bool:
        """Drop messages that have arrived; whether there were any."""
        arrived = [number for number in self.unacknowledged if number <= upto]
        for number in arrived:
            del self.unacknowledged[number]
        if arrived:
            self.since = now
        return bool(arrived)

    def receive(self, number: int, message: bytes) -> list[bytes]:
        """The messages that can be handed up now, in order."""
        # A duplicate, or too far ahead: the bound limits memory against a peer that numbers at will, and an honest one
        # retransmits what is dropped here.
        if number <= self.handed_up or number > self.handed_up + 4 * CREDIT_WINDOW_EVENTS:
            return []
        self.early[number] = message
        ready = []
        while (following := self.early.pop(self.handed_up + 1, None)) is not None:
            self.handed_up += 1
            ready.append(following)
        return ready


class _LossyLane(_LaneState):
    """One lane without retransmission: what is lost stays lost, and what comes late or twice is dropped."""

    __slots__ = ()

    def assign_number(self, message: bytes, now: float) -> int:
        self.sent += 1
        return self.sent

    def receive(self, number: int, message: bytes) -> list[bytes]:
        if number <= self.handed_up:
            return []
        self.handed_up = number
        return [message]


class DatagramSession:
    """Session for a link that may lose, duplicate and reorder frames, and not invent them."""

    __slots__ = (
        "_connection",
        "_granted",
        "_identity",
        "_interval",
        "_is_connected",
        "_is_timer_set",
        "_lanes",
        "_link",
        "_neighbour",
        "_owes_acknowledgement",
        "_peer_connection",
        "is_up",
    )

    _lane: ClassVar[type[_LaneState]] = _LaneState

    def __init__(self, link: int, identity: BrokerIdentity) -> None:
        self._link = link
        self._identity = identity
        self._connection = 0
        self._is_connected = False
        self._begin_connection()

    def _begin_connection(self) -> None:
        """Forget the other end, and take a new connection number."""
        self.is_up = False
        self._connection += 1
        self._peer_connection = self._neighbour = 0
        self._lanes = (self._lane(), self._lane())
        self._granted = CREDIT_WINDOW_EVENTS
        self._interval = _FIRST_RETRANSMISSION_SECONDS
        self._owes_acknowledgement = False
        self._is_timer_set = False

    @property
    def _connection_number(self) -> int:
        """A number that no connection had before, in this incarnation or an earlier one."""
        return (self._identity.incarnation << 32) + self._connection

    def on_connected(self, out: SessionOutput, now: float) -> None:
        self._is_connected = True
        self._send_hello(out, answers=False)
        self._set_timer(out)

    def on_disconnected(self, out: SessionOutput) -> None:
        if self.is_up:
            out.inputs.append(LinkDown(self._link))
        self._is_connected = False
        self._begin_connection()
        out.effects.append(CancelTimer(f"link {self._link}"))

    def on_frame(self, frame: Message | Frame, out: SessionOutput, now: float) -> None:
        if not self._is_connected:
            return
        if type(frame) is Hello:
            self._on_hello(frame, out)
        elif type(frame) is Packet and frame.to == self._connection_number and frame.by == self._peer_connection:
            # A packet under both numbers proves that the other end got this end's `Hello`, even if its answer was lost.
            self._come_up(out)
            self._on_packet(frame, out, now)

    def _on_hello(self, hello: Hello, out: SessionOutput) -> None:
        reason = handshake_refusal(self._identity, hello)
        if reason is not None:
            out.effects.append(Close(self._link, reason))
            return
        if self.is_up and hello.connection != self._peer_connection:
            if hello.connection < self._peer_connection:
                return  # late, of a connection that is over
            # The other end began a new connection, after a crash or a long silence.
            out.inputs.append(LinkDown(self._link))
            self._begin_connection()
        # A late `Hello` of an earlier connection, before this one is up.
        if hello.connection < self._peer_connection:
            return
        self._peer_connection, self._neighbour = hello.connection, hello.node
        if not hello.answers:
            self._send_hello(out, answers=True)
        if hello.seen == self._connection_number:
            self._come_up(out)
        self._set_timer(out)

    def _come_up(self, out: SessionOutput) -> None:
        """The handshake is complete: both ends know each other's connection."""
        if not self.is_up:
            self.is_up = True
            self._interval = _FIRST_RETRANSMISSION_SECONDS
            out.inputs.append(LinkUp(self._link, self._neighbour, CREDIT_WINDOW_EVENTS))

    def _on_packet(self, packet: Packet, out: SessionOutput, now: float) -> None:
        control, events = self._lanes
        has_control_progress = control.acknowledge(packet.control, now)
        if events.acknowledge(packet.events, now) or has_control_progress:
            self._interval = _FIRST_RETRANSMISSION_SECONDS
        # Credit is a running total, so that a lost or repeated packet neither loses credit nor grants it twice.
        if packet.granted > self._granted:
            out.inputs.append(Credit(self._link, packet.granted - self._granted))
            self._granted = packet.granted
        if packet.number:
            # Also for a duplicate: the acknowledgement of the first may have been lost.
            self._owes_acknowledgement = True
            for data in self._lanes[packet.lane & 1].receive(packet.number, packet.message):
                self._hand_up(data, out, now)

    def _hand_up(self, data: bytes, out: SessionOutput, now: float) -> None:
        try:
            message = codec.decode_message(data)
        except PalioError as error:
            out.effects.append(Close(self._link, str(error)))
            return
        out.inputs.append(Received(self._link, message, now))

    def send(self, message: bytes, lane: Lane, out: SessionOutput, now: float) -> None:
        which = _LANES.index(lane)
        number = self._lanes[which].assign_number(message, now)
        self._transmit(which, number, message, out)
        self._set_timer(out)

    def on_timer(self, out: SessionOutput, now: float) -> None:
        self._is_timer_set = False
        if not self._is_connected:
            return  # the timer fired just when the link broke
        if not self.is_up:
            self._send_hello(out, answers=False)
            self._back_off(out)
        elif any(lane.unacknowledged and now - lane.since > _SILENCE_SECONDS for lane in self._lanes):
            # A new connection number: what is still under way of the old connection is dropped when it arrives.
            out.inputs.append(LinkDown(self._link))
            self._begin_connection()
            self._send_hello(out, answers=False)
            self._set_timer(out)
        elif self._retransmit_late(out, now):
            self._back_off(out)
        else:
            self._set_timer(out)

    def finish_batch(self, out: SessionOutput) -> None:
        """Acknowledge received messages, unless a packet that was sent has done so."""
        if self._owes_acknowledgement and self.is_up:
            self._transmit(0, 0, b"", out)

    def _retransmit_late(self, out: SessionOutput, now: float) -> bool:
        """Retransmit messages that are unacknowledged for long; whether there were any."""
        late = [which for which, lane in enumerate(self._lanes) if now - lane.since >= self._interval]
        is_any = False
        for which in late:
            waiting = self._lanes[which].unacknowledged
            for number in list(waiting)[:_MAX_RETRANSMITTED]:
                self._transmit(which, number, waiting[number], out)
                is_any = True
        return is_any

    def _back_off(self, out: SessionOutput) -> None:
        self._interval = min(2 * self._interval, _MAX_RETRANSMISSION_SECONDS)
        self._set_timer(out)

    def _set_timer(self, out: SessionOutput) -> None:
        """Set the timer, unless there is nothing to wait for."""
        needed = not self.is_up or any(each.unacknowledged for each in self._lanes)
        if needed and not self._is_timer_set:
            self._is_timer_set = True
            out.effects.append(SetTimer(f"link {self._link}", self._interval))

    def _send_hello(self, out: SessionOutput, answers: bool) -> None:
        me = self._identity
        hello = Hello(
            me.node,
            me.incarnation,
            me.constants.values,
            CREDIT_WINDOW_EVENTS,
            self._connection_number,
            self._peer_connection,
            answers,
        )
        out.effects.append(Transmit((self._link,), codec.encode(hello), "control", codec.HELLO))

    def _transmit(self, which: int, number: int, message: bytes, out: SessionOutput) -> None:
        # Every packet acknowledges both lanes, so that traffic in both directions needs no bare acknowledgements.
        control, events = self._lanes
        packet = Packet(
            self._peer_connection,
            self._connection_number,
            control.handed_up,
            events.handed_up,
            events.handed_up + CREDIT_WINDOW_EVENTS,
            which,
            number,
            message,
        )
        self._owes_acknowledgement = False
        kind = codec.kind_of(message) if message else codec.PACKET
        out.effects.append(Transmit((self._link,), codec.encode(packet), _LANES[which], kind))


class BestEffortSession(DatagramSession):
    """Session that shakes hands, keeps order and drops duplicates, and retransmits nothing else than its handshake.

    It is for protocols that repeat what matters by themselves. Credit is counted by the highest number that arrived, so
    that what is lost uses none.
    """

    __slots__ = ()
    _lane = _LossyLane
