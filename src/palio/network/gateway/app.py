"""What can be asked over HTTP? One function for each, and what they share: who asks, and how errors are told."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from palio.errors import InvalidArgument, PalioError
from palio.network.durable import acknowledge_through, end_durable
from palio.network.gateway.callers import Callers
from palio.network.gateway.cloudevents import read_events
from palio.network.gateway.guard import Guard
from palio.network.gateway.letters import Letters
from palio.network.gateway.listening import Listener, listener
from palio.network.gateway.metrics import CONTENT_TYPE, write_metrics
from palio.network.gateway.openapi import describe_api
from palio.network.gateway.problems import HttpProblem, respond
from palio.network.gateway.publishing import Publishers
from palio.network.gateway.requests import check_subscription_name, read_request
from palio.network.gateway.settings import HttpSettings
from palio.network.gateway.streaming import read_last_id, stream
from palio.network.gateway.subscriptions import PushSubscriptions
from palio.network.gateway.tickets import SECONDS
from palio.network.gateway.websocket import Conversation
from palio.network.homes import check_home, subscribe_durably
from palio.network.security.grants import check_operator, check_status
from palio.network.security.handshakes import listening
from palio.network.security.limits import check_condition
from palio.network.security.principals import Principal

if TYPE_CHECKING:
    from palio.network.server import Server

log = logging.getLogger("palio.http")
_PAGES: Final = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/static/page.js": ("page.js", "text/javascript"),
    "/static/docs.js": ("docs.js", "text/javascript"),
    "/static/palio.css": ("palio.css", "text/css"),
}
_OWN: Final = ("http", "sse", "websocket", "push")
Handler = Callable[[Request, Principal], Awaitable[Response]]


class Gateway:
    """HTTP for one broker. `address` is where it listens, once it is started."""

    def __init__(
        self,
        server: Server,
        settings: HttpSettings,
        *,
        tls: ssl.SSLContext | None = None,
        sink_tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` is for those who come, `sink_tls` for sinks whose certificates the system does not know."""
        self.address = ("", 0)
        self._server = server
        self._settings = settings
        self._tls = tls
        self._callers = Callers(server)
        self._publishers = Publishers(server)
        self._push = PushSubscriptions(server, settings, sink_tls)
        self._letters = Letters(server.store, self._push)
        self._listener: Listener | None = None
        self._serving: asyncio.Task[None] | None = None
        self._is_ready = False
        self.app = self._routes()

    @property
    def url(self) -> str:
        """Where it listens, for people and programs."""
        host, port = self.address
        return f"{'http' if self._tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        """Listen, and serve the subscriptions that were made before."""
        try:
            family = socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET
            place = listening((self._settings.host, self._settings.port), family)
        except OSError as error:
            where = f"{self._settings.host}:{self._settings.port}"
            raise InvalidArgument(f"HTTP cannot listen on {where}: {error.strerror or error}") from None
        self.address = place.getsockname()[:2]
        self._push.start()
        self._listener = listener(self.app, self._server.settings.limits, self._tls, self._server.handshakes)
        self._serving = asyncio.create_task(self._listener.serve(sockets=[place]))
        while not self._listener.started and not self._serving.done():
            await asyncio.sleep(0.005)
        self._is_ready = True
        log.info("http", extra={"address": self.url})

    async def stop(self) -> None:
        """Serve nobody any more."""
        self._is_ready = False
        await self._push.stop()
        for session in [each for each in self._server.sessions if each.app in _OWN]:
            session.end("the broker is stopping")
        if self._listener is not None and self._serving is not None:
            await self._listener.end(self._serving)

    def _routes(self) -> Starlette:
        known = self._known
        routes = [
            Route("/events", known(self._publish), methods=["POST"]),
            Route("/events", known(self._stream), methods=["GET"]),
            Route("/durable/{name}/acknowledge", known(self._acknowledge), methods=["POST"]),
            Route("/durable/{name}", known(self._forget), methods=["DELETE"]),
            Route("/tickets", known(self._ticket), methods=["POST"]),
            WebSocketRoute("/ws", self._talk),
            Route("/subscriptions", known(self._create), methods=["POST"]),
            Route("/subscriptions", known(self._list), methods=["GET"]),
            Route("/subscriptions/{id}", known(self._get), methods=["GET"]),
            Route("/subscriptions/{id}", known(self._replace), methods=["PUT"]),
            Route("/subscriptions/{id}", known(self._delete), methods=["DELETE"]),
            Route("/dead-letters", known(self._dead_letters), methods=["GET"]),
            Route("/dead-letters/{number}", known(self._delete_letter), methods=["DELETE"]),
            Route("/dead-letters/{number}/send", known(self._send_letter), methods=["POST"]),
            Route("/status", known(self._status), methods=["GET"]),
            Route("/metrics", known(self._metrics), methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            *(Route(path, _page(*page), methods=["GET"]) for path, page in _PAGES.items()),
        ]
        guard = Middleware(Guard, origins=self._settings.origins, may_anyone=lambda: self._server.door.is_open)
        return Starlette(
            routes=routes,
            middleware=[guard],
            exception_handlers={HTTPException: _http_exception, PalioError: self._refused, Exception: _unexpected},
        )

    def _known(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """A handler that is called only for those who are known."""

        async def handle(request: Request) -> Response:
            return await handler(request, self._callers.identify(request))

        return handle

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, PalioError)
        self._server.refusals.note(error, "somebody" if request.client is None else request.client.host)
        return respond(error)

    async def _publish(self, request: Request, principal: Principal) -> Response:
        body = await self._callers.body(request)
        events = read_events(body, request.headers.items(), self._server.settings.limits)
        confirmed = "respond-async" not in request.headers.get("prefer", "")
        await self._publishers.publish(principal, events, confirmed=confirmed)
        return JSONResponse({"events": len(events), "confirmed": confirmed}, 200 if confirmed else 202)

    async def _stream(self, request: Request, principal: Principal) -> Response:
        limits = self._server.settings.limits
        durable = request.query_params.get("durable")
        if durable is not None:
            check_subscription_name(durable)
        last = read_last_id(request.headers.get("last-event-id"))
        where = check_condition(request.query_params.get("where", "true"), limits)
        language = request.query_params.get("language", "sql")
        wanted = await self._server.read_condition(where, language, principal)
        session = self._server.open_session(principal, "sse")
        try:
            await (subscribe_durably(session, durable, wanted) if durable else session.subscribe("events", wanted))
        except BaseException:
            self._server.left(session, "refused")
            raise
        if durable and last:
            acknowledge_through(self._server.host, self._server.store, principal, durable, last)

        async def body() -> Any:
            try:
                async for text in stream(session):
                    yield text
            finally:
                self._server.left(session, "stream closed")

        return StreamingResponse(body(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _acknowledge(self, request: Request, principal: Principal) -> Response:
        name = check_subscription_name(request.path_params["name"])
        last = read_last_id(request.query_params.get("through"))
        await self._check_home(principal, name)
        acknowledge_through(self._server.host, self._server.store, principal, name, last)
        return Response(status_code=204)

    async def _forget(self, request: Request, principal: Principal) -> Response:
        name = check_subscription_name(request.path_params["name"])
        await self._check_home(principal, name)
        end_durable(self._server.host, principal, name)
        return Response(status_code=204)

    async def _check_home(self, principal: Principal, name: str) -> None:
        session = self._server.open_session(principal, "http")
        try:
            await check_home(session, name)
        finally:
            self._server.left(session, "checked")

    async def _ticket(self, request: Request, principal: Principal) -> Response:
        return JSONResponse({"ticket": self._callers.ticket(principal), "seconds": SECONDS}, 201)

    async def _talk(self, socket: WebSocket) -> None:
        await Conversation(self._server, self._callers, socket).hold()

    async def _create(self, request: Request, principal: Principal) -> Response:
        asked = read_request(await self._callers.body(request), self._server.settings.limits)
        made = await self._push.create(asked, principal)
        return JSONResponse(made, 201, {"Location": f"/subscriptions/{made['id']}"})

    async def _list(self, request: Request, principal: Principal) -> Response:
        return JSONResponse(self._push.visible_to(principal))

    async def _get(self, request: Request, principal: Principal) -> Response:
        return JSONResponse(self._push.get(request.path_params["id"], principal))

    async def _replace(self, request: Request, principal: Principal) -> Response:
        asked = read_request(await self._callers.body(request), self._server.settings.limits)
        return JSONResponse(await self._push.replace(request.path_params["id"], asked, principal))

    async def _delete(self, request: Request, principal: Principal) -> Response:
        await self._push.delete(request.path_params["id"], principal)
        return Response(status_code=204)

    async def _dead_letters(self, request: Request, principal: Principal) -> Response:
        check_status(principal)
        after = read_last_id(request.query_params.get("after"))
        return JSONResponse(await self._letters.list(after))

    async def _delete_letter(self, request: Request, principal: Principal) -> Response:
        check_operator(principal, "let go of dead letters")
        await self._letters.delete(request.path_params["number"])
        return Response(status_code=204)

    async def _send_letter(self, request: Request, principal: Principal) -> Response:
        check_operator(principal, "send dead letters")
        await self._letters.send(request.path_params["number"])
        return Response(status_code=204)

    async def _status(self, request: Request, principal: Principal) -> Response:
        check_status(principal)
        return JSONResponse(self._server.status())

    async def _metrics(self, request: Request, principal: Principal) -> Response:
        check_status(principal)
        return PlainTextResponse(write_metrics(self._server.status()), media_type=CONTENT_TYPE)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        return JSONResponse({"ready": self._is_ready}, 200 if self._is_ready else 503)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(describe_api())


def _page(name: str, media: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("palio.network.gateway") / "pages" / name).read_bytes()

    async def page(request: Request) -> Response:
        return Response(content, media_type=media)

    return page


async def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of this program: the log says which, the caller only that there is one."""
    return respond(HttpProblem(500, "the broker failed to answer this; its log says why"))


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return respond(HttpProblem(error.status_code, error.detail, dict(error.headers or {})))
