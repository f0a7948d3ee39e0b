"""One end of a link to a neighbour over a connection that keeps order and loses nothing while it lasts: TCP, or TLS.

While the connection takes no more, events wait here and control goes before them. How many may wait is bounded by the
credit that the neighbour granted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from palio.errors import WireError
from palio.network import protocol
from palio.network.channel import Channel
from palio.network.protocol import BrokerHello
from palio.network.security.limits import LONG
from palio.routing import codec
from palio.routing.effects import Lane
from palio.routing.frames import Hello
from palio.routing.node import Arrived, Connected, Disconnected

if TYPE_CHECKING:
    from palio.network.host import Host


class TcpLink:
    """A link that has a number for as long as the broker lives, and a connection now and then.

    `greeted` is asked whether the neighbour that says its number is welcome, and answers why where it is not; `broke`
    is told when a connection is over.
    """

    def __init__(
        self,
        host: Host,
        number: int,
        where: str,
        greeted: Callable[[TcpLink, int], str | None],
        broke: Callable[[TcpLink, str], None],
        token: str = "",
    ) -> None:
        self.number = number
        self.where = where
        self.neighbour = 0  # its number, once it has said so
        self.arrivals = 0  # how often it did
        self.channel: Channel | None = None
        self.host = host
        self._greeted = greeted
        self._broke = broke
        self._token = token
        self._waiting: deque[bytes] = deque()
        host.links[number] = self

    @property
    def is_up(self) -> bool:
        return self.channel is not None and self.neighbour != 0

    @property
    def waiting(self) -> int:
        """Events that wait for the connection."""
        return len(self._waiting)

    def adopt(self, channel: Channel, frames: list[bytes]) -> None:
        """Go on with a connection whose other end has greeted already."""
        channel.receiver = self
        self.opened(channel)
        self.received(channel, frames)

    # What the broker wants

    def transmit(self, data: bytes, lane: Lane) -> None:
        channel = self.channel
        if channel is None:
            self.host.drops["lost with its link"] += 1
        elif lane == "events" and (channel.is_full or self._waiting):
            self._waiting.append(data)
        else:
            channel.send(data)

    def close(self, reason: str) -> None:
        if self.channel is not None:
            self.channel.close("refused", reason)

    # What the connection tells

    def opened(self, channel: Channel) -> None:
        self.channel = channel
        self.neighbour = 0
        if self._token:
            channel.send(protocol.encode(BrokerHello(protocol.VERSION, self._token)))
        self.host.give(Connected(self.number))

    def received(self, channel: Channel, frames: list[bytes]) -> None:
        if channel is not self.channel:
            return
        if self.neighbour == 0 and not self._welcomes(channel, frames[0]):
            return
        for at, frame in enumerate(frames):
            if len(frame) > LONG and not is_event(frame) and frame is not channel.is_read:
                self._give(frames[:at])
                channel.hold(frames[at:], self.host.beside(partial(codec.decode, frame)))
                return
        self._give(frames)

    def _give(self, frames: list[bytes]) -> None:
        now = self.host.now()
        number = self.number
        self.host.give_all([Arrived(number, frame, now) for frame in frames])

    def _welcomes(self, channel: Channel, frame: bytes) -> bool:
        hello = codec.decode(frame)
        if type(hello) is not Hello:
            raise WireError("a link begins with a greeting")
        reason = self._greeted(self, hello.node)
        if reason is not None:
            channel.close("refused", reason)
            return False
        self.neighbour = hello.node
        self.arrivals += 1
        return True

    def writable(self, channel: Channel) -> None:
        while self._waiting and not channel.is_full:
            for _ in range(min(64, len(self._waiting))):
                channel.send(self._waiting.popleft())
            channel.flush()

    def lost(self, channel: Channel, reason: str) -> None:
        if channel is not self.channel:
            return
        self.channel = None
        self.neighbour = 0
        self.host.drops["lost with its link"] += len(self._waiting)
        self._waiting.clear()
        self.host.give(Disconnected(self.number))
        self._broke(self, reason)


def is_event(frame: bytes) -> bool:
    """Whether a frame is an event as Palio writes one, and so has no filter that would take long to read."""
    return frame[0] >> 4 == _SHORT_ARRAY and codec.kind_of(frame) == codec.PUBLISH


_SHORT_ARRAY: Final = 9  # the first four bits, in MessagePack
