"""Who sent this request, and what is in it? A certificate, a token or a ticket says who; the limits say how much."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, HTTPConnection, Request

from palio.errors import AuthenticationFailed, LimitReached
from palio.network.gateway.problems import HttpProblem
from palio.network.gateway.tickets import Tickets
from palio.network.security.principals import Principal
from palio.network.security.tls import names_in

if TYPE_CHECKING:
    from palio.network.server import Server


class Callers:
    """Knows who is calling."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tickets = Tickets()

    def identify(self, connection: HTTPConnection) -> Principal:
        """Who sent a request; AuthenticationFailed for strangers."""
        ticket = connection.query_params.get("ticket")
        if ticket is not None:
            return self._server.door.find(self._tickets.take(ticket, self._now()))
        return self._server.door.authenticate(
            bearer(connection), names_in(getattr(connection.state, "certificate", None))
        )

    def ticket(self, principal: Principal) -> str:
        """A ticket with which a principal can open one stream."""
        return self._tickets.give(principal.name, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def body(self, request: Request) -> bytes:
        """The body of a request, within the limits of size and time."""
        limits = self._server.settings.limits
        found = bytearray()
        try:
            async with asyncio.timeout(limits.handshake_seconds):
                async for part in request.stream():
                    found += part
                    if len(found) > limits.frame_bytes:
                        raise LimitReached("frame_bytes", limits.frame_bytes, "a request that is too long")
        except TimeoutError:
            raise HttpProblem(408, "the request did not arrive in time", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise HttpProblem(400, "the request was not sent to its end") from None
        return bytes(found)


def bearer(connection: HTTPConnection) -> str:
    """The token of a request; nothing where it has none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme and scheme.lower() != "bearer":
        raise AuthenticationFailed("a token is sent as Authorization: Bearer")
    return token.strip()
