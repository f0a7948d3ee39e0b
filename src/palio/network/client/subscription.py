"""A subscription of a client: an asynchronous context manager, and the events that come while it is entered.

The broker sends as many events as this end has room for. What does not fit waits there, where the rule for overflow
decides; `dropped` says how many it threw away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, get_args

from palio.errors import InvalidArgument, LivesElsewhere, PalioError
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.client.received import ReceivedEvent, nothing_to_tell, read_received
from palio.network.protocol import Acknowledge, Detach, Elsewhere, More, Overflow, Subscribe, Unsubscribe
from palio.routing.clients import Confirm

if TYPE_CHECKING:
    from palio.network.client.broker import Broker
    from palio.network.client.connection import Connection

_JOURNEY: Final = 4  # brokers that are asked one after the other
ROOM: Final = 1024  # events that may wait at this end


class Subscription:
    """Events that match. Enter it, then iterate; leaving it unsubscribes, unless it is durable."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        wanted: Filter,
        durable: bool,
        on_cancel: Callable[[Subscription], None] | None,
        confirm: Confirm,
        queue: int,
        overflow: Overflow | None,
    ) -> None:
        _check(name, confirm, queue, overflow)
        self.name = name
        self.wanted = wanted
        self.is_durable = durable
        self.dropped = 0
        self.on_cancel = on_cancel
        self._broker = broker  # where it was asked for
        self._connection = broker.connection
        self._acknowledges = partial(self._acknowledge, self._connection)
        self._subscriptions = broker.subscriptions
        self._confirm: Confirm = confirm
        self._queue = queue
        self._overflow = overflow
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._taken = 0
        self._done: list[int] = []
        self._something = asyncio.Event()
        self._failure: PalioError | None = None
        self._was_entered = False
        self._is_entered = False
        self._is_standing = False  # whether the broker has confirmed it; until then the request is under way
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Subscription:
        if self.name in self._subscriptions:
            raise InvalidArgument(f"there is a subscription {self.name!r} of this connection already")
        self._subscriptions[self.name] = self
        self._was_entered = self._is_entered = True
        try:
            await self._follow(await self._connection.ask(self._request))
        except BaseException:
            self._forget()
            raise
        return self

    @property
    def address(self) -> str:
        """The broker that its events come from: for a durable one its home, wherever it was asked for."""
        return str(self._connection.address)

    async def _follow(self, answer: Elsewhere | None) -> None:
        """Ask where the broker says that a durable subscription lives; brokers may have to be asked one by one."""
        for _ in range(_JOURNEY):
            if answer is None:
                self._is_standing = True
                return
            self._subscriptions.pop(self.name, None)
            home = await self._broker.at_home(self.name, answer.homes)
            self._connection, self._subscriptions = home.connection, home.subscriptions
            self._acknowledges = partial(self._acknowledge, self._connection)
            self._subscriptions[self.name] = self
            answer = await self._connection.ask(self._request)
        if answer is not None:
            raise LivesElsewhere(self.name, answer.homes, "brokers send each other on")
        self._is_standing = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_entered:
            return  # it was unsubscribed already
        self._forget()
        if self._done:
            self._tell()
        if self._connection.is_ready and self._connection.failure is None:
            leave = Detach if self.is_durable else Unsubscribe
            self._connection.say(protocol.encode(leave(0, self.name)))

    async def unsubscribe(self) -> None:
        """Forget a durable subscription for good, with all that waits for it."""
        self._forget()
        await self._connection.ask(lambda number: Unsubscribe(number, self.name))

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ReceivedEvent:
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if not self._was_entered:
                raise InvalidArgument("a subscription is entered before its events are asked for: `with` it")
            if not self._is_entered:
                raise StopAsyncIteration
            self._something.clear()
            await self._something.wait()
        body, number = self._waiting.popleft()
        self._taken += 1
        if self._taken >= ROOM // 2:
            self._connection.say(protocol.encode(More(self.name, self._taken)))
            self._taken = 0
        return read_received(body, number, self._acknowledges if number else nothing_to_tell)

    async def _acknowledge(self, home: Connection, number: int) -> None:
        if home is not self._connection:
            return  # another home counts otherwise; what is not acknowledged comes again
        if not self._done:
            asyncio.get_running_loop().call_soon(self._tell)
        self._done.append(number)

    def _tell(self) -> None:
        """All acknowledgements of one turn of the loop in one frame; over a new connection their events come again."""
        done, self._done = self._done, []
        if done:
            self._connection.say(protocol.encode(Acknowledge(self.name, tuple(done))))

    # What the connection does

    def resubscribe(self) -> None:
        """Ask again over a new connection; the broker has room for what is not waiting here."""
        if self.is_durable:
            self._start_over()
        if not self._is_standing:
            return
        self._taken = 0
        self._is_standing = False
        self._connection.post(self._request, self.fail, self._answered)

    def _start_over(self) -> None:
        """What was not acknowledged comes again."""
        self._waiting.clear()
        self._done.clear()

    def move(self, where: Elsewhere) -> None:
        """The broker says that a durable subscription goes on somewhere else."""
        self._start_over()
        self._is_standing = False
        self._answered(where)

    def _answered(self, answer: Elsewhere | None) -> None:
        if answer is None:
            self._is_standing = True
        else:
            self._following = asyncio.get_running_loop().create_task(self._go_on(answer), name="palio follows")

    async def _go_on(self, answer: Elsewhere) -> None:
        try:
            await self._follow(answer)
        except PalioError as error:
            self.fail(error)

    def put(self, body: bytes, number: int) -> None:
        self._waiting.append((body, number))
        self._something.set()

    def cancelled(self) -> None:
        if self.on_cancel is not None:
            self.on_cancel(self)

    def ended(self, error: PalioError) -> None:
        """The broker has ended it; what came before is still handed out."""
        self._forget()
        self.fail(error)

    def fail(self, error: PalioError) -> None:
        self._failure = error
        self._something.set()

    def _request(self, number: int) -> Subscribe:
        credit = max(1, ROOM - len(self._waiting))
        overflow = self._overflow or ""
        return Subscribe(number, self.name, self.wanted, self.is_durable, self._confirm, credit, self._queue, overflow)

    def _forget(self) -> None:
        self._is_entered = False
        if self._following is not None:
            self._following.cancel()
        self._subscriptions.pop(self.name, None)
        self._something.set()


def _check(name: str, confirm: Confirm, queue: int, overflow: Overflow | None) -> None:
    """InvalidArgument for what a broker would not understand."""
    if not 0 < len(str(name)) <= protocol.LONGEST_NAME or type(name) is not str:
        raise InvalidArgument(f"the name of a subscription has from 1 to {protocol.LONGEST_NAME} characters")
    if confirm not in get_args(Confirm):
        raise InvalidArgument(f"confirm is one of {', '.join(get_args(Confirm))}, not {confirm!r}")
    if overflow is not None and overflow not in get_args(Overflow):
        raise InvalidArgument(f"overflow is one of {', '.join(get_args(Overflow))}, not {overflow!r}")
    if type(queue) is not int or queue < 0:
        raise InvalidArgument(f"queue is a number of events, not {queue!r}")
