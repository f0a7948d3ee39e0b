"""A broker as its clients see it: `connect`, the calls, and the pages that reads of the event log return.

async with palio.connect("palio://localhost:7420") as broker:
    async with broker.subscribe("price > 100") as events:
        async for event in events: ...
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from math import inf, isfinite
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias

from palio.errors import ConnectionFailed, ExpiredOffset, InvalidArgument, LivesElsewhere, PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.addresses import Address, parse_addresses
from palio.network.client.connection import Connection
from palio.network.client.event_stream import StreamTable, Stretch, check_number, check_text
from palio.network.client.rate_pacing import RatePacer, publish_paced
from palio.network.client.subscription import Subscription, SubscriptionGroup
from palio.network.error_codes import error_of_code
from palio.network.protocol import (
    MAX_NAME_LENGTH,
    MAX_TOKEN_LENGTH,
    Advertise,
    Cancelled,
    Completed,
    Delivery,
    Drain,
    Dropped,
    Elsewhere,
    Ended,
    Failed,
    Forget,
    LogAnswer,
    LogQuery,
    Overflow,
    Publish,
    ReplayQuery,
    StatusQuery,
    Sync,
    Unadvertise,
    Unsubscribe,
)
from palio.routing import codec
from palio.routing.codec import decode_event
from palio.routing.messages import Confirm, Past

_CLOSE_SYNC_SECONDS: Final = 2.0  # for refusals of unconfirmed events that are still under way at the end
_Event: TypeAlias = Event | Mapping[str, Any] | str | bytes


def connect(
    url: str = "palio://127.0.0.1:7420",
    token: str | None = None,
    *,
    app: str | None = None,
    tls: ssl.SSLContext | None = None,
    patience: float = 30.0,
    timeout: float = 10.0,
    publisher: str | None = None,
) -> ConnectionContext:
    """Connect to a broker; `async with` it.

    `url` may be several addresses, separated by commas: the first that answers is connected, and the next one when it
    fails. Every attempt may take `timeout` seconds, and attempts are repeated for up to `patience` seconds (0: one
    attempt at each address), at first as well as after a connection broke. A connection that is made again has all
    subscriptions and advertisements; unconfirmed publications that asked for a confirmation are retransmitted. `app`
    names this program in the broker's status.

    The token is sent to these addresses alone. A durable subscription whose home is another broker is followed there
    only if it is one of them.

    `publisher` is the key of deduplication: the broker accepts a confirmed event with the same publisher, source and
    id once. Without it, that holds for this connection only, however often it breaks.
    """
    addresses = parse_addresses(url)
    name = app if app is not None else addresses[0].app
    publisher = publisher or token_hex(8)
    for what, text, longest in (
        ("the name of an application", name, MAX_NAME_LENGTH),
        ("the name of a publisher", publisher, MAX_NAME_LENGTH),
        ("a token", token or "", MAX_TOKEN_LENGTH),
    ):
        check_text(what, text, longest)
    for option, seconds in (("patience", patience), ("timeout", timeout)):
        if type(seconds) not in (int, float) or not seconds >= 0:
            raise InvalidArgument(f"{option} is a number of seconds from 0 on, not {seconds!r:.80}")
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise InvalidArgument(f"tls is an ssl.SSLContext, not {type(tls).__name__}")
    return ConnectionContext(Broker(Connection(addresses, token or "", name, tls, patience, timeout, publisher)))


class ConnectionContext:
    """The connection as a context manager: opened at its begin, closed at its end."""

    __slots__ = ("_broker", "_first_patience")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._first_patience: float | None = None

    def without_waiting(self) -> ConnectionContext:
        """This context, which fails at once where no broker answers: for commands, whose users see it and try again."""
        self._first_patience = 0.0
        return self

    async def __aenter__(self) -> Broker:
        await self._broker.open(self._first_patience)
        return self._broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._broker.close()
        except PalioError:
            if error is None:  # the error of the body goes before one of closing
                raise


class Broker:
    """One broker over one connection; `palio.connect` makes it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.streams = StreamTable()
        self._advertised: dict[str, Filter] = {}
        self._names = count(1)
        self._name_suffix = token_hex(6)  # makes generated subscription names unique
        self._homes: dict[str, Broker] = {}  # by address: home brokers of durable subscriptions
        self._window: asyncio.Semaphore | None = None
        self._pacer: RatePacer | None = None
        self._refused: PalioError | None = None
        self._has_unconfirmed = False  # events were published without confirmation; a refusal may be under way
        connection.on_message = self._on_message
        connection.on_event = self.streams.deliver
        connection.on_reconnect = self._on_reconnect
        connection.on_failure = self._on_failure

    async def open(self, patience: float | None = None) -> None:
        await self.connection.open(patience)
        self._window = asyncio.Semaphore(self.connection.window)
        assert self.connection.welcome is not None
        self._pacer = RatePacer(self.connection.welcome)

    async def close(self) -> None:
        """Close the connection; raises the refusal of an unconfirmed event, if no `publish` has raised it."""
        for home in self._homes.values():
            await home.close()
        try:
            if self._has_unconfirmed and self.connection.is_ready and self.connection.failure is None:
                with suppress(TimeoutError, PalioError):
                    async with asyncio.timeout(_CLOSE_SYNC_SECONDS):
                        # Answered after everything sent before: a refusal has arrived by then.
                        await self.connection.request(Sync)
        finally:
            await self.connection.close()
        self._raise_refused()

    async def at_home(self, name: str, homes: tuple[tuple[int, str], ...]) -> Broker:
        """The home broker of a durable subscription; closed together with this one."""
        address = next((Address.parse(address) for _, address in homes if address), None)
        if address is None:
            raise LivesElsewhere(name, homes)
        # The token must not leave an encrypted connection for a plain one.
        if self.connection.address.is_secure and not address.is_secure:
            raise LivesElsewhere(name, homes, "to which this client does not go without TLS")
        if not self.connection.trusts(address):
            raise LivesElsewhere(name, homes, "to which this client sends no token unless `connect` names it")
        known = self._homes.get(str(address))
        if known is not None and known.connection.failure is None:
            return known
        home = Broker(self.connection.to_address(address))
        try:
            await home.open(patience=0)
        except ConnectionFailed as error:
            raise LivesElsewhere(name, homes, f"no connection: {error.reason}") from error
        self._homes[str(address)] = home
        return home

    @property
    def address(self) -> str:
        return str(self.connection.address)

    @property
    def events_per_second(self) -> float:
        """The rate limit of this client's publications; infinite without one."""
        return inf if self.connection.welcome is None else self.connection.welcome.events_per_second

    def subscribe(
        self,
        where: str | Filter,
        *,
        durable: str | None = None,
        on_cancel: Callable[[Subscription], None] | None = None,
        name: str | None = None,
        language: str = "sql",
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
        completeness: bool = False,
        on_complete: Callable[[Stretch], None] | None = None,
    ) -> Subscription:
        """Subscribe to the events that match a condition; `async with` it, then `async for` them.

        `durable` names a subscription that survives this connection: its events wait at the broker, and each is
        delivered until `event.ack()`. `on_cancel` is called when the last publisher whose advertisement overlaps the
        condition has left. `confirm="network"` waits until all brokers know the subscription. `queue` is the size of
        the delivery queue at the broker, and `overflow` (block, drop_oldest, drop_newest, disconnect) its policy.

        With `completeness` the subscription learns of which stretches of events it has all that it wanted:
        `complete_up_to(source)`. `on_complete` is called with each, between the events that came before and after it.
        The brokers need the option `completeness`; a durable subscription cannot have it.
        """
        wanted = _to_filter(where, language)
        name = durable if durable is not None else name
        if name is None:
            name = f"s{next(self._names)}-{self._name_suffix}"
        asked = completeness or on_complete is not None
        made = Subscription(self, name, wanted, durable is not None, on_cancel, confirm, queue, overflow, asked)
        made.on_complete = on_complete
        return made

    def subscribe_many(
        self,
        wheres: Mapping[str, str | Filter],
        *,
        language: str = "sql",
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
    ) -> SubscriptionGroup:
        """Subscribe to several conditions with one stream: each event comes once, with the names of all it matches.

        `async with` it, then `async for` the events; `event.subscriptions` are the names. Costs far less than one
        subscription each, where an event matches many. `queue` and `overflow` hold for all together.
        """
        wanted = {name: _to_filter(where, language) for name, where in wheres.items()}
        name = f"g{next(self._names)}-{self._name_suffix}"
        return SubscriptionGroup(self, name, wanted, confirm, queue, overflow)

    async def unsubscribe(self, name: str) -> None:
        """End a durable subscription at its home broker, and discard its queue.

        It need not be connected; one that is entered here ends by its own `unsubscribe`.
        """
        answer = await self.connection.request(lambda number: Unsubscribe(number, name))
        if isinstance(answer, Elsewhere):
            home = await self.at_home(name, answer.homes)
            await home.unsubscribe(name)

    async def publish(self, event: _Event, *, confirm: bool = False) -> None:
        """Publish an event: an `Event`, a mapping, or the text of a JSON object.

        With `confirm`, this waits until the broker has accepted it: it is in the event log. Without, the event is under
        way when this returns; a refusal is raised by a later `publish` without `confirm`, after that one is sent, or
        when the connection is closed.
        """
        body = codec.encode_event(Event.read(event))
        self.connection.check_event(len(body))
        if not confirm:
            frame = protocol.encode(Publish(0, body))
            self._has_unconfirmed = True
            if self.connection.is_writable:  # the common case, without a turn of the event loop
                self.connection.send_event(frame)
            else:
                await self.connection.send_event_when_writable(frame)
            if self._refused is not None:
                self._raise_refused()
            return
        assert self._window is not None
        await self._window.acquire()
        # The place in the window is free when the broker has answered, also if this call was cancelled meanwhile.
        await self.connection.request(lambda number: Publish(number, body), self._window.release)

    def _raise_refused(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def publish_all(
        self,
        events: Iterable[_Event] | AsyncIterable[_Event],
        *,
        confirm: bool = False,
        show: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Publish events in order; returns their number. Confirmations are awaited in a window, not one by one.

        The rate stays below the broker's limit (`events_per_second`). `show` is called with the number of events that
        are done. If `events` raises, the events before are published first.
        """
        assert self._pacer is not None
        publish = partial(self.publish, confirm=confirm)
        return await publish_paced(events, publish, self._pacer, self.connection.window if confirm else 0, show)

    async def advertise(self, where: str | Filter, *, language: str = "sql") -> None:
        """Announce what this program is going to publish; a filter with a validity must be advertised again in time."""
        offered = _to_filter(where, language)
        name = offered.digest.hex()
        self._advertised[name] = offered
        await self.connection.request(lambda number: _advertise(name, offered, number))

    async def unadvertise(self, where: str | Filter, *, language: str = "sql") -> None:
        """Withdraw an advertisement."""
        offered = _to_filter(where, language)
        name = offered.digest.hex()
        self._advertised.pop(name, None)
        await self.connection.request(lambda number: Unadvertise(number, name))

    async def status(self) -> dict[str, Any]:
        """The state of the broker: neighbours, clients, queues, counters."""
        answer: dict[str, Any] = await self.connection.request(StatusQuery)
        return answer

    async def read_log(
        self,
        where: str | Filter = Filter.everything,
        *,
        start: int = 0,
        since: datetime | float | None = None,
        limit: int = 1_000,
        language: str = "sql",
    ) -> LogPage:
        """Matching events of this broker's event log, from an offset or a time; 0 is the oldest offset.

        `limit` events are examined, and `next` of the page is the offset to continue from; with a limit of 0 the page
        only has the bounds of the log. `ExpiredOffset` if retention has removed `start`.
        """
        wanted = _to_filter(where, language)
        check_number("an offset", start, 0)
        check_number("limit", limit, 0)
        time = None if since is None else to_unix_seconds(since)
        answer = await self.connection.request(lambda number: LogQuery(number, wanted, start, time, limit))
        return decode_log_page(answer, start if since is None else 0)

    async def replay(
        self,
        where: str | Filter = Filter.everything,
        *,
        since: datetime | float | None = None,
        places: Mapping[int, int] | None = None,
        limit: int = 500,
        language: str = "sql",
    ) -> ReplayPage:
        """Matching events of the event logs of all brokers, since a time, or from the `places` of the page before.

        `limit` events of each log are examined. Continue while the page has `more`; it is `partial` if brokers are
        `missing`. `ExpiredOffset` if retention of a log has passed its place.
        """
        wanted = _to_filter(where, language)
        time = 0.0 if since is None else to_unix_seconds(since)
        check_number("limit", limit, 1)
        for broker, place in (places or {}).items():
            check_number("a broker", broker, 0)
            check_number("an offset", place, 0)
        named = tuple(sorted((places or {}).items()))
        return decode_replay_page(
            await self.connection.request(lambda number: ReplayQuery(number, wanted, time, named, limit))
        )

    async def forget(self, broker: int) -> None:
        """Give up a broker that is not coming back; for operators only."""
        check_number("a broker", broker, 0)
        await self.connection.request(lambda number: Forget(number, broker))

    async def drain(self, seconds: float) -> None:
        """End the broker once its clients have what waits for them, at the latest after some seconds; for operators.

        Returns when they have it; `Refused` where something was left.
        """
        if type(seconds) not in (int, float) or not 0 <= seconds < inf:
            raise InvalidArgument(f"seconds is a number from 0 on, not {seconds!r}")
        await self.connection.request(lambda number: Drain(number, float(seconds)))

    # Called by the connection

    def _on_message(self, message: Any) -> None:
        kind = type(message)
        if kind is Failed:
            self._refused = error_of_code(message.kind, message.reason)
            return
        if kind is Completed:
            for name in message.stretch.names:
                if (each := self.streams.get(name)) is not None:
                    each.put_stretch(message.stretch)
            return
        stream = self.streams.get(message.name)
        if stream is None:
            return  # left meanwhile; the broker did not know yet
        if kind is Delivery:
            stream.put(message.body, (message.name,), message.stamps, message.number)
        elif kind is Cancelled:
            stream.on_cancelled(message.name)
        elif kind is Elsewhere:
            stream.move(message)
        elif kind is Ended:
            stream.on_ended(message.name, error_of_code(message.kind, message.reason))
        elif kind is Dropped:
            stream.dropped = message.events

    def _on_reconnect(self) -> None:
        for name, offered in self._advertised.items():
            self.connection.request_nowait(partial(_advertise, name, offered), self._on_refusal)
        for stream in self.streams:
            stream.resubscribe()

    def _on_refusal(self, error: PalioError) -> None:
        """No call waits for this request: the next `publish` raises the error."""
        self._refused = error

    def _on_failure(self, error: PalioError) -> None:
        for stream in self.streams:
            stream.fail(error)


def _to_filter(where: str | Filter, language: str) -> Filter:
    return where if isinstance(where, Filter) else Filter.parse(where, language)


def _advertise(name: str, offered: Filter, number: int) -> Advertise:
    return Advertise(number, name, offered, offered.validity or 0.0)


class LoggedEvent(NamedTuple):
    """An event of a broker's event log, and the time of its acceptance."""

    offset: int
    time: datetime
    event: Event


class LogPage(NamedTuple):
    """A page of a broker's event log."""

    node: int  # the broker of the log
    oldest: int  # offset of the first event that remains
    after: int  # offset of the next event to be accepted
    next: int  # offset to continue from
    events: list[LoggedEvent]


class ReplayedEvent(NamedTuple):
    """An event of any broker's event log, and the time of its acceptance; its identity is the same at every broker."""

    broker: int
    offset: int
    time: datetime
    event: Event
    identity: bytes


class ReplayPage(NamedTuple):
    """A page of the event logs of all brokers, in the order of time."""

    events: list[ReplayedEvent]
    places: dict[int, int]  # by broker, the offset to continue from
    missing: list[int]  # brokers whose logs could not be read
    more: bool  # the logs that could be read have more events

    @property
    def partial(self) -> bool:
        """Whether logs are missing."""
        return bool(self.missing)

    @property
    def complete(self) -> bool:
        """Whether this is the end of all logs, and none is missing."""
        return not self.more and not self.missing


def to_unix_seconds(since: datetime | float) -> float:
    """A time in seconds since 1970; `InvalidArgument` for anything else."""
    if isinstance(since, datetime):
        return since.timestamp()
    if type(since) in (int, float) and isfinite(since) and since >= 0:
        return float(since)
    raise InvalidArgument(f"a time is a datetime, or seconds since 1970, not {since!r}")


def decode_replay_page(answer: Past) -> ReplayPage:
    """The page of an answer; `ExpiredOffset` if retention has passed a requested offset."""
    places = dict(answer.places)
    for broker, oldest in answer.expired:
        if places[broker] > oldest:
            raise InvalidArgument(f"the log of broker {broker} has not come to offset {places[broker]:,}")
        raise ExpiredOffset(places[broker], oldest, broker, dict(answer.expired))
    events = [
        ReplayedEvent(
            broker, each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body), each.identity
        )
        for broker, each in answer.events
    ]
    return ReplayPage(events, dict(answer.places), list(answer.missing), not answer.complete)


def decode_log_page(answer: LogAnswer, start: int) -> LogPage:
    """The page of an answer; `ExpiredOffset` if retention has removed the requested offset."""
    if 0 < start < answer.oldest:
        raise ExpiredOffset(start, answer.oldest, answer.node)
    if start > answer.after:
        raise InvalidArgument(f"the log has not come to offset {start:,}; the next event gets {answer.after:,}")
    events = [
        LoggedEvent(each.offset, datetime.fromtimestamp(each.time, UTC), decode_event(each.body))
        for each in answer.events
    ]
    return LogPage(answer.node, answer.oldest, answer.after, answer.next, events)
