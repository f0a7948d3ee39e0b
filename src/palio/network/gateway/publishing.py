"""How do events get in? Each publisher has one session, for as long as it publishes now and then.

Opening a session for every request would cost more than the event in it. An event that is sent again, in another
session or another life of the broker, is known by the principal, its source and its id. A request is answered when all
of its events are confirmed, or at once where it says `Prefer: respond-async` (RFC 7240 §4.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from palio.errors import PalioError
from palio.events import Event
from palio.network.publishing import Answered, waiter
from palio.network.security.grants import published_by
from palio.network.security.principals import Principal
from palio.routing import codec

if TYPE_CHECKING:
    from palio.network.server import Server
    from palio.network.sessions import Session

_IDLE: Final = 60.0  # seconds without an event, after which a publisher's session ends


class Publisher:
    """What one principal publishes over HTTP."""

    def __init__(self, session: Session, window: int) -> None:
        self.session = session
        self.used = 0.0
        self.under_way = 0
        self._window = window
        self._waiting = 0  # events that are not confirmed
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()

    async def publish(self, events: Sequence[Event], *, confirmed: bool) -> None:
        """Publish events in their order, all or none; why none is published is raised when all are answered."""
        bodies = [codec.encode_event(event) for event in events]
        if not confirmed:
            self.session.submit_together(bodies)
            return
        async with self._turn:
            while self._waiting and self._waiting + len(bodies) > self._window:
                self._room.clear()
                await self._room.wait()
            waiters = [waiter() for _ in bodies]
            self.session.submit_together(bodies, [partial(self._answered, answered) for _, answered in waiters])
            self._waiting += len(bodies)
        for outcome in await asyncio.gather(*(done for done, _ in waiters), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _answered(self, answered: Answered, error: PalioError | None) -> None:
        self._waiting -= 1
        self._room.set()
        answered(error)


class Publishers:
    """The publishers that there are."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._there: dict[Principal, Publisher] = {}

    async def publish(self, principal: Principal, events: Sequence[Event], *, confirmed: bool) -> None:
        """Publish all events or none: what may not be published is found before any of them is."""
        permitted = [published_by(principal, event) for event in events]
        publisher = self._of(principal)
        publisher.under_way += 1
        try:
            await publisher.publish(permitted, confirmed=confirmed)
        finally:
            publisher.under_way -= 1
            publisher.used = self._now()

    def _of(self, principal: Principal) -> Publisher:
        self._leave_idle()
        publisher = self._there.get(principal)
        if publisher is None:
            session = self._server.open_session(principal, "http", publisher="http")
            publisher = self._there[principal] = Publisher(session, self._server.settings.flow.window)
        publisher.used = self._now()
        return publisher

    def _leave_idle(self) -> None:
        horizon = self._now() - _IDLE
        for principal, publisher in list(self._there.items()):
            is_idle = publisher.used < horizon and not publisher.under_way
            if is_idle or publisher.session.failure is not None:
                del self._there[principal]
                self._server.left(publisher.session, "idle")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
