"""A subscription of a client: an asynchronous context manager, and the events that come while it is entered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

from palio.errors import InvalidArgument, LivesElsewhere, PalioError
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.client.stream import Stream, check_options
from palio.network.protocol import Acknowledge, Detach, Elsewhere, Overflow, Renew, Subscribe, Unsubscribe
from palio.routing.clients import Confirm

if TYPE_CHECKING:
    from palio.network.client.broker import Broker
    from palio.network.client.connection import Connection

_JOURNEY: Final = 4  # brokers that are asked one after the other


class Subscription(Stream):
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
        check_options(name, confirm, queue, overflow)
        if durable and wanted.validity is not None:
            raise InvalidArgument("a durable subscription stands until it is ended; its filter has no validity")
        super().__init__(broker, name)
        self.wanted = wanted
        self.is_durable = durable
        self.on_cancel = on_cancel
        self._broker = broker  # where it was asked for
        self._acknowledges = partial(self._acknowledge, self._connection)
        self._confirm: Confirm = confirm
        self._queue = queue
        self._overflow = overflow
        self._done: list[int] = []
        self._is_standing = False  # whether the broker has confirmed it; until then the request is under way
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Subscription:
        self._streams.add(self.name, self)
        self._was_entered = self._is_entered = True
        try:
            await self._follow(await self._connection.ask(self._request))
        except PalioError:
            self._forget()
            raise
        except BaseException:  # who gave up waiting does not know whether the broker has it: it is to have it no more
            self._forget()
            self._leave()
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
            self._streams.forget(self.name)
            home = await self._broker.at_home(self.name, answer.homes)
            self._connection, self._streams = home.connection, home.streams
            self._acknowledges = partial(self._acknowledge, self._connection)
            self._streams.move(self.name, self)
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
        self._leave()

    def _leave(self) -> None:
        if self._connection.is_ready and self._connection.failure is None:
            leave = Detach if self.is_durable else Unsubscribe
            self._connection.say(protocol.encode(leave(0, self.name)))

    async def renew(self) -> None:
        """It is wanted for as long again as its filter is valid; one that is not renewed in time ends (`Refused`)."""
        if self._failure is not None:
            raise self._failure  # why it has ended
        await self._connection.ask(lambda number: Renew(number, self.name))

    async def unsubscribe(self) -> None:
        """Forget a durable subscription for good, with all that waits for it."""
        self._forget()
        await self._connection.ask(lambda number: Unsubscribe(number, self.name))

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

    def cancelled(self, name: str) -> None:
        if self.on_cancel is not None:
            self.on_cancel(self)

    def ended(self, name: str, error: PalioError) -> None:
        self._forget()
        self.fail(error)

    def _request(self, number: int) -> Subscribe:
        self._streams.number(number, self, self.name)
        overflow = self._overflow or ""
        return Subscribe(
            number,
            self.name,
            self.wanted,
            self.is_durable,
            self._confirm,
            self._room,
            self._queue,
            overflow,
            validity=self.wanted.validity or 0.0,
        )

    def _forget(self) -> None:
        self._is_entered = False
        if self._following is not None:
            self._following.cancel()
        self._streams.forget(self.name)
        self._wake()
