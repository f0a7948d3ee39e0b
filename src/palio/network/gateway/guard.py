"""Is this request from where it may come from? What is asked of each, before anybody looks at what it wants.

A broker on one's own machine has no tokens, and every web page that one visits can send requests to it. Browsers say
which page a request is from (Origin), and which name it was sent to (Host); a page of another origin is turned away,
and so is a name that is not this machine's, which is how a page makes itself the same origin (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from palio.network.gateway.problems import HttpProblem, respond
from palio.network.security.exposure import is_loopback

_SAFETY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID, Prefer",
    "Access-Control-Max-Age": "600",
}


class Guard:
    """Turns away what no handler should see."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...], may_anyone: Callable[[], bool]) -> None:
        """While `may_anyone` says that whoever gets here may do everything, only this machine's own names will do."""
        self._app = app
        self._origins = origins
        self._may_anyone = may_anyone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers, scope)
        origin = headers.get("origin")
        is_preflight = scope.get("method") == "OPTIONS" and "access-control-request-method" in headers

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _SAFETY.items():
                    answer.setdefault(name, value)
                if origin in self._origins:
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Vary"] = "Origin"
            await send(message)

        if refusal is None and is_preflight and origin in self._origins:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send_safely)
        elif refusal is None:
            await self._app(scope, receive, send_safely)
        elif scope["type"] == "websocket":
            await WebSocketClose(4403, str(refusal))(scope, receive, send)
        else:
            await respond(refusal)(scope, receive, send_safely)

    def _refusal(self, headers: Headers, scope: Scope) -> HttpProblem | None:
        host = headers.get("host", "")
        if self._may_anyone() and not is_loopback(_name(host)):
            return HttpProblem(421, "this broker answers to names of its own machine alone, such as localhost")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and not _is_of(origin, scope["scheme"], host):
            return HttpProblem(403, "a page of another origin may not use this broker; its owner can allow the origin")
        if headers.get("content-encoding", "identity") != "identity":
            return HttpProblem(415, "compressed requests are not read; send it as it is")
        if {"token", "access_token"} & QueryParams(scope["query_string"]).keys():
            return HttpProblem(400, "a token does not belong into a URL; send Authorization: Bearer, or get a ticket")
        return None


def _name(host: str) -> str:
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def _is_of(origin: str, scheme: str, host: str) -> bool:
    return bool(host) and origin == f"{ {'ws': 'http', 'wss': 'https'}.get(scheme, scheme) }://{host}"
