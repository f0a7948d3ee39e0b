"""A session over links that lose, double and reorder what they carry.

Each lane numbers its messages. The receiver hands them up in order, once, and says how far it has come; the sender
repeats what is not acknowledged in time, more and more slowly, and after long silence takes the link for broken and
greets again. A connection has a number at each end, made of the broker's incarnation and a count: what belongs to
another connection, from before a crash or a cut, is thrown away. Control and events have lanes of their own, so that a
lost event never holds up control.
"""

from __future__ import annotations

from typing import Final

from palio.errors import PalioError
from palio.routing import codec
from palio.routing.effects import CancelTimer, Close, Credit, Lane, LinkDown, LinkUp, Received, SetTimer
from palio.routing.frames import Frame, Hello, Packet
from palio.routing.messages import Message
from palio.routing.session import WINDOW, Identity, Out, Transmit, refusal

_PATIENCE: Final = 0.25  # seconds before something is repeated for the first time
_SLOWEST: Final = 4.0  # seconds between repetitions at most
_SILENCE: Final = 60.0  # seconds without an acknowledgement after which a link is taken for broken
_AT_ONCE: Final = 64  # messages of a lane that are repeated together
_LANES: Final[tuple[Lane, Lane]] = ("control", "events")


class _LaneState:
    """One lane in both directions."""

    __slots__ = ("early", "handed_up", "sent", "since", "unacknowledged")

    def __init__(self) -> None:
        self.sent = 0
        self.since = 0.0  # when the first of those that are not acknowledged became the first
        self.unacknowledged: dict[int, bytes] = {}
        self.handed_up = 0
        self.early: dict[int, bytes] = {}

    def number(self, message: bytes, now: float) -> int:
        if not self.unacknowledged:
            self.since = now
        self.sent += 1
        self.unacknowledged[self.sent] = message
        return self.sent

    def acknowledged(self, upto: int, now: float) -> bool:
        """Forget what has arrived; whether that was anything."""
        arrived = [number for number in self.unacknowledged if number <= upto]
        for number in arrived:
            del self.unacknowledged[number]
        if arrived:
            self.since = now
        return bool(arrived)

    def arrived(self, number: int, message: bytes) -> list[bytes]:
        """What can be handed up now, in order."""
        if number <= self.handed_up or number > self.handed_up + 4 * WINDOW:
            return []
        self.early[number] = message
        ready = []
        while (following := self.early.pop(self.handed_up + 1, None)) is not None:
            self.handed_up += 1
            ready.append(following)
        return ready


class DatagramSession:
    """For a link that may do anything but invent."""

    __slots__ = (
        "_connection",
        "_due",
        "_granted",
        "_identity",
        "_interval",
        "_is_connected",
        "_lanes",
        "_link",
        "_neighbour",
        "_other",
        "_owes",
        "is_up",
    )

    def __init__(self, link: int, identity: Identity) -> None:
        self._link = link
        self._identity = identity
        self._connection = 0
        self._is_connected = False
        self._begin_connection()

    def _begin_connection(self) -> None:
        """Forget the other end, and be somebody new to it."""
        self.is_up = False
        self._connection += 1
        self._other = self._neighbour = 0
        self._lanes = (_LaneState(), _LaneState())
        self._granted = WINDOW
        self._interval = _PATIENCE
        self._owes = False
        self._due = False

    @property
    def _name(self) -> int:
        """The number of this connection: none like it was before, in this life or an earlier one."""
        return (self._identity.incarnation << 32) + self._connection

    def connected(self, out: Out, now: float) -> None:
        self._is_connected = True
        self._greet(out, answers=False)
        self._wait(out)

    def disconnected(self, out: Out) -> None:
        if self.is_up:
            out.inputs.append(LinkDown(self._link))
        self._is_connected = False
        self._begin_connection()
        out.effects.append(CancelTimer(f"link {self._link}"))

    def arrived(self, frame: Message | Frame, out: Out, now: float) -> None:
        if not self._is_connected:
            return
        if type(frame) is Hello:
            self._greeted(frame, out)
        elif type(frame) is Packet and frame.to == self._name and frame.by == self._other:
            self._come_up(out)
            self._packet(frame, out, now)

    def _greeted(self, hello: Hello, out: Out) -> None:
        reason = refusal(self._identity, hello)
        if reason is not None:
            out.effects.append(Close(self._link, reason))
            return
        if self.is_up and hello.connection != self._other:
            if hello.connection < self._other:
                return  # late, of a connection that is over
            # The other end began anew, after a crash or a long silence.
            out.inputs.append(LinkDown(self._link))
            self._begin_connection()
        if hello.connection < self._other:
            return
        self._other, self._neighbour = hello.connection, hello.node
        if not hello.answers:
            self._greet(out, answers=True)
        if hello.seen == self._name:
            self._come_up(out)
        self._wait(out)

    def _come_up(self, out: Out) -> None:
        """Both ends know each other."""
        if not self.is_up:
            self.is_up = True
            self._interval = _PATIENCE
            out.inputs.append(LinkUp(self._link, self._neighbour, WINDOW))

    def _packet(self, packet: Packet, out: Out, now: float) -> None:
        control, events = self._lanes
        heard = control.acknowledged(packet.control, now)
        if events.acknowledged(packet.events, now) or heard:
            self._interval = _PATIENCE
        if packet.granted > self._granted:
            out.inputs.append(Credit(self._link, packet.granted - self._granted))
            self._granted = packet.granted
        if packet.number:
            self._owes = True
            for data in self._lanes[packet.lane & 1].arrived(packet.number, packet.message):
                self._hand_up(data, out, now)

    def _hand_up(self, data: bytes, out: Out, now: float) -> None:
        try:
            message = codec.decode_message(data)
        except PalioError as error:
            out.effects.append(Close(self._link, str(error)))
            return
        out.inputs.append(Received(self._link, message, now))

    def send(self, message: bytes, lane: Lane, out: Out, now: float) -> None:
        which = _LANES.index(lane)
        number = self._lanes[which].number(message, now)
        self._transmit(which, number, message, out)
        self._wait(out)

    def fired(self, out: Out, now: float) -> None:
        self._due = False
        if not self._is_connected:
            return  # the timer ran out just when the link broke
        if not self.is_up:
            self._greet(out, answers=False)
            self._slow_down(out)
        elif any(lane.unacknowledged and now - lane.since > _SILENCE for lane in self._lanes):
            out.inputs.append(LinkDown(self._link))
            self._begin_connection()
            self._greet(out, answers=False)
            self._wait(out)
        elif self._repeat(out, now):
            self._slow_down(out)
        else:
            self._wait(out)

    def settle(self, out: Out) -> None:
        """Acknowledge what came, unless something that was sent has done so."""
        if self._owes and self.is_up:
            self._transmit(0, 0, b"", out)

    def _repeat(self, out: Out, now: float) -> bool:
        """Say again what has not been acknowledged for long; whether there was anything."""
        late = [which for which, lane in enumerate(self._lanes) if now - lane.since >= self._interval]
        repeated = False
        for which in late:
            waiting = self._lanes[which].unacknowledged
            for number in list(waiting)[:_AT_ONCE]:
                self._transmit(which, number, waiting[number], out)
                repeated = True
        return repeated

    def _slow_down(self, out: Out) -> None:
        self._interval = min(2 * self._interval, _SLOWEST)
        self._wait(out)

    def _wait(self, out: Out) -> None:
        """Come back, unless there is nothing to come back for."""
        needed = not self.is_up or any(each.unacknowledged for each in self._lanes)
        if needed and not self._due:
            self._due = True
            out.effects.append(SetTimer(f"link {self._link}", self._interval))

    def _greet(self, out: Out, answers: bool) -> None:
        me = self._identity
        hello = Hello(me.node, me.incarnation, me.constants.values, WINDOW, self._name, self._other, answers)
        out.effects.append(Transmit((self._link,), codec.encode(hello), "control", codec.HELLO))

    def _transmit(self, which: int, number: int, message: bytes, out: Out) -> None:
        control, events = self._lanes
        packet = Packet(
            self._other,
            self._name,
            control.handed_up,
            events.handed_up,
            events.handed_up + WINDOW,
            which,
            number,
            message,
        )
        self._owes = False
        kind = codec.kind_of(message) if message else codec.PACKET
        out.effects.append(Transmit((self._link,), codec.encode(packet), _LANES[which], kind))
