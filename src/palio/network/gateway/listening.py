"""Where do requests come in? uvicorn in the broker's own loop, with what it lacks: an end to slow greetings.

A connection that has not sent a whole head of a request in time is closed, the first and every later one. What a
client's certificate says is handed on with each request. WebSockets are not compressed: a small message could become
a large one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
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

from palio.network.greeting import FIRST_FRAME
from palio.network.security.handshakes import POLITELY, Handshakes
from palio.network.security.limits import Limits

_LAST_WORDS: Final = 1.0  # seconds in which open streams may still end as they should


def protocol_with(seconds: float, connections: int) -> type[H11Protocol]:
    """uvicorn's protocol, for so many connections that send each head of a request within so many seconds."""

    class Timely(H11Protocol):
        _head: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > connections:
                transport.abort()
                return
            self.app_state = {**self.app_state, "certificate": transport.get_extra_info("peercert")}
            self._head = self.loop.call_later(seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            is_between = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
            if not is_between:
                self._cancel()
            elif self._head is None:
                self._head = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def _cancel(self) -> None:
            if self._head is not None:
                self._head.cancel()
                self._head = None

    return Timely


class Wary(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, of which a message is short until `widen`, in the state of its scope, is called."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "widen": self._widen}, _loop)
        self._bound(FIRST_FRAME)

    def _widen(self) -> None:
        self._bound(self.config.ws_max_size)

    def _bound(self, most: int) -> None:
        # Before its version 16, the package `websockets` has one name for the bound of a message and of its parts.
        name = "max_message_size" if hasattr(self.conn, "max_message_size") else "max_size"
        setattr(self.conn, name, min(most, self.config.ws_max_size))


class Listener(uvicorn.Server):
    """uvicorn in a loop that is somebody else's, and whose signals are; so are handshakes of TLS."""

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None, handshakes: Handshakes) -> None:
        super().__init__(config)
        self._tls = tls
        self._handshakes = handshakes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None:
            await super().startup(sockets)
            return
        made: Any = self.config.http_protocol_class
        connection = partial(made, config=self.config, server_state=self.server_state, app_state={})
        there = partial(len, self.server_state.connections)
        self.servers = [self._handshakes.listen(each, self._tls, connection, there) for each in sockets or ()]  # type: ignore[misc]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def end(self, serving: asyncio.Task[None]) -> None:
        """Stop serving; those who do not take what is still to be said to them are cut off."""
        self.should_exit = True
        await asyncio.wait([serving], timeout=_LAST_WORDS)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.wait([serving])


def listener(app: ASGIApp, limits: Limits, tls: ssl.SSLContext | None, handshakes: Handshakes) -> Listener:
    """What serves an application, within limits."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=protocol_with(limits.handshake_seconds, limits.connections + POLITELY),
        ws=Wary,
        ws_max_size=limits.frame_bytes,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections + 1,  # it counts the one that is asking
        timeout_graceful_shutdown=10,
        timeout_keep_alive=min(5, ceil(limits.handshake_seconds)),
    )
    return Listener(config, tls, handshakes)
