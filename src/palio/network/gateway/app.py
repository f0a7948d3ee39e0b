"""The HTTP gateway of a broker: its routes, with one handler each, and the sessions in which requests publish.

Handlers raise errors; two exception handlers turn them into problem documents (RFC 9457). A publisher has one session
for as long as it publishes now and then: opening one for every request would cost more than the event in it. Events are
deduplicated by principal, source and id, across sessions and restarts. A request is answered when all of its events are
confirmed, or at once with `Prefer: respond-async` (RFC 7240 §4.1).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from palio.errors import InvalidArgument, PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.gateway.authentication import TICKET_SECONDS, CallerAuthenticator, RequestGuard
from palio.network.gateway.cloudevents import read_events
from palio.network.gateway.event_streams import (
    WebSocketSession,
    peer_of,
    read_flag,
    read_instance,
    read_last_event_id,
    read_lease,
    server_sent_events,
)
from palio.network.gateway.http_server import HttpServer, make_server
from palio.network.gateway.metrics import CONTENT_TYPE, write_metrics
from palio.network.gateway.openapi import describe_api
from palio.network.gateway.problems import HttpProblem, problem_response
from palio.network.gateway.push_subscriptions import DeadLetters, PushSubscriptions
from palio.network.gateway.settings import HttpSettings
from palio.network.gateway.subscription_request import (
    check_subscription_name,
    read_condition_request,
    read_subscription_request,
)
from palio.network.security.authorization import Principal, check_operator, check_status, published_by
from palio.network.security.quotas import check_condition
from palio.network.security.tls import CurrentTls
from palio.network.server import durable_administration
from palio.network.server.delivery_queues import NOT_COMPLETE, GroupOptions, SubscribeOptions
from palio.network.server.durable_subscriptions import (
    acknowledge_one,
    acknowledge_through,
    check_home,
    durable_filter,
    end_durable,
    group_condition,
    is_subscribed,
    subscribe_durable,
    until_free,
)
from palio.network.server.handshake import listening_socket
from palio.network.server.pending_requests import OnAnswer, answer_future
from palio.routing import codec

if TYPE_CHECKING:
    from palio.network.server.process import Server
    from palio.network.server.session import Session

log = logging.getLogger("palio.http")
_PAGES: Final = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/static/page.js": ("page.js", "text/javascript"),
    "/static/docs.js": ("docs.js", "text/javascript"),
    "/static/palio.css": ("palio.css", "text/css"),
}
_SESSION_KINDS: Final = ("http", "sse", "websocket", "push")
_SESSION_IDLE_SECONDS: Final = 60.0
Handler = Callable[[Request, Principal], Awaitable[Response]]


class Gateway:
    """HTTP for one broker. `address` is where it listens, once started."""

    def __init__(
        self,
        server: Server,
        settings: HttpSettings,
        *,
        tls: CurrentTls | None = None,
        sink_tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` is for callers, `sink_tls` for sinks whose certificates the system does not know."""
        self.address = ("", 0)
        self._server = server
        self._settings = settings
        self._tls = tls
        self._callers = CallerAuthenticator(server)
        self._publishers = PublisherSessions(server)
        self._push = PushSubscriptions(server, settings, sink_tls)
        self._dead_letters = DeadLetters(server.host, server.store, self._push)
        self._http_server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._is_ready = False
        self.app = self._make_app()

    @property
    def url(self) -> str:
        """The URL at which it listens."""
        host, port = self.address
        return f"{'http' if self._tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        """Listen, and serve the stored push subscriptions."""
        try:
            family = socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET
            listener = listening_socket((self._settings.host, self._settings.port), family)
        except OSError as error:
            where = f"{self._settings.host}:{self._settings.port}"
            raise InvalidArgument(f"HTTP cannot listen on {where}: {error.strerror or error}") from None
        self.address = listener.getsockname()[:2]
        self._push.start()
        self._http_server = make_server(
            self.app, self._server.settings.limits, self._tls, self._server.acceptor, self._server.quotas
        )
        self._serving = asyncio.create_task(self._http_server.serve(sockets=[listener]))
        # uvicorn has no event for having started.
        while not self._http_server.started and not self._serving.done():
            await asyncio.sleep(0.005)
        self._is_ready = True
        log.info("http", extra={"address": self.url})

    async def reload(self, settings: HttpSettings, sink_tls: ssl.SSLContext) -> None:
        """Apply changed settings, but for the place at which it listens."""
        self._settings = settings
        await self._push.reload(settings, sink_tls)
        if self._http_server is not None:
            self._http_server.change_limits(self._server.settings.limits)

    async def stop(self) -> None:
        """End all sessions and stop listening."""
        self._is_ready = False
        await self._push.stop()
        for session in [each for each in self._server.sessions if each.app in _SESSION_KINDS]:
            session.end("the broker is stopping")
        if self._http_server is not None and self._serving is not None:
            await self._http_server.end(self._serving)

    def _make_app(self) -> Starlette:
        authenticated = self._authenticated
        routes = [
            Route("/events", authenticated(self._publish), methods=["POST"]),
            Route("/events", authenticated(self._stream_events), methods=["GET"]),
            Route("/durable/{name}/acknowledge", authenticated(self._acknowledge), methods=["POST"]),
            Route("/durable/{name}", authenticated(self._subscribe_durable), methods=["POST"]),
            Route("/durable/{name}", authenticated(self._end_durable), methods=["DELETE"]),
            Route("/tickets", authenticated(self._issue_ticket), methods=["POST"]),
            WebSocketRoute("/ws", self._websocket),
            Route("/subscriptions", authenticated(self._create_subscription), methods=["POST"]),
            Route("/subscriptions", authenticated(self._list_subscriptions), methods=["GET"]),
            Route("/subscriptions/{id}", authenticated(self._get_subscription), methods=["GET"]),
            Route("/subscriptions/{id}", authenticated(self._replace_subscription), methods=["PUT"]),
            Route("/subscriptions/{id}", authenticated(self._delete_subscription), methods=["DELETE"]),
            Route("/dead-letters", authenticated(self._list_letters), methods=["GET"]),
            Route("/dead-letters/{number}", authenticated(self._delete_letter), methods=["DELETE"]),
            Route("/dead-letters/{number}/send", authenticated(self._send_letter), methods=["POST"]),
            Route("/status", authenticated(self._status), methods=["GET"]),
            Route("/metrics", authenticated(self._metrics), methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            *(Route(path, _page(*page), methods=["GET"]) for path, page in _PAGES.items()),
        ]
        guard = Middleware(
            RequestGuard,
            origins=lambda: self._settings.origins,
            is_open=lambda: self._server.authenticator.is_open,
            pages=frozenset(_PAGES),
        )
        return Starlette(
            routes=routes,
            middleware=[guard],
            exception_handlers={
                HTTPException: _on_http_exception,
                PalioError: self._on_error,
                Exception: _on_unexpected_error,
            },
        )

    def _authenticated(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """A handler that gets the principal of the caller; others are refused."""

        async def handle(request: Request) -> Response:
            return await handler(request, self._callers.identify(request))

        return handle

    async def _on_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, PalioError)
        self._server.refusals.note(error, "unknown address" if request.client is None else request.client.host)
        return problem_response(error)

    async def _publish(self, request: Request, principal: Principal) -> Response:
        body = await self._callers.body(request)
        events = read_events(body, request.headers.items(), self._server.settings.limits)
        confirmed = "respond-async" not in request.headers.get("prefer", "")
        await self._publishers.publish(principal, events, confirmed=confirmed)
        return JSONResponse({"events": len(events), "confirmed": confirmed}, 200 if confirmed else 202)

    async def _stream_events(self, request: Request, principal: Principal) -> Response:
        durable = request.query_params.get("durable")
        last = read_last_event_id(request.headers.get("last-event-id"))
        # Subscribed before the response begins: a refusal is a status code, and an open stream misses no event.
        consumer = read_instance(request.query_params.get("consumer", ""))
        session = self._server.open_session(principal, "sse", instance=consumer, peer=peer_of(request))
        try:
            if durable is None:
                wanted = await self._wanted(request, principal)
                lease = read_lease(request.query_params.get("lease"))
                options = SubscribeOptions(completeness=read_flag("completeness", request.query_params))
                await session.subscribe("events", wanted if lease is None else wanted.valid_for(lease), options)
            else:
                await self._resume_durable(request, session, durable, last)
        except BaseException:
            self._server.close_session(session, "refused")
            raise

        async def body() -> Any:
            try:
                async for text in server_sent_events(session):
                    yield text
            finally:
                self._server.close_session(session, "stream closed")

        # The header keeps nginx from buffering the stream.
        return StreamingResponse(body(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _wanted(self, request: Request, principal: Principal) -> Filter:
        where = check_condition(request.query_params.get("where", "true"), self._server.settings.limits)
        return await self._server.read_condition(where, request.query_params.get("language", "sql"), principal)

    async def _resume_durable(self, request: Request, session: Session, name: str, last: int) -> None:
        """Read a durable subscription. Its condition stays: links and images of any page can cause a GET."""
        check_subscription_name(name)
        if {"where", "language"} & request.query_params.keys():
            raise InvalidArgument(f"the condition of a durable subscription is set by POST /durable/{name}")
        if "lease" in request.query_params:
            raise InvalidArgument("a durable subscription stands until it is ended; it has no lease")
        if read_flag("completeness", request.query_params):
            raise InvalidArgument(NOT_COMPLETE)
        await check_home(session, name)
        host = self._server.host
        if read_flag("group", request.query_params):
            # The last id acknowledges nothing here: other members hold events before it.
            condition = group_condition(host, session.principal, name)
            await subscribe_durable(session, name, condition, GroupOptions(request.query_params.get("key", "")))
            return
        wanted = durable_filter(host, session.principal, name)
        session.acknowledges_later = True  # by the last id of the next stream
        await until_free(host, session, name, is_continued=last > 0)
        await subscribe_durable(session, name, wanted)
        if last:  # the last id that a client has seen acknowledges all events up to it
            acknowledge_through(host, self._server.store, session.principal, name, last)

    async def _subscribe_durable(self, request: Request, principal: Principal) -> Response:
        name = check_subscription_name(request.path_params["name"])
        limits = self._server.settings.limits
        asked = read_condition_request(await self._callers.body(request), limits)
        settings = None if asked.limits is None else asked.limits.to_settings()
        wanted = await self._server.read_condition(check_condition(asked.where, limits), asked.language, principal)
        session = self._server.open_session(principal, "http", peer=peer_of(request))
        try:
            await check_home(session, name)
            # A request for what stands already disturbs no consumer.
            if not is_subscribed(self._server.host, principal, name, wanted, limits):
                await until_free(self._server.host, session, name)
                await subscribe_durable(session, name, wanted, settings=settings)
            elif settings is not None:
                limited, on_answer = answer_future()
                durable_administration.limit(self._server, principal, principal, name, settings, on_answer)
                await limited
        finally:
            self._server.close_session(session, "subscribed")
        granted = durable_filter(self._server.host, principal, name)
        return JSONResponse({"name": name, "where": str(granted)}, 201, {"Location": f"/events?durable={quote(name)}"})

    async def _acknowledge(self, request: Request, principal: Principal) -> Response:
        name = check_subscription_name(request.path_params["name"])
        last = read_last_event_id(request.query_params.get("through"))
        number = read_last_event_id(request.query_params.get("number"))
        await self._check_home(principal, name)
        if number:
            acknowledge_one(self._server.host, principal, name, number)
        else:
            acknowledge_through(self._server.host, self._server.store, principal, name, last)
        return Response(status_code=204)

    async def _end_durable(self, request: Request, principal: Principal) -> Response:
        name = check_subscription_name(request.path_params["name"])
        await self._check_home(principal, name)
        end_durable(self._server.host, principal, name, f"{name!r} was ended by {principal.name}")
        return Response(status_code=204)

    async def _check_home(self, principal: Principal, name: str) -> None:
        session = self._server.open_session(principal, "http")
        try:
            await check_home(session, name)
        finally:
            self._server.close_session(session, "checked")

    async def _issue_ticket(self, request: Request, principal: Principal) -> Response:
        return JSONResponse({"ticket": self._callers.ticket(principal), "seconds": TICKET_SECONDS}, 201)

    async def _websocket(self, socket: WebSocket) -> None:
        await WebSocketSession(self._server, self._callers, socket).run()

    async def _create_subscription(self, request: Request, principal: Principal) -> Response:
        asked = read_subscription_request(await self._callers.body(request), self._server.settings.limits)
        made = await self._push.create(asked, principal)
        return JSONResponse(made, 201, {"Location": f"/subscriptions/{made['id']}"})

    async def _list_subscriptions(self, request: Request, principal: Principal) -> Response:
        return JSONResponse(self._push.visible_to(principal))

    async def _get_subscription(self, request: Request, principal: Principal) -> Response:
        return JSONResponse(self._push.get(request.path_params["id"], principal))

    async def _replace_subscription(self, request: Request, principal: Principal) -> Response:
        asked = read_subscription_request(await self._callers.body(request), self._server.settings.limits)
        return JSONResponse(await self._push.replace(request.path_params["id"], asked, principal))

    async def _delete_subscription(self, request: Request, principal: Principal) -> Response:
        await self._push.delete(request.path_params["id"], principal)
        return Response(status_code=204)

    async def _list_letters(self, request: Request, principal: Principal) -> Response:
        check_status(principal)
        after = read_last_event_id(request.query_params.get("after"))
        return JSONResponse(await self._dead_letters.list(after))

    async def _delete_letter(self, request: Request, principal: Principal) -> Response:
        check_operator(principal, "delete dead letters")
        await self._dead_letters.delete(request.path_params["number"])
        return Response(status_code=204)

    async def _send_letter(self, request: Request, principal: Principal) -> Response:
        check_operator(principal, "send dead letters")
        await self._dead_letters.send(request.path_params["number"])
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
        is_full = not self._server.store.takes_events
        is_ready = self._is_ready and self._server.drain is None and not is_full
        reason = {"reason": "the disk takes no events"} if self._is_ready and is_full else {}
        return JSONResponse({"ready": is_ready, **reason}, 200 if is_ready else 503)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(describe_api())


def _page(name: str, media: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("palio.network.gateway") / "pages" / name).read_bytes()

    async def page(request: Request) -> Response:
        return Response(content, media_type=media)

    return page


async def _on_unexpected_error(request: Request, error: Exception) -> Response:
    """A fault of this program: only the log says which."""
    return problem_response(HttpProblem(500, "the broker failed to answer this; its log says why"))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem_response(HttpProblem(error.status_code, error.detail, dict(error.headers or {})))


class PublisherSession:
    """The session in which one principal publishes over HTTP."""

    def __init__(self, session: Session, window: int) -> None:
        self.session = session
        self.last_used = 0.0
        self.requests = 0  # under way
        self._window = window
        self._unconfirmed = 0
        self._lock = asyncio.Lock()
        self._progress = asyncio.Event()

    async def publish(self, events: Sequence[Event], *, confirmed: bool) -> None:
        """Publish events in order, all or none; the reason of a refusal is raised when all are answered."""
        bodies = [codec.encode_event(event) for event in events]
        if not confirmed:
            self.session.publications.submit_together(bodies)
            return
        async with self._lock:  # requests enter the window one by one, or small ones would starve a large one
            # A request that is larger than the window enters alone.
            while self._unconfirmed and self._unconfirmed + len(bodies) > self._window:
                self._progress.clear()
                await self._progress.wait()
            waiters = [answer_future() for _ in bodies]
            self.session.publications.submit_together(
                bodies, [partial(self._on_answer, answered) for _, answered in waiters]
            )
            self._unconfirmed += len(bodies)
        for outcome in await asyncio.gather(*(done for done, _ in waiters), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _on_answer(self, answered: OnAnswer, error: PalioError | None) -> None:
        self._unconfirmed -= 1
        self._progress.set()
        answered(error)


class PublisherSessions:
    """The publisher sessions by principal; idle ones are closed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._by_principal: dict[Principal, PublisherSession] = {}

    async def publish(self, principal: Principal, events: Sequence[Event], *, confirmed: bool) -> None:
        """Publish all events or none: grants are checked before any event is submitted."""
        permitted = [published_by(principal, event) for event in events]
        publisher = self._session_of(principal)
        publisher.requests += 1
        try:
            await publisher.publish(permitted, confirmed=confirmed)
        finally:
            publisher.requests -= 1
            publisher.last_used = self._now()

    def _session_of(self, principal: Principal) -> PublisherSession:
        self._close_idle()
        publisher = self._by_principal.get(principal)
        if publisher is None:
            session = self._server.open_session(principal, "http", publisher="http")
            publisher = self._by_principal[principal] = PublisherSession(session, self._server.settings.flow.window)
        publisher.last_used = self._now()
        return publisher

    def _close_idle(self) -> None:
        horizon = self._now() - _SESSION_IDLE_SECONDS
        for principal, publisher in list(self._by_principal.items()):
            is_idle = publisher.last_used < horizon and not publisher.requests
            if is_idle or publisher.session.failure is not None:
                del self._by_principal[principal]
                self._server.close_session(publisher.session, "idle")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
