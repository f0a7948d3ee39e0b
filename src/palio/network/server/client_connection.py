"""Client connection of the binary protocol: decodes requests, encodes answers and deliveries of a session.

Hot path: nothing is allocated for a single event but its frame. Events are taken from the session in batches for as
long as the connection takes them, and the confirmations of one turn of the loop leave in one frame.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Coroutine
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
from palio.filters.work_limit import WorkLimit, work_limit
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
    Drain,
    Dropped,
    DurableLimit,
    DurablePromote,
    DurableQuery,
    Elsewhere,
    Ended,
    Failed,
    Forget,
    LogAnswer,
    LogQuery,
    Matched,
    MatchedMany,
    More,
    Publish,
    PublishColumns,
    Reject,
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
from palio.network.security.quotas import BrokerLimits, is_read_off_loop, restrict_filter
from palio.network.server import durable_administration
from palio.network.server.batch_delivery import EncodedGroups, SharedBatch
from palio.network.server.delivery_queues import NOT_COMPLETE, GroupOptions, SubscribeOptions
from palio.network.server.durable_consumers import durable_client
from palio.network.server.durable_subscriptions import request_durable
from palio.network.server.log_queries import answer_log_query
from palio.network.server.session import Session
from palio.routing import messages as routed
from palio.routing.client_messages import ForgetClient, Past, PromoteClient, ReplayClient
from palio.routing.columnar_codec import MAX_BATCH_ROWS
from palio.routing.messages import BEGINS_AT_BROKER, ClockReference
from palio.routing.upkeep.timeliness import AGE_FROM_HERE, UNKNOWN, Age, LinkDelays, clock_reading

if TYPE_CHECKING:
    from palio.network.server.process import Server

log = logging.getLogger("palio.server")
_MAX_QUERIES: Final = 4  # of one client at a time
# Of one connection, before others have their turn. A read of the socket has up to thirty thousand small ones.
_MAX_FRAMES_PER_TURN: Final = 1_024
_MAX_SEND_EVENTS: Final = 256  # between two checks whether the connection takes more
_MAX_RUN_BYTES: Final = 256 * 1024  # of the events of one message
_FRAME_OVERHEAD_BYTES: Final = 1_024  # of a request beside its filter
# Decoding parses the filter of a request, which takes long for some. These messages have none: the second byte of their
# encoding, the tag, tells them apart without decoding.
_TAGS_WITHOUT_FILTER: Final = frozenset(
    protocol.encode(message)[1]
    for message in (Publish(0, b""), PublishColumns(0, b""), Acknowledge("", ()), More("", 0), Sync(0))
)


class ClientConnection:
    """One connection of a client, between its channel and its session."""

    def __init__(self, server: Server, channel: Channel, session: Session, columns: bool = False) -> None:
        """With `columns` the client takes batches of events."""
        self.session = session
        self._server = server
        self._channel = channel
        self._confirmed: list[int] = []
        self._queries = 0
        self._submit = session.publications.submit  # bound once, for the hot path
        self._max_filter_frame_bytes = server.settings.limits.filter_bytes + _FRAME_OVERHEAD_BYTES
        channel.receiver = self
        channel.may_defer = True
        session.on_ready = self._send_queued
        session.delivery.send_direct = self._send_direct
        if columns:
            session.delivery.send_batch = self._send_batch
            session.delivery.begin_run = self._begin_run
            session.delivery.send_run = self._send_run
            channel.before_flush = session.delivery.end_run
        session.on_end = self._on_end
        session.on_cancelled = self._on_cancelled
        session.on_withdrawn = self._on_withdrawn
        session.on_moved = self._on_moved
        session.publications.on_refused = partial(self._answer, 0)
        # Bounds on delays to and from this client, where the brokers bound delays at all.
        self._ages = server.host.node.ages
        self._delays = None if self._ages is None else LinkDelays(self._ages.drift)
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
            min(server.settings.limits.batch_events, MAX_BATCH_ROWS),
            0.0 if self._ages is None else self._ages.drift.share,
        )
        channel.send(protocol.encode(welcome))

    # Calls of the channel

    def on_open(self, channel: Channel) -> None:
        pass

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        longest = self._max_filter_frame_bytes
        decode = protocol.decode_from_client
        for at, frame in enumerate(frames):
            if at == _MAX_FRAMES_PER_TURN:
                channel.defer(frames[at:])
                return
            if frame[1] not in _TAGS_WITHOUT_FILTER and is_read_off_loop(frame):
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
                raise Refused(NOT_COMPLETE)
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
                group=None if message.group is None else GroupOptions(message.group.key, message.group.ack_seconds),
                standby=message.standby,
            )
            return
        if message.standby:
            raise Refused("a standby is the second home of a durable subscription: name one")
        if message.settings is not None:
            raise Refused("settings of a queue on disk are those of a durable subscription")
        if message.group is not None:
            raise Refused("the members of a consumer group share a durable subscription")
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
                set_name=message.set_name,
                completeness=message.completeness,
            ),
        )

    def _unsubscribe(self, message: Unsubscribe) -> None:
        owner = durable_administration.check_owner(self.session.principal, message.owner)
        if message.name in self.session.queues and owner is self.session.principal:
            self.session.request_unsubscription(message.name)
        elif not message.request:  # it has ended already, or is only being claimed
            self.session.durable_claims.cancel(message.name)
            return
        else:  # a durable one of another session, or of none

            def delete() -> None:
                durable_administration.delete(self._server, self.session, owner, message.name)
                self._answer(message.request, None)

            self._at_home(message.request, owner, message.name, delete)
            return
        self._answer(message.request, None)

    def _at_home(self, request: int, owner: Principal, name: str, do: Callable[[], None]) -> None:
        """Do something with a durable subscription if this broker is its home; refer the client to it otherwise."""

        def on_claimed(error: PalioError | None) -> None:
            try:
                if error is not None:
                    raise error
                do()
            except PalioError as reason:
                self._answer(request, reason)

        self.session.durable_claims.claim(durable_client(owner, name), name, on_claimed)

    def _report_durable(self, message: DurableQuery) -> None:
        principal = self.session.principal
        if not message.name:
            page = durable_administration.report_page(self._server, principal, message.after)
            self._answer_report(message.request, page)
            return
        owner = durable_administration.check_owner(principal, message.owner)

        def report_one() -> None:
            report = durable_administration.report_one(self._server, owner, message.name)
            self._answer_report(message.request, report)

        self._at_home(message.request, owner, message.name, report_one)

    def _answer_report(self, request: int, report: Coroutine[Any, Any, dict[str, Any]]) -> None:
        if self._queries == _MAX_QUERIES:
            report.close()
            raise LimitReached("queries", _MAX_QUERIES, "too many queries of this client are unanswered")
        self._queries += 1
        task = self._server.loop.create_task(report, name="palio durable report")
        task.add_done_callback(partial(self._on_report, request))

    def _on_report(self, request: int, report: Future[dict[str, Any]]) -> None:
        self._on_read(request, report, lambda: StatusAnswer(request, report.result()))

    def _limit_durable(self, message: DurableLimit) -> None:
        owner = durable_administration.check_owner(self.session.principal, message.owner)
        on_answer = partial(self._answer, message.request)
        asking, settings = self.session.principal, message.settings
        limit = partial(durable_administration.limit, self._server, asking, owner, message.name, settings, on_answer)
        self._at_home(message.request, owner, message.name, limit)

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
        self._submit(message.body, message.header, on_answer, self._published_age(message))

    def _publish_columns(self, message: PublishColumns) -> None:
        on_answer = partial(self._answer, message.request) if message.request else None
        self.session.publications.submit_columns(message.body, on_answer, self._published_age(message))

    def _published_age(self, message: Publish | PublishColumns) -> Age:
        """The age of an event that the client published, by the clock of this broker."""
        if self._delays is None or message.age == BEGINS_AT_BROKER:
            return AGE_FROM_HERE
        return self._delays.receive_age(Age(message.age, message.aged_at), self._clock_reading())

    def _on_reference(self, message: ClockReference) -> None:
        if self._delays is not None:
            self._delays.receive_reference(message, self._clock_reading())
            self._send(protocol.encode(self._delays.reference(self._clock_reading())))

    def _clock_reading(self) -> int:
        return clock_reading(self._server.host.now())

    def _age_of(self, event: routed.Publish | routed.PublishColumns) -> Age:
        """The age of an event that is sent to the client now."""
        if self._ages is None:
            return UNKNOWN
        return Age(event.age, event.aged_at).later(self._clock_reading(), self._ages.drift)

    def _grant_credit(self, message: More) -> None:
        self.session.grant_credit(message.name, max(0, message.events))

    def _acknowledge(self, message: Acknowledge) -> None:
        self.session.ack(message.name, message.numbers)

    def _reject(self, message: Reject) -> None:
        self.session.reject(message.name, message.numbers, message.requeue, message.reason)

    def _status(self, message: StatusQuery) -> None:
        check_status(self.session.principal)
        self._send(protocol.encode(StatusAnswer(message.request, self._server.status())))

    def _read_log(self, message: LogQuery) -> None:
        """Answer from another thread: a query reads, decodes and matches many events, and must not stop the loop."""
        if self._queries == _MAX_QUERIES:
            raise LimitReached("queries", _MAX_QUERIES, "too many queries of this client are unanswered")
        self._queries += 1
        reading = self._server.loop.run_in_executor(None, partial(self._query_log, message))
        reading.add_done_callback(partial(self._on_log_read, message.request))

    def _query_log(self, message: LogQuery) -> LogAnswer:
        server, limits = self._server, self._server.settings.limits
        with work_limit(WorkLimit(limits.call_steps)):
            return answer_log_query(message, server.store.log, server.node, self.session.principal, limits)

    def _on_log_read(self, request: int, reading: Future[LogAnswer]) -> None:
        self._on_read(request, reading, reading.result)

    def _on_read(self, request: int, reading: Future[Any], answer: Callable[[], Any]) -> None:
        self._queries -= 1
        error = None if reading.cancelled() else reading.exception()
        if self._channel.is_closing or reading.cancelled():
            return
        if error is None:
            self._send(protocol.encode(answer()))
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

    def _promote(self, message: DurablePromote) -> None:
        principal = self.session.principal
        check_operator(principal, "promote the standby of a durable subscription")
        owner = durable_client(durable_administration.check_owner(principal, message.owner), message.name)
        request = partial(PromoteClient, owner, message.name)
        self.session.queries.submit(request, partial(self._answer_query, message.request))

    def _drain(self, message: Drain) -> None:
        check_operator(self.session.principal, "drain the broker")
        self._server.begin_drain(self.session, message.seconds, partial(self._answer, message.request))

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
        self.session.delivery.end_run()  # an answer may be about what came before it
        channel = self._channel
        if channel.is_full and channel.unsent_bytes > 2 * self._server.settings.limits.frame_bytes:
            channel.abort("it does not read what it is answered")
        else:
            channel.send(frame)

    def _send_direct(self, subscriptions: Raw, event: routed.Publish) -> bool:
        channel = self._channel
        if channel.is_full or channel.is_closing:
            return False
        channel.send(protocol.encode(Matched(subscriptions, event.body, event.stamps, *self._age_of(event))))
        return True

    def _begin_run(self) -> bool:
        """Whether events may join a run, which ends with the next flush."""
        channel = self._channel
        if channel.is_full or channel.is_closing or self._ages is not None:
            return False
        channel.request_flush()
        return True

    def _send_run(self, subscriptions: Raw, bodies: list[bytes]) -> None:
        send = self._channel.send
        if len(bodies) == 1:
            send(protocol.encode(Matched(subscriptions, bodies[0])))
            return
        size, first = 0, 0
        for place, body in enumerate(bodies):
            if size + len(body) > _MAX_RUN_BYTES and place > first:
                send(protocol.encode(MatchedMany(subscriptions, tuple(bodies[first:place]))))
                size, first = 0, place
            size += len(body)
        send(protocol.encode(MatchedMany(subscriptions, tuple(bodies[first:]))))

    def _send_batch(self, groups: EncodedGroups, batch: SharedBatch) -> bool:
        channel = self._channel
        if channel.is_full or channel.is_closing:
            return False
        for frame in batch.frames(groups, self._age_of(batch.message)):
            channel.send(frame)
        return True

    def _send_queued(self) -> None:
        """Send queued events for as long as the connection takes them."""
        channel = self._channel
        encode = protocol.encode
        while not channel.is_full and not channel.is_closing:
            batch = self.session.take(_MAX_SEND_EVENTS)
            for name, event, subscriptions, number, deliveries in batch:
                if subscriptions:
                    numbers, age = protocol.encode_numbers(subscriptions), self._age_of(event)
                    channel.send(encode(Matched(numbers, event.body, event.stamps, *age)))
                else:  # durable: to be acknowledged by its number
                    age = self._age_of(event)
                    channel.send(encode(Delivery(name, event.body, number, event.stamps, deliveries, *age)))
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
    PublishColumns: ClientConnection._publish_columns,
    Subscribe: ClientConnection._subscribe,
    Renew: ClientConnection._renew,
    Unsubscribe: ClientConnection._unsubscribe,
    Detach: ClientConnection._detach,
    Advertise: ClientConnection._advertise,
    Unadvertise: ClientConnection._unadvertise,
    More: ClientConnection._grant_credit,
    Acknowledge: ClientConnection._acknowledge,
    Reject: ClientConnection._reject,
    DurableQuery: ClientConnection._report_durable,
    DurableLimit: ClientConnection._limit_durable,
    StatusQuery: ClientConnection._status,
    LogQuery: ClientConnection._read_log,
    ReplayQuery: ClientConnection._replay,
    Forget: ClientConnection._forget,
    DurablePromote: ClientConnection._promote,
    Drain: ClientConnection._drain,
    Sync: ClientConnection._sync,
    ClockReference: ClientConnection._on_reference,
}
