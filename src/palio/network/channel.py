"""Frames over one connection, whoever is at its two ends.

What is sent while the loop is at work goes out in one write when it is done. Either end says something at least once in
a heartbeat; one that is silent for three is taken for gone, whatever the operating system believes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from palio.errors import PalioError
from palio.network import protocol
from palio.network.framing import FrameReader, length_of
from palio.network.protocol import PING, Failure, Goodbye, Ping
from palio.routing.codec import LONGEST_FRAME

_PATIENCE: Final = 3  # heartbeats of silence
_LAST_WORDS: Final = 2.0  # seconds in which what was written before the end may still leave
_MANY: Final = 1 / 5_000  # seconds between two events, when there are so many that they had better travel together
_GATHER: Final = 0.001  # seconds for which such an event may wait for others
_GATHERED: Final = 64  # frames that are enough
_RARE: Final = 0.002  # seconds between two events that are as good as any longer time
_HIGH_WATER: Final = 256 * 1024  # bytes that may wait in one connection before events wait outside of it


class Receiver(Protocol):
    """Whoever is behind a channel."""

    def received(self, channel: Channel, frames: list[bytes]) -> None:
        """Frames came, in order; those of the channel itself are left out."""

    def writable(self, channel: Channel) -> None:
        """What had piled up is gone."""

    def lost(self, channel: Channel, reason: str) -> None:
        """The connection is over; called once, and never before `opened`."""

    def opened(self, channel: Channel) -> None:
        """There is a connection."""


class Turn(Protocol):
    """Whoever handles together what several connections bring, and lets what they send leave together."""

    is_handling: bool

    def begin_reading(self) -> None:
        """Frames are about to be given."""

    def end_reading(self) -> None:
        """All that was read from a connection is given."""

    def flush_later(self, channel: Channel) -> None:
        """While it is handling: write what this channel has to send when it is done."""


class Channel(asyncio.Protocol):
    """One connection."""

    def __init__(
        self, receiver: Receiver, heartbeat: float, limit: int = LONGEST_FRAME, turn: Turn | None = None
    ) -> None:
        self.receiver = receiver
        self._turn = turn
        self.heartbeat = heartbeat
        self.is_full = False
        self.is_closing = False
        self.sent_bytes = 0
        self.received_bytes = 0
        self._reader = FrameReader(limit)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._flushing = False
        self._gathering: asyncio.TimerHandle | None = None
        self._pace = _RARE  # seconds between two frames, lately
        self._reason = ""
        self._said = self._loop.time()
        self._silent = 0  # heartbeats since something was heard: not seconds, in which this end may have been busy
        self._timer: asyncio.TimerHandle | None = None
        self._transport: Any = None
        self._held: list[bytes] | None = None  # frames that wait for the first of them to be read beside the loop
        self.is_read: bytes | None = None  # the frame that was

    @property
    def peer(self) -> str:
        """Who is there, as host and port."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "somewhere"

    def extra(self, name: str) -> Any:
        """What the transport knows beside, such as its TLS certificate."""
        return self._transport.get_extra_info(name)

    @property
    def unsent_bytes(self) -> int:
        """What waits because the other end does not read."""
        waiting: int = self._transport.get_write_buffer_size()
        return waiting + sum(map(len, self._out))

    def limit_frames(self, limit: int) -> None:
        self._reader.limit = limit

    def beat_every(self, seconds: float) -> None:
        """Say something at least so often from now on, and expect the same."""
        self.heartbeat = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self._beat)

    # Sending

    def send(self, frame: bytes) -> None:
        """Send a frame with all others that are sent before the loop looks at its sockets again."""
        self._out += (length_of(len(frame)), frame)
        if not self._flushing:
            self._flush_soon()

    def send_event(self, frame: bytes) -> None:
        """Send a frame that nobody waits for: where many come, each write and each wake of the other end costs more
        than what is in it, so that it waits for some others first."""
        self._out += (length_of(len(frame)), frame)
        if self._flushing:
            return
        if self._pace > _MANY or len(self._out) >= 2 * _GATHERED:
            self._flush_soon()
        elif self._gathering is None:
            self._gathering = self._loop.call_later(_GATHER, self.flush)

    def _flush_soon(self) -> None:
        self._flushing = True
        if self._turn is not None and self._turn.is_handling:
            self._turn.flush_later(self)
        else:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was sent until now, at once."""
        self._flushing = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if not self._out or self._transport is None:
            return
        if self._transport.is_closing():  # nothing leaves any more, and uvloop says so by an error
            self._out = []
            return
        now = self._loop.time()
        self._pace += (min(2 * (now - self._said) / len(self._out), _RARE) - self._pace) / 8
        data = b"".join(self._out)
        self._out = []
        self._said = now
        self.sent_bytes += len(data)
        self._transport.write(data)

    def close(self, kind: Failure, reason: str) -> None:
        """Say why, then end the connection."""
        if self.is_closing or self._transport is None:
            return
        self._reason = self._reason or reason
        self.is_closing = True
        self.send(protocol.encode(Goodbye(kind, reason)))
        self.flush()
        self._transport.close()
        self._loop.call_later(_LAST_WORDS, self._transport.abort)

    def abort(self, reason: str) -> None:
        """End it without a word."""
        self._reason = self._reason or reason
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    # What asyncio tells

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._timer = self._loop.call_later(self.heartbeat, self._beat)
        self.receiver.opened(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        self.received_bytes += len(data)
        if self.is_closing:
            return
        try:
            frames = self._reader.feed(data)
            if not _OWN.isdisjoint([frame[1] for frame in frames]):
                frames = self._own(frames)
            if self._held is not None:
                self._held += frames
            elif frames:
                self._give(frames)
        except PalioError as error:
            self.close("wire", str(error))

    def _give(self, frames: list[bytes]) -> None:
        if self._turn is None:
            self.receiver.received(self, frames)
            return
        self._turn.begin_reading()
        try:
            self.receiver.received(self, frames)
        finally:
            self._turn.end_reading()

    def hold(self, frames: list[bytes], reading: asyncio.Future[Any]) -> None:
        """Give frames, and all that come behind them, again when the first of them was read in another thread.

        Nothing more is read from the connection meanwhile: what could pile up is what has come until now.
        """
        self._held = frames
        self._transport.pause_reading()
        reading.add_done_callback(self._go_on)

    def _go_on(self, reading: asyncio.Future[Any]) -> None:
        if not reading.cancelled():
            reading.exception()  # which whoever handles the frame finds again
        frames, self._held = self._held, None
        if self.is_closing or not frames:
            return
        self.is_read = frames[0]
        self._transport.resume_reading()
        try:
            self._give(frames)
        except PalioError as error:
            self.failure = error
            self.close("wire", str(error))

    def _own(self, frames: list[bytes]) -> list[bytes]:
        """Take out what is said to the channel; what follows a goodbye is not heard."""
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

    said: Goodbye | None = None  # why the other end closes, where it said so
    failure: PalioError | None = None  # why this end does: what the other one says cannot be read

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.receiver.writable(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        self.receiver.lost(self, self._reason or (f"the connection broke: {exc}" if exc else "the other end closed it"))

    def _beat(self) -> None:
        self._silent += 1
        if self._silent > _PATIENCE:
            self.abort(f"nothing was heard for {_PATIENCE * self.heartbeat:g} seconds")
            return
        if self._loop.time() - self._said >= self.heartbeat / 2:
            self.send(_PING)
        self._timer = self._loop.call_later(self.heartbeat, self._beat)


_OWN: Final = frozenset((PING, protocol.GOODBYE))
_PING: Final = protocol.encode(Ping())
ChannelFactory = Callable[[], Channel]
