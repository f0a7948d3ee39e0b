"""Links over TCP or TLS: one end of a link, and the connector that dials it again with exponential backoff.

While the connection takes no more, events wait in the link, and control messages overtake them. The credit that the
neighbour granted bounds how many wait.

The backoff grows from a tenth of a second to ten, each drawn around its mean: many brokers that lost one neighbour must
not return at the same moment. A greeting that completes resets it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from palio.errors import WireError
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.backoff import Backoff
from palio.network.channel import CONNECT_TIMEOUT_SECONDS, Channel
from palio.network.protocol import BrokerHello
from palio.network.security.quotas import OFF_LOOP_BYTES
from palio.routing import codec
from palio.routing.effects import Lane
from palio.routing.messages import Hello
from palio.routing.node import Arrived, Connected, Disconnected

if TYPE_CHECKING:
    from palio.network.server.host import Host

_MSGPACK_SHORT_ARRAY: Final = 9  # its first four bits
MIN_BACKOFF_SECONDS: Final = 0.1
MAX_BACKOFF_SECONDS: Final = 2.0  # what a hub that is back waits for its neighbours, at most one and a half times
_REFUSAL_SECONDS: Final = 0.2  # in which a neighbour that greeted may still refuse the link
_WRITE_BURST_EVENTS: Final = 64  # between two checks whether the connection takes more
log = logging.getLogger("palio.links")


class TcpLink:
    """One end of a link: its number stands for the broker's whole life, its connections come and go.

    `on_greeting` gets the number of the neighbour, and returns the reason where the link is not wanted; `on_broken` is
    called when a connection has ended.
    """

    def __init__(
        self,
        host: Host,
        number: int,
        where: str,
        on_greeting: Callable[[TcpLink, int], str | None],
        on_broken: Callable[[TcpLink, str], None],
        token: str = "",
    ) -> None:
        self.number = number
        self.where = where
        self.neighbour = 0  # its number, once it has greeted
        self.arrivals = 0  # completed greetings
        self.channel: Channel | None = None
        self.host = host
        self._on_greeting = on_greeting
        self._on_broken = on_broken
        self._token = token
        self._waiting: deque[bytes] = deque()
        host.links[number] = self

    @property
    def is_up(self) -> bool:
        return self.channel is not None and self.neighbour != 0

    @property
    def waiting(self) -> int:
        """Number of events that wait for the connection."""
        return len(self._waiting)

    def adopt(self, channel: Channel, frames: list[bytes]) -> None:
        """Use a connection whose other end has greeted already."""
        channel.receiver = self
        self.on_open(channel)
        self.on_frames(channel, frames)

    # Calls of the host

    def transmit(self, data: bytes, lane: Lane) -> None:
        channel = self.channel
        if channel is None:
            self.host.drops["lost with its link"] += 1
        elif lane == "events" and (channel.is_full or self._waiting):
            self._waiting.append(data)  # also while others wait, lest it overtake them
        else:
            channel.send(data)

    def close(self, reason: str) -> None:
        if self.channel is not None:
            self.channel.close("refused", reason)

    # Calls of the channel

    def on_open(self, channel: Channel) -> None:
        self.channel = channel
        self.neighbour = 0
        if self._token:
            channel.send(protocol.encode(BrokerHello(protocol.VERSION, self._token)))
        self.host.enqueue(Connected(self.number))

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        if channel is not self.channel:
            return  # the neighbour has connected again meanwhile
        if self.neighbour == 0 and not self._check_greeting(channel, frames[0]):
            return
        for at, frame in enumerate(frames):
            if len(frame) > OFF_LOOP_BYTES and not is_event(frame) and frame is not channel.is_read:
                self._enqueue(frames[:at])
                # A long control message may hold a filter that takes seconds to parse. The frames after it wait too:
                # messages of a link stay in order.
                channel.hold(frames[at:], self.host.run_off_loop(partial(codec.decode, frame)))
                return
        self._enqueue(frames)

    def _enqueue(self, frames: list[bytes]) -> None:
        now = self.host.now()
        number = self.number
        self.host.enqueue_all([Arrived(number, frame, now) for frame in frames])

    def _check_greeting(self, channel: Channel, frame: bytes) -> bool:
        hello = codec.decode(frame)
        if type(hello) is not Hello:
            raise WireError("a link begins with a greeting")
        reason = self._on_greeting(self, hello.node)
        if reason is not None:
            channel.close("refused", reason)
            return False
        self.neighbour = hello.node
        self.arrivals += 1
        return True

    def on_writable(self, channel: Channel) -> None:
        while self._waiting and not channel.is_full:
            for _ in range(min(_WRITE_BURST_EVENTS, len(self._waiting))):
                channel.send(self._waiting.popleft())
            channel.flush()  # only what is written can make the connection full again

    def on_lost(self, channel: Channel, reason: str) -> None:
        if channel is not self.channel:
            return
        self.channel = None
        self.neighbour = 0
        # Events at most once are lost here; those at least once come again from the event log of the node.
        self.host.drops["lost with its link"] += len(self._waiting)
        self._waiting.clear()
        self.host.enqueue(Disconnected(self.number))
        self._on_broken(self, reason)


def is_event(frame: bytes) -> bool:
    """Whether a frame is an event as Palio encodes it, which has no filter and so is quick to decode."""
    return frame[0] >> 4 == _MSGPACK_SHORT_ARRAY and codec.kind_of(frame) == codec.PUBLISH


class TcpConnector:
    """Dials the connection of one link, again whenever it breaks."""

    def __init__(
        self,
        address: Address,
        link: TcpLink,
        heartbeat: float,
        tls: Callable[[], ssl.SSLContext],
        random: Random,
    ) -> None:
        self.address = address
        self.link = link
        self.reason = "not yet connected"  # why the link is down
        self._heartbeat = heartbeat
        self._tls = tls
        self._random = random
        self._broken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"link to {self.address}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def on_broken(self, reason: str) -> None:
        """Note that the connection has ended, and dial again."""
        self.reason = reason
        self._broken.set()

    async def _run(self) -> None:
        backoff = Backoff(MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, self._random.uniform)
        while True:
            self._broken.clear()
            try:
                await self._dial()
            except (OSError, ssl.SSLError, TimeoutError) as error:
                self._log_reason(connect_failure(error))
            else:
                await self._wait_for_greeting()
                if self.link.is_up and not await self._breaks_within(_REFUSAL_SECONDS):
                    backoff.reset()
                    self.reason = ""
                    log.info("linked", extra={"address": str(self.address), "neighbour": self.link.neighbour})
                    await self._broken.wait()
                self._log_reason(self.reason)
            await asyncio.sleep(backoff.next())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        context = self._tls() if self.address.is_secure else None
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            await loop.create_connection(self._channel, self.address.host, self.address.port, ssl=context)

    def _channel(self) -> Channel:
        return Channel(self.link, self._heartbeat, batching=self.link.host)

    async def _breaks_within(self, seconds: float) -> bool:
        """Whether the neighbour closes the link right after both have greeted, as one of another network does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._broken.wait()
        return self._broken.is_set()

    async def _wait_for_greeting(self) -> None:
        """Wait until the neighbour has greeted, or the connection broke."""
        while not self.link.is_up and not self._broken.is_set():
            # Not `wait_for`: that of Python 3.11 loses a cancellation that arrives together with the result.
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await self._broken.wait()

    def _log_reason(self, reason: str) -> None:
        if reason != self._logged_reason:
            log.warning("no link", extra={"address": str(self.address), "reason": reason})
        self._logged_reason = self.reason = reason

    _logged_reason = ""


def connect_failure(error: BaseException) -> str:
    """A message for the error of a connection attempt."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_TIMEOUT_SECONDS:g} seconds"
    return str(error) or type(error).__name__
