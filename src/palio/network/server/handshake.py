"""Handshakes of new connections: TLS first, then the greeting frame that makes a connection a client or a link.

Both are bounded in time and number, so that a peer that connects and stays silent does not keep a listener.
Connections are accepted here and not by a server of asyncio, for two reasons. It reports a connection only after its
TLS handshake, so that unfinished ones could be any number; here each counts from its first packet on and ends when its
handshake takes too long. And before Python 3.13 it drops a connection that it accepted in the turn of the loop in which
it is closed, open and without a word. Failures are counted by kind; there are few kinds whatever peers send.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from palio.errors import LimitReached, PalioError, Refused, WireError
from palio.network import protocol
from palio.network.channel import Channel
from palio.network.error_codes import code_of
from palio.network.log_throttle import LogThrottle
from palio.network.protocol import PEER_HELLO, AskKey, ClientHello
from palio.network.security.authorization import Principal
from palio.network.security.tls import CurrentTls
from palio.network.server.client_connection import ClientConnection
from palio.routing import codec
from palio.routing.codec import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from palio.network.server.process import Server


log = logging.getLogger("palio.server")
MAX_REFUSED_CONNECTIONS: Final = 64  # beyond the limit, that are answered with the reason; others are just closed
LISTEN_BACKLOG: Final = 4096
MAX_FIRST_FRAME_BYTES: Final = 64 * 1024  # that an unauthenticated peer can make this end buffer
_ADDRESS_ABSENT: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_MAX_ACCEPTED_AT_ONCE: Final = 64  # in one turn of the loop
_ACCEPT_RETRY_SECONDS: Final = 0.2  # after accepting failed, as where this process may open no more files
# Reasons that OpenSSL gives for a peer that does not speak TLS.
_NOT_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")

HandshakeFailure: TypeAlias = Literal["silent", "no TLS", "certificate", "closed", "other"]


class Acceptor:
    """Accepts the connections of all listeners of a broker; their TLS handshakes are bounded in time."""

    def __init__(self, seconds: float, connections: int) -> None:
        self._seconds = seconds
        self._max_connections = connections + MAX_REFUSED_CONNECTIONS
        self._under_way: set[asyncio.Task[None]] = set()
        self._accept_errors = LogThrottle[int | None](monotonic)
        self.failures: Counter[HandshakeFailure] = Counter()

    def __len__(self) -> int:
        """Connections whose handshake is under way."""
        return len(self._under_way)

    def change_limits(self, seconds: float, connections: int) -> None:
        """Bound the handshakes that begin from now on."""
        self._seconds = seconds
        self._max_connections = connections + MAX_REFUSED_CONNECTIONS

    def listen(
        self,
        listening: socket.socket,
        tls: CurrentTls | None,
        make_protocol: Callable[[], asyncio.Protocol],
        count_connected: Callable[[], int],
    ) -> Listener:
        """Accept connections, without TLS where `tls` is None.

        `count_connected` is the number of open connections beyond those whose handshake is under way.
        """

        def take(connection: socket.socket) -> None:
            if len(self) + count_connected() >= self._max_connections:
                connection.close()
                return
            handshake = asyncio.get_running_loop().create_task(self._handshake(connection, tls, make_protocol))
            self._under_way.add(handshake)
            handshake.add_done_callback(partial(self._end_handshake, connection))

        return Listener(listening, take, self._log_failure)

    def _log_failure(self, error: OSError) -> None:
        count = self._accept_errors.note(error.errno)
        if count:
            log.error("cannot accept", extra={"reason": error.strerror or str(error), "count": count})

    async def _handshake(
        self, connection: socket.socket, tls: CurrentTls | None, make_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        connect = asyncio.get_running_loop().connect_accepted_socket
        try:
            if tls is None:
                await connect(make_protocol, connection)
            else:
                await connect(make_protocol, connection, ssl=tls.context, ssl_handshake_timeout=self._seconds)
        except OSError as error:
            self.failures[_failure_kind(error)] += 1
            if tls is None:  # of a TLS connection there is a transport, which closes it
                connection.close()

    def _end_handshake(self, connection: socket.socket, handshake: asyncio.Task[None]) -> None:
        self._under_way.discard(handshake)
        if handshake.cancelled():  # perhaps before it began, when no transport would close the connection
            connection.close()

    async def stop(self) -> None:
        """Cancel the handshakes under way."""
        for each in self._under_way:
            each.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


def _failure_kind(error: OSError) -> HandshakeFailure:
    """The kind of a failure; `certificate` is one that was not trusted or not shown, at either end."""
    if isinstance(error, ConnectionAbortedError):  # asyncio's error for a handshake that took too long
        return "silent"
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return "closed"
    reason = error.reason or ""
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return "certificate"
    return "no TLS" if reason in _NOT_TLS_REASONS else "other"


class Listener:
    """A socket at which connections are accepted, until it is closed.

    It watches the socket itself: `sock_accept` of asyncio loses a connection that arrives with its cancellation.
    """

    def __init__(
        self,
        listening: socket.socket,
        take: Callable[[socket.socket], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._take = take
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._watch()

    def _watch(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTED_AT_ONCE):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._on_failure(error)
                self._loop.remove_reader(self._socket)  # it would be readable at once
                self._pause = self._loop.call_later(_ACCEPT_RETRY_SECONDS, self._watch)
                return
            connection.setblocking(False)
            self._take(connection)

    def close(self) -> None:
        """Accept no more; connections that nobody has accepted yet are closed by the system."""
        if self._pause is not None:
            self._pause.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    async def wait_closed(self) -> None:
        """As of a server of asyncio: uvicorn takes this for one. It is closed at once."""


def listening_socket(address: tuple[str, int], family: int) -> socket.socket:
    """A listening socket whose connections send without delay."""
    listening = socket.create_server(address, family=family, backlog=LISTEN_BACKLOG)
    # asyncio sets this only on sockets that it makes itself. Without it a small message waits for the acknowledgement
    # of the one before (Nagle's algorithm).
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of a host name.

    Addresses that this machine lacks are left out where it has another: `localhost` mostly means IPv6 too.
    """
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(addresses):
        try:
            sockets.append(listening_socket((str(address[0]), int(address[1])), family))
        except OSError as error:
            # An address that this machine lacks hides no other failure, such as one that is in use.
            failure = failure if error.errno in _ADDRESS_ABSENT and failure is not None else error
    if failure is not None and (failure.errno not in _ADDRESS_ABSENT or not sockets):
        for each in sockets:
            each.close()
        raise failure
    return sockets


class Handshake:
    """Receiver of a new channel until its first frame: the greeting of a client, of a broker, or a key request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._peer: Principal | None = None  # a broker that authenticated itself and has not opened its link yet

    def on_open(self, channel: Channel) -> None:
        try:
            self._server.admit_connection(channel)
        except (LimitReached, Refused) as error:
            self._refuse(channel, error)
            return
        seconds = self._server.settings.limits.handshake_seconds
        self._timer = self._server.loop.call_later(seconds, self._on_timeout, channel)

    def _on_timeout(self, channel: Channel) -> None:
        self._refuse(channel, Refused("no greeting in time"))

    def _refuse(self, channel: Channel, error: PalioError) -> None:
        self._server.refusals.note(error, channel.peer)
        channel.close(code_of(error), str(error))

    def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
        first, rest = frames[0], frames[1:]
        try:
            if first[1] == codec.HELLO:
                self._become_link(channel, frames)
                return
            if first[1] == PEER_HELLO:
                self._server.accept_peer(channel, frames)
                self._end(channel)
                return
            hello = protocol.decode_greeting(first)
            if type(hello) is AskKey:
                self._issue_key(channel, hello)
                return
            if hello.version != protocol.VERSION:
                raise WireError(f"version {hello.version} is spoken there and {protocol.VERSION} here")
            principal = self._server.authenticate(hello.token, channel)
            if type(hello) is ClientHello:
                self._become_client(channel, hello, principal, rest)
            elif self._peer is not None:
                raise WireError("a second greeting of a broker")
            else:
                # The greeting of its link session, or a key request, is the next frame; it may have come with this one.
                self._peer = principal
                if rest:
                    self.on_frames(channel, rest)
        except PalioError as error:
            self._refuse(channel, error)

    def _become_client(self, channel: Channel, hello: ClientHello, principal: Principal, rest: list[bytes]) -> None:
        self._end(channel)
        channel.limit_frames(self._server.settings.limits.frame_bytes)
        session = self._server.open_session(principal, hello.app, hello.publisher, hello.instance, channel.peer)
        client = ClientConnection(self._server, channel, session, hello.columns)
        if rest:
            client.on_frames(channel, rest)

    def _become_link(self, channel: Channel, frames: list[bytes]) -> None:
        principal = self._check_broker(channel)
        self._end(channel)
        channel.limit_frames(MAX_FRAME_BYTES)
        self._server.neighbours.accept(channel, frames, principal)

    def _issue_key(self, channel: Channel, asked: AskKey) -> None:
        if channel.extra("ssl_object") is None:
            raise Refused("keys are issued over TLS only; connect with palio+tls://")
        given = self._server.neighbours.give_key(self._check_broker(channel), asked)
        channel.send(protocol.encode(given))
        # A connection that asks for a key carries nothing else; the link itself goes over datagrams.
        channel.close("refused", "the key is issued; this connection has no other use")

    def _check_broker(self, channel: Channel) -> Principal:
        """The principal at the other end; `NotPermitted` where it may not link a broker."""
        return self._server.check_broker(self._peer or self._server.authenticate("", channel))

    def on_writable(self, channel: Channel) -> None:
        pass

    def on_lost(self, channel: Channel, reason: str) -> None:
        self._end(channel)

    def _end(self, channel: Channel) -> None:
        self._server.unauthenticated.discard(channel)
        if self._timer is not None:
            self._timer.cancel()
