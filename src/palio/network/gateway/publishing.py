"""How do events get in? Each publisher has one session, for as long as it publishes now and then.

Opening a session for every request would cost more than the event in it. A request is answered when all of its events
are confirmed, or at once where it says `Prefer: respond-async` (RFC 7240 §4.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from palio.errors import LimitReached, PalioError
from palio.events import Event
from palio.network.security.grants import published_by
from palio.network.security.limits import Rate
from palio.network.security.principals import Principal
from palio.routing import codec

if TYPE_CHECKING:
    from palio.network.server import Server
    from palio.network.sessions import Session

_IDLE: Final = 60.0  # seconds without an event, after which a publisher's session ends


class Publisher:
    """What one principal publishes over HTTP."""

    def __init__(self, session: Session, window: int, rate: Rate) -> None:
        self.session = session
        self.used = 0.0
        self.under_way = 0
        self._window = asyncio.Semaphore(window)
        self.rate = rate

    async def publish(self, events: Sequence[Event], *, confirmed: bool) -> None:
        """Publish events in their order; the first failure of one of them is raised when all are answered."""
        bodies = [codec.encode_event(event) for event in events]
        if not confirmed:
            for body in bodies:
                self.session.submit(body)
            return
        answers = [await self._submit(body) for body in bodies]
        for outcome in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _submit(self, body: bytes) -> asyncio.Future[None]:
        """Hand one event over, and wait for nothing but room: what is handed over together is matched together."""
        await self._window.acquire()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(error: PalioError | None) -> None:
            self._window.release()
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        try:
            self.session.submit(body, b"", answered)
        except PalioError as error:
            answered(error)
        return answer


class Publishers:
    """The publishers that there are."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._there: dict[Principal, Publisher] = {}

    async def publish(self, principal: Principal, events: Sequence[Event], *, confirmed: bool) -> None:
        """Publish all events or none: what may not be published is found before any of them is."""
        permitted = [published_by(principal, event) for event in events]
        publisher = self._of(principal)
        if not publisher.rate.take(len(permitted), publisher.used):
            most = self._server.settings.limits.events_per_second
            raise LimitReached("events_per_second", most, f"{principal.name} publishes too much")
        publisher.under_way += 1
        try:
            await publisher.publish(permitted, confirmed=confirmed)
        finally:
            publisher.under_way -= 1
            publisher.used = self._now()

    def _of(self, principal: Principal) -> Publisher:
        self._leave_idle()
        publisher = self._there.get(principal)
        now = self._now()
        if publisher is None or publisher.session.failure is not None:
            limits = self._server.settings.limits
            publisher = self._there[principal] = Publisher(
                self._server.open_session(principal, "http"),
                self._server.settings.flow.window,
                Rate(limits.events_per_second, limits.burst_events, now),
            )
        publisher.used = now
        return publisher

    def _leave_idle(self) -> None:
        horizon = self._now() - _IDLE
        for principal, publisher in list(self._there.items()):
            if publisher.used < horizon and not publisher.under_way:
                del self._there[principal]
                self._server.left(publisher.session, "idle")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
