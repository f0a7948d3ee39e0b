"""A client that speaks the binary protocol, as the server sees it: frames in, frames out, a session behind.

Nothing is made for a single event but its frame: events are taken from the session in batches for as long as the
connection takes them, and confirmations of one batch leave together.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from palio.errors import (
    AuthenticationFailed,
    HomeAway,
    LimitReached,
    LivesElsewhere,
    NotAdvertised,
    NotPermitted,
    PalioError,
    Refused,
    StoreError,
    StoreFull,
    WireError,
)
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.channel import Channel
from palio.network.durable import durable_client, end_durable
from palio.network.homes import request_durable
from palio.network.protocol import (
    Acknowledge,
    Advertise,
    Cancelled,
    ClientHello,
    Delivery,
    Detach,
    Done,
    Dropped,
    Elsewhere,
    Ended,
    Failed,
    Failure,
    Forget,
    LogAnswer,
    LogQuery,
    Matched,
    More,
    Publish,
    Renew,
    ReplayAnswer,
    ReplayQuery,
    StatusAnswer,
    StatusQuery,
    Subscribe,
    Sync,
    Unadvertise,
    Unsubscribe,
    Welcome,
)
from palio.network.replaying import answer_query
from palio.network.security.grants import check_operator, check_status, effective
from palio.network.security.limits import LONG, Limits, joined
from palio.network.security.principals import Principal
from palio.network.sessions import Session
from palio.routing import messages as routed
from palio.routing.clients import ForgetClient, Past, ReplayClient

if TYPE_CHECKING:
    from palio.network.server import Server

log = logging.getLogger("palio.server")
_QUERIES: Final = 4  # of the log, by one client at a time
_AT_ONCE: Final = 256  # events between two looks at whether the connection takes more
_BESIDE_A_FILTER: Final = 1_024  # bytes of a request with a filter, without the filter
# A filter is parsed when it is decoded, which takes time; what has none, written as Palio writes it, may be long.
_MAY_BE_LONG: Final = tuple(protocol.encode(each)[:2] for each in (Publish(0, b""), Acknowledge("", ())))
_KINDS: Final[tuple[tuple[type[PalioError], Failure], ...]] = (
    (AuthenticationFailed, "not authenticated"),
    (NotPermitted, "not permitted"),
    (NotAdvertised, "not advertised"),
    (LimitReached, "limit"),
    (StoreFull, "full"),
    (StoreError, "broken"),
    (WireError, "wire"),
    (HomeAway, "away"),
)


def kind_of(error: PalioError) -> Failure:
    """The name of a failure on the wire."""
    return next((kind for error_type, kind in _KINDS if isinstance(error, error_type)), "refused")


class BinaryClient:
    """One connection of a client."""

    def __init__(self, server: Server, channel: Channel, hello: ClientHello, session: Session) -> None:
        self.session = session
        self._server = server
        self._channel = channel
        self._done: list[int] = []
        self._reading = 0
        self._submit = session.submit
        self._longest = server.settings.limits.filter_bytes + _BESIDE_A_FILTER
        channel.receiver = self
        session.woken = self._pump
        session.handing.straight = self._straight
        session.ended = self._ended
        session.cancelled = self._cancelled
        session.withdrawn = self._withdrawn
        session.moved = self._moved
        session.unasked = partial(self._answered, 0)
        welcome = Welcome(
            protocol.VERSION,
            server.node,
            server.incarnation,
            server.settings.limits.frame_bytes,
            server.settings.flow.window,
            server.settings.heartbeat,
            server.settings.limits.event_bytes,
            server.settings.limits.events_per_second,
            server.shares.left(session.principal.name),
        )
        channel.send(protocol.encode(welcome))

    # What the connection tells

    def opened(self, channel: Channel) -> None:
        pass

    def received(self, channel: Channel, frames: list[bytes]) -> None:
        longest = self._longest
        decode = protocol.decode_from_client
        for at, frame in enumerate(frames):
            if len(frame) > LONG and frame[:2] not in _MAY_BE_LONG:
                if len(frame) > longest:
                    raise LimitReached("filter_bytes", longest, "a request that is too long to be read")
                if frame is not channel.is_read:
                    reading = partial(_read, frame, self.session.principal, self._server.settings.limits)
                    channel.hold(frames[at:], self._server.host.beside(reading))
                    return
            said = decode(frame)
            handle = _HANDLERS.get(type(said))
            if handle is None:
                raise WireError(f"{type(said).__name__} is not for now")
            try:
                handle(self, said)
            except PalioError as error:
                self._answered(getattr(said, "request", 0), error)

    def writable(self, channel: Channel) -> None:
        self._pump()

    def lost(self, channel: Channel, reason: str) -> None:
        self._server.left(self.session, reason)

    # What the client says

    def _subscribe(self, said: Subscribe) -> None:
        if said.durable:
            if said.validity:
                raise Refused("a durable subscription stands until it is ended")
            request_durable(
                self.session,
                said.name,
                said.wanted,
                partial(self._answered, said.request),
                confirm=said.confirm,
                credit=max(0, said.credit),
            )
            return
        self.session.request_subscription(
            said.name,
            _valid(said.wanted, said.validity),
            partial(self._answered, said.request),
            confirm=said.confirm,
            queue=max(0, said.queue),
            overflow=said.overflow or None,
            credit=max(0, said.credit),
            number=said.request,
            group=said.group,
        )

    def _unsubscribe(self, said: Unsubscribe) -> None:
        if said.name in self.session.outlets:
            self.session.request_unsubscription(said.name)
        elif not said.request:  # one that is over, or that is asked for only
            self.session.claiming.leave(said.name)
            return
        else:  # one whose client is not this one, or not here now
            owner = durable_client(self.session.principal, said.name)
            self.session.claiming.claim(owner, said.name, partial(self._end_here, said))
            return
        self._answered(said.request, None)

    def _end_here(self, said: Unsubscribe, error: PalioError | None) -> None:
        try:
            if error is not None:
                raise error
            end_durable(self._server.host, self.session.principal, said.name)
        except PalioError as reason:
            error = reason
        self._answered(said.request, error)

    def _detach(self, said: Detach) -> None:
        if not self.session.claiming.leave(said.name) and (said.request or said.name in self.session.outlets):
            self.session.detach(said.name)
        self._answered(said.request, None)

    def _renew(self, said: Renew) -> None:
        self.session.renew(said.name)
        self._answered(said.request, None)

    def _advertise(self, said: Advertise) -> None:
        self.session.advertise(said.name, _valid(said.offered, said.validity))
        self._answered(said.request, None)

    def _unadvertise(self, said: Unadvertise) -> None:
        self.session.unadvertise(said.name)
        self._answered(said.request, None)

    def _publish(self, said: Publish) -> None:
        answered = partial(self._answered, said.request) if said.request else None
        self._submit(said.body, said.header, answered)

    def _more(self, said: More) -> None:
        self.session.more(said.name, max(0, said.events))

    def _acknowledge(self, said: Acknowledge) -> None:
        self.session.ack(said.name, said.numbers)

    def _status(self, said: StatusQuery) -> None:
        check_status(self.session.principal)
        self._say(protocol.encode(StatusAnswer(said.request, self._server.status())))

    def _read_log(self, said: LogQuery) -> None:
        """In a thread: a query reads, decodes and judges many events, and others must not wait for that."""
        if self._reading == _QUERIES:
            raise LimitReached("queries", _QUERIES, "so many of a client's queries may be under way")
        self._reading += 1
        found = self._server.loop.run_in_executor(
            None, answer_query, said, self._server.store.log, self._server.node, self.session.principal
        )
        found.add_done_callback(partial(self._log_read, said.request))

    def _log_read(self, request: int, found: Future[LogAnswer]) -> None:
        self._reading -= 1
        error = None if found.cancelled() else found.exception()
        if self._channel.is_closing or found.cancelled():
            return
        if error is None:
            self._say(protocol.encode(found.result()))
        else:
            if not isinstance(error, PalioError):
                log.error("a query failed", exc_info=error)
                error = Refused("the broker failed to answer this; its log says why")
            self._answered(request, error)

    def _replay(self, said: ReplayQuery) -> None:
        wanted = effective(said.wanted, self.session.principal, self._server.settings.limits)
        query = partial(ReplayClient, wanted=wanted, since=said.since, places=said.places, limit=said.limit)
        self.session.asking.ask(query, partial(self._replayed, said.request))

    def _forget(self, said: Forget) -> None:
        check_operator(self.session.principal)
        self.session.asking.ask(partial(ForgetClient, said.broker), partial(self._replayed, said.request))

    def _sync(self, said: Sync) -> None:
        self._server.host.then(partial(self._answered, said.request, None))

    def _replayed(self, request: int, answer: Past | PalioError | None) -> None:
        if self._channel.is_closing:
            return
        if isinstance(answer, Past):
            self._say(protocol.encode(ReplayAnswer(request, self.session.permitted(answer))))
        else:
            self._answered(request, answer)

    # What it is told

    def _answered(self, request: int, error: PalioError | None) -> None:
        if isinstance(error, LivesElsewhere):
            self._say(protocol.encode(Elsewhere(request, error.homes)))
        elif error is not None:
            self._server.refusals.note(error, self.session.principal.name)
            self._say(protocol.encode(Failed(request, kind_of(error), str(error))))
        elif self._done:
            self._done.append(request)
        else:
            self._done.append(request)
            self._server.loop.call_soon(self._confirm)

    def _confirm(self) -> None:
        done, self._done = self._done, []
        if done and not self._channel.is_closing:
            self._say(protocol.encode(Done(tuple(done))))

    def _cancelled(self, name: str) -> None:
        self._say(protocol.encode(Cancelled(name)))

    def _moved(self, where: LivesElsewhere) -> None:
        self._say(protocol.encode(Elsewhere(0, where.homes, where.subscription)))

    def _withdrawn(self, name: str, error: PalioError) -> None:
        self._say(protocol.encode(Ended(name, kind_of(error), str(error))))

    def _ended(self, error: PalioError) -> None:
        self._server.refusals.note(error, self.session.principal.name)
        self._channel.close(kind_of(error), str(error))

    def _say(self, frame: bytes) -> None:
        """Answer; one who asks for ever and reads no answer is let go, because they would fill the memory."""
        channel = self._channel
        if channel.is_full and channel.unsent_bytes > 2 * self._server.settings.limits.frame_bytes:
            channel.abort("it does not read what it is answered")
        else:
            channel.send(frame)

    def _straight(self, subscriptions: Raw, event: routed.Publish) -> bool:
        channel = self._channel
        if channel.is_full or channel.is_closing:
            return False
        channel.send(protocol.encode(Matched(subscriptions, event.body, event.stamps)))
        return True

    def _pump(self) -> None:
        """Send what waits, for as long as the connection takes it."""
        channel = self._channel
        encode = protocol.encode
        while not channel.is_full and not channel.is_closing:
            batch = self.session.take(_AT_ONCE)
            for name, event, subscriptions, number in batch:
                is_durable = not subscriptions
                channel.send(
                    encode(
                        Delivery(name, event.body, number, event.stamps)
                        if is_durable
                        else Matched(protocol.numbers(subscriptions), event.body, event.stamps)
                    )
                )
            if len(batch) < _AT_ONCE:
                break
            channel.flush()
        if channel.is_full:
            return
        for outlet in self.session.handing.dropped():
            channel.send(encode(Dropped(outlet.name, outlet.dropped)))


def _read(frame: bytes, principal: Principal, limits: Limits) -> None:
    """Find out all about a request that takes long; those who ask again find it remembered."""
    match protocol.decode_from_client(frame):
        case Subscribe(wanted=wanted) | ReplayQuery(wanted=wanted):
            effective(wanted, principal, limits)
        case Advertise(offered=offered):
            joined(offered, principal.may_publish, limits)


def _valid(said: Filter, seconds: float) -> Filter:
    return said.valid_for(seconds) if seconds else said


_HANDLERS: Final[dict[type, Callable[[BinaryClient, Any], None]]] = {
    Publish: BinaryClient._publish,
    Subscribe: BinaryClient._subscribe,
    Renew: BinaryClient._renew,
    Unsubscribe: BinaryClient._unsubscribe,
    Detach: BinaryClient._detach,
    Advertise: BinaryClient._advertise,
    Unadvertise: BinaryClient._unadvertise,
    More: BinaryClient._more,
    Acknowledge: BinaryClient._acknowledge,
    StatusQuery: BinaryClient._status,
    LogQuery: BinaryClient._read_log,
    ReplayQuery: BinaryClient._replay,
    Forget: BinaryClient._forget,
    Sync: BinaryClient._sync,
}
