"""Subscriptions of a client: one condition, or a set of conditions with one stream.

Each is an asynchronous context manager, and the stream of its events while it is entered. A durable subscription may
have its home at another broker; the client follows the referral and continues there.

A set is for a program with thousands of conditions: it needs no task for each of them, and an event that a hundred of
them match is sent, decoded and delivered once, with the names of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from palio.errors import InvalidArgument, LivesElsewhere, PalioError
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.client.event_stream import CREDIT_WINDOW_EVENTS, EventStream, check_subscription_options
from palio.network.protocol import Detach, Elsewhere, GroupMembership, Overflow, Renew, Subscribe, Unsubscribe
from palio.routing.client_messages import Confirm
from palio.routing.durable_settings import DurableSettings

if TYPE_CHECKING:
    from palio.network.client.broker import Broker


_MAX_REFERRALS: Final = 4
_EXTENSIONS_OF_A_LEASE: Final = 3  # in the time of one lease: two may be late


class Subscription(EventStream):
    """The events that match a condition. Enter it, then iterate; leaving it unsubscribes, unless it is durable.

    Where no block bounds its use, await it: it stands until `unsubscribe`, or until its client or its lease ends.
    """

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
        completeness: bool,
        settings: DurableSettings | None = None,
        group: GroupMembership | None = None,
        window: int = CREDIT_WINDOW_EVENTS,
        lease: float | None = None,
        standby: str = "",
    ) -> None:
        if lease is not None:
            wanted = wanted.valid_for(lease)
        check_subscription_options(name, confirm, queue, overflow)
        if settings is not None and not durable:
            raise InvalidArgument("settings of a queue on disk are those of a durable subscription: name one")
        if standby and not durable:
            raise InvalidArgument("a standby is the second home of a durable subscription: name one")
        if durable and completeness:
            raise InvalidArgument("a durable subscription is not told of complete stretches: its events may come later")
        if durable and wanted.validity is not None:
            raise InvalidArgument("a durable subscription stands until it is ended; it has no lease")
        super().__init__(broker, name, window)
        self.wanted = wanted
        self.is_durable = durable
        self.on_cancel = on_cancel
        self._broker = broker  # where it was requested; its home may be another
        self._confirm: Confirm = confirm
        self._queue = queue
        self._overflow = overflow
        self._completeness = completeness
        self._settings = settings
        self._standby = standby
        self._group = group
        # A member of a group gets the next event for one that it acknowledges, and needs no further credit.
        self._grants_credit = group is None
        self._is_confirmed = False  # until then the request is under way
        self._following: asyncio.Task[None] | None = None
        self._lease = lease  # one that this client extends by itself, for as long as it lives
        self._extension: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Subscription:
        self._streams.add(self.name, self)
        self._was_entered = self._is_entered = True
        try:
            await self._follow(await self._connection.request(self._request))
        except PalioError:
            self._forget()
            raise
        except BaseException:  # cancelled: the broker may have the subscription, so it is withdrawn
            self._forget()
            self._leave()
            raise
        self._extend_later()
        return self

    def __await__(self) -> Generator[Any, None, Subscription]:
        return self.__aenter__().__await__()

    @property
    def address(self) -> str:
        """The broker that the events come from: for a durable subscription, its home."""
        return str(self._connection.address)

    async def _follow(self, answer: Elsewhere | None) -> None:
        """Repeat the request at the home that a referral names, until a broker accepts it."""
        for _ in range(_MAX_REFERRALS):
            if answer is None:
                self._is_confirmed = True
                return
            self._streams.forget(self.name)
            home = await self._broker.at_home(self.name, answer.homes)
            self._connection, self._streams = home.connection, home.streams
            self._streams.move(self.name, self)
            answer = await self._connection.request(self._request)
        if answer is not None:
            raise LivesElsewhere(self.name, answer.homes, "brokers send each other on")
        self._is_confirmed = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_entered:
            return  # unsubscribed already
        self._forget()
        self._send_acknowledgements()  # before the end of the subscription, not in the next turn of the loop
        self._leave()

    def _leave(self) -> None:
        if self._connection.is_ready and self._connection.failure is None:
            leave = Detach if self.is_durable else Unsubscribe
            self._connection.send(protocol.encode(leave(0, self.name)))

    async def extend(self) -> None:
        """Begin the lease anew, with its whole length; a filter `valid_for` some seconds ends otherwise (`Refused`)."""
        if self._failure is not None:
            raise self._failure
        await self._connection.request(lambda number: Renew(number, self.name))

    def _extend_later(self) -> None:
        """Extend the lease before it ends, again and again; a client that stops or hangs lets it end."""
        if self._lease is not None:
            loop = asyncio.get_running_loop()
            self._extension = loop.call_later(self._lease / _EXTENSIONS_OF_A_LEASE, self._extend_now)

    def _extend_now(self) -> None:
        # A refusal is no failure here: the request of a subscription that is repeated on a new connection begins the
        # lease anew, and the end of one is told by the broker itself.
        self._connection.request_nowait(
            lambda number: Renew(number, self.name), failed=lambda error: None, done=lambda answer: None
        )
        self._extend_later()

    async def unsubscribe(self) -> None:
        """End the subscription for good; the queue of a durable one is discarded."""
        self._forget()
        await self._connection.request(lambda number: Unsubscribe(number, self.name))

    # Called by the connection

    def resubscribe(self) -> None:
        """Repeat the request over a new connection, with fresh credit."""
        if self.is_durable:
            self._start_over()
        if not self._is_confirmed:
            return  # the connection itself sends requests without an answer again
        # The request grants a whole window again; what was taken since the last grant is void.
        self._taken = 0
        self._is_confirmed = False
        # Nobody waits for this answer, and one from the whole network would not come while a broker is down, maybe the
        # very one that this client has left.
        self._confirm = "edge"
        self._connection.request_nowait(self._request, self.fail, self._on_answer)

    def _start_over(self) -> None:
        """Drop unacknowledged events: the broker delivers them again."""
        self._waiting.clear()
        self._acknowledged.clear()

    def move(self, where: Elsewhere) -> None:
        self._start_over()
        self._is_confirmed = False
        self._on_answer(where)

    def _on_answer(self, answer: Elsewhere | None) -> None:
        if answer is None:
            self._is_confirmed = True
        else:
            self._following = asyncio.get_running_loop().create_task(self._follow_or_fail(answer), name="palio follows")

    async def _follow_or_fail(self, answer: Elsewhere) -> None:
        try:
            await self._follow(answer)
        except PalioError as error:
            self.fail(error)

    def on_cancelled(self, name: str) -> None:
        if self.on_cancel is not None:
            self.on_cancel(self)

    def on_ended(self, name: str, error: PalioError) -> None:
        self._forget()
        self.fail(error)

    def _request(self, number: int) -> Subscribe:
        self._streams.assign_number(number, self, self.name)
        return Subscribe(
            number,
            self.name,
            self.wanted,
            self.is_durable,
            self._confirm,
            self._initial_credit,
            self._queue,
            self._overflow or "",
            validity=self.wanted.validity or 0.0,
            completeness=self._completeness,
            settings=self._settings,
            group=self._group,
            standby=self._standby,
        )

    def _forget(self) -> None:
        self._is_entered = False
        if self._extension is not None:
            self._extension.cancel()
        if self._following is not None:
            self._following.cancel()
        self._streams.forget(self.name)
        self._wake()


_NO_VALIDITY_IN_SET: Final = (
    "each of many conditions stands until it is removed; one that is valid for a while stands alone"
)


class SubscriptionSet(EventStream):
    """The events that match any of several conditions; `event.subscriptions` names those. Enter it, then iterate."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        wanted: Mapping[str, Filter],
        confirm: Confirm,
        queue: int,
        overflow: Overflow | None,
    ) -> None:
        for each in (name, *wanted):
            check_subscription_options(each, confirm, queue, overflow)
        if any(each.validity is not None for each in wanted.values()):
            raise InvalidArgument(_NO_VALIDITY_IN_SET)
        super().__init__(broker, name)
        self._wanted = dict(wanted)
        self._confirm: Confirm = confirm
        self._queue = queue
        self._overflow = overflow
        self._requested: set[str] = set()  # the broker has them, or will when it has read all frames
        self._confirmed: set[str] = set()

    @property
    def names(self) -> list[str]:
        return list(self._wanted)

    async def __aenter__(self) -> SubscriptionSet:
        self._was_entered = self._is_entered = True
        try:
            for name in (self.name, *self._wanted):
                self._streams.add(name, self)
            # All are awaited, also after a failure: leaving must not overtake a request that is under way.
            answers = await asyncio.gather(*map(self._subscribe, self._wanted), return_exceptions=True)
        except BaseException:
            self._leave()
            raise
        for answer in answers:
            if isinstance(answer, BaseException):
                self._leave()
                raise answer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._is_entered = False
        for name in (self.name, *self._wanted):
            self._forget(name)
        self._wake()

    async def add(self, name: str, where: str | Filter, *, language: str = "sql") -> None:
        """Subscribe to one more condition."""
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language)
        check_subscription_options(name, self._confirm, self._queue, self._overflow)
        if wanted.validity is not None:
            raise InvalidArgument(_NO_VALIDITY_IN_SET)
        self._streams.add(name, self)
        self._wanted[name] = wanted
        try:
            await self._subscribe(name)
        except BaseException:
            await self.remove(name)
            raise

    async def remove(self, name: str) -> None:
        """Unsubscribe from one condition."""
        self._forget(name)
        del self._wanted[name]

    async def _subscribe(self, name: str) -> None:
        try:
            self._on_confirmed(name, await self._connection.request(partial(self._request, name)))
        except PalioError:
            self._requested.discard(name)
            raise

    def _request(self, name: str, number: int) -> Subscribe:
        self._streams.assign_number(number, self, name)
        self._requested.add(name)
        return Subscribe(
            number,
            name,
            self._wanted[name],
            confirm=self._confirm,
            credit=self._initial_credit,
            queue=self._queue,
            overflow=self._overflow or "",
            set_name=self.name,
        )

    def _forget(self, name: str) -> None:
        if self._streams.get(name) is not self:
            return  # never added: the name belongs to another stream of this connection
        self._streams.forget(name)
        if name in self._requested and self._connection.is_ready and self._connection.failure is None:
            self._connection.send(protocol.encode(Unsubscribe(0, name)))
        self._requested.discard(name)
        self._confirmed.discard(name)

    def on_ended(self, name: str, error: PalioError) -> None:
        self._requested.discard(name)  # nothing to withdraw
        self._leave()
        self.fail(error)

    def resubscribe(self) -> None:
        """Repeat the confirmed requests over a new connection; the connection sends those under way again."""
        self._taken = 0
        self._confirm = "edge"  # as of a single subscription
        confirmed, self._confirmed = self._confirmed, set()
        for name in confirmed:
            self._connection.request_nowait(partial(self._request, name), self.fail, partial(self._on_confirmed, name))

    def _on_confirmed(self, name: str, answer: None) -> None:
        if name in self._requested:
            self._confirmed.add(name)
