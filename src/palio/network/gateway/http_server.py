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

from palio.errors import LimitReached
from palio.network.security.quotas import BrokerLimits, Quotas
from palio.network.security.tls import CurrentTls
from palio.network.server.handshake import MAX_FIRST_FRAME_BYTES, MAX_REFUSED_CONNECTIONS, Acceptor

_SHUTDOWN_SECONDS: Final = 1.0  # for open streams to end properly
_MAX_FRAGMENTS: Final = 10_000  # of one WebSocket message: each is an object of its own


class BoundedConfig(uvicorn.Config):
    """Configuration of uvicorn, with the limits of connections beside it."""

    limits: BrokerLimits
    quotas: Quotas

    @property
    def most_connections(self) -> int:
        return self.limits.connections + MAX_REFUSED_CONNECTIONS


class _BoundedConnection(asyncio.Protocol):
    """Bounds of a connection over HTTP or WebSocket: connections of its address, and seconds without reading."""

    config: BoundedConfig
    transport: asyncio.Transport
    _quotas: Quotas | None = None
    _address: str | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def _take_address(self, transport: asyncio.Transport, quotas: Quotas) -> bool:
        """Count the connection for its address; whether there was room."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else "somewhere"
        try:
            quotas.take_address(address)
        except LimitReached:
            return False
        self._quotas, self._address = quotas, address
        return True

    def _release_address(self) -> None:
        if self._quotas is not None and self._address is not None:
            self._quotas.release_address(self._address)
            self._address = None

    def pause_writing(self) -> None:
        """Abort a connection whose other end takes nothing for too long: its stream would be kept for ever."""
        super().pause_writing()
        if self._write_timer is None:
            seconds = self.config.limits.request_seconds
            self._write_timer = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


class TimedHttpProtocol(_BoundedConnection, H11Protocol):
    """uvicorn's HTTP protocol with limits of connections, and of seconds for each request and for its answer."""

    config: BoundedConfig
    _head_timer: asyncio.TimerHandle | None = None
    _request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Aborted without an answer; below this number uvicorn answers 503 itself.
        if len(self.connections) > self.config.most_connections or not self._take_address(
            transport, self.config.quotas
        ):
            transport.abort()
            return
        self.app_state = {**self.app_state, "certificate": transport.get_extra_info("peercert")}
        self._head_timer = self.loop.call_later(self.config.limits.handshake_seconds, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # h11 is idle at both ends between requests, and while the next head is incomplete.
        is_between_requests = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
        if not is_between_requests:
            self._end_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.config.limits.handshake_seconds, self.transport.close)
        # A body that nobody reads, because its request is answered, must come to its end too.
        if self.conn.their_state is not h11.SEND_BODY:
            self._end_request_timer()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(self.config.limits.request_seconds, self.transport.abort)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._end_timers()
        self._release_address()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timers()
        self._release_address()
        super().connection_lost(exc)

    def _end_timers(self) -> None:
        self._end_head_timer()
        self._end_request_timer()
        self._stop_waiting()

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None


class BoundedWebSocketProtocol(_BoundedConnection, WebSocketsSansIOProtocol):
    """uvicorn's WebSocket with short messages only, until `widen` in the state of its scope is called.

    An unauthenticated caller must not make the broker buffer a long message. Messages come in few fragments, and a
    caller that pings without reading the answers is disconnected.
    """

    config: BoundedConfig

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
        # Before version 16, the package `websockets` had one attribute for both limits, of messages and of parts.
        name = "max_message_size" if hasattr(self.conn, "max_message_size") else "max_size"
        setattr(self.conn, name, min(size, self.config.ws_max_size))

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not self._take_address(transport, self.config.quotas):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_unread = self.transport.get_write_buffer_size() > 2 * self.config.limits.frame_bytes
        if is_unread or len(self.frames) > _MAX_FRAGMENTS:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._release_address()
        super().connection_lost(exc)


class HttpServer(uvicorn.Server):
    """uvicorn in the broker's event loop: signals are the broker's, and it accepts the connections."""

    config: BoundedConfig

    def __init__(self, config: uvicorn.Config, tls: CurrentTls | None, acceptor: Acceptor) -> None:
        super().__init__(config)
        self._tls = tls
        self._acceptor = acceptor

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        protocol: Any = self.config.http_protocol_class
        connection = partial(protocol, config=self.config, server_state=self.server_state, app_state={})
        count = partial(len, self.server_state.connections)
        self.servers = [self._acceptor.listen(each, self._tls, connection, count) for each in sockets or ()]  # type: ignore[misc]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def change_limits(self, limits: BrokerLimits) -> None:
        """Bound the connections and messages that come from now on."""
        self.config.limits = limits
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


def make_server(
    app: ASGIApp, limits: BrokerLimits, tls: CurrentTls | None, acceptor: Acceptor, quotas: Quotas
) -> HttpServer:
    """A server for an application, within limits."""
    config = BoundedConfig(
        app,
        loop="none",
        http=TimedHttpProtocol,
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
    config.limits, config.quotas = limits, quotas
    return HttpServer(config, tls, acceptor)
