"""Authentication of HTTP callers: certificates, bearer tokens and tickets, after a check of where a request comes from.

A ticket is for browsers: `EventSource` takes a URL and cannot set a header, and URLs end up in logs and histories, so
no token may be part of one. A caller with a token gets a ticket, which is valid once and for seconds.

The request guard is for brokers without tokens on one's own machine, to which every web page that one visits can send
requests. Browsers name the page (Origin) and the host that it addressed (Host). A page of another origin is refused,
and so is a host name that is not this machine's, by which a page could pose as the same origin (DNS rebinding). A
picture or a script names no origin, but browsers tell how far its page is (Sec-Fetch-Site, W3C Fetch Metadata): another
port of this machine is `same-site` and refused, too. Links to the pages of the broker stay possible from anywhere.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from palio.errors import AuthenticationFailed, LimitReached
from palio.network.gateway.problems import HttpProblem, problem_response
from palio.network.security.authorization import Principal
from palio.network.security.tls import certificate_names, is_loopback

if TYPE_CHECKING:
    from palio.network.server.process import Server

TICKET_SECONDS: Final = 30.0
_MAX_TICKETS_PER_PRINCIPAL: Final = 1_000


class Tickets:
    """Tickets that were issued and not yet used. Times are of a monotonic clock."""

    __slots__ = ("_count_of", "_issued")

    def __init__(self) -> None:
        self._count_of: Counter[str] = Counter()
        self._issued: dict[str, tuple[str, float]] = {}

    def issue(self, name: str, now: float) -> str:
        """A new ticket for a principal; LimitReached if too many are unused."""
        # All live equally long, so that the expired ones are at the front.
        while self._issued and self._issued[oldest := next(iter(self._issued))][1] <= now:
            self._forget(oldest)
        if self._count_of[name] >= _MAX_TICKETS_PER_PRINCIPAL:
            raise LimitReached("tickets", _MAX_TICKETS_PER_PRINCIPAL, f"too many tickets of {name} are not used yet")
        ticket = secrets.token_urlsafe(24)
        self._count_of[name] += 1
        self._issued[ticket] = (name, now + TICKET_SECONDS)
        return ticket

    def redeem(self, ticket: str, now: float) -> str:
        """The principal of a ticket, once; AuthenticationFailed for a used, expired or unknown one."""
        name, ends = self._forget(ticket)
        # An unknown ticket ended at 0.
        if now >= ends:
            raise AuthenticationFailed("the ticket was used, or is too old")
        return name

    def _forget(self, ticket: str) -> tuple[str, float]:
        """Remove a ticket: its principal and its expiry, or an empty name and 0 for an unknown one."""
        name, ends = self._issued.pop(ticket, ("", 0.0))
        self._count_of[name] -= 1
        if self._count_of[name] <= 0:
            del self._count_of[name]
        return name, ends


class CallerAuthenticator:
    """Identifies the principal of a request, and reads its body within the limits."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tickets = Tickets()

    def identify(self, connection: HTTPConnection) -> Principal:
        """The principal of a request; AuthenticationFailed without valid credentials."""
        ticket = connection.query_params.get("ticket")
        if ticket is not None:
            return self._server.authenticator.find(self._tickets.redeem(ticket, self._now()))
        return self._server.authenticator.authenticate(
            bearer_token(connection), certificate_names(getattr(connection.state, "certificate", None))
        )

    def ticket(self, principal: Principal) -> str:
        """A ticket with which a principal opens one stream."""
        return self._tickets.issue(principal.name, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def body(self, request: Request) -> bytes:
        """The body of a request, within the limits of size, time and rate."""
        limits, held = self._server.settings.limits, self._server.quotas.held_requests
        body = bytearray()
        started = self._now()
        try:
            async with asyncio.timeout_at(started + limits.handshake_seconds) as timeout:
                async for part in request.stream():
                    body += part
                    held.total += len(part)
                    if len(body) > limits.frame_bytes:
                        raise LimitReached("frame_bytes", limits.frame_bytes, "a request that is too long")
                    held.check(len(body))
                    # What has arrived buys time for the rest, so that a long body may take longer, and a drip may not.
                    seconds = limits.handshake_seconds + len(body) / limits.bytes_per_second
                    timeout.reschedule(started + min(seconds, limits.request_seconds))
        except TimeoutError:
            raise HttpProblem(408, "the request did not arrive in time", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise HttpProblem(400, "the request was not sent to its end") from None
        finally:
            held.total -= len(body)
        return bytes(body)


def bearer_token(connection: HTTPConnection) -> str:
    """The bearer token of a request (RFC 6750); empty without one."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme and scheme.lower() != "bearer":
        raise AuthenticationFailed("a token is sent as Authorization: Bearer")
    return token.strip()


_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID, Prefer",
    "Access-Control-Max-Age": "600",
}


_MAX_HEADERS: Final = 100
_OTHER_ORIGIN: Final = HttpProblem(
    403, "a page of another origin may not use this broker; its owner can allow the origin"
)


class RequestGuard:
    """ASGI middleware that refuses requests by origin, host name and form, before any handler sees them."""

    def __init__(
        self, app: ASGIApp, origins: Callable[[], tuple[str, ...]], is_open: Callable[[], bool], pages: frozenset[str]
    ) -> None:
        """While `is_open` says that callers need no credentials, only names of this machine are accepted as Host.

        `pages` are the paths that hold nothing but what every visitor may see.
        """
        self._app = app
        self._origins = origins
        self._is_open = is_open
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers, scope)
        origin = headers.get("origin")
        is_preflight = scope.get("method") == "OPTIONS" and "access-control-request-method" in headers

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    answer.setdefault(name, value)
                if origin in self._origins():
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Vary"] = "Origin"
            await send(message)

        if refusal is None and is_preflight and origin in self._origins():
            await Response(status_code=204, headers=_PREFLIGHT_HEADERS)(scope, receive, send_with_headers)
        elif refusal is None:
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await WebSocketClose(4403, str(refusal))(scope, receive, send)
        else:
            await problem_response(refusal)(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers, scope: Scope) -> HttpProblem | None:
        if len(scope["headers"]) > _MAX_HEADERS:
            return HttpProblem(431, f"a request has at most {_MAX_HEADERS} headers")
        host = headers.get("host", "")
        if self._is_open() and not is_loopback(_host_name(host)):
            return HttpProblem(421, "this broker answers to names of its own machine alone, such as localhost")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins() and not _is_same_origin(origin, scope["scheme"], host):
            return _OTHER_ORIGIN
        if origin not in self._origins() and self._is_from_elsewhere(headers, scope):
            return _OTHER_ORIGIN
        # A small compressed body could expand to a large one.
        if headers.get("content-encoding", "identity") != "identity":
            return HttpProblem(415, "compressed requests are not read; send it as it is")
        if {"token", "access_token"} & QueryParams(scope["query_string"]).keys():
            return HttpProblem(400, "a token does not belong into a URL; send Authorization: Bearer, or get a ticket")
        return None

    def _is_from_elsewhere(self, headers: Headers, scope: Scope) -> bool:
        """Whether a browser says that a page of another origin caused the request, other than by a link to a page."""
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return False
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return not (is_link and scope.get("method") in ("GET", "HEAD") and scope["path"] in self._pages)


def _host_name(host: str) -> str:
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def _is_same_origin(origin: str, scheme: str, host: str) -> bool:
    return bool(host) and origin == f"{ {'ws': 'http', 'wss': 'https'}.get(scheme, scheme) }://{host}"
