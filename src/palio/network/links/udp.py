"""Links over datagrams: heartbeats, pacing and fragmentation under the link session of `routing.link_sessions`.

The link session repairs loss, duplication and reordering. A plain datagram does not authenticate its sender, so that
both ends must be on this machine and trust everything on it; `sealed_transport` is for all other links. Each end sends
at least once in a heartbeat; after three silent ones the link is broken, and the dialling end greets again.

A message longer than a datagram is sent in fragments. A message of which a fragment is lost never completes; the
session retransmits it, under another number. Unfinished messages are bounded in bytes and number, the oldest discarded
first.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from palio.errors import PalioError
from palio.network import protocol
from palio.network.links.key_exchange import SEAL_OVERHEAD_BYTES
from palio.network.links.tcp import is_event
from palio.network.protocol import GOODBYE, PING, Goodbye, Ping
from palio.network.security.quotas import OFF_LOOP_BYTES
from palio.routing import codec
from palio.routing.effects import Lane
from palio.routing.messages import Hello, Packet
from palio.routing.node import Arrived, Connected, Disconnected

if TYPE_CHECKING:
    from palio.network.server.host import Host


FRAGMENT_TAG: Final = 112
_MAX_PARTIAL_MESSAGES: Final = 64
_FRAGMENT_OVERHEAD_BYTES: Final = 32  # of a fragment beside the message's bytes


class Fragment(Struct, frozen=True, array_like=True, tag=FRAGMENT_TAG):
    """One of `count` fragments of a message; `number` is the sender's number of the message."""

    number: int
    index: int
    count: int
    data: bytes


_decode_fragment = codec.reader(Fragment)


def fragments(data: bytes, number: int, largest: int) -> Iterator[bytes]:
    """Split a message into datagrams of at most `largest` bytes."""
    size = largest - _FRAGMENT_OVERHEAD_BYTES
    count = -(-len(data) // size)
    for index in range(count):
        yield codec.encode_any(Fragment(number, index, count, data[index * size : (index + 1) * size]))


class Reassembler:
    """Fragments received over one link, until their messages are complete."""

    def __init__(self, max_bytes: int = codec.MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._unfinished: dict[int, dict[int, bytes]] = {}  # by message number and index, the oldest message first

    def put(self, datagram: bytes) -> bytes | None:
        """Add a fragment; the message that it completes, if any."""
        fragment: Fragment = _decode_fragment(datagram)
        parts = self._unfinished.setdefault(fragment.number, {})
        if fragment.index not in parts:  # datagrams may come twice
            parts[fragment.index] = fragment.data
            self._bytes += len(fragment.data)
        if len(parts) >= fragment.count:
            self._discard(fragment.number)
            return b"".join(parts[index] for index in sorted(parts))
        while self._bytes > self._max_bytes or len(self._unfinished) > _MAX_PARTIAL_MESSAGES:
            self._discard(next(iter(self._unfinished)))
        return None

    def _discard(self, number: int) -> None:
        self._bytes -= sum(map(len, self._unfinished.pop(number).values()))


MAX_DATAGRAM_BYTES: Final = 65_507 - SEAL_OVERHEAD_BYTES  # the payload of UDP over IPv4, less the overhead of a seal
_MAX_SILENT_HEARTBEATS: Final = 3
_BURST_DATAGRAMS: Final = 64  # that are sent without a pause
_BURST_BYTES: Final = 128 * 1024  # the receive buffer that every system grants
_BURST_PAUSE_SECONDS: Final = 0.002
_RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024  # requested; the system may grant less
SocketAddress: TypeAlias = tuple[Any, ...]
log = logging.getLogger("palio.links")


class UdpLink:
    """One end of a link. `peer_address` is the other end's; None where the socket is connected to it."""

    def __init__(self, host: Host, number: int, where: str, heartbeat: float) -> None:
        self.number = number
        self.where = where
        self.neighbour = 0
        self.arrivals = 0  # completed greetings
        self.reason = "no answer yet"
        self._logged_reason = ""  # since the last greeting
        self.peer_address: SocketAddress | None = None
        self._host = host
        self._heartbeat = heartbeat
        self.on_broken: Callable[[], object] | None = None
        self.transport: Any = None
        self._out: deque[bytes] = deque()
        self._is_pacing = False
        self._fragmented = 0  # number of messages sent in fragments
        self._reassembler = Reassembler()
        self._decoding = 0  # datagrams that are being decoded in the reader thread
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None
        host.links[number] = self

    @property
    def is_open(self) -> bool:
        return self.transport is not None

    @property
    def is_up(self) -> bool:
        return self.is_open and self.neighbour != 0

    waiting = 0  # the link session holds what is not acknowledged

    def open(self, transport: Any, address: SocketAddress | None = None) -> None:
        """Open the link, or reopen it with another address."""
        if self.transport is not None:
            self.stop(_RESTARTED)
        self.transport, self.peer_address = transport, address
        self._silent = 0
        self._host.enqueue(Connected(self.number, datagrams=True))
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)

    def on_datagram(self, data: bytes) -> None:
        self._silent = 0
        kind = data[1] if len(data) > 1 else 0
        if kind == GOODBYE:
            self._break("the other end is leaving")
        elif kind == FRAGMENT_TAG:
            self._on_fragment(data)
        elif kind != PING:
            # A neighbour that restarted greets again over the same addresses.
            if self.neighbour == 0 or kind == codec.HELLO:
                self._on_greeting(greeting_node(data))
            if len(data) > OFF_LOOP_BYTES and self._decode_off_loop(data):
                return
            self._host.enqueue(Arrived(self.number, data, self._host.now()))

    def _on_greeting(self, node: int | None) -> None:
        is_new, self.neighbour = self.neighbour == 0, node or self.neighbour
        if not is_new or not self.neighbour:
            return
        self.arrivals += 1
        self._logged_reason = ""
        if self.peer_address is None:  # the accepting end has logged it already
            log.info("linked", extra={"address": self.where, "neighbour": self.neighbour})

    def on_unreachable(self, reason: str) -> None:
        """Note the reason of the operating system why the link is down."""
        if not self.is_up:
            self._log_reason(reason)

    def _log_reason(self, reason: str) -> None:
        self.reason = reason
        if reason != self._logged_reason:
            self._logged_reason = reason
            log.warning("no link", extra={"address": self.where, "reason": reason})

    def _on_fragment(self, data: bytes) -> None:
        try:
            whole = self._reassembler.put(data)
        except PalioError as error:
            self._break(str(error))
            return
        # A message made of fragments of fragments could recurse without bound; no broker sends one.
        if whole is not None and whole[1:2] != bytes([FRAGMENT_TAG]):
            self.on_datagram(whole)

    def _decode_off_loop(self, data: bytes) -> bool:
        """Decode a datagram in the reader thread if it may have a long filter; False where it has none.

        Later datagrams overtake it, as the session allows. When too many are being decoded, it is dropped like a lost
        one.
        """
        try:
            packet = codec.decode(data)
        except PalioError:
            return False  # the session reports what is wrong with it
        if type(packet) is not Packet or len(packet.message) <= OFF_LOOP_BYTES or is_event(packet.message):
            return False
        if self._decoding < _BURST_DATAGRAMS:  # bounds what a neighbour can make this end hold
            self._decoding += 1
            self._host.run_off_loop(partial(codec.decode_message, packet.message)).add_done_callback(
                partial(self._on_decoded, data)
            )
        return True

    def _on_decoded(self, data: bytes, reading: asyncio.Future[Any]) -> None:
        self._decoding -= 1
        if not reading.cancelled():
            reading.exception()  # the session meets it again when it decodes the datagram
            self._host.enqueue(Arrived(self.number, data, self._host.now()))

    def transmit(self, data: bytes, lane: Lane) -> None:
        if self.transport is None:
            self._host.drops["lost with its link"] += 1
        else:
            if len(data) > MAX_DATAGRAM_BYTES:
                self._fragmented += 1
                self._out.extend(fragments(data, self._fragmented, MAX_DATAGRAM_BYTES))
            else:
                self._out.append(data)
            if not self._is_pacing:
                self._send_burst()

    def _send_burst(self) -> None:
        """Send a burst, then pause while the other end reads: what exceeds its receive buffer is lost."""
        size = count = 0
        while self._out and count < _BURST_DATAGRAMS and size < _BURST_BYTES and self.transport is not None:
            datagram = self._out.popleft()
            count, size = count + 1, size + len(datagram)
            self.transport.sendto(datagram, self.peer_address)
        self._is_pacing = bool(self._out)
        if self._is_pacing:
            asyncio.get_running_loop().call_later(_BURST_PAUSE_SECONDS, self._send_burst)

    def close(self, reason: str) -> None:
        self._break(reason)

    def stop(self, reason: str = "the broker is stopping") -> None:
        """Close the link and tell the other end."""
        if self.transport is None:
            return
        # After a restart the same address is that of the new link, which a goodbye would break.
        if reason != _RESTARTED:
            self.transport.sendto(protocol.encode(Goodbye("unavailable", reason)), self.peer_address)
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.transport = None
        self._out.clear()
        self._reassembler = Reassembler()
        self.neighbour = 0
        self._host.enqueue(Disconnected(self.number))

    def _break(self, reason: str) -> None:
        self._log_reason(reason)
        if self.transport is None:
            return
        self._end()
        if self.on_broken is not None:
            self.on_broken()

    def _beat(self) -> None:
        self._silent += 1
        if self._silent > _MAX_SILENT_HEARTBEATS:
            heard = f"nothing was heard for {_MAX_SILENT_HEARTBEATS * self._heartbeat:g} seconds"
            self._break(heard if self.neighbour else self.reason)
            return
        if self.transport is not None:
            self.transport.sendto(_PING, self.peer_address)
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)


class UdpDialler(asyncio.DatagramProtocol):
    """Socket of one dialled link without a seal."""

    def __init__(self, link: UdpLink, pause: float) -> None:
        """`pause` is the number of seconds after which a broken link is dialled again."""
        self._link = link
        self._pause = pause
        self._transport: Any = None
        link.on_broken = lambda: asyncio.get_running_loop().call_later(self._pause, self._dial)

    def connection_made(self, transport: Any) -> None:
        widen_receive_buffer(transport)
        self._transport = transport
        self._dial()

    def _dial(self) -> None:
        if not self._link.is_open and not self._transport.is_closing():
            self._link.open(self._transport)

    def datagram_received(self, data: bytes, addr: SocketAddress) -> None:
        self._link.on_datagram(data)

    def error_received(self, exc: Exception) -> None:
        self._link.on_unreachable("nothing listens there")


class UdpListener(asyncio.DatagramProtocol):
    """Socket that other brokers dial without a seal; `on_dialled` returns the link of a neighbour, or None."""

    def __init__(self, on_dialled: Callable[[int, str], UdpLink | None]) -> None:
        self._on_dialled = on_dialled
        self._links: dict[SocketAddress, UdpLink] = {}
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        widen_receive_buffer(transport)
        self._transport = transport

    def datagram_received(self, data: bytes, addr: SocketAddress) -> None:
        # Not only a new address: the neighbour may greet from another one, or after this end gave the link up.
        link = self._links.get(addr)
        if link is None or link.peer_address != addr or not link.is_open:
            node = greeting_node(data)
            link = None if node is None else self._on_dialled(node, f"{addr[0]}:{addr[1]}")
            if link is None:
                return  # of a link that has ended, or of no known broker
            self._links = {address: each for address, each in self._links.items() if each is not link}
            self._links[addr] = link
            link.open(self._transport, addr)
        link.on_datagram(data)


def widen_receive_buffer(transport: Any) -> None:
    """Enlarge the receive buffer of a socket, for datagrams that come while the broker is busy."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)


def greeting_node(data: bytes) -> int | None:
    """The number of the broker that greets; None where the bytes are no greeting."""
    if len(data) < 2 or data[1] != codec.HELLO:
        return None
    try:
        hello = codec.decode(data)
    except PalioError:
        return None
    return hello.node if isinstance(hello, Hello) else None


_PING: Final = protocol.encode(Ping())
_RESTARTED: Final = "the other end began again"
