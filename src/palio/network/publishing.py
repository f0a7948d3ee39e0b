"""What becomes of the events that a client publishes? They are judged by its grant, counted, and let in.

Of those that it wants confirmed only so many may be under way. A broker that cannot promise more says that it is busy;
such an event waits here until it says to proceed, so that its publisher hears nothing meanwhile, and stops when its
window is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from palio.errors import LimitReached, NotAdvertised, PalioError, Refused, StoreError, StoreFull
from palio.filters.filter import Filter
from palio.network.security.grants import check_annotation, published_by
from palio.network.security.limits import Limits
from palio.network.security.principals import ANY_SOURCE, Principal
from palio.network.security.shares import Shares
from palio.routing import clients, codec
from palio.routing.clients import PublishClient, PublishTogether

Publication: TypeAlias = PublishClient | PublishTogether
Answered: TypeAlias = Callable[[PalioError | None], None]


class Publishing:
    """The events of one client."""

    __slots__ = (
        "_ask",
        "_busy",
        "_limits",
        "_longest",
        "_may_all",
        "_numbers",
        "_principal",
        "_publisher",
        "_shares",
        "_waiting",
        "_window",
        "published",
    )

    def __init__(
        self,
        ask: Callable[[Publication], None],
        principal: Principal,
        shares: Shares,
        window: int,
        publisher: str,
        limits: Limits,
    ) -> None:
        self._ask = ask
        self._limits = limits
        self._longest = limits.event_bytes
        self._shares = shares
        self._window = window
        self._publisher = publisher
        self.published = 0
        self._numbers = 0
        self._waiting: dict[int, tuple[Publication, Answered]] = {}
        self._busy: list[Publication] = []
        self.revise(principal)

    def revise(self, principal: Principal) -> None:
        """From now on it may publish this."""
        self._principal = principal
        # Then nothing that it publishes need be looked at.
        is_free = principal.may_publish == Filter.everything and ANY_SOURCE in principal.sources
        self._may_all = is_free and principal.may_annotate and self._limits.is_event_usual

    def submit(self, body: bytes, header: bytes = b"", answered: Answered | None = None) -> int:
        """Let an event in, under a number where its confirmation is asked for."""
        body = self._judged(body, header)
        if self._shares.has_rate:
            self._shares.publish(self._principal.name, 1)
        self.published += 1
        if answered is None:
            self._ask(PublishClient(body, header))
            return 0
        if len(self._waiting) >= self._window:
            raise LimitReached("window", self._window, "too many events wait for their confirmation")
        request = self._numbered(body, header)
        self._waiting[request.number] = request, answered
        self._ask(request)
        return request.number

    def submit_together(self, bodies: Sequence[bytes], answered: Sequence[Answered] = ()) -> None:
        """Let all of several events in, or none; with `answered`, one for each, their confirmations are asked for. They
        may be more than the window while nothing else waits."""
        if not bodies:
            return
        judged = [self._judged(body, b"") for body in bodies]
        if self._waiting and len(self._waiting) + len(answered) > self._window:
            raise LimitReached("window", self._window, "too many events wait for their confirmation")
        self._shares.publish(self._principal.name, len(judged))
        self.published += len(judged)
        if not answered:
            self._ask(PublishTogether(tuple(PublishClient(body) for body in judged)))
            return
        request = PublishTogether(tuple(self._numbered(body, b"") for body in judged))
        for each, answer in zip(request.events, answered, strict=True):
            self._waiting[each.number] = request, answer
        self._ask(request)

    def _numbered(self, body: bytes, header: bytes) -> PublishClient:
        self._numbers += 1
        return PublishClient(body, header, confirm=True, number=self._numbers, publisher=self._publisher)

    def _judged(self, body: bytes, header: bytes) -> bytes:
        """The body of an event as this client may publish it, within the limits."""
        if not self._may_all:
            body = self._checked(body)
            check_annotation(self._principal, header)
        if len(body) + len(header) > self._longest:
            raise LimitReached("event_bytes", self._longest, f"an event of {len(body) + len(header):,} bytes")
        return body

    def _checked(self, body: bytes) -> bytes:
        """The body of an event as this client may publish it."""
        event = codec.decode_event(body, self._limits.event)
        permitted = published_by(self._principal, event)
        return body if permitted is event else codec.encode_event(permitted)

    # What the broker answers

    def accepted(self, number: int) -> None:
        self._answer(number, None)

    def refused(self, answer: clients.Refused) -> bool:
        """Whether it was an event that waits here."""
        if answer.number not in self._waiting:
            return False
        if answer.kind == "busy":
            self._busy.append(self._waiting[answer.number][0])
        else:
            self._answer(answer.number, error_of(answer))
        return True

    def proceed(self) -> None:
        busy, self._busy = self._busy, []
        for request in busy:
            self._ask(request)

    def close(self, error: PalioError) -> None:
        waiting, self._waiting = self._waiting, {}
        self._busy = []
        for _, answered in waiting.values():
            answered(error)

    def _answer(self, number: int, error: PalioError | None) -> None:
        _, answered = self._waiting.pop(number, (None, None))
        if answered is not None:
            answered(error)


def error_of(answer: clients.Refused) -> PalioError:
    """What a refusal of the broker is called outside of it."""
    match answer.kind:
        case "unadvertised":
            return NotAdvertised(answer.reason)
        case "full":
            return StoreFull("the broker", answer.reason)
        case "broken":
            return StoreError("the broker", answer.reason)
    return Refused(answer.reason)


def waiter() -> tuple[asyncio.Future[None], Answered]:
    """Something to wait for, and the call that ends the wait."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(error: PalioError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return future, answered
