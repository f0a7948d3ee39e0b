"""Requests of one client that the broker has not answered yet: confirmed publications and queries of all brokers.

A publication is checked against the publisher's grant and quotas before it is handed to the broker. The confirmed ones
in flight are bounded by a window. When the broker cannot take responsibility for more it answers `busy`; the
publication is kept here and repeated on `Proceed`. Its publisher gets no answer meanwhile, and stops when its window is
full: that is the backpressure on publishers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from palio.errors import LimitReached, PalioError
from palio.filters.filter import Filter
from palio.network.error_codes import error_of_refusal
from palio.network.security.authorization import ANY_SOURCE, Principal, check_annotation, published_by
from palio.network.security.quotas import Limits, Quotas
from palio.routing import codec, messages
from palio.routing.messages import ClientRequest, Past, PublishBatch, PublishClient

Publication: TypeAlias = PublishClient | PublishBatch
OnAnswer: TypeAlias = Callable[[PalioError | None], None]
OnQueryAnswer: TypeAlias = Callable[[Past | PalioError | None], None]
_MAX_QUERIES: Final = 4  # of one client at a time: each is sent to all brokers


class PendingPublications:
    """Admission of a client's events, and those that await their confirmation."""

    __slots__ = (
        "_busy",
        "_is_unrestricted",
        "_last_number",
        "_limits",
        "_max_event_bytes",
        "_pending",
        "_principal",
        "_publisher",
        "_quotas",
        "_request",
        "_window",
        "published",
    )

    def __init__(
        self,
        request: Callable[[Publication], None],
        principal: Principal,
        quotas: Quotas,
        window: int,
        publisher: str,
        limits: Limits,
    ) -> None:
        self._request = request
        self._limits = limits
        self._max_event_bytes = limits.event_bytes
        self._quotas = quotas
        self._window = window
        self._publisher = publisher
        self.published = 0
        self._last_number = 0
        self._pending: dict[int, tuple[Publication, OnAnswer]] = {}
        self._busy: list[Publication] = []
        self.revise(principal)

    def revise(self, principal: Principal) -> None:
        """Apply the grants of the publisher as they are now."""
        self._principal = principal
        # An unrestricted publisher's events are not decoded here at all.
        may_publish_all = principal.may_publish == Filter.everything and ANY_SOURCE in principal.sources
        self._is_unrestricted = may_publish_all and principal.may_annotate and self._limits.is_event_usual

    def submit(self, body: bytes, header: bytes = b"", on_answer: OnAnswer | None = None) -> int:
        """Publish an event; with `on_answer` it is confirmed, and its number returned."""
        body = self._admit(body, header)
        if self._quotas.has_rate_limit:
            self._quotas.take_events(self._principal.name, 1)
        self.published += 1
        if on_answer is None:
            self._request(PublishClient(body, header))
            return 0
        if len(self._pending) >= self._window:
            raise LimitReached("window", self._window, "too many events wait for their confirmation")
        request = self._numbered(body, header)
        self._pending[request.number] = request, on_answer
        self._request(request)
        return request.number

    def submit_together(self, bodies: Sequence[bytes], on_answers: Sequence[OnAnswer] = ()) -> None:
        """Publish all of several events, or none; with `on_answers`, one for each, they are confirmed.

        They may exceed the window while nothing else is pending.
        """
        if not bodies:
            return
        admitted = [self._admit(body, b"") for body in bodies]
        if self._pending and len(self._pending) + len(on_answers) > self._window:
            raise LimitReached("window", self._window, "too many events wait for their confirmation")
        self._quotas.take_events(self._principal.name, len(admitted))
        self.published += len(admitted)
        if not on_answers:
            self._request(PublishBatch(tuple(PublishClient(body) for body in admitted)))
            return
        request = PublishBatch(tuple(self._numbered(body, b"") for body in admitted))
        for each, on_answer in zip(request.events, on_answers, strict=True):
            self._pending[each.number] = request, on_answer
        self._request(request)

    def _numbered(self, body: bytes, header: bytes) -> PublishClient:
        self._last_number += 1
        return PublishClient(body, header, confirm=True, number=self._last_number, publisher=self._publisher)

    def _admit(self, body: bytes, header: bytes) -> bytes:
        """The body of an event as this client may publish it; an error where it may not, or where it is too long."""
        if not self._is_unrestricted:
            event = codec.decode_event(body, self._limits.event)
            permitted = published_by(self._principal, event)
            body = body if permitted is event else codec.encode_event(permitted)
            check_annotation(self._principal, header)
        length = len(body) + len(header)
        if length > self._max_event_bytes:
            raise LimitReached("event_bytes", self._max_event_bytes, f"an event of {length:,} bytes")
        return body

    # Answers of the broker

    def accept(self, number: int) -> None:
        """Confirm a publication to its client."""
        self._answer(number, None)

    def refuse(self, answer: messages.Refused) -> bool:
        """Fail a publication, or keep it for `proceed`; False where the refusal is of no pending publication."""
        if answer.number not in self._pending:
            return False
        if answer.kind == "busy":
            self._busy.append(self._pending[answer.number][0])
        else:
            self._answer(answer.number, error_of_refusal(answer.kind, answer.reason))
        return True

    def proceed(self) -> None:
        """Repeat what the broker was too busy for."""
        busy, self._busy = self._busy, []
        for request in busy:
            self._request(request)

    def close(self, error: PalioError) -> None:
        """Answer everything that is pending with an error."""
        pending, self._pending = self._pending, {}
        self._busy = []
        for _, on_answer in pending.values():
            on_answer(error)

    def _answer(self, number: int, error: PalioError | None) -> None:
        _, on_answer = self._pending.pop(number, (None, None))
        if on_answer is not None:
            on_answer(error)


class PendingQueries:
    """Queries of one client to all brokers, under numbers below zero: publications have those above."""

    __slots__ = ("_last_number", "_pending", "_request")

    def __init__(self, request: Callable[[ClientRequest], None]) -> None:
        self._request = request
        self._last_number = 0
        self._pending: dict[int, OnQueryAnswer] = {}

    def submit(self, request: Callable[[int], ClientRequest], on_answer: OnQueryAnswer) -> None:
        """Send a query, made with its number; `on_answer` gets the answer, or the reason why there is none."""
        if len(self._pending) >= _MAX_QUERIES:
            raise LimitReached("questions", _MAX_QUERIES, "so many of a client's questions may be under way")
        self._last_number -= 1
        self._pending[self._last_number] = on_answer
        self._request(request(self._last_number))

    def answer(self, number: int, answer: Past | PalioError | None) -> None:
        on_answer = self._pending.pop(number, None)
        if on_answer is not None:
            on_answer(answer)

    def close(self, error: PalioError) -> None:
        pending, self._pending = self._pending, {}
        for on_answer in pending.values():
            on_answer(error)


def answer_future() -> tuple[asyncio.Future[None], OnAnswer]:
    """A future, and the callback that completes it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_answer(error: PalioError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return future, on_answer
