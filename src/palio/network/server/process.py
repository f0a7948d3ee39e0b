"""Broker process: assembles store, routing node, listeners and links, and runs them until a signal.

server = Server(Settings(listen=(Address("127.0.0.1", 0),)))
await server.start()
print(server.addresses)
await server.stop()
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from palio.errors import (
    ConnectionFailed,
    InvalidArgument,
    LimitReached,
    MissingExtra,
    NotPermitted,
    PalioError,
    Refused,
)
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.network.addresses import Address
from palio.network.channel import Channel
from palio.network.event_loop import run_event_loop
from palio.network.fast_start import freeze_garbage_collection
from palio.network.gateway.settings import HttpSettings
from palio.network.links.neighbours import Neighbours
from palio.network.log_throttle import RefusalLog
from palio.network.logging_setup import set_levels
from palio.network.security.authentication import Authenticator
from palio.network.security.authorization import ANYONE, Principal, effective_filter
from palio.network.security.quotas import BrokerLimits, Quotas, is_read_off_loop
from palio.network.security.sealing_keys import SealingKeyFile
from palio.network.security.tls import CurrentTls, certificate_names, check_exposure
from palio.network.server.drain import MAX_DRAIN_SECONDS, Drain, refuse_new_client
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX
from palio.network.server.durable_expiry import DurableExpiry
from palio.network.server.durable_subscriptions import revise_durable
from palio.network.server.handshake import MAX_FIRST_FRAME_BYTES, Acceptor, Handshake, Listener, listening_sockets
from palio.network.server.host import Host
from palio.network.server.pending_requests import OnAnswer
from palio.network.server.persistence import SESSION_CLIENT_PREFIX
from palio.network.server.process_metrics import AbsenceClock, LatencyHistogram, LoopLag
from palio.network.server.reload import Reload, plan_reload
from palio.network.server.session import BrokerServices, Session
from palio.network.server.settings import Settings
from palio.network.server.startup_barrier import StartupBarrier
from palio.network.service_manager import notify_service_manager
from palio.network.store.interface import Store
from palio.network.store.memory import MemoryStore
from palio.network.store.sqlite import SqliteStore
from palio.network.store.writer import SteadyClock
from palio.routing.effects import DefaultOverflow, Remembered
from palio.routing.link_sessions import NetworkConstants
from palio.routing.node import Node
from palio.routing.sealing import Keyring

if TYPE_CHECKING:
    from palio.network.gateway.app import Gateway


log = logging.getLogger("palio.server")


class Server:
    """One broker. `addresses` are those that it listens at, once it is started."""

    host: Host
    expiry: DurableExpiry
    quotas: Quotas
    refusals: RefusalLog
    neighbours: Neighbours
    loop: asyncio.AbstractEventLoop
    node: int
    incarnation: int

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self.settings = settings
        self.authenticator = Authenticator(settings.data)
        for address in settings.listen:
            tls = address.is_secure or address.scheme == "palio+udp"  # datagrams from other machines are always sealed
            check_exposure(address.host, tls=tls, tokens=not self.authenticator.is_open, insecure=settings.insecure)
        if settings.http is not None:
            tls = settings.tls is not None
            check_exposure(
                settings.http.host, tls=tls, tokens=not self.authenticator.is_open, insecure=settings.insecure
            )
        self.clock = SteadyClock()
        self.store: Store = store or _store(settings, self.clock)
        self.addresses: tuple[Address, ...] = ()
        self.gateway: Gateway | None = None
        self.sessions: set[Session] = set()
        self.unauthenticated: set[Channel] = set()
        self._combination = settings.combination
        self._sealing_keys = None if settings.sealing_keys is None else SealingKeyFile(settings.sealing_keys)
        self.acceptor = Acceptor(settings.limits.handshake_seconds, settings.limits.connections)
        self._listeners: list[Listener] = []
        self._session_numbers = count(1)
        self.rates = {"in": 0.0, "out": 0.0}  # events a second: received from anyone, delivered to clients
        self._counted: Counter[str] = Counter()
        # Sessions by principal; a number that grows fast shows a client that reconnects for ever.
        self.arrivals: Counter[str] = Counter()
        self.confirm_latency = LatencyHistogram()
        self.loop_lag = LoopLag()
        self.away = AbsenceClock()
        self._random = Random()
        self._watch_task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.drain: Drain | None = None
        self.on_drained: Callable[[], None] = lambda: None  # when the process is to end
        self.failure: PalioError | None = None  # why it is to end, if that is an error
        self._drain_task: asyncio.Task[None] | None = None
        self._tls = None if settings.tls is None else CurrentTls(settings.tls)
        self.started_at = time.monotonic()

    async def start(self) -> None:
        """Recover from the store, listen, and dial the neighbours."""
        self.loop = asyncio.get_running_loop()
        recovered = self.store.open()
        self.node, self.incarnation = recovered.node, recovered.incarnation
        constants = NetworkConstants.of(self._combination)
        window = self.settings.keeping.duplicates
        remembered = Remembered(
            recovered.records,
            recovered.unfinished,
            recovered.seen,
            recovered.homes,
            recovered.interests,
            window,
            recovered.spilled,
            recovered.links,
            recovered.epochs,
        )
        wall = time.time if self.settings.stamps else None
        random = self._random.random
        keys = None if self._sealing_keys is None else Keyring(self._sealing_keys.read())
        choices = self._combination
        node = Node(self.node, self.incarnation, choices, constants, remembered, random, wall, time.time, keys)
        node.broker.index_filters()
        self.quotas = Quotas(self.settings.limits, self.loop.time)
        self.refusals = RefusalLog(self.loop.time)
        self.host = self._make_host(node)
        self.host.conditions.begin()
        self.expiry = DurableExpiry(self.host)
        # In this batch the node resumes unfinished deliveries, too.
        self.host.enqueue(DefaultOverflow(self.settings.keeping.queue_overflow))
        self.neighbours = Neighbours(self.host, self.settings, self.authenticator)
        self._startup_barrier = StartupBarrier(lambda: self.neighbours.are_known, self.settings.flow.patience)
        self._services = BrokerServices(
            self.host,
            self.store,
            self.settings.limits,
            self.settings.flow,
            self.quotas,
            self._startup_barrier,
            self.confirm_latency,
        )
        try:
            self.addresses = tuple([await self._listen(address) for address in self.settings.listen])
            if self.settings.http is not None:
                self.gateway = await self._listen_http(self.settings.http)
        except BaseException:
            await self.stop()
            raise
        self.host.set_public_address(self.public_address, tuple(map(str, self.addresses)))
        self.expiry.begin_all()
        for address in self.settings.connect:
            await self.neighbours.dial(address)
        self.loop_lag.start()
        self._watch_task = self.loop.create_task(self._watch(), name="palio watch")
        log.info("started", extra={"node": self.node, "addresses": [str(each) for each in self.addresses]})

    def _make_host(self, node: Node) -> Host:
        return Host(node, self.store, self.settings.limits, self.settings.data)

    async def reload(self, wanted: Settings) -> Reload:
        """Apply the changed settings that need no restart, with certificates, keys and tokens read again.

        `PalioError` where something cannot be read; then nothing is changed.
        """
        plan = plan_reload(self.settings, wanted)
        settings = plan.settings
        # Everything that can fail, before the first change.
        tls = None if settings.tls is None else settings.tls.context()
        settings.trust.context()
        sink_tls = settings.trust.also()
        self.settings = settings
        if self._tls is not None and tls is not None:
            self._tls.context = tls
        set_levels(settings.log)
        limits, flow = settings.limits, settings.flow
        self.quotas.change_limits(limits)
        self.host.conditions.costs.change_limits(limits)
        self.acceptor.change_limits(limits.handshake_seconds, limits.connections)
        self._services = replace(self._services, limits=limits, flow=flow)
        for session in self.sessions:
            session.change_limits(limits, flow)
        self.store.change_retention(settings.keeping)
        self.host.enqueue(DefaultOverflow(settings.keeping.queue_overflow))
        self.neighbours.change_settings(settings)
        if self.gateway is not None and settings.http is not None:
            await self.gateway.reload(settings.http, sink_tls)
        self._apply_changed_files()
        return plan

    async def stop(self) -> None:
        """Close all connections with a reason, then the store."""
        self._is_stopping = self.host.is_stopping = True
        self.expiry.close()
        self.loop_lag.stop()
        for task in (self._watch_task, self._drain_task):
            if task is not None:
                task.cancel()
        if self.gateway is not None:
            await self.gateway.stop()
        for listener in self._listeners:
            listener.close()
        self._startup_barrier.stop()
        await self.neighbours.stop()
        for channel in list(self.unauthenticated):
            channel.close("unavailable", "the broker is stopping")
        for session in list(self.sessions):
            session.end("the broker is stopping")
        await self.acceptor.stop()
        await asyncio.sleep(0)  # closed transports report `connection_lost` in the next turn
        # In this order: the threads of the host read from the store.
        self.host.close()
        self.store.close()
        log.info("stopped", extra={"node": self.node})

    def begin_drain(self, operator: Session, seconds: float, on_answer: OnAnswer) -> None:
        """Refuse new clients and let connected ones go; the answer comes when that is done, and then `on_drained`."""
        if not 0 <= seconds <= MAX_DRAIN_SECONDS:
            raise InvalidArgument(f"seconds is a number from 0 to {MAX_DRAIN_SECONDS:,.0f}, not {seconds!r}")
        if self.drain is not None:
            raise Refused("the broker drains already")
        self.drain = Drain(self, operator, seconds)
        log.info("draining", extra=self.drain.status())

        async def run(under_way: Drain) -> None:
            left = await under_way.run()
            log.info("drained", extra=under_way.status())
            on_answer(left)
            await asyncio.sleep(0)  # the answer leaves in the next turn
            self.on_drained()

        self._drain_task = self.loop.create_task(run(self.drain), name="palio drain")

    # Clients

    def open_session(
        self, principal: Principal, app: str = "", publisher: str = "", instance: str = "", peer: str = ""
    ) -> Session:
        """Open a session for a client of any protocol at the address `peer`; to be closed by `close_session`.

        `publisher` is a name that the client keeps over its sessions: with it, an event that it retransmits in another
        session is recognised as a duplicate by source and id. `instance` is one that no other client has: with it, a
        client takes its durable subscriptions over from an earlier session.
        """
        if self.drain is not None:
            raise refuse_new_client()
        self.quotas.connections.take(principal.name)
        # With the incarnation: the name is the deduplication key of a client without one of its own, and keys outlive
        # a restart.
        name = f"{SESSION_CLIENT_PREFIX}{self.incarnation}.{next(self._session_numbers)}"
        session = Session(self._services, name, principal, app, publisher)
        session.instance, session.peer = instance, peer
        self.sessions.add(session)
        self.arrivals[principal.name] += 1
        log.debug("came", extra={"client": name, "principal": principal.name, "app": app})
        return session

    def close_session(self, session: Session, reason: str = "") -> None:
        """Close the session of a client that is gone."""
        if session in self.sessions:
            self.quotas.connections.release(session.principal.name)
            log.debug("left", extra={"client": session.client, "reason": reason})
        session.close()
        self.sessions.discard(session)

    def authenticate(self, token: str, channel: Channel | None = None) -> Principal:
        """The principal with this token, or with the certificate of the channel; `AuthenticationFailed` without one."""
        return self.authenticator.authenticate(
            token, () if channel is None else certificate_names(channel.extra("peercert"))
        )

    def check_broker(self, principal: Principal) -> Principal:
        """`NotPermitted` for a principal that may not link a broker."""
        if principal.role not in ("broker", "admin"):
            raise NotPermitted(principal.name, "link a broker", "its role is not `broker`")
        return principal

    def accept_peer(self, channel: Channel, frames: list[bytes]) -> None:
        """Take the connection of a peer of a ring; `Refused` at a broker."""
        raise Refused("this is a broker, no peer; peers join by a peer (palio peer --join)")

    async def read_condition(self, text: str, language: str, principal: Principal) -> Filter:
        """Parse a condition; a slow one is parsed, and joined with the principal's grant, in another thread."""
        if not is_read_off_loop(text.encode("utf-8", "replace")):
            return Filter.parse(text, language)
        return await self.host.run_off_loop(partial(_parse_off_loop, text, language, principal, self.settings.limits))

    async def _watch(self) -> None:
        """Measure rates and apply changes of the principals file, at an interval."""
        while True:
            await asyncio.sleep(self.settings.watch)
            self._measure_rates()
            self.away.update(self.host.delivery_status()["away"])
            self._apply_changed_files()

    def _apply_changed_files(self) -> None:
        """Apply what changed in the files of sealing keys and of principals."""
        self._replace_sealing_keys()
        was_open = self.authenticator.is_open
        for name, principal in self._changed_principals().items():
            for session in [each for each in self.sessions if each.principal.name == name]:
                session.revise(principal)
            self.neighbours.revise(name, principal)
            # The first token must not delete what was subscribed before there were any.
            if name == ANYONE.name and was_open and principal is None:
                self._warn_of_kept_durables()
            else:
                revise_durable(self.host, name, principal)

    def _warn_of_kept_durables(self) -> None:
        count = sum(1 for _ in self.host.subscriptions_of_clients(f"{DURABLE_CLIENT_PREFIX}{ANYONE.name}/"))
        if count:
            remedy = f"a token for a principal of that name reads them: palio token add {ANYONE.name} …"
            log.warning("durable subscriptions of nobody are kept", extra={"count": count, "remedy": remedy})

    def _replace_sealing_keys(self) -> None:
        if self._sealing_keys is None:
            return
        try:
            keys = self._sealing_keys.changes()
            if keys is not None:
                self.host.replace_sealing_keys(keys)
                log.info("keys of sealed events replaced", extra={"keys": len(keys)})
        except (PalioError, OSError) as error:  # the known keys stand until the file can be read again
            log.error("cannot read the keys of sealed events", extra={"reason": str(error)})

    def _changed_principals(self) -> Mapping[str, Principal | None]:
        try:
            return self.authenticator.changes()
        except (PalioError, OSError) as error:  # the known principals stand until the file can be read again
            log.error("cannot read the principals file", extra={"reason": str(error)})
            return {}

    def admit_connection(self, channel: Channel) -> None:
        """Register a connection that has not authenticated itself yet.

        `LimitReached` where there are too many, `Refused` where the broker is stopping.
        """
        if self._is_stopping:  # it was accepted before the listener closed, and nobody would close it any more
            raise Refused("the broker is stopping")
        most = self.settings.limits.connections
        if self._count_connections() >= most:
            raise LimitReached("connections", most, f"{most:,} connections are as many as there may be")
        self.quotas.take_address(channel.host)
        channel.on_closed = partial(self.quotas.release_address, channel.host)
        channel.min_bytes_per_second = self.settings.limits.bytes_per_second
        self.unauthenticated.add(channel)

    # Listening

    async def _listen(self, address: Address) -> Address:
        if address.scheme == "palio+udp":
            return await self.neighbours.listen(address)
        tls = self._server_tls() if address.is_secure else None
        try:
            sockets = await listening_sockets(address.host, address.port)
        except OSError as error:
            raise ConnectionFailed(str(address), f"cannot listen here: {error.strerror or error}") from None
        host, port = sockets[0].getsockname()[:2]
        for each in sockets:
            self._listeners.append(self.acceptor.listen(each, tls, self._channel, self._count_connections))
        return Address(host, port, address.scheme)

    def _channel(self) -> Channel:
        held = self.quotas.held_frames
        return Channel(Handshake(self), self.settings.heartbeat, MAX_FIRST_FRAME_BYTES, self.host, held)

    def _count_connections(self) -> int:
        return len(self.unauthenticated) + len(self.sessions)

    async def _listen_http(self, settings: HttpSettings) -> Gateway | None:
        try:
            from palio.network.gateway.app import Gateway

            gateway = Gateway(self, settings, tls=self._tls, sink_tls=self.settings.trust.also())
            await gateway.start()
        except (ImportError, InvalidArgument) as error:
            reason = MissingExtra("HTTP and WebSocket", "http") if isinstance(error, ImportError) else error
            if not settings.is_optional:
                raise reason from None
            log.warning("no http", extra={"reason": str(reason)})
            return None
        return gateway

    @property
    def public_address(self) -> str:
        """The address to which other brokers refer the clients of durable subscriptions held here; empty if unknown."""
        if self.settings.public is not None:
            return str(self.settings.public)
        named = (each for each in self.addresses if each.scheme != "palio+udp" and not each.is_anywhere)
        return next(map(str, named), "")

    def _server_tls(self) -> CurrentTls:
        if self._tls is None:
            raise InvalidArgument("to listen with TLS a certificate and its key are needed (--tls)")
        return self._tls

    def _measure_rates(self) -> None:
        counts = self.host.counts
        for name in self.rates:
            self.rates[name] = (counts[name] - self._counted[name]) / self.settings.watch
            self._counted[name] = counts[name]

    def status(self) -> dict[str, Any]:
        """Neighbours, clients, queues and counters, as plain values."""
        from palio.network.server.status import status_of

        return status_of(self)


def _parse_off_loop(text: str, language: str, principal: Principal, limits: BrokerLimits) -> Filter:
    wanted = Filter.parse(text, language)
    with suppress(PalioError):  # the subscription itself reports it; this call only fills the cache
        effective_filter(wanted, principal, limits)
    return wanted


def _store(settings: Settings, clock: SteadyClock) -> Store:
    if settings.data is None:
        return MemoryStore(settings.keeping, clock)
    return SqliteStore(settings.data, settings.keeping, safety=settings.safety, clock=clock)


def raise_open_file_limit() -> None:
    """Allow as many open files as the system admits: each connection is one, and the usual default is a thousand."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != most:
        with suppress(ValueError, OSError):  # macOS reports no maximum, and rejects some numbers
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


_Server = TypeVar("_Server", bound=Server)
Preloading = Callable[[], AbstractContextManager[None]]


def serve(
    read_settings: Callable[[], Settings],
    started: Callable[[_Server], None],
    preloading: Preloading = nullcontext,
    make_server: Callable[[Settings], _Server] = Server,  # type: ignore[assignment]
) -> None:
    """Run a broker until SIGINT or SIGTERM, and reload its settings on SIGHUP; `started` is called once it listens.

    `preloading` is a context entered while compiled code is loaded.
    """
    raise_open_file_limit()
    run_event_loop(_serve(read_settings, started, preloading, make_server))


async def _serve(
    read_settings: Callable[[], Settings],
    started: Callable[[_Server], None],
    preloading: Preloading,
    make_server: Callable[[Settings], _Server],
) -> None:
    server = make_server(read_settings())
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    server.on_drained = stopped.set
    reloads = Reloads(server, read_settings)
    loop.add_signal_handler(signal.SIGHUP, reloads.request)
    with preloading():
        preload_compiled_code()
    await server.start()
    try:
        freeze_garbage_collection()
        started(server)
        reloads.start()
        notify_service_manager("READY=1")
        await stopped.wait()
        if server.failure is not None:
            raise server.failure
    finally:
        notify_service_manager("STOPPING=1")
        await reloads.stop()
        await server.stop()


class Reloads:
    """Reloads of one broker's settings, one after the other; signals during one lead to one more."""

    def __init__(self, server: Server, read_settings: Callable[[], Settings]) -> None:
        self._server = server
        self._read_settings = read_settings
        self._requested = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Reload from now on; what was requested before is done at once."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="palio reloads")

    def request(self) -> None:
        self._requested.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            notify_service_manager(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1_000}")
            await self._reload()
            notify_service_manager("READY=1")

    async def _reload(self) -> None:
        try:
            done = await self._server.reload(self._read_settings())
        except (PalioError, OSError) as error:
            log.error("settings not reloaded; all stay as they were", extra={"reason": str(error)})
            return
        log.info("settings reloaded", extra={"changed": done.changed or "none"})
        if done.postponed:
            log.warning("some changed settings need a restart", extra={"settings": done.postponed})


def preload_compiled_code() -> None:
    """Load the compiled kernels by matching a few events, before the broker listens.

    Otherwise the first large batch would load them, and all its events would be late by a quarter of a second.
    """
    matcher = Matcher()
    matcher.add_many(map(str, range(2_000)), (f"number > {number}" for number in range(2_000)))
    events = [Event({"number": number, "text": "a"}) for number in range(300)]
    matcher.match(events[0])
    matcher.match_batch(events)
