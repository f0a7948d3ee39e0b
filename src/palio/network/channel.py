"""Framed connection with heartbeats, write coalescing and backpressure, used by clients, links and the server.

Every message is a frame with its length before it, in four bytes. Frames sent during one turn of the loop leave in
one write. Each end sends at least once in a heartbeat; one that is silent for three is taken for dead, whatever the
operating system believes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Protocol

from palio.errors import PalioError, WireError
from palio.network import protocol
from palio.network.protocol import PING, ErrorCode, Goodbye, Ping
from palio.routing.codec import MAX_FRAME_BYTES

_LENGTH: Final = Struct(">I")
# First bytes of HTTP; read as lengths they exceed every limit.
_HTTP_METHODS: Final = (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE")
CONNECT_TIMEOUT_SECONDS: Final = 10.0  # of one broker to another
_MAX_SILENT_HEARTBEATS: Final = 3
_CLOSE_SECONDS: Final = 2.0  # in which data written before the close may still leave
_COALESCE_BELOW_SECONDS: Final = 1 / 5_000  # mean interval of frames below which they are coalesced
_COALESCE_INTERVAL_SECONDS: Final = 0.001  # for which a frame waits for others
_MAX_COALESCED_FRAMES: Final = 64
_MAX_PACE_SECONDS: Final = 0.002  # longer intervals count as this, so that the mean recovers soon
_WRITE_HIGH_WATER_BYTES: Final = 256 * 1024  # in the socket's buffer, beyond which events wait in their queues
frame_header = _LENGTH.pack  # of a frame, from its length


class FrameReader:
    """Splits a stream into frames. `limit` bounds one frame, and so what a sender can make this end buffer."""

    __slots__ = ("_buffered", "_missing", "buffered_bytes", "complete_frames", "limit")

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self.limit = limit
        self.buffered_bytes = 0  # of the incomplete frame
        self.complete_frames = 0
        self._buffered: list[bytes] = []
        self._missing = 0  # bytes to come before the next frame can be complete

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now; `WireError` for a length out of bounds."""
        if self._buffered:
            # Joined only when a frame can be complete: joining at every read would copy a long frame once for each of
            # the reads that it arrives by.
            self._buffered.append(data)
            self.buffered_bytes += len(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = b"".join(self._buffered)
            self._buffered = []
        frames: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            # Every message is an array that begins with its tag, so that the shortest has two bytes.
            if not 2 <= length <= self.limit:
                if data[at : at + 4] in _HTTP_METHODS:
                    raise WireError("the other end speaks HTTP, and this is no port for that")
                raise WireError(f"a frame of {length:,} bytes, where one has from 2 to {self.limit:,}")
            if end - at - 4 < length:
                self._missing = length - (end - at - 4)
                break
            frames.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        else:
            self._missing = 4 - (end - at)
        self.buffered_bytes = end - at
        self.complete_frames += len(frames)
        if at < end:
            self._buffered.append(data[at:] if at else data)
        return frames


class Receiver(Protocol):
    """User of a channel: a client, a link, a session's connection or a handshake."""

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        """Frames arrived, in order; those of the channel itself are left out."""

    def on_writable(self, channel: Channel) -> None:
        """The connection takes data again."""

    def on_lost(self, channel: Channel, reason: str) -> None:
        """The connection has ended; called once, and never before `on_open`."""

    def on_open(self, channel: Channel) -> None:
        """The connection is established."""


class HeldInput(Protocol):
    """Count of the bytes of incomplete frames of all channels."""

    total: int

    def check(self, own: int) -> None:
        """An error where a channel may hold no more."""


class Batching(Protocol):
    """Driver that handles the input of several connections in one batch, and writes their output after it."""

    is_handling: bool

    def begin_reading(self) -> None:
        """Input of a connection follows."""

    def end_reading(self) -> None:
        """The input of the connection is complete."""

    def flush_later(self, channel: Channel) -> None:
        """Flush this channel after the batch that is being handled."""


class Channel(asyncio.Protocol):
    """One connection, as a protocol of asyncio."""

    def __init__(
        self,
        receiver: Receiver,
        heartbeat: float,
        limit: int = MAX_FRAME_BYTES,
        batching: Batching | None = None,
        held: HeldInput | None = None,
    ) -> None:
        """`held` counts the bytes of the incomplete frames of all channels."""
        self.receiver = receiver
        self._held_input = held
        self._counted_bytes = 0  # of the incomplete frame, in `held`
        self._seen_frames = 0  # at the last heartbeat, as below
        self._seen_bytes = 0
        self._slow_heartbeats = 0
        self.min_bytes_per_second = 0.0  # at which a frame must arrive
        self.on_closed: Callable[[], None] | None = None
        self.before_flush: Callable[[], None] | None = None  # sends what its user has collected
        self._batching = batching
        self.heartbeat = heartbeat
        self.is_full = False
        self.is_closing = False
        self.may_defer = False  # whether its frames may wait for those of the next batches, where there is a backlog
        self._reader = FrameReader(limit)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._is_flush_scheduled = False
        self._coalesce_timer: asyncio.TimerHandle | None = None
        self._mean_interval = _MAX_PACE_SECONDS  # moving mean of the seconds between two frames
        self._reason = ""
        self._last_write = self._loop.time()
        self._silent_heartbeats = 0  # not seconds: this end may have been too busy to read
        self._timer: asyncio.TimerHandle | None = None
        self._transport: Any = None
        self._held_frames: list[bytes] | None = None  # that wait while the first is decoded off the loop
        self.is_read: bytes | None = None  # the frame that was decoded off the loop

    @property
    def peer(self) -> str:
        """Host and port of the other end."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "somewhere"

    @property
    def host(self) -> str:
        """Host of the other end."""
        return self.peer.rpartition(":")[0]

    def extra(self, name: str) -> Any:
        """A property of the transport, such as its TLS certificate."""
        return self._transport.get_extra_info(name)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait because the other end does not read."""
        waiting: int = self._transport.get_write_buffer_size()
        return waiting + sum(map(len, self._out))

    def limit_frames(self, limit: int) -> None:
        self._reader.limit = limit

    def beat_every(self, seconds: float) -> None:
        """Change the heartbeat of both directions."""
        self.heartbeat = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self._beat)

    # Sending

    def send(self, frame: bytes) -> None:
        """Send a frame, in one write with all others of this turn of the loop."""
        self._out += (frame_header(len(frame)), frame)
        if not self._is_flush_scheduled:
            self._flush_soon()

    def send_event(self, frame: bytes) -> None:
        """Send a frame that may wait for others.

        When frames follow each other fast, each write and each wake-up of the other end costs more than its content.
        """
        self._out += (frame_header(len(frame)), frame)
        if self._is_flush_scheduled:
            return
        if self._mean_interval > _COALESCE_BELOW_SECONDS or len(self._out) >= 2 * _MAX_COALESCED_FRAMES:
            self._flush_soon()
        elif self._coalesce_timer is None:
            self._coalesce_timer = self._loop.call_later(_COALESCE_INTERVAL_SECONDS, self.flush)

    def request_flush(self) -> None:
        """Flush as after `send`."""
        if not self._is_flush_scheduled:
            self._flush_soon()

    def _flush_soon(self) -> None:
        self._is_flush_scheduled = True
        if self._batching is not None and self._batching.is_handling:
            self._batching.flush_later(self)
        else:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write all frames sent until now."""
        if self.before_flush is not None:
            self._is_flush_scheduled = True  # by what it sends no other flush is
            self.before_flush()
        self._is_flush_scheduled = False
        if self._coalesce_timer is not None:
            self._coalesce_timer.cancel()
            self._coalesce_timer = None
        if not self._out or self._transport is None:
            return
        if self._transport.is_closing():  # uvloop raises an error on a write to a closing transport
            self._out = []
            return
        now = self._loop.time()
        # Exponential moving average with weight 1/8; `_out` has two entries for each frame.
        interval = min(2 * (now - self._last_write) / len(self._out), _MAX_PACE_SECONDS)
        self._mean_interval += (interval - self._mean_interval) / 8
        data = b"".join(self._out)
        self._out = []
        self._last_write = now
        self._transport.write(data)

    def close(self, kind: ErrorCode, reason: str) -> None:
        """Say why, then end the connection."""
        if self.is_closing or self._transport is None:
            return
        if self.before_flush is not None:
            self.before_flush()  # nothing is read after a goodbye
        self._reason = self._reason or reason
        self.is_closing = True
        self.send(protocol.encode(Goodbye(kind, reason)))
        self.flush()
        # `close` waits until everything is written, which a peer that does not read would delay for ever.
        self._transport.close()
        self._loop.call_later(_CLOSE_SECONDS, self._transport.abort)

    def abort(self, reason: str) -> None:
        """Close without telling the other end."""
        self._reason = self._reason or reason
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of asyncio

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
        self._timer = self._loop.call_later(self.heartbeat, self._beat)
        self.receiver.on_open(self)
        own = transport.get_extra_info("sockname")
        if own is not None and own == transport.get_extra_info("peername"):
            # TCP's simultaneous open: whoever dials a port of this machine where nothing listens may be given that port
            # as its own. As long as it stays connected to itself, no broker can listen there.
            self.abort("nothing listens there")
        else:
            self.flush()

    def data_received(self, data: bytes) -> None:
        self._silent_heartbeats = 0
        if self.is_closing:
            return
        try:
            frames = self._reader.feed(data)
            if self._reader.buffered_bytes != self._counted_bytes:
                self._count_held()
            # The second byte of a frame is the tag of its message.
            if not _CHANNEL_TAGS.isdisjoint([frame[1] for frame in frames]):
                frames = self._take_control(frames)
            if self._held_frames is not None:
                self._held_frames += frames
            elif frames:
                self._deliver(frames)
        except PalioError as error:
            self.close("wire", str(error))

    def _count_held(self) -> None:
        held, own = self._held_input, self._reader.buffered_bytes
        if held is not None:
            held.total += own - self._counted_bytes
            self._counted_bytes = own
            held.check(own)

    def _deliver(self, frames: list[bytes]) -> None:
        if self._batching is None:
            self.receiver.on_frames(self, frames)
            return
        self._batching.begin_reading()
        try:
            self.receiver.on_frames(self, frames)
        finally:  # also after an error: until then no batch of any connection begins
            self._batching.end_reading()

    def hold(self, frames: list[bytes], reading: asyncio.Future[Any]) -> None:
        """Hold frames, and all that follow, until the first of them is decoded in another thread.

        Reading is paused meanwhile, so that only what has arrived until now can pile up.
        """
        self._held_frames = frames
        self._transport.pause_reading()
        reading.add_done_callback(self._resume)

    def defer(self, frames: list[bytes]) -> None:
        """Hold frames, and all that follow, until other connections had their turn."""
        self._held_frames = frames
        self._transport.pause_reading()
        self._loop.call_soon(self._deliver_held)

    def _resume(self, reading: asyncio.Future[Any]) -> None:
        if not reading.cancelled():
            reading.exception()  # retrieved only: the receiver meets it again when it decodes the frame
        if self._held_frames:
            self.is_read = self._held_frames[0]  # by this the receiver knows it again, and does not hold it once more
        self._deliver_held()

    def _deliver_held(self) -> None:
        frames, self._held_frames = self._held_frames, None
        if self.is_closing or not frames:
            return
        self._transport.resume_reading()
        try:
            self._deliver(frames)
        except PalioError as error:
            self.failure = error
            self.close("wire", str(error))

    def _take_control(self, frames: list[bytes]) -> list[bytes]:
        """Remove the channel's own frames; frames after a goodbye are discarded."""
        others = []
        for frame in frames:
            if frame[1] == protocol.GOODBYE and len(frame) > 2:
                said = protocol.decode_goodbye(frame)
                self._reason = f"{said.reason} (said by the other end)"
                self.said = said
                break
            if frame[1] != PING:
                others.append(frame)
        return others

    said: Goodbye | None = None  # the other end's reason to close
    failure: PalioError | None = None  # why this end closes: frames that cannot be decoded

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.receiver.on_writable(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._held_input is not None:
            self._held_input.total -= self._counted_bytes
            self._counted_bytes = 0
        if self.on_closed is not None:
            self.on_closed()
        reason = f"the connection broke: {exc}" if exc else "the other end closed it"
        self.receiver.on_lost(self, self._reason or reason)

    def _beat(self) -> None:
        self._silent_heartbeats += self._held_frames is None  # while frames are held, nothing is read at this end
        if self._silent_heartbeats > _MAX_SILENT_HEARTBEATS:
            self.abort(f"nothing was heard for {_MAX_SILENT_HEARTBEATS * self.heartbeat:g} seconds")
            return
        if self._is_frame_late():
            self.close("wire", f"a frame that arrives at less than {self.min_bytes_per_second:,.0f} bytes a second")
            return
        # A write in the second half of the interval serves as this heartbeat.
        if self._loop.time() - self._last_write >= self.heartbeat / 2:
            self.send(_PING)
        self._timer = self._loop.call_later(self.heartbeat, self._beat)

    def _is_frame_late(self) -> bool:
        """Whether one frame arrived too slowly during several heartbeats; a byte now and then is no sign of life."""
        reader = self._reader
        if self._held_frames is not None:  # reading is paused at this end
            return False
        received = reader.buffered_bytes - self._seen_bytes
        is_slow = reader.buffered_bytes > 0 and received < self.min_bytes_per_second * self.heartbeat
        is_same = reader.complete_frames == self._seen_frames
        self._slow_heartbeats = self._slow_heartbeats + 1 if is_slow and is_same else 0
        self._seen_frames, self._seen_bytes = reader.complete_frames, reader.buffered_bytes
        return self._slow_heartbeats > _MAX_SILENT_HEARTBEATS


_CHANNEL_TAGS: Final = frozenset((PING, protocol.GOODBYE))
_PING: Final = protocol.encode(Ping())
