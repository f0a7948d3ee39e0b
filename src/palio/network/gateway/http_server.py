"""HTTP server of the gateway: uvicorn in the broker's event loop, with timeouts and limits that uvicorn lacks.

A connection that has not sent a whole request head in time is closed, for the first request and every later one. The
client's certificate is passed on with each request. WebSocket compression is off: a small message could expand to a
large one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from math import ceil
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from palio.network.security.quotas import BrokerLimits
from palio.network.security.tls import CurrentTls
from palio.network.server.handshake import MAX_FIRST_FRAME_BYTES, MAX_REFUSED_CONNECTIONS, TlsHandshakes

_SHUTDOWN_SECONDS: Final = 1.0  # for open streams to end properly


def make_http_protocol(seconds: float, connections: int) -> type[H11Protocol]:
    """uvicorn's HTTP protocol with a limit of connections, and of seconds for each request head."""

    class TimedHttpProtocol(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # Aborted without an answer; below this number uvicorn answers 503 itself.
            if len(self.connections) > connections:
                transport.abort()
                return
            self.app_state = {**self.app_state, "certificate": transport.get_extra_info("peercert")}
            self._head_timer = self.loop.call_later(seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # h11 is idle at both ends between requests, and while the next head is incomplete.
            is_between_requests = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
            if not is_between_requests:
                self._cancel_timer()
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_timer()
            super().connection_lost(exc)

        def _cancel_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return TimedHttpProtocol


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket with short messages only, until `widen` in the state of its scope is called.

    An unauthenticated caller must not make the broker buffer a long message.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "widen": self._widen}, _loop)
        self._set_max_message(MAX_FIRST_FRAME_BYTES)

    def _widen(self) -> None:
        self._set_max_message(self.config.ws_max_size)

    def _set_max_message(self, size: int) -> None:
        # Before version 16, the package `websockets` had one attribute for the limits of a message and of its parts.
        name = "max_message_size" if hasattr(self.conn, "max_message_size") else "max_size"
        setattr(self.conn, name, min(size, self.config.ws_max_size))


class HttpServer(uvicorn.Server):
    """uvicorn in the broker's event loop: signals are the broker's, and so are TLS handshakes."""

    def __init__(self, config: uvicorn.Config, tls: CurrentTls | None, handshakes: TlsHandshakes) -> None:
        super().__init__(config)
        self._tls = tls
        self._handshakes = handshakes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None:
            await super().startup(sockets)
            return
        protocol: Any = self.config.http_protocol_class
        connection = partial(protocol, config=self.config, server_state=self.server_state, app_state={})
        count = partial(len, self.server_state.connections)
        self.servers = [self._handshakes.listen(each, self._tls, connection, count) for each in sockets or ()]  # type: ignore[misc]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def change_limits(self, limits: BrokerLimits) -> None:
        """Bound the connections and messages that come from now on."""
        self.config.ws_max_size = limits.frame_bytes
        self.config.limit_concurrency = limits.connections + 1

    async def end(self, serving: asyncio.Task[None]) -> None:
        """Stop serving; connections that do not end in time are aborted."""
        self.should_exit = True
        await asyncio.wait([serving], timeout=_SHUTDOWN_SECONDS)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.wait([serving])


def make_server(app: ASGIApp, limits: BrokerLimits, tls: CurrentTls | None, handshakes: TlsHandshakes) -> HttpServer:
    """A server for an application, within limits."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=make_http_protocol(limits.handshake_seconds, limits.connections + MAX_REFUSED_CONNECTIONS),
        ws=BoundedWebSocketProtocol,
        ws_max_size=limits.frame_bytes,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections + 1,  # uvicorn counts the connection of the request itself
        timeout_graceful_shutdown=10,
        timeout_keep_alive=min(5, ceil(limits.handshake_seconds)),
    )
    return HttpServer(config, tls, handshakes)
