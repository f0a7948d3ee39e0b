"""Client connection of the binary protocol: decodes requests, encodes answers and deliveries of a session.

Hot path: nothing is allocated for a single event but its frame. Events are taken from the session in batches for as
long as the connection takes them, and the confirmations of one turn of the loop leave in one frame.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from palio.errors import (
    LimitReached,
    LivesElsewhere,
    PalioError,
    Refused,
    WireError,
)
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.channel import Channel
from palio.network.error_codes import code_of
from palio.network.protocol import (
    Acknowledge,
    Advertise,
    Cancelled,
    Completed,
    Delivery,
    Detach,
    Done,
    Dropped,
    Elsewhere,
    Ended,
    Failed,
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
from palio.network.security.authorization import Principal, check_operator, check_status, effective_filter
from palio.network.security.quotas import OFF_LOOP_BYTES, BrokerLimits, restrict_filter
from palio.network.server.delivery_queues import SubscribeOptions, durable_client
from palio.network.server.durable_subscriptions import end_durable, request_durable
from palio.network.server.log_queries import answer_log_query
from palio.network.server.session import Session
from palio.routing import messages as routed
from palio.routing.messages import ForgetClient, Past, ReplayClient

if TYPE_CHECKING:
    from palio.network.server.process import Server

log = logging.getLogger("palio.server")
_MAX_LOG_QUERIES: Final = 4  # of one client at a time
_MAX_SEND_EVENTS: Final = 256  # between two checks whether the connection takes more
_FRAME_OVERHEAD_BYTES: Final = 1_024  # of a request beside its filter
# Decoding parses the filter of a request, which takes long for a long one. These messages have none: the first two
# bytes of their encoding tell them apart without decoding.
_LONG_FRAMES_WITHOUT_FILTER: Final = tuple(
    protocol.encode(message)[:2] for message in (Publish(0, b""), Acknowledge("", ()))
)


class ClientConnection:
    """One connection of a client, between its channel and its session."""

    def __init__(self, server: Server, channel: Channel, session: Session) -> None:
        self.session = session
        self._server = server
        self._channel = channel
        self._confirmed: list[int] = []
        self._log_queries = 0
        self._submit = session.submit  # bound once, for the hot path
        self._max_filter_frame_bytes = server.settings.limits.filter_bytes + _FRAME_OVERHEAD_BYTES
        channel.receiver = self
        session.on_ready = self._send_queued
        session.delivery.send_direct = self._send_direct
        session.on_end = self._on_end
        session.on_cancelled = self._on_cancelled
        session.on_withdrawn = self._on_withdrawn
        session.on_moved = self._on_moved
        session.on_refused = partial(self._answer, 0)
        welcome = Welcome(
            protocol.VERSION,
            server.node,
            server.incarnation,
            server.settings.limits.frame_bytes,
            server.settings.flow.window,
            server.settings.heartbeat,
            server.settings.limits.event_bytes,
            server.settings.limits.events_per_second,
            server.quotas.events_left(session.principal.name),
        )
        channel.send(protocol.encode(welcome))

    # Calls of the channel

    def on_open(self, channel: Channel) -> None:
        pass

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        longest = self._max_filter_frame_bytes
        decode = protocol.decode_from_client
        for at, frame in enumerate(frames):
            if len(frame) > OFF_LOOP_BYTES and frame[:2] not in _LONG_FRAMES_WITHOUT_FILTER:
                if len(frame) > longest:
                    raise LimitReached("filter_bytes", longest, "a request that is too long to be read")
                if frame is not channel.is_read:
                    decoding = partial(_decode_off_loop, frame, self.session.principal, self._server.settings.limits)
                    channel.hold(frames[at:], self._server.host.run_off_loop(decoding))
                    return
            message = decode(frame)
            handle = _HANDLERS.get(type(message))
            if handle is None:
                raise WireError(f"{type(message).__name__} is not for now")
            try:
                handle(self, message)
            except PalioError as error:
                self._answer(getattr(message, "request", 0), error)

    def on_writable(self, channel: Channel) -> None:
        self._send_queued()

    def on_lost(self, channel: Channel, reason: str) -> None:
        self._server.close_session(self.session, reason)

    # Requests of the client

    def _subscribe(self, message: Subscribe) -> None:
        if message.durable:
            if message.completeness:
                raise Refused("a durable subscription is not told of complete stretches: its events may come later")
            if message.validity:
                raise Refused("a durable subscription stands until it is ended")
            request_durable(
                self.session,
                message.name,
                message.wanted,
                partial(self._answer, message.request),
                confirm=message.confirm,
                credit=max(0, message.credit),
                settings=message.settings,
            )
            return
        if message.settings is not None:
            raise Refused("settings of a queue on disk are those of a durable subscription")
        self.session.request_subscription(
            message.name,
            _with_lease(message.wanted, message.validity),
            partial(self._answer, message.request),
            SubscribeOptions(
                confirm=message.confirm,
                queue=max(0, message.queue),
                overflow=message.overflow or None,
                credit=max(0, message.credit),
                number=message.request,
                group=message.group,
                completeness=message.completeness,
            ),
        )

    def _unsubscribe(self, message: Unsubscribe) -> None:
        if message.name in self.session.queues:
            self.session.request_unsubscription(message.name)
        elif not message.request:  # it has ended already, or is only being claimed
            self.session.durable_claims.cancel(message.name)
            return
        else:  # a durable one of another session, or of none
            owner = durable_client(self.session.principal, message.name)
            self.session.durable_claims.claim(owner, message.name, partial(self._end_claimed, message))
            return
        self._answer(message.request, None)

    def _end_claimed(self, message: Unsubscribe, error: PalioError | None) -> None:
        try:
            if error is not None:
                raise error
            end_durable(self._server.host, self.session.principal, message.name)
        except PalioError as reason:
            error = reason
        self._answer(message.request, error)

    def _detach(self, message: Detach) -> None:
        if not self.session.durable_claims.cancel(message.name) and (
            message.request or message.name in self.session.queues
        ):
            self.session.detach(message.name)
        self._answer(message.request, None)

    def _renew(self, message: Renew) -> None:
        self.session.renew(message.name)
        self._answer(message.request, None)

    def _advertise(self, message: Advertise) -> None:
        self.session.advertise(message.name, _with_lease(message.offered, message.validity))
        self._answer(message.request, None)

    def _unadvertise(self, message: Unadvertise) -> None:
        self.session.unadvertise(message.name)
        self._answer(message.request, None)

    def _publish(self, message: Publish) -> None:
        on_answer = partial(self._answer, message.request) if message.request else None
        self._submit(message.body, message.header, on_answer)

    def _grant_credit(self, message: More) -> None:
        self.session.grant_credit(message.name, max(0, message.events))

    def _acknowledge(self, message: Acknowledge) -> None:
        self.session.ack(message.name, message.numbers)

    def _status(self, message: StatusQuery) -> None:
        check_status(self.session.principal)
        self._send(protocol.encode(StatusAnswer(message.request, self._server.status())))

    def _read_log(self, message: LogQuery) -> None:
        """Answer from another thread: a query reads, decodes and matches many events, and must not stop the loop."""
        if self._log_queries == _MAX_LOG_QUERIES:
            raise LimitReached("queries", _MAX_LOG_QUERIES, "too many queries of this client are unanswered")
        self._log_queries += 1
        reading = self._server.loop.run_in_executor(
            None, answer_log_query, message, self._server.store.log, self._server.node, self.session.principal
        )
        reading.add_done_callback(partial(self._on_log_read, message.request))

    def _on_log_read(self, request: int, reading: Future[LogAnswer]) -> None:
        self._log_queries -= 1
        error = None if reading.cancelled() else reading.exception()
        if self._channel.is_closing or reading.cancelled():
            return
        if error is None:
            self._send(protocol.encode(reading.result()))
        else:
            if not isinstance(error, PalioError):
                log.error("a query failed", exc_info=error)
                error = Refused("the broker failed to answer this; its log says why")
            self._answer(request, error)

    def _replay(self, message: ReplayQuery) -> None:
        wanted = effective_filter(message.wanted, self.session.principal, self._server.settings.limits)
        query = partial(ReplayClient, wanted=wanted, since=message.since, places=message.places, limit=message.limit)
        self.session.queries.submit(query, partial(self._answer_query, message.request))

    def _forget(self, message: Forget) -> None:
        check_operator(self.session.principal)
        self.session.queries.submit(partial(ForgetClient, message.broker), partial(self._answer_query, message.request))

    def _sync(self, message: Sync) -> None:
        self._server.host.after_pending(partial(self._answer, message.request, None))

    def _answer_query(self, request: int, answer: Past | PalioError | None) -> None:
        if self._channel.is_closing:
            return
        if isinstance(answer, Past):
            self._send(protocol.encode(ReplayAnswer(request, self.session.permitted(answer))))
        else:
            self._answer(request, answer)

    # Answers

    def _answer(self, request: int, error: PalioError | None) -> None:
        if isinstance(error, LivesElsewhere):
            self._send(protocol.encode(Elsewhere(request, error.homes)))
        elif error is not None:
            self._server.refusals.note(error, self.session.principal.name)
            self._send(protocol.encode(Failed(request, code_of(error), str(error))))
        else:
            if not self._confirmed:  # the first of this turn of the loop schedules one frame for all
                self._server.loop.call_soon(self._send_confirmations)
            self._confirmed.append(request)

    def _send_confirmations(self) -> None:
        done, self._confirmed = self._confirmed, []
        if done and not self._channel.is_closing:
            self._send(protocol.encode(Done(tuple(done))))

    def _on_cancelled(self, name: str) -> None:
        self._send(protocol.encode(Cancelled(name)))

    def _on_moved(self, where: LivesElsewhere) -> None:
        self._send(protocol.encode(Elsewhere(0, where.homes, where.subscription)))

    def _on_withdrawn(self, name: str, error: PalioError) -> None:
        self._send(protocol.encode(Ended(name, code_of(error), str(error))))

    def _on_end(self, error: PalioError) -> None:
        self._server.refusals.note(error, self.session.principal.name)
        self._channel.close(code_of(error), str(error))

    def _send(self, frame: bytes) -> None:
        """Send an answer; a client that keeps asking without reading is disconnected, lest answers fill the memory."""
        channel = self._channel
        if channel.is_full and channel.unsent_bytes > 2 * self._server.settings.limits.frame_bytes:
            channel.abort("it does not read what it is answered")
        else:
            channel.send(frame)

    def _send_direct(self, subscriptions: Raw, event: routed.Publish) -> bool:
        channel = self._channel
        if channel.is_full or channel.is_closing:
            return False
        channel.send(protocol.encode(Matched(subscriptions, event.body, event.stamps)))
        return True

    def _send_queued(self) -> None:
        """Send queued events for as long as the connection takes them."""
        channel = self._channel
        encode = protocol.encode
        while not channel.is_full and not channel.is_closing:
            batch = self.session.take(_MAX_SEND_EVENTS)
            for name, event, subscriptions, number in batch:
                if subscriptions:
                    channel.send(encode(Matched(protocol.encode_numbers(subscriptions), event.body, event.stamps)))
                else:  # durable: to be acknowledged by its number
                    channel.send(encode(Delivery(name, event.body, number, event.stamps)))
            if not batch or not self.session.delivery.is_cut:
                break
            channel.flush()  # only what is written can make the connection full, and so end this loop
        if channel.is_full:
            return
        for stretch in self.session.delivery.take_stretches():
            channel.send(encode(Completed(stretch)))
        for queue in self.session.delivery.take_dropping():
            channel.send(encode(Dropped(queue.name, queue.dropped)))


def _decode_off_loop(frame: bytes, principal: Principal, limits: BrokerLimits) -> None:
    """Decode a long request and join its filter with the grant; both results are cached for the loop's own call."""
    match protocol.decode_from_client(frame):
        case Subscribe(wanted=wanted) | ReplayQuery(wanted=wanted):
            effective_filter(wanted, principal, limits)
        case Advertise(offered=offered):
            restrict_filter(offered, principal.may_publish, limits)


def _with_lease(filter: Filter, seconds: float) -> Filter:
    return filter.valid_for(seconds) if seconds else filter


_HANDLERS: Final[dict[type, Callable[[ClientConnection, Any], None]]] = {
    Publish: ClientConnection._publish,
    Subscribe: ClientConnection._subscribe,
    Renew: ClientConnection._renew,
    Unsubscribe: ClientConnection._unsubscribe,
    Detach: ClientConnection._detach,
    Advertise: ClientConnection._advertise,
    Unadvertise: ClientConnection._unadvertise,
    More: ClientConnection._grant_credit,
    Acknowledge: ClientConnection._acknowledge,
    StatusQuery: ClientConnection._status,
    LogQuery: ClientConnection._read_log,
    ReplayQuery: ClientConnection._replay,
    Forget: ClientConnection._forget,
    Sync: ClientConnection._sync,
}
