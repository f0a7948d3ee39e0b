"""How do events get to a sink that is slow, down, or gone? One after the other, again and again, and then not at all.

Events of one subscription are sent in their order, each until it is taken. One that is not taken after all attempts is
a dead letter, with the reason; the next one is sent then, so that one bad event does not hold up the rest for ever.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Final

from palio.errors import PalioError
from palio.network.gateway.cloudevents import STRUCTURED, write_cloudevent
from palio.network.gateway.requests import SubscriptionRequest
from palio.network.gateway.settings import Persistence
from palio.network.gateway.sinks import Connection, Reach, Sink, SinkRefused, SinkUnreachable
from palio.network.gateway.webhooks import Verdict, asked_to_wait, judge
from palio.network.handing import Delivered
from palio.network.security.limits import Rate
from palio.network.sessions import Session
from palio.routing import codec

_IDLE: Final = 30.0  # seconds without an event after which a connection is not kept
log = logging.getLogger("palio.push")


def headers_of(request: SubscriptionRequest) -> dict[str, str]:
    """The headers with which events of a subscription are sent now; SinkUnreachable where its credential is over."""
    credential = request.sinkcredential
    shown = {} if credential is None else credential.headers(datetime.now(UTC))
    return {**request.protocolsettings.headers, **shown, "Content-Type": STRUCTURED}


class Pusher:
    """Sends the events of one subscription to its sink."""

    def __init__(
        self,
        session: Session,
        request: SubscriptionRequest,
        reach: Reach,
        persistence: Persistence,
        bury: Callable[[str, bytes], None],
        *,
        per_minute: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`bury` gets the reason and the data of what was not taken; `per_minute` is what the sink asked for."""
        self._session = session
        self._sink = Sink.parse(request.sink)
        self._request = request
        self._connection = Connection(self._sink, reach, seconds=persistence.seconds, tls=tls)
        self._persistence = persistence
        self._bury = bury
        self._random = Random()
        self._now = asyncio.get_running_loop().time
        self._rate = None if per_minute is None else Rate(per_minute / 60, max(1.0, per_minute / 60), self._now())

    async def run(self) -> PalioError | None:
        """Push until the session ends, or the sink is gone for good; why it ended."""
        try:
            while batch := await self._next_batch():
                for each in batch:
                    if await self._push(each) == "gone":
                        return SinkRefused(f"{self._sink.authority} is gone")
        finally:
            self._connection.close()
        return self._session.failure

    async def _next_batch(self) -> list[Delivered]:
        """Events to push; while there are none for long, nothing is kept open."""
        try:
            async with asyncio.timeout(_IDLE):
                return await self._session.next_batch()
        except TimeoutError:
            self._connection.close()
            return await self._session.next_batch()

    async def _push(self, delivered: Delivered) -> Verdict:
        """Send one event until it is taken, or will not be."""
        body = write_cloudevent(codec.decode_event(delivered.event.body)).encode()
        verdict: Verdict = "again"
        reason, asked, attempt = "", 0.0, 0
        while verdict == "again" and attempt < self._persistence.attempts:
            if attempt:
                await asyncio.sleep(max(asked, self._persistence.wait(attempt - 1, self._random.random)))
            verdict, reason, asked = await self._attempt(body)
            attempt += 1
        if verdict in ("again", "never"):
            log.warning("not delivered", extra={"sink": self._sink.authority, "reason": reason})
            self._bury(f"{reason}, after {attempt} attempts", body)
        if delivered.number:
            self._session.ack(delivered.name, (delivered.number,))
        return verdict

    async def _attempt(self, body: bytes) -> tuple[Verdict, str, float]:
        """Send an event once: what is to become of it, why, and how long the sink asks to be left alone."""
        if self._rate is not None:
            while not self._rate.take(1, self._now()):
                await asyncio.sleep(self._rate.wait(1, self._now()))
        try:
            reply = await self._connection.exchange("POST", headers_of(self._request), body)
        except (SinkRefused, SinkUnreachable) as error:
            return "again", str(error), 0.0
        return judge(reply), f"{self._sink.authority} answered {reply.status}", asked_to_wait(reply)
