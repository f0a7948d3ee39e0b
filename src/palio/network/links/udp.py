"""A link over datagrams: the session of `routing.datagram` repairs what they lose, double and reorder.

A plain datagram cannot prove who sent it, so both ends must be on this machine, and trust all that is there; `sealed`
is for all others. Either end says something at least once in a heartbeat; after three without a word the link is taken
for broken, and whoever dialled it greets again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from palio.errors import PalioError
from palio.network import protocol
from palio.network.links.pieces import PIECE, Pieces, cut
from palio.network.links.tcp import is_event
from palio.network.protocol import GOODBYE, PING, Goodbye, Ping
from palio.network.security.limits import LONG
from palio.network.security.sealing import OVERHEAD
from palio.routing import codec
from palio.routing.effects import Lane
from palio.routing.frames import Hello, Packet
from palio.routing.node import Arrived, Connected, Disconnected

if TYPE_CHECKING:
    from palio.network.host import Host

LARGEST: Final = 65_507 - OVERHEAD  # bytes of a datagram over IPv4, less those of a seal
_PATIENCE: Final = 3  # heartbeats of silence
_AT_ONCE: Final = 64  # datagrams between two pauses
_BYTES_AT_ONCE: Final = 128 * 1024  # so much a socket holds everywhere
_PAUSE: Final = 0.002  # seconds
_RECEIVING: Final = 4 * 1024 * 1024  # bytes that a socket should hold; the system may give less
Place: TypeAlias = tuple[Any, ...]
log = logging.getLogger("palio.links")


class UdpLink:
    """One end of a link. `place` is where the other end is; None where it dials, and the socket knows."""

    def __init__(self, host: Host, number: int, where: str, heartbeat: float) -> None:
        self.number = number
        self.where = where
        self.neighbour = 0
        self.arrivals = 0  # how often a neighbour greeted
        self.reason = "no answer yet"
        self._said = ""  # the last reason that was logged, since there was a link
        self.place: Place | None = None
        self._host = host
        self._heartbeat = heartbeat
        self.broken: Callable[[], object] | None = None  # what is called when it broke
        self.transport: Any = None
        self._out: deque[bytes] = deque()
        self._is_pacing = False
        self._cut = 0  # messages that were sent in pieces
        self._pieces = Pieces()
        self._reading = 0  # datagrams that are read in another thread
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None
        host.links[number] = self

    @property
    def is_open(self) -> bool:
        return self.transport is not None

    @property
    def is_up(self) -> bool:
        return self.is_open and self.neighbour != 0

    waiting = 0  # nothing waits here: the session keeps what is not acknowledged

    def open(self, transport: Any, place: Place | None = None) -> None:
        """Begin, or begin anew with another place."""
        if self.transport is not None:
            self.stop(_AGAIN)
        self.transport, self.place = transport, place
        self._silent = 0
        self._host.give(Connected(self.number, datagrams=True))
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)

    def received(self, data: bytes) -> None:
        self._silent = 0
        kind = data[1] if len(data) > 1 else 0
        if kind == GOODBYE:
            self._broke("the other end is leaving")
        elif kind == PIECE:
            self._piece(data)
        elif kind != PING:
            if self.neighbour == 0 or kind == codec.HELLO:
                self._greeted(node_of(data))
            if len(data) > LONG and self._may_take_long(data):
                return
            self._host.give(Arrived(self.number, data, self._host.now()))

    def _greeted(self, node: int | None) -> None:
        is_new, self.neighbour = self.neighbour == 0, node or self.neighbour
        if not is_new or not self.neighbour:
            return
        self.arrivals += 1
        self._said = ""
        if self.place is None:  # who was dialled has said so when it let this one in
            log.info("linked", extra={"address": self.where, "neighbour": self.neighbour})

    def unheard(self, reason: str) -> None:
        """The system says why there is likely no link."""
        if not self.is_up:
            self._say(reason)

    def _say(self, reason: str) -> None:
        self.reason = reason
        if reason != self._said:
            self._said = reason
            log.warning("no link", extra={"address": self.where, "reason": reason})

    def _piece(self, data: bytes) -> None:
        try:
            whole = self._pieces.put(data)
        except PalioError as error:
            self._broke(str(error))
            return
        if whole is not None and whole[1:2] != bytes([PIECE]):
            self.received(whole)

    def _may_take_long(self, data: bytes) -> bool:
        """Whether a datagram may have a long filter: it is read in another thread, and overtaken by others meanwhile.

        Where too many are read already, it is as if it had been lost.
        """
        try:
            packet = codec.decode(data)
        except PalioError:
            return False  # the session says what is wrong with it
        if type(packet) is not Packet or len(packet.message) <= LONG or is_event(packet.message):
            return False
        if self._reading < _AT_ONCE:
            self._reading += 1
            self._host.beside(partial(codec.decode_message, packet.message)).add_done_callback(
                partial(self._read, data)
            )
        return True

    def _read(self, data: bytes, reading: asyncio.Future[Any]) -> None:
        self._reading -= 1
        if not reading.cancelled():
            reading.exception()  # which the session finds again
            self._host.give(Arrived(self.number, data, self._host.now()))

    def transmit(self, data: bytes, lane: Lane) -> None:
        if self.transport is None:
            self._host.drops["lost with its link"] += 1
        else:
            if len(data) > LARGEST:
                self._cut += 1
                self._out.extend(cut(data, self._cut, LARGEST))
            else:
                self._out.append(data)
            if not self._is_pacing:
                self._send_some()

    def _send_some(self) -> None:
        """Send, and after a few datagrams let the other end read: what its socket cannot hold is lost."""
        size = count = 0
        while self._out and count < _AT_ONCE and size < _BYTES_AT_ONCE and self.transport is not None:
            datagram = self._out.popleft()
            count, size = count + 1, size + len(datagram)
            self.transport.sendto(datagram, self.place)
        self._is_pacing = bool(self._out)
        if self._is_pacing:
            asyncio.get_running_loop().call_later(_PAUSE, self._send_some)

    def close(self, reason: str) -> None:
        self._broke(reason)

    def stop(self, reason: str = "the broker is stopping") -> None:
        """Take leave."""
        if self.transport is None:
            return
        if reason != _AGAIN:
            self.transport.sendto(protocol.encode(Goodbye("unavailable", reason)), self.place)
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.transport = None
        self._out.clear()
        self._pieces = Pieces()
        self.neighbour = 0
        self._host.give(Disconnected(self.number))

    def _broke(self, reason: str) -> None:
        self._say(reason)
        if self.transport is None:
            return
        self._end()
        if self.broken is not None:
            self.broken()

    def _beat(self) -> None:
        self._silent += 1
        if self._silent > _PATIENCE:
            heard = f"nothing was heard for {_PATIENCE * self._heartbeat:g} seconds"
            self._broke(heard if self.neighbour else self.reason)
            return
        if self.transport is not None:
            self.transport.sendto(_PING, self.place)
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)


class Dialled(asyncio.DatagramProtocol):
    """A socket for one link, from the end that dials."""

    def __init__(self, link: UdpLink, pause: float) -> None:
        """After `pause` seconds a link that broke is dialled again."""
        self._link = link
        self._pause = pause
        self._transport: Any = None
        link.broken = lambda: asyncio.get_running_loop().call_later(self._pause, self._dial)

    def connection_made(self, transport: Any) -> None:
        widen(transport)
        self._transport = transport
        self._dial()

    def _dial(self) -> None:
        if not self._link.is_open and not self._transport.is_closing():
            self._link.open(self._transport)

    def datagram_received(self, data: bytes, addr: Place) -> None:
        self._link.received(data)

    def error_received(self, exc: Exception) -> None:
        self._link.unheard("nothing listens there")


class Listening(asyncio.DatagramProtocol):
    """A socket that others dial. `dialled` makes or finds a neighbour's link, or None where it may have none."""

    def __init__(self, dialled: Callable[[int, str], UdpLink | None]) -> None:
        self._dialled = dialled
        self._of: dict[Place, UdpLink] = {}
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        widen(transport)
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Place) -> None:
        link = self._of.get(addr)
        if link is None or link.place != addr or not link.is_open:
            node = node_of(data)
            link = None if node is None else self._dialled(node, f"{addr[0]}:{addr[1]}")
            if link is None:
                return  # of a link that is over, or of nobody
            self._of = {place: each for place, each in self._of.items() if each is not link}
            self._of[addr] = link
            link.open(self._transport, addr)
        link.received(data)


def widen(transport: Any) -> None:
    """Let a socket hold what comes while the broker is busy."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVING)


def node_of(data: bytes) -> int | None:
    """Who greets; None for bytes that are no greeting."""
    if len(data) < 2 or data[1] != codec.HELLO:
        return None
    try:
        hello = codec.decode(data)
    except PalioError:
        return None
    return hello.node if isinstance(hello, Hello) else None


_PING: Final = protocol.encode(Ping())
_AGAIN: Final = "the other end began again"
