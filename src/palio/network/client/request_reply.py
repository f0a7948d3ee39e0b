"""Request and reply over publish and subscribe: an inbox of the requester, and a stream of requests for responders.

A request is an event with two more attributes: `reply_to`, the inbox of its requester, and `correlation_id`. A
responder is whoever subscribes to such events; its reply is an event with `in_reply_to`, that inbox, and the same
`correlation_id`. Brokers know nothing of this: grants, routing and limits are those of all events. A request may be
lost, as every unconfirmed event, and the requester then gets `NoReply`. Where several responders answer, the first
reply counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from math import inf
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from palio.errors import InvalidArgument, LimitReached, NoReply, PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.client.event_stream import ReceivedEvent

if TYPE_CHECKING:
    from palio.network.client.broker import Broker
    from palio.network.client.subscription import Subscription

MAX_PENDING_REQUESTS: Final = 1_000  # of one connection
REPLY_TO: Final = "reply_to"
IN_REPLY_TO: Final = "in_reply_to"
CORRELATION_ID: Final = "correlation_id"
_RESERVED: Final = (REPLY_TO, IN_REPLY_TO, CORRELATION_ID)


def _with_attributes(event: Any, more: dict[str, str]) -> Event:
    content = Event.read(event)
    for name in _RESERVED:
        if name in content:
            raise InvalidArgument(f"{name} is set by request and reply; an event of theirs has no such attribute")
    return Event({**content.attributes, **more}, content.id, content.source, content.time)


class Requester:
    """The inbox of one connection, made with the first request, and the requests that wait for a reply."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._inbox = token_hex(16)  # not to be guessed: whoever subscribes to it reads the replies
        self._numbers = count(1)
        self._pending: dict[str, asyncio.Future[ReceivedEvent]] = {}
        self._opening: asyncio.Task[Subscription] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def request(self, event: Any, timeout: float) -> ReceivedEvent:
        """Publish a request, and wait for its reply."""
        if type(timeout) not in (int, float) or not 0 < timeout < inf:
            raise InvalidArgument(f"timeout is a positive number of seconds, not {timeout!r:.80}")
        if len(self._pending) >= MAX_PENDING_REQUESTS:
            raise LimitReached("requests", MAX_PENDING_REQUESTS, "too many requests of this client wait for a reply")
        correlation = str(next(self._numbers))
        asked = _with_attributes(event, {REPLY_TO: self._inbox, CORRELATION_ID: correlation})
        reply: asyncio.Future[ReceivedEvent] = asyncio.get_running_loop().create_future()
        self._pending[correlation] = reply
        try:
            async with asyncio.timeout(timeout):
                await self._open()
                await self._broker.publish(asked)
                return await reply
        except TimeoutError:
            self._broker.raise_refused()  # a broker that refused the request says why
            raise NoReply(timeout) from None
        finally:
            del self._pending[correlation]

    async def _open(self) -> None:
        """Subscribe to the inbox, once for all requests, and again where that has failed."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            wanted = Filter.parse(f"{IN_REPLY_TO} = '{self._inbox}'")
            self._opening = asyncio.get_running_loop().create_task(self._enter(self._broker.subscribe(wanted)))
        # Shielded: the request that began it may be given up while others wait for it.
        await asyncio.shield(self._opening)

    async def _enter(self, inbox: Subscription) -> Subscription:
        entered = await inbox.__aenter__()
        self._reading = asyncio.get_running_loop().create_task(self._read(entered), name="palio inbox")
        return entered

    async def _read(self, inbox: Subscription) -> None:
        try:
            async for event in inbox:
                reply = self._pending.get(str(event.get(CORRELATION_ID)))
                if reply is not None and not reply.done():  # else it is late, or a second one
                    reply.set_result(event)
        except PalioError as error:
            for reply in self._pending.values():
                if not reply.done():
                    reply.set_exception(error)

    async def close(self) -> None:
        for task in (self._opening, self._reading):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, PalioError):
                    await task


class Request:
    """A request that waits for a reply; `event` is its content."""

    __slots__ = ("_broker", "event")

    def __init__(self, event: ReceivedEvent, broker: Broker) -> None:
        self.event = event
        self._broker = broker

    async def reply(self, event: Any) -> None:
        """Publish the reply, and acknowledge the request where it is one of a consumer group."""
        inbox, correlation = str(self.event.get(REPLY_TO)), str(self.event.get(CORRELATION_ID))
        await self._broker.publish(_with_attributes(event, {IN_REPLY_TO: inbox, CORRELATION_ID: correlation}))
        await self.event.ack()


class Requests:
    """The requests that match a condition. Enter it, then iterate."""

    def __init__(self, broker: Broker, subscribe: Callable[[Filter], Subscription], wanted: Filter) -> None:
        self._broker = broker
        self._subscription = subscribe(wanted & Filter.parse(f"{REPLY_TO} IS NOT NULL"))

    async def __aenter__(self) -> Requests:
        await self._subscription.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._subscription.__aexit__(kind, error, trace)

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> Request:
        return Request(await anext(self._subscription), self._broker)
