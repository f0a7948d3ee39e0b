"""Publications of one client: admission by grant and quotas, the window of confirmed events, and confirm timeouts.

A publication is checked against the grant and quotas of its publisher before it is handed to the broker. The confirmed
ones in flight are bounded by a window. When the broker cannot take responsibility for more it answers `busy`; what it
did not take is kept here and repeated on `Proceed`. Its publisher gets no answer meanwhile, and stops when its window
is full: that is the backpressure on publishers. It is bounded: a publication without an answer after
`flow.confirm_seconds` is answered with `ConfirmTimeout`, which says what it waited for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from palio.errors import ConfirmTimeout, LimitReached, PalioError
from palio.filters.filter import Filter
from palio.network.error_codes import error_of_refusal
from palio.network.security.authorization import ANY_SOURCE, Principal, check_annotation, published_by
from palio.network.security.column_grants import ColumnGrant, batch_published_by
from palio.network.security.quotas import BrokerLimits
from palio.network.server.pending_requests import OnAnswer, answer_together
from palio.network.server.process_metrics import LatencyProbe
from palio.routing import codec
from palio.routing.client_messages import PublishBatch, PublishClient, Refused
from palio.routing.columnar_codec import bodies_of, decode_batch, encode_batch
from palio.routing.effects import BatchRequest

if TYPE_CHECKING:
    from palio.network.server.session import BrokerServices
    from palio.network.server.settings import Flow

Publication: TypeAlias = PublishClient | PublishBatch
_CONFIRM_CHECKS: Final = 4  # in the time after which a publication is late


class _Busy(NamedTuple):
    """A publication that waits for room, and for whose."""

    request: Publication
    reason: str

    @property
    def events(self) -> int:
        return len(self.request.events) if isinstance(self.request, PublishBatch) else 1


class Publications:
    """What one client publishes, and the confirmations that it waits for.

    A front end sets `on_refused`, which is called when an unconfirmed event failed.
    """

    # A broker has one for each of tens of thousands of connections.
    __slots__ = (
        "_busy",
        "_client",
        "_confirm_timer",
        "_flow",
        "_host",
        "_is_open",
        "_last_number",
        "_latency",
        "_limits",
        "_marks",
        "_max_event_bytes",
        "_pending",
        "_principal",
        "_publish_grant",
        "_publisher",
        "_publishes_all",
        "_quotas",
        "count",
        "on_refused",
    )

    def __init__(self, services: BrokerServices, client: str, publisher: str, principal: Principal) -> None:
        """`publisher` is the key of deduplication."""
        self.count = 0  # of events that were handed to the broker, accepted or not
        self.on_refused: OnAnswer | None = None
        self._host = services.host
        self._quotas = services.quotas
        self._client = client
        self._publisher = publisher
        self._latency = LatencyProbe(services.confirm_latency)
        self._last_number = 0
        self._pending: dict[int, tuple[Publication, OnAnswer]] = {}
        self._busy: dict[int, _Busy] = {}  # to be repeated on `Proceed`, by the first number of each
        self._marks: deque[tuple[float, int]] = deque()  # last number at some times, since the oldest that is pending
        self._confirm_timer: asyncio.TimerHandle | None = None
        self._is_open = True
        self.configure(principal, services.limits, services.flow)

    def configure(self, principal: Principal, limits: BrokerLimits, flow: Flow) -> None:
        """Apply grants and limits to what is published from now on."""
        self._principal = principal
        self._limits = limits
        self._flow = flow
        self._max_event_bytes = limits.event_bytes  # a computed property, read for every event
        # The events of an unrestricted publisher are not decoded here at all.
        may_publish_all = principal.may_publish == Filter.everything and ANY_SOURCE in principal.sources
        self._publishes_all = may_publish_all and principal.may_annotate and limits.is_event_usual
        self._publish_grant: ColumnGrant | None = None  # made again when the next batch needs it

    @property
    def pending(self) -> int:
        """Number of confirmed events without an answer yet."""
        return len(self._pending)

    def submit(self, body: bytes, header: bytes = b"", on_answer: OnAnswer | None = None) -> None:
        """Publish an event; with `on_answer` it is confirmed."""
        body = self._admit(body, header)
        if self._quotas.has_rate_limit:
            self._quotas.take_events(self._principal.name, 1)
        self.count += 1
        if on_answer is None:
            self._host.request(self._client, PublishClient(body, header))
            return
        if len(self._pending) >= self._flow.window:
            raise LimitReached("window", self._flow.window, "too many events wait for their confirmation")
        self._last_number += 1
        request = PublishClient(body, header, confirm=True, number=self._last_number, publisher=self._publisher)
        self._pending[self._last_number] = request, on_answer
        self._latency.begin(self._last_number)
        if self._confirm_timer is None:
            self._watch_confirmations()
        self._host.request(self._client, request)

    def submit_together(self, bodies: Sequence[bytes], on_answers: Sequence[OnAnswer] = ()) -> None:
        """Publish all of several events, or none; with `on_answers`, one for each, they are confirmed.

        They may exceed the window while nothing else is pending.
        """
        if not bodies:
            return
        # All checks come before anything is counted or handed over: all or none.
        self._submit_admitted([self._admit(body, b"") for body in bodies], on_answers)

    def _submit_admitted(self, admitted: Sequence[bytes], on_answers: Sequence[OnAnswer]) -> None:
        pending, window = self._pending, self._flow.window
        if pending and len(pending) + len(on_answers) > window:
            raise LimitReached("window", window, "too many events wait for their confirmation")
        self._quotas.take_events(self._principal.name, len(admitted))
        self.count += len(admitted)
        if not on_answers:
            self._host.request(self._client, PublishBatch(tuple(PublishClient(body) for body in admitted)))
            return
        first = self._last_number + 1
        self._last_number += len(admitted)
        request = PublishBatch(
            tuple(
                PublishClient(body, confirm=True, number=number, publisher=self._publisher)
                for number, body in enumerate(admitted, first)
            )
        )
        self._latency.begin(first)
        for each, on_answer in zip(request.events, on_answers, strict=True):
            pending[each.number] = request, on_answer
        if self._confirm_timer is None:
            self._watch_confirmations()
        self._host.request(self._client, request)

    def submit_columns(self, body: bytes, on_answer: OnAnswer | None = None) -> None:
        """Publish a batch of events, all or none; with `on_answer` they are confirmed, by one answer for all."""
        batch = decode_batch(body, self._limits.event)
        most = self._limits.batch_events
        if len(batch) > most:
            raise LimitReached("batch_events", most, f"a batch of {len(batch):,} events")
        admitted = batch
        if not self._publishes_all:
            if self._publish_grant is None:
                self._publish_grant = ColumnGrant(self._principal.may_publish)
            admitted = batch_published_by(self._principal, batch, self._publish_grant)
        bodies = None
        if admitted.event_bytes()[0] > self._max_event_bytes:  # by its upper bound; so each is looked at
            bodies = bodies_of(admitted)
            longest = max(map(len, bodies))
            if longest > self._max_event_bytes:
                raise LimitReached("event_bytes", self._max_event_bytes, f"an event of {longest:,} bytes")
        if on_answer is None:
            if self._quotas.has_rate_limit:
                self._quotas.take_events(self._principal.name, len(batch))
            self.count += len(batch)
            self._host.request(
                self._client, BatchRequest(admitted, body if admitted is batch else encode_batch(admitted))
            )
            return
        # The log has an entry for each event: from here on they are single ones, which one write takes together.
        bodies = bodies_of(admitted) if bodies is None else bodies
        self._submit_admitted(bodies, [answer_together(len(bodies), on_answer)] * len(bodies))

    def _admit(self, body: bytes, header: bytes) -> bytes:
        """The body of an event as this client may publish it; an error where it may not, or where it is too long."""
        if not self._publishes_all:
            event = codec.decode_event(body, self._limits.event)
            permitted = published_by(self._principal, event)
            body = body if permitted is event else codec.encode_event(permitted)
            check_annotation(self._principal, header)
        length = len(body) + len(header)
        if length > self._max_event_bytes:
            raise LimitReached("event_bytes", self._max_event_bytes, f"an event of {length:,} bytes")
        return body

    def answer(self, number: int, error: PalioError | None) -> None:
        """Answer a confirmed event: None where the broker accepted it."""
        self._latency.end(number)
        _, on_answer = self._pending.pop(number, (None, _ignore))
        on_answer(error)

    def refuse(self, refusal: Refused) -> None:
        """Answer an event that the broker did not accept; one that it may accept later stays pending."""
        if refusal.number not in self._pending:  # of an unconfirmed event
            self._host.drops["refused"] += 1
            if self.on_refused is not None:
                self.on_refused(error_of_refusal(refusal.kind, refusal.reason))
        elif refusal.kind == "busy":  # stays pending: no answer is the backpressure on its publisher
            request = self._pending[refusal.number][0]
            self._busy[refusal.number] = _Busy(request, refusal.reason)
            self._host.backpressure.set_waiting(self._client, True)
        else:
            self.answer(refusal.number, error_of_refusal(refusal.kind, refusal.reason))

    def repeat_busy(self) -> None:
        """Hand over again what found no room."""
        busy, self._busy = self._busy, {}
        self._host.backpressure.set_waiting(self._client, False)
        for number in sorted(busy):  # in the order of publication: those that wait for others may come between
            self._host.request(self._client, busy[number].request)

    def _watch_confirmations(self) -> None:
        """Look at the pending publications now and then, for as long as there are any.

        Marks of the last number at some times cost nothing for each publication, where a timer of its own would.
        """
        self._marks.append((self._host.now(), self._last_number))
        seconds = self._flow.confirm_seconds / _CONFIRM_CHECKS
        self._confirm_timer = asyncio.get_running_loop().call_later(seconds, self._check_confirmations)

    def _check_confirmations(self) -> None:
        self._confirm_timer = None
        oldest, last = self._host.now() - self._flow.confirm_seconds, 0
        while self._marks and self._marks[0][0] <= oldest:
            _, last = self._marks.popleft()
        late = [number for number in self._pending if number <= last]
        reasons = {number: self._take_reason(number) for number in late}
        for number in late:
            self.answer(number, ConfirmTimeout(self._flow.confirm_seconds, reasons[number]))
        if self._pending and self._is_open:
            self._watch_confirmations()
        else:
            self._marks.clear()

    def _take_reason(self, number: int) -> str:
        """What a late publication waits for; one that waits for room is not repeated any more."""
        for first, busy in list(self._busy.items()):
            if first <= number < first + busy.events:
                if number == first + busy.events - 1:
                    del self._busy[first]
                    self._host.backpressure.set_waiting(self._client, bool(self._busy))
                return busy.reason
        return f"{self._host.backpressure.reason_for(self._client)}; it may still be accepted"

    def close(self, error: PalioError) -> None:
        """Answer everything that is pending with an error: the client is gone."""
        self._is_open = False  # first: an answer below may lead to another publication
        publications, self._pending, self._busy = self._pending, {}, {}
        self._host.backpressure.set_waiting(self._client, False)
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
        for _, on_answer in publications.values():
            on_answer(error)


def _ignore(error: PalioError | None) -> None:
    pass
