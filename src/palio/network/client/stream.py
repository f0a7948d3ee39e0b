"""Events that came for a program and that it has not taken yet: an asynchronous iterator.

The broker sends as many events as this end has room for. What does not fit waits there, where the rule for overflow
decides; `dropped` says how many it threw away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Self, get_args

from palio.errors import InvalidArgument, PalioError
from palio.events import Event
from palio.network import protocol
from palio.network.client.received import ReceivedEvent, nothing_to_tell, read_received
from palio.network.protocol import Elsewhere, More, Overflow
from palio.routing.clients import Confirm

if TYPE_CHECKING:
    from palio.network.client.broker import Broker

_MANY: Final = 2**63
ROOM: Final = 1024  # events that may wait at this end


class Stream:
    """What one queue at the broker delivers; `name` is that of the queue."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.dropped = 0
        self._connection = broker.connection
        self._streams = broker.streams
        self._waiting: deque[tuple[bytes | Event, tuple[str, ...], bytes, int]] = deque()
        self._taken = 0
        self._acknowledges: Callable[[int], Awaitable[None]] = nothing_to_tell
        self._listeners: list[asyncio.Future[None]] = []
        self._failure: PalioError | None = None
        self._was_entered = False
        self._is_entered = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedEvent:
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if not self._was_entered:
                raise InvalidArgument("a subscription is entered before its events are asked for: `with` it")
            if not self._is_entered:
                raise StopAsyncIteration
            await self._something()
        sent, subscriptions, stamps, number = self._waiting.popleft()
        self._taken += 1
        if self._taken >= ROOM // 2:
            self._connection.say(protocol.encode(More(self.name, self._taken)))
            self._taken = 0
        acknowledge = self._acknowledges if number else nothing_to_tell
        return read_received(sent, subscriptions, stamps, number, acknowledge)

    async def _something(self) -> None:
        """Wait for an event or for the end; of several that wait, all look."""
        listener = asyncio.get_running_loop().create_future()
        self._listeners.append(listener)
        await listener

    def _wake(self) -> None:
        listeners, self._listeners = self._listeners, []
        for each in listeners:
            if not each.done():
                each.set_result(None)

    # What the connection does

    def put(self, sent: bytes | Event, subscriptions: tuple[str, ...], stamps: bytes, number: int = 0) -> None:
        self._waiting.append((sent, subscriptions, stamps, number))
        if self._listeners:
            self._wake()

    def cancelled(self, name: str) -> None:
        """The last publisher is gone that could have served a subscription."""

    def ended(self, name: str, error: PalioError) -> None:
        """The broker has ended a subscription; what came before is still handed out."""

    def move(self, where: Elsewhere) -> None:
        """The broker says that a durable subscription goes on somewhere else."""

    def resubscribe(self) -> None:
        """Ask again over a new connection."""

    def fail(self, error: PalioError) -> None:
        self._failure = error
        self._wake()

    @property
    def _room(self) -> int:
        """The credit to begin with: the broker has room for what is not waiting here."""
        return max(1, ROOM - len(self._waiting))


def check_options(name: str, confirm: Confirm, queue: int, overflow: Overflow | None) -> None:
    """InvalidArgument for what a broker would not understand."""
    check_text("the name of a subscription", name, protocol.LONGEST_NAME, 1)
    if confirm not in get_args(Confirm):
        raise InvalidArgument(f"confirm is one of {', '.join(get_args(Confirm))}, not {confirm!r}")
    if overflow is not None and overflow not in get_args(Overflow):
        raise InvalidArgument(f"overflow is one of {', '.join(get_args(Overflow))}, not {overflow!r}")
    if type(queue) is not int or not 0 <= queue < _MANY:
        raise InvalidArgument(f"queue is a number of events, not {queue!r:.80}")


def check_text(what: str, text: str, longest: int, shortest: int = 0) -> None:
    """InvalidArgument for what is no text that could be sent; it is not repeated, because it may be a secret."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} is a text, not a value of type {type(text).__name__}")
    if not shortest <= len(text) <= longest:
        raise InvalidArgument(f"{what} has from {shortest} to {longest:,} characters, not {len(text):,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} has half of a character, a lone surrogate, at {error.start}") from None
