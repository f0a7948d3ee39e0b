"""A broker as its clients see it: `connect`, and the calls.

async with palio.connect("palio://localhost:7420") as broker:
    async with broker.subscribe("price > 100") as events:
        async for event in events: ...
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import count
from math import inf
from secrets import token_hex
from types import TracebackType
from typing import Any, get_args

from palio.errors import ConnectionFailed, InvalidArgument, LivesElsewhere, PalioError, Refused
from palio.filters.filter import Filter
from palio.network.addresses import Address, parse_addresses
from palio.network.client.connection import Connection
from palio.network.client.event_stream import (
    CREDIT_WINDOW_EVENTS,
    Late,
    ReceivedEvent,
    StreamTable,
    Stretch,
    check_number,
    check_text,
)
from palio.network.client.log_pages import LogPage, ReplayPage, decode_log_page, decode_replay_page, to_unix_seconds
from palio.network.client.publisher import PublishedEvent, Publisher
from palio.network.client.request_reply import Requester, Requests
from palio.network.client.subscription import Subscription, SubscriptionSet
from palio.network.error_codes import error_of_code
from palio.network.protocol import (
    DEFAULT_ACK_SECONDS,
    DEFAULT_WINDOW_EVENTS,
    MAX_NAME_LENGTH,
    MAX_TOKEN_LENGTH,
    Advertise,
    Cancelled,
    Completed,
    Delivery,
    Drain,
    Dropped,
    DurableLimit,
    DurablePromote,
    DurableQuery,
    Elsewhere,
    Ended,
    Failed,
    Forget,
    GroupMembership,
    LogQuery,
    Overflow,
    ReplayQuery,
    StatusQuery,
    Unadvertise,
    Unsubscribe,
)
from palio.routing.client_messages import Confirm
from palio.routing.durable_settings import DurableSettings
from palio.routing.upkeep.timeliness import Age


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
    instance = token_hex(8)  # not the publisher's name, which several programs may share
    return ConnectionContext(
        Broker(Connection(addresses, token or "", name, tls, patience, timeout, publisher, instance))
    )


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
        self._publisher = Publisher(connection)
        self._requester = Requester(self)
        connection.on_message = self._on_message
        connection.on_event = self.streams.deliver
        connection.on_batch = self.streams.deliver_batch
        connection.on_reconnect = self._on_reconnect
        connection.on_failure = self._on_failure

    async def open(self, patience: float | None = None) -> None:
        await self.connection.open(patience)
        self._publisher.open()

    async def close(self) -> None:
        """Close the connection; raises the refusal of an unconfirmed event, if no `publish` has raised it."""
        await self._requester.close()
        for home in self._homes.values():
            await home.close()
        try:
            await self._publisher.await_refusals()
        finally:
            await self.connection.close()
        self.raise_refused()

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
    ) -> Subscription:
        """Subscribe to the events that match a condition; `async with` it, then `async for` them.

        `durable` names a subscription that survives this connection: its events wait at the broker, and each is
        delivered until `event.ack()`. `settings` bound its queue there; without them it keeps those that it has. One
        client at a time reads it (`DurableInUse`). `standby` is the address of a broker that is to have its queue too:
        each event is confirmed when both have it, and the standby can take over (`promote_durable`).

        `group` names a durable subscription that several clients read as a consumer group: each event goes to one of
        them. All members give the same condition, and the same `key` if any: an attribute, so that events with the
        same value are processed one after the other, in order. A member holds up to `window` events that it has not
        acknowledged (32 if not given); what it does not acknowledge in `ack_timeout` seconds, or leaves behind, goes to
        another one. Without a group, `window` is how many events may be under way, or wait here to be taken, before the
        others wait at the broker; a batch (`publish_many`) is sent as a whole while there is room for its first event.

        `on_cancel` is called when the last publisher whose advertisement overlaps the
        condition has left. `confirm="network"` waits until all brokers know the subscription. `queue` is the size of
        the delivery queue at the broker, and `overflow` (block, drop_oldest, drop_newest, disconnect) its policy.

        With `completeness` the subscription learns of which stretches of events it has all that it wanted:
        `complete_up_to(source)`. `on_complete` is called with each, between the events that came before and after it.
        The brokers need the option `completeness`; a durable subscription cannot have it.

        With a `lease` of some seconds the broker ends the subscription so long after it last heard of it. This client
        extends it by itself while its event loop runs, so that only one that hangs or is cut off lets it end; `extend`
        extends it at once. A filter that is `valid_for` some seconds is extended by `extend` alone.

        With `timely` an event is late unless it is known to be at most so many seconds old when it is taken:
        `event.is_late` says so, or with `late="drop"` late events are dropped here and counted in `late`. The brokers
        need timeliness (`palio serve --timeliness`).
        """
        wanted = _to_filter(where, language)
        membership = _membership(durable, group, key, ack_timeout)
        durable = group if group is not None else durable
        name = durable if durable is not None else name
        if name is None:
            name = f"s{next(self._names)}-{self._name_suffix}"
        asked = completeness or on_complete is not None
        if window is None:
            window = CREDIT_WINDOW_EVENTS if membership is None else DEFAULT_WINDOW_EVENTS
        check_number("window", window, 1)
        threshold = self._timely_threshold(timely, late, durable is not None)
        made = Subscription(
            self,
            name,
            wanted,
            durable is not None,
            on_cancel,
            confirm,
            queue,
            overflow,
            asked,
            settings,
            membership,
            window,
            lease,
            "" if standby is None else str(parse_addresses(standby)[0]),
        )
        made.on_complete = on_complete
        made.timely, made.drops_late = threshold, late == "drop"
        return made

    def _timely_threshold(self, timely: float | None, late: Late, durable: bool) -> float | None:
        if late not in get_args(Late):
            raise InvalidArgument(f"late events are one of {', '.join(get_args(Late))}, not {late!r:.40}")
        if timely is None:
            if late == "drop":
                raise InvalidArgument("late events are dropped by their age: say how old they may be, timely=0.05")
            return None
        if type(timely) not in (int, float) or not 0 < timely < inf:
            raise InvalidArgument(f"timely is a number of seconds above 0, not {timely!r:.80}")
        if late == "drop" and durable:
            raise InvalidArgument("a durable subscription loses no events; take late='mark'")
        if not self.connection.clock.is_on:
            raise Refused("the broker bounds no delays; it is started with --timeliness")
        return timely

    def subscribe_many(
        self,
        wheres: Mapping[str, str | Filter],
        *,
        language: str = "sql",
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
    ) -> SubscriptionSet:
        """Subscribe to several conditions with one stream: each event comes once, with the names of all it matches.

        `async with` it, then `async for` the events; `event.subscriptions` are the names. Costs far less than one
        subscription each, where an event matches many. `queue` and `overflow` hold for all together.
        """
        wanted = {name: _to_filter(where, language) for name, where in wheres.items()}
        name = f"g{next(self._names)}-{self._name_suffix}"
        return SubscriptionSet(self, name, wanted, confirm, queue, overflow)

    async def unsubscribe(self, name: str, *, owner: str = "") -> None:
        """End a durable subscription at its home broker, and discard its queue.

        It need not be connected; one that is entered here ends by its own `unsubscribe`. An operator may end one of
        another `owner`.
        """
        await self._request_at_home(name, lambda number: Unsubscribe(number, name, owner))

    async def durables(self) -> dict[str, Any]:
        """The durable subscriptions that this broker holds, of this client's principal or for an operator of all:
        `durables` is their list, `broker` and `address` are this broker's, `other_homes` hold further ones."""
        found: dict[str, Any] = {"durables": [], "next": ""}
        while True:
            after = found["next"]
            page = await self.connection.request(partial(DurableQuery, after=after))
            found = {**page, "durables": [*found["durables"], *page["durables"]]}
            if not page["next"]:
                del found["next"]
                return found

    async def durable(self, name: str, *, owner: str = "") -> dict[str, Any]:
        """One durable subscription, as its home broker reports it; its `broker` and `address` are the home's."""
        answer: dict[str, Any] = await self._request_at_home(name, lambda number: DurableQuery(number, name, owner))
        durable: dict[str, Any] = answer.pop("durables")[0]
        return {**answer, **durable}

    async def limit_durable(self, name: str, settings: DurableSettings, *, owner: str = "") -> None:
        """Replace the settings of a durable subscription; they are in force when this returns."""
        await self._request_at_home(name, lambda number: DurableLimit(number, name, settings, owner))

    async def promote_durable(self, name: str, *, owner: str = "") -> None:
        """Make the broker of this connection, the standby of a durable subscription, its home; for operators only. The
        broker that was the home ends its queue when it learns of that."""
        await self.connection.request(lambda number: DurablePromote(number, name, owner))

    async def _request_at_home(self, name: str, make: Callable[[int], Any]) -> Any:
        """The answer of a durable subscription's home broker to a request."""
        answer = await self.connection.request(make)
        if not isinstance(answer, Elsewhere):
            return answer
        home = await self.at_home(name, answer.homes)
        return await home._request_at_home(name, make)

    async def publish(self, event: PublishedEvent, *, confirm: bool = False) -> None:
        """Publish an event: an `Event`, a mapping, or the text of a JSON object.

        With `confirm`, this waits until the broker has accepted it: it is in the event log. Without, the event is under
        way when this returns; a refusal is raised by a later `publish` without `confirm`, after that one is sent, or
        when the connection is closed.
        """
        await self._publisher.publish(event, confirm)

    def raise_refused(self) -> None:
        """Raise the refusal of an unconfirmed event that no call has raised yet."""
        self._publisher.raise_refused()

    async def request(self, event: PublishedEvent, *, timeout: float = 10.0) -> ReceivedEvent:
        """Publish a request, and return the first reply to it; `NoReply` after `timeout` seconds without one.

        Responders are those that iterate over `requests` with a condition that matches the event.
        """
        return await self._requester.request(event, timeout)

    def requests(self, where: str | Filter, *, group: str | None = None, language: str = "sql") -> Requests:
        """The requests that match a condition; `async with` it, `async for` them, and `await request.reply(…)`.

        Responders of one `group` share the requests, as a consumer group does; without one, all get each request.
        """
        return Requests(self, partial(self.subscribe, group=group), _to_filter(where, language))

    async def publish_all(
        self,
        events: Iterable[PublishedEvent] | AsyncIterable[PublishedEvent],
        *,
        confirm: bool = False,
        show: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Publish events in order; returns their number. Confirmations are awaited in a window, not one by one.

        The rate stays below the broker's limit (`events_per_second`). `show` is called with the number of events that
        are done. If `events` raises, the events before are published first.
        """
        return await self._publisher.publish_all(events, confirm, show)

    async def publish_many(
        self, events: Any, *, confirm: bool = False, ids: Any = None, source: str | None = None
    ) -> int:
        """Publish a table of pyarrow, a frame of pandas or Polars, or a sequence of events; returns their number.

        They travel and are matched as columns, in batches that the broker accepts as a whole or not at all: a fraction
        of what single events cost. A row is the event that `Event.from_arrow` makes of it, with an id of `ids` (a
        sequence or an Arrow array of texts) or a random one, and with `source`. Rows with arrays, maps or null
        structures, and events with unlike attributes, are published one by one.

        With `confirm`, this waits until each is in the event log of the broker, as `publish` does.
        """
        return await self._publisher.publish_many(events, confirm, ids, source)

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
            self._publisher.note_refused(error_of_code(message.kind, message.reason))
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
            age = Age(message.age, message.aged_at)
            stream.put(message.body, (message.name,), message.stamps, message.number, message.deliveries, age)
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
            self.connection.request_nowait(partial(_advertise, name, offered), self._publisher.note_refused)
        for stream in self.streams:
            stream.resubscribe()

    def _on_failure(self, error: PalioError) -> None:
        for stream in self.streams:
            stream.fail(error)


def _to_filter(where: str | Filter, language: str) -> Filter:
    return where if isinstance(where, Filter) else Filter.parse(where, language)


def _membership(durable: str | None, group: str | None, key: str | None, ack_timeout: float) -> GroupMembership | None:
    """Membership in a consumer group; None without a group, `InvalidArgument` for options that do not go together."""
    if group is None:
        if key is not None:
            raise InvalidArgument("a key orders the events of a consumer group: name the group too")
        return None
    if durable not in (None, group):
        raise InvalidArgument("a consumer group is the durable subscription of its name: name only the group")
    check_text("key", key or "", MAX_NAME_LENGTH)
    if type(ack_timeout) not in (int, float) or not 0 < ack_timeout < inf:
        raise InvalidArgument(f"ack_timeout is a positive number of seconds, not {ack_timeout!r:.80}")
    return GroupMembership(key or "", float(ack_timeout))


def _advertise(name: str, offered: Filter, number: int) -> Advertise:
    return Advertise(number, name, offered, offered.validity or 0.0)
