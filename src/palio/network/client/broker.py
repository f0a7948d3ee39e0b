"""What can a program ask of a broker? To subscribe, to publish, to advertise, and how it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import count
from math import inf
from secrets import token_hex
from typing import Any, Final, TypeAlias

from palio.errors import ConnectionFailed, LivesElsewhere, PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.client.connection import Connection, error_of
from palio.network.client.log import LogPage, PastPage, check_number, past_page, read_page, seconds_of
from palio.network.client.pacing import Pace, publish_each
from palio.network.client.streams import Streams
from palio.network.client.subscription import Subscription
from palio.network.client.subscriptions import Subscriptions
from palio.network.protocol import (
    Advertise,
    Cancelled,
    Delivery,
    Dropped,
    Elsewhere,
    Ended,
    Failed,
    Forget,
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
from palio.routing.clients import Confirm

_LAST_ANSWERS: Final = 2.0  # seconds in which a broker may say what it has refused, before it is left
_Event: TypeAlias = Event | Mapping[str, Any] | str | bytes


class Broker:
    """A broker, as its client sees it; `palio.connect` makes one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.streams = Streams()
        self._advertised: dict[str, Filter] = {}
        self._names = count(1)
        self._own = token_hex(6)  # in names that it gives itself, so that nobody else gives them
        self._homes: dict[str, Broker] = {}  # other brokers, at which durable subscriptions live
        self._window: asyncio.Semaphore | None = None
        self._pace: Pace | None = None
        self._refused: PalioError | None = None
        self._is_unsure = False  # whether there are events of which it is not known that the broker let them in
        connection.heard = self._heard
        connection.matched = self.streams.matched
        connection.again = self._again
        connection.failed = self._failed

    async def open(self) -> None:
        await self.connection.open()
        self._window = asyncio.Semaphore(self.connection.window)
        assert self.connection.welcome is not None
        self._pace = Pace(self.connection.welcome)

    async def close(self) -> None:
        """Leave; raises what was refused of events that were not to be confirmed, where no `publish` has."""
        for home in self._homes.values():
            await home.close()
        try:
            if self._is_unsure and self.connection.is_ready and self.connection.failure is None:
                with suppress(TimeoutError, PalioError):
                    async with asyncio.timeout(_LAST_ANSWERS):
                        await self.connection.ask(Sync)
        finally:
            await self.connection.close()
        self._raise_refused()

    async def at_home(self, name: str, homes: tuple[tuple[int, str], ...]) -> Broker:
        """Another broker, where a durable subscription lives; it is left when this one is."""
        address = next((Address.parse(address) for _, address in homes if address), None)
        if address is None:
            raise LivesElsewhere(name, homes)
        if self.connection.address.is_secure and not address.is_secure:
            raise LivesElsewhere(name, homes, "to which this client does not go without TLS")
        known = self._homes.get(str(address))
        if known is not None and known.connection.failure is None:
            return known
        home = Broker(self.connection.elsewhere(address))
        try:
            await home.open()
        except ConnectionFailed as error:
            raise LivesElsewhere(name, homes, f"no connection: {error.reason}") from error
        self._homes[str(address)] = home
        return home

    @property
    def address(self) -> str:
        return str(self.connection.address)

    @property
    def events_per_second(self) -> float:
        """How many events this client may publish in a second; infinite where there is no bound."""
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
    ) -> Subscription:
        """Events that match a condition; `async with` it, then `async for` them.

        `durable` names a subscription that outlives this connection: its events wait at the broker, and each is
        delivered until `event.ack()`. `on_cancel` is called when the last publisher goes that advertised anything like
        it. `confirm="network"` waits until all brokers know. `queue` and `overflow` (block, drop_oldest, drop_newest,
        disconnect) say what happens at the broker while this end takes nothing.
        """
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language)
        name = next((given for given in (durable, name) if given is not None), None)
        name = f"s{next(self._names)}-{self._own}" if name is None else name
        return Subscription(
            self,
            name,
            wanted,
            durable is not None,
            on_cancel,
            confirm,
            queue,
            overflow,
        )

    def subscribe_many(
        self,
        wheres: Mapping[str, str | Filter],
        *,
        language: str = "sql",
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
    ) -> Subscriptions:
        """Events that match any of several conditions, in one stream: each once, with the names of all that it matches.

        `async with` it, then `async for` them; `event.subscriptions` are the names. Costs far less than a subscription
        for each, where an event matches many. `queue` and `overflow` are of all together.
        """
        wanted = {
            name: where if isinstance(where, Filter) else Filter.parse(where, language)
            for name, where in wheres.items()
        }
        name = f"g{next(self._names)}-{self._own}"
        return Subscriptions(self, name, wanted, confirm, queue, overflow)

    async def unsubscribe(self, name: str) -> None:
        """End a durable subscription, wherever it lives, with all that waits for it.

        Nobody needs to be connected to it; one that is entered here ends by its own `unsubscribe`.
        """
        answer = await self.connection.ask(lambda number: Unsubscribe(number, name))
        if isinstance(answer, Elsewhere):
            home = await self.at_home(name, answer.homes)
            await home.unsubscribe(name)

    async def publish(self, event: _Event, *, confirm: bool = False) -> None:
        """Publish an event: an `Event`, a mapping, or the text of a JSON object.

        With `confirm` this waits until the broker has written it down, so that nothing but its disk can lose it.
        Without, the event is on its way when this returns; what the broker refuses of it is raised by a later
        `publish` without `confirm`, once that one is on its way too, or when the connection is left.
        """
        body = codec.encode_event(Event.read(event))
        self.connection.check_event(len(body))
        if not confirm:
            frame = protocol.encode(Publish(0, body))
            self._is_unsure = True
            if self.connection.has_room:
                self.connection.say_event(frame)
            else:
                await self.connection.tell(frame)
            if self._refused is not None:
                self._raise_refused()
            return
        assert self._window is not None
        await self._window.acquire()
        # Its place is free when the broker has answered, also where nobody waits for that any more.
        await self.connection.ask(lambda number: Publish(number, body), self._window.release)

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
        """Publish events one after the other, and say how many; confirmations are not waited for one by one.

        Where the broker takes only so many in a second (`events_per_second`), this goes no faster.
        `show` is called with how many are done. Where `events` itself fails, those before are published first.
        """
        assert self._pace is not None
        publish = partial(self.publish, confirm=confirm)
        return await publish_each(events, publish, self._pace, self.connection.window if confirm else 0, show)

    async def advertise(self, where: str | Filter, *, language: str = "sql") -> None:
        """Say what this program is going to publish; where the filter is valid for a while only, again and again."""
        offered = where if isinstance(where, Filter) else Filter.parse(where, language)
        name = offered.digest.hex()
        self._advertised[name] = offered
        await self.connection.ask(lambda number: _advertise(name, offered, number))

    async def unadvertise(self, where: str | Filter, *, language: str = "sql") -> None:
        """Say that it is not going to publish that any more."""
        offered = where if isinstance(where, Filter) else Filter.parse(where, language)
        name = offered.digest.hex()
        self._advertised.pop(name, None)
        await self.connection.ask(lambda number: Unadvertise(number, name))

    async def status(self) -> dict[str, Any]:
        """How the broker is: neighbours, clients, queues, counts."""
        answer: dict[str, Any] = await self.connection.ask(StatusQuery)
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
        """Confirmed events that this broker let in and that match, from an offset or a time; 0 is the oldest kept.

        So many are looked at, and `next` of the answer is where to go on; with 0 it only says where the log begins and
        ends. `ExpiredOffset` where the log has let go of `start`.
        """
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language)
        check_number("an offset", start, 0)
        check_number("limit", limit, 0)
        time = None if since is None else seconds_of(since)
        answer = await self.connection.ask(lambda number: LogQuery(number, wanted, start, time, limit))
        return read_page(answer, start if since is None else 0)

    async def replay(
        self,
        where: str | Filter = Filter.everything,
        *,
        since: datetime | float | None = None,
        places: Mapping[int, int] | None = None,
        limit: int = 500,
        language: str = "sql",
    ) -> PastPage:
        """Confirmed events of all brokers that match, since a time, or from the `places` of the page before.

        So many of each log are looked at; there is `more` until there is not, and the answer is `partial` where brokers
        are `missing`. `ExpiredOffset` where some log has let go of its place.
        """
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language)
        time = 0.0 if since is None else seconds_of(since)
        check_number("limit", limit, 1)
        for broker, place in (places or {}).items():
            check_number("a broker", broker, 0)
            check_number("an offset", place, 0)
        named = tuple(sorted((places or {}).items()))
        return past_page(await self.connection.ask(lambda number: ReplayQuery(number, wanted, time, named, limit)))

    async def forget(self, broker: int) -> None:
        """Give up a broker that is not coming back; only an operator may."""
        check_number("a broker", broker, 0)
        await self.connection.ask(lambda number: Forget(number, broker))

    # What the connection tells

    def _heard(self, said: Any) -> None:
        kind = type(said)
        if kind is Failed:
            self._refused = error_of(said.kind, said.reason)
            return
        stream = self.streams.get(said.name)
        if stream is None:
            return
        if kind is Delivery:
            stream.put(said.body, (said.name,), said.stamps, said.number)
        elif kind is Cancelled:
            stream.cancelled(said.name)
        elif kind is Elsewhere:
            stream.move(said)
        elif kind is Ended:
            stream.ended(said.name, error_of(said.kind, said.reason))
        elif kind is Dropped:
            stream.dropped = said.events

    def _again(self) -> None:
        for name, offered in self._advertised.items():
            self.connection.post(partial(_advertise, name, offered), self._refuse)
        for stream in self.streams:
            stream.resubscribe()

    def _refuse(self, error: PalioError) -> None:
        """Something that nobody waits for was not carried out: the next who publishes hears of it."""
        self._refused = error

    def _failed(self, error: PalioError) -> None:
        for stream in self.streams:
            stream.fail(error)


def _advertise(name: str, offered: Filter, number: int) -> Advertise:
    return Advertise(number, name, offered, offered.validity or 0.0)
