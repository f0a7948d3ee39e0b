"""A broker that others can reach: it listens, lets clients and brokers in, and keeps its links.

server = Server(Settings(listen=(Address("127.0.0.1", 0),)))
await server.start()
print(server.addresses)
await server.stop()
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from palio.errors import ConnectionFailed, InvalidArgument, MissingExtra, PalioError
from palio.filters.filter import Filter
from palio.network.addresses import Address
from palio.network.channel import Channel
from palio.network.clock import SteadyClock
from palio.network.disk import PASSING, StoreDisk
from palio.network.durable import revise_durable
from palio.network.gateway.settings import HttpSettings
from palio.network.greeting import FIRST_FRAME, Greeter
from palio.network.host import Host
from palio.network.neighbours import Neighbours
from palio.network.refusals import Refusals
from palio.network.security.door import Door
from palio.network.security.exposure import check_exposure
from palio.network.security.grants import effective
from palio.network.security.handshakes import BACKLOG, Handshakes, TlsListener, places
from palio.network.security.limits import LONG, Limits
from palio.network.security.principals import Principal
from palio.network.security.shares import Shares
from palio.network.security.tls import names_in
from palio.network.sessions import Session
from palio.network.settings import Settings
from palio.network.settling import Settling
from palio.network.store.interface import Store
from palio.network.store.memory import MemoryStore
from palio.network.store.sqlite import SqliteStore
from palio.routing.constants import Constants
from palio.routing.effects import Remembered
from palio.routing.node import Node

if TYPE_CHECKING:
    from palio.network.gateway.app import Gateway

log = logging.getLogger("palio.server")


class Server:
    """One broker. `addresses` are where it listens, once it is started."""

    host: Host
    shares: Shares
    refusals: Refusals
    neighbours: Neighbours
    loop: asyncio.AbstractEventLoop
    node: int
    incarnation: int

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings = settings
        self.door = Door(settings.data)
        for address in settings.listen:
            tls = address.is_secure or address.scheme == "palio+udp"  # datagrams from elsewhere are always sealed
            check_exposure(address.host, tls=tls, tokens=not self.door.is_open, insecure=settings.insecure)
        if settings.http is not None:
            tls = settings.tls is not None
            check_exposure(settings.http.host, tls=tls, tokens=not self.door.is_open, insecure=settings.insecure)
        self.clock = SteadyClock()
        self.store: Store = store or _store(settings, self.clock)
        self.addresses: tuple[Address, ...] = ()
        self.gateway: Gateway | None = None
        self.sessions: set[Session] = set()
        self.names: dict[Session, str] = {}
        self.unknown: set[Channel] = set()
        self._combination = settings.combination
        self.handshakes = Handshakes(settings.limits.handshake_seconds, settings.limits.connections)
        self._listeners: list[asyncio.Server | TlsListener] = []
        self._session_numbers = count(1)
        self.rates = {"in": 0.0, "out": 0.0}  # events a second, from anybody and to clients
        self._counted: Counter[str] = Counter()
        self.arrivals: Counter[str] = Counter()  # how often each principal came: one that grows fast comes in a loop
        self._random = Random()
        self._watching: asyncio.Task[None] | None = None
        self.since = time.monotonic()

    async def start(self) -> None:
        """Recover, listen, and dial those to connect to."""
        self.loop = asyncio.get_running_loop()
        recovered = self.store.open()
        self.node, self.incarnation = recovered.node, recovered.incarnation
        constants = Constants.of(self._combination)
        window = self.settings.keeping.duplicates
        remembered = Remembered(recovered.records, recovered.unfinished, recovered.seen, recovered.homes, window)
        wall = time.time if self.settings.stamps else None
        node = Node(self.node, self.incarnation, self._combination, constants, remembered, self._random.random, wall)
        self.shares = Shares(self.settings.limits, self.loop.time)
        self.refusals = Refusals(self.loop.time)
        self.host = Host(node, StoreDisk(self.store))
        self.host.give_all([])  # what the last life has not finished goes on
        self.neighbours = Neighbours(self.host, self.node, self.settings, self.settings.trust.context, self.door)
        self._settling = Settling(lambda: self.neighbours.have_told, self.settings.flow.patience)
        try:
            self.addresses = tuple([await self._listen(address) for address in self.settings.listen])
            if self.settings.http is not None:
                self.gateway = await self._listen_http(self.settings.http)
        except BaseException:
            await self.stop()
            raise
        node.broker.claims.address = self._public_address
        for address in self.settings.connect:
            await self.neighbours.dial(address)
        self._watching = self.loop.create_task(self._watch(), name="palio watch")
        log.info("started", extra={"node": self.node, "addresses": [str(each) for each in self.addresses]})

    async def stop(self) -> None:
        """Say goodbye to everyone, and leave everything as a next life should find it."""
        if self._watching is not None:
            self._watching.cancel()
        if self.gateway is not None:
            await self.gateway.stop()
        for listener in self._listeners:
            listener.close()
        self._settling.stop()
        await self.neighbours.stop()
        for channel in list(self.unknown):
            channel.close("unavailable", "the broker is stopping")
        for session in list(self.sessions):
            session.end("the broker is stopping")
        for listener in self._listeners:
            await listener.wait_closed()
        await self.handshakes.stop()
        await asyncio.sleep(0)
        self.host.close()
        self.store.close()
        log.info("stopped", extra={"node": self.node})

    # Clients

    def open_session(self, principal: Principal, app: str = "", publisher: str = "") -> Session:
        """A session for a client, whatever it speaks; whoever opens one closes it by `left`.

        `publisher` is what the same client calls itself in its next session: an event that it sends again is known by
        that, its source and its id.
        """
        self.shares.connections.take(principal.name)
        name = f"{PASSING}{self.incarnation}.{next(self._session_numbers)}"
        session = Session(
            self.host,
            self.store,
            name,
            principal,
            app,
            self.settings.limits,
            self.settings.flow,
            self.shares,
            self._settling,
            publisher,
        )
        self.sessions.add(session)
        self.arrivals[principal.name] += 1
        log.debug("came", extra={"client": name, "principal": principal.name, "app": app})
        return session

    def left(self, session: Session, reason: str = "") -> None:
        """A client is gone."""
        if session in self.sessions:
            self.shares.connections.leave(session.principal.name)
            log.debug("left", extra={"client": session.client, "reason": reason})
        session.close()
        self.sessions.discard(session)
        self.names.pop(session, None)

    def authenticate(self, token: str, channel: Channel | None = None) -> Principal:
        """Who says this; `AuthenticationFailed` where nobody known does."""
        return self.door.authenticate(token, () if channel is None else names_in(channel.extra("peercert")))

    async def read_condition(self, text: str, language: str, principal: Principal) -> Filter:
        """A condition from its text; a long one is read, and joined with the principal's grant, beside the loop."""
        if len(text) <= LONG:
            return Filter.parse(text, language)
        return await self.host.beside(partial(_read_condition, text, language, principal, self.settings.limits))

    async def _watch(self) -> None:
        """What a principal may do can change while it is here, and rates are measured now and then."""
        while True:
            await asyncio.sleep(self.settings.watch)
            self._measure()
            for name, principal in self._changes().items():
                for session in [each for each in self.sessions if each.principal.name == name]:
                    session.revise(principal)
                revise_durable(self.host, name, principal)
                self.neighbours.revise(name, principal)

    def _changes(self) -> Mapping[str, Principal | None]:
        try:
            return self.door.changes()
        except (PalioError, OSError) as error:  # whoever is let in stays so until the file can be read again
            log.error("cannot see who is let in", extra={"reason": str(error)})
            return {}

    def arrived(self, channel: Channel) -> str | None:
        """A connection that nobody knows yet; why it is not let in, where it is not."""
        most = self.settings.limits.connections
        if self._there() >= most:
            return f"{most:,} connections are as many as there may be"
        self.unknown.add(channel)
        return None

    # Listening

    async def _listen(self, address: Address) -> Address:
        if address.scheme == "palio+udp":
            return await self.neighbours.listen(address)
        tls = self._server_tls() if address.is_secure else None
        try:
            found = await places(address.host, address.port)
        except OSError as error:
            raise ConnectionFailed(str(address), f"cannot listen here: {error.strerror or error}") from None
        host, port = found[0].getsockname()[:2]
        for place in found:
            if tls is None:
                self._listeners.append(await self.loop.create_server(self._channel, sock=place, backlog=BACKLOG))
            else:
                self._listeners.append(self.handshakes.listen(place, tls, self._channel, self._there))
        return Address(host, port, address.scheme)

    def _channel(self) -> Channel:
        return Channel(Greeter(self), self.settings.heartbeat, FIRST_FRAME, self.host)

    def _there(self) -> int:
        return len(self.unknown) + len(self.sessions)

    async def _listen_http(self, settings: HttpSettings) -> Gateway | None:
        try:
            from palio.network.gateway.app import Gateway

            tls = self._server_tls() if self.settings.tls is not None else None
            gateway = Gateway(self, settings, tls=tls, sink_tls=self.settings.trust.also())
            await gateway.start()
        except (ImportError, InvalidArgument) as error:
            reason = MissingExtra("HTTP and WebSocket", "http") if isinstance(error, ImportError) else error
            if not settings.is_optional:
                raise reason from None
            log.warning("no http", extra={"reason": str(reason)})
            return None
        return gateway

    @property
    def _public_address(self) -> str:
        """Where other brokers send clients whose durable subscriptions live here; empty where nobody can say."""
        if self.settings.public is not None:
            return str(self.settings.public)
        named = (each for each in self.addresses if each.scheme != "palio+udp" and not each.is_anywhere)
        return next(map(str, named), "")

    def _server_tls(self) -> ssl.SSLContext:
        if self.settings.tls is None:
            raise InvalidArgument("to listen with TLS a certificate and its key are needed (--tls)")
        return self.settings.tls.context()

    def _measure(self) -> None:
        counts = self.host.counts
        for name in self.rates:
            self.rates[name] = (counts[name] - self._counted[name]) / self.settings.watch
            self._counted[name] = counts[name]

    def status(self) -> dict[str, Any]:
        """How this broker is: its neighbours, its clients, and what it counted."""
        from palio.network.status import status_of

        return status_of(self)


def _read_condition(text: str, language: str, principal: Principal, limits: Limits) -> Filter:
    wanted = Filter.parse(text, language)
    with suppress(PalioError):  # whoever subscribes is told
        effective(wanted, principal, limits)
    return wanted


def _store(settings: Settings, clock: SteadyClock) -> Store:
    if settings.data is None:
        return MemoryStore(settings.keeping, clock)
    return SqliteStore(settings.data, settings.keeping, safety=settings.safety, clock=clock)
