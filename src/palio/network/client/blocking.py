"""The client for scripts and notebooks: every call blocks until its answer.

An event loop in a thread of its own runs the asynchronous client.

    with palio.connect_blocking("palio://localhost:7420") as broker:
        with broker.subscribe("price > 100") as events:
            for event in events: ...
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from threading import Thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from palio.errors import ConnectionFailed, InvalidArgument
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.client.broker import Broker, connect
from palio.network.client.event_stream import Late, ReceivedEvent, Stretch
from palio.network.client.log_pages import LogPage, ReplayPage
from palio.network.client.request_reply import Request, Requests
from palio.network.client.subscription import Subscription, SubscriptionSet
from palio.network.event_loop import new_event_loop
from palio.network.protocol import DEFAULT_ACK_SECONDS, Overflow
from palio.routing.client_messages import Confirm
from palio.routing.durable_settings import DurableSettings

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")


class _LoopThread:
    """An event loop in a thread."""

    def __init__(self, url: str) -> None:
        self.is_stopped = False
        self._url = url
        self._loop = new_event_loop()
        # A daemon: a script that never leaves its connection can end all the same.
        self._thread = Thread(target=self._loop.run_forever, name="palio client", daemon=True)
        self._thread.start()

    def wait(self, call: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine in the thread and wait for its result; an interrupt cancels it."""
        if self.is_stopped:
            call.close()  # or Python warns that it was never awaited
            raise ConnectionFailed(self._url, "the connection was closed")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:  # an interrupt reaches this thread only
            future.cancel()
            raise

    def stop(self) -> None:
        self.is_stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingEvent(Event):
    """A received event whose acknowledgement blocks."""

    __slots__ = ("_loop", "_received")

    _loop: _LoopThread
    _received: ReceivedEvent

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The names of the subscriptions that it matched."""
        return self._received.subscriptions

    @property
    def deliveries(self) -> int:
        """1 + the number of deliveries that have failed."""
        return self._received.deliveries

    @property
    def age(self) -> float | None:
        """The highest age that it may have had when it was taken, in seconds; None where it is unknown."""
        return self._received.age

    def is_timely(self, seconds: float) -> bool:
        """Whether the event is known to have been at most so old when it was taken."""
        return self._received.is_timely(seconds)

    @property
    def is_late(self) -> bool:
        """Whether the event is not known to be as young as its subscription asked for (`timely`)."""
        return self._received.is_late

    def ack(self) -> None:
        """Acknowledge the event: a durable subscription will not deliver it again."""
        self._loop.wait(self._received.ack())

    def reject(self, *, requeue: bool = True, reason: str = "") -> None:
        """Say that the event could not be processed; it is delivered again, or becomes a dead letter."""
        self._loop.wait(self._received.reject(requeue=requeue, reason=reason))


def _make_blocking(received: ReceivedEvent, loop: _LoopThread) -> BlockingEvent:
    # Without the constructor, which would check attributes that were checked when the event was decoded.
    event: BlockingEvent = object.__new__(BlockingEvent)
    event._attributes = received._attributes
    event._identify(received.id, received.source, received.time)
    event._loop = loop
    event._received = received
    return event


_Stream = TypeVar("_Stream", bound=Subscription | SubscriptionSet)


class _BlockingStream(Generic[_Stream]):
    """A stream of events: a context manager, and an iterator that blocks until the next event."""

    def __init__(self, subscription: _Stream, loop: _LoopThread) -> None:
        self._subscription = subscription
        self._loop = loop

    @property
    def name(self) -> str:
        return self._subscription.name

    @property
    def dropped(self) -> int:
        return self._subscription.dropped

    @property
    def late(self) -> int:
        """The number of events that were dropped here because they were late."""
        return self._subscription.late

    def __enter__(self) -> Self:
        self._loop.wait(self._subscription.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A connection that was left before its subscription has ended that already.
        if not self._loop.is_stopped:
            self._loop.wait(self._subscription.__aexit__(kind, error, trace))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingEvent:
        event = self.get()
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> BlockingEvent | None:
        """The next event; None at the end of the subscription, or after `timeout` seconds."""
        try:
            received = self._loop.wait(self._next(timeout))
        except TimeoutError:
            return None
        return None if received is None else _make_blocking(received, self._loop)

    async def _next(self, timeout: float | None) -> ReceivedEvent | None:
        async with asyncio.timeout(timeout):
            return await anext(self._subscription, None)


class BlockingSubscription(_BlockingStream[Subscription]):
    """The events that match a condition."""

    @property
    def address(self) -> str:
        return self._subscription.address

    @property
    def wanted(self) -> Filter:
        return self._subscription.wanted

    @property
    def is_durable(self) -> bool:
        return self._subscription.is_durable

    def complete_up_to(self, source: str | None = None) -> Stretch | None:
        """The stretch of events of which this subscription has all that it wanted; see `Subscription`."""

        async def ask() -> Stretch | None:
            return self._subscription.complete_up_to(source)

        return self._loop.wait(ask())

    def extend(self) -> None:
        """Begin the lease anew, with its whole length."""
        self._loop.wait(self._subscription.extend())

    def unsubscribe(self) -> None:
        """End a durable subscription for good, and discard its queue."""
        self._loop.wait(self._subscription.unsubscribe())


class BlockingSubscriptionSet(_BlockingStream[SubscriptionSet]):
    """The events that match any of several conditions."""

    def add(self, name: str, where: str | Filter, *, language: str = "sql") -> None:
        self._loop.wait(self._subscription.add(name, where, language=language))

    def remove(self, name: str) -> None:
        self._loop.wait(self._subscription.remove(name))


class BlockingRequest:
    """A request whose reply blocks until it is sent; `event` is its content."""

    def __init__(self, request: Request, loop: _LoopThread) -> None:
        self.event = _make_blocking(request.event, loop)
        self._request = request
        self._loop = loop

    def reply(self, event: Event | Mapping[str, Any] | str | bytes) -> None:
        self._loop.wait(self._request.reply(event))


class BlockingRequests:
    """The requests that match a condition: a context manager, and an iterator that blocks until the next one."""

    def __init__(self, requests: Requests, loop: _LoopThread) -> None:
        self._requests = requests
        self._loop = loop

    def __enter__(self) -> Self:
        self._loop.wait(self._requests.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._loop.is_stopped:
            self._loop.wait(self._requests.__aexit__(kind, error, trace))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingRequest:
        request = self._loop.wait(self._next())
        if request is None:
            raise StopIteration
        return BlockingRequest(request, self._loop)

    async def _next(self) -> Request | None:
        return await anext(self._requests, None)


class BlockingBroker:
    """The calls of `Broker`, each of which blocks; see there for their meaning."""

    def __init__(self, broker: Broker, loop: _LoopThread) -> None:
        self._broker = broker
        self._loop = loop

    @property
    def address(self) -> str:
        return self._broker.address

    @property
    def events_per_second(self) -> float:
        return self._broker.events_per_second

    def subscribe(
        self,
        where: str | Filter,
        *,
        durable: str | None = None,
        settings: DurableSettings | None = None,
        standby: str | None = None,
        group: str | None = None,
        key: str | None = None,
        window: int | None = None,
        ack_timeout: float = DEFAULT_ACK_SECONDS,
        on_cancel: Callable[[Subscription], None] | None = None,
        name: str | None = None,
        language: str = "sql",
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
        completeness: bool = False,
        on_complete: Callable[[Stretch], None] | None = None,
        lease: float | None = None,
        timely: float | None = None,
        late: Late = "mark",
    ) -> BlockingSubscription:
        # A coroutine, though it awaits nothing: the client is used by the loop's thread alone.
        async def subscribe() -> Subscription:
            return self._broker.subscribe(
                where,
                durable=durable,
                settings=settings,
                standby=standby,
                group=group,
                key=key,
                window=window,
                ack_timeout=ack_timeout,
                on_cancel=on_cancel,
                name=name,
                language=language,
                confirm=confirm,
                queue=queue,
                overflow=overflow,
                completeness=completeness,
                on_complete=on_complete,
                lease=lease,
                timely=timely,
                late=late,
            )

        return BlockingSubscription(self._loop.wait(subscribe()), self._loop)

    def subscribe_many(
        self,
        wheres: Mapping[str, str | Filter],
        *,
        language: str = "sql",
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
    ) -> BlockingSubscriptionSet:
        async def subscribe() -> SubscriptionSet:
            return self._broker.subscribe_many(
                wheres, language=language, confirm=confirm, queue=queue, overflow=overflow
            )

        return BlockingSubscriptionSet(self._loop.wait(subscribe()), self._loop)

    def publish(self, event: Event | Mapping[str, Any] | str | bytes, *, confirm: bool = False) -> None:
        self._loop.wait(self._broker.publish(event, confirm=confirm))

    def request(self, event: Event | Mapping[str, Any] | str | bytes, *, timeout: float = 10.0) -> BlockingEvent:
        return _make_blocking(self._loop.wait(self._broker.request(event, timeout=timeout)), self._loop)

    def requests(self, where: str | Filter, *, group: str | None = None, language: str = "sql") -> BlockingRequests:
        async def requests() -> Requests:
            return self._broker.requests(where, group=group, language=language)

        return BlockingRequests(self._loop.wait(requests()), self._loop)

    def publish_all(
        self,
        events: Iterable[Event | Mapping[str, Any] | str | bytes],
        *,
        confirm: bool = False,
        show: Callable[[int], None] = lambda done: None,
    ) -> int:
        return self._loop.wait(self._broker.publish_all(_iterate_in_thread(events), confirm=confirm, show=show))

    def publish_many(self, events: Any, *, confirm: bool = False, ids: Any = None, source: str | None = None) -> int:
        return self._loop.wait(self._broker.publish_many(events, confirm=confirm, ids=ids, source=source))

    def unsubscribe(self, name: str, *, owner: str = "") -> None:
        self._loop.wait(self._broker.unsubscribe(name, owner=owner))

    def durables(self) -> dict[str, Any]:
        return self._loop.wait(self._broker.durables())

    def durable(self, name: str, *, owner: str = "") -> dict[str, Any]:
        return self._loop.wait(self._broker.durable(name, owner=owner))

    def limit_durable(self, name: str, settings: DurableSettings, *, owner: str = "") -> None:
        self._loop.wait(self._broker.limit_durable(name, settings, owner=owner))

    def promote_durable(self, name: str, *, owner: str = "") -> None:
        self._loop.wait(self._broker.promote_durable(name, owner=owner))

    def advertise(self, where: str | Filter, *, language: str = "sql") -> None:
        self._loop.wait(self._broker.advertise(where, language=language))

    def unadvertise(self, where: str | Filter, *, language: str = "sql") -> None:
        self._loop.wait(self._broker.unadvertise(where, language=language))

    def status(self) -> dict[str, Any]:
        return self._loop.wait(self._broker.status())

    def read_log(
        self,
        where: str | Filter = Filter.everything,
        *,
        start: int = 0,
        since: datetime | float | None = None,
        limit: int = 1_000,
        language: str = "sql",
    ) -> LogPage:
        return self._loop.wait(self._broker.read_log(where, start=start, since=since, limit=limit, language=language))

    def replay(
        self,
        where: str | Filter = Filter.everything,
        *,
        since: datetime | float | None = None,
        places: Mapping[int, int] | None = None,
        limit: int = 500,
        language: str = "sql",
    ) -> ReplayPage:
        call = self._broker.replay(where, since=since, places=places, limit=limit, language=language)
        return self._loop.wait(call)

    def forget(self, broker: int) -> None:
        self._loop.wait(self._broker.forget(broker))

    def drain(self, seconds: float) -> None:
        self._loop.wait(self._broker.drain(seconds))


async def _iterate_in_thread(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    """Iterate in another thread, since an iterator may block; lists and tuples cannot, and need none."""
    if isinstance(items, list | tuple):
        for item in items:
            yield item
        return
    # Not `StopIteration`, which cannot be raised into a future: a sentinel marks the end.
    iterator, end = iter(items), object()
    while (item := await asyncio.to_thread(next, iterator, end)) is not end:
        yield cast(_Item, item)


class BlockingConnectionContext:
    """The connection as a context manager: opened at its begin, closed at its end."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._loop: _LoopThread | None = None

    def __enter__(self) -> BlockingBroker:
        if self._loop is not None:
            raise InvalidArgument("a connection is entered once; make another one")
        self._loop = _LoopThread(str(self._arguments["url"]))
        try:
            return BlockingBroker(self._loop.wait(self._open()), self._loop)
        except BaseException:
            self._loop.stop()  # `__exit__` is not called where `__enter__` fails
            raise

    async def _open(self) -> Broker:
        self._connection = connect(**self._arguments)
        return await self._connection.__aenter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        try:
            self._loop.wait(self._connection.__aexit__(kind, error, trace))
        finally:
            self._loop.stop()


def connect_blocking(
    url: str = "palio://127.0.0.1:7420",
    token: str | None = None,
    *,
    app: str | None = None,
    tls: ssl.SSLContext | None = None,
    patience: float = 30.0,
    timeout: float = 10.0,
    publisher: str | None = None,
) -> BlockingConnectionContext:
    """Connect to a broker from blocking code; `with` it. The arguments are those of `connect`."""
    arguments = {"url": url, "token": token, "app": app, "tls": tls, "patience": patience, "timeout": timeout}
    return BlockingConnectionContext({**arguments, "publisher": publisher})
