"""Who has connected? The first frame says so, in a time that is bounded: a client, or another broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from palio.errors import LimitReached, NotPermitted, PalioError, Refused, WireError
from palio.network import protocol
from palio.network.binary import BinaryClient, kind_of
from palio.network.channel import Channel
from palio.network.protocol import AskKey, ClientHello
from palio.network.security.principals import Principal
from palio.routing import codec
from palio.routing.codec import LONGEST_FRAME

if TYPE_CHECKING:
    from palio.network.server import Server

FIRST_FRAME: Final = 64 * 1024  # bytes that somebody unknown may make this end remember


class Greeter:
    """A connection before it is anybody's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._peer: Principal | None = None  # a broker that said who it is, and has not greeted as a link yet

    def opened(self, channel: Channel) -> None:
        reason = self._server.arrived(channel)
        if reason is not None:
            self._refuse(channel, LimitReached("connections", self._server.settings.limits.connections, reason))
            return
        self._timer = self._server.loop.call_later(self._server.settings.limits.handshake_seconds, self._late, channel)

    def _late(self, channel: Channel) -> None:
        self._refuse(channel, Refused("no greeting in time"))

    def _refuse(self, channel: Channel, error: PalioError) -> None:
        self._server.refusals.note(error, channel.peer)
        channel.close(kind_of(error), str(error))

    def received(self, channel: Channel, frames: list[bytes]) -> None:
        first, rest = frames[0], frames[1:]
        try:
            if first[1] == codec.HELLO:
                self._link(channel, frames)
                return
            hello = protocol.decode_greeting(first)
            if type(hello) is AskKey:
                self._give_key(channel, hello)
                return
            if hello.version != protocol.VERSION:
                raise WireError(f"version {hello.version} is spoken there and {protocol.VERSION} here")
            principal = self._server.authenticate(hello.token, channel)
            if type(hello) is ClientHello:
                self._client(channel, hello, principal, rest)
            elif self._peer is not None:
                raise WireError("a broker says once who it is")
            else:
                self._peer = principal
                if rest:
                    self.received(channel, rest)
        except PalioError as error:
            self._refuse(channel, error)

    def _client(self, channel: Channel, hello: ClientHello, principal: Principal, rest: list[bytes]) -> None:
        self._forget(channel)
        channel.limit_frames(self._server.settings.limits.frame_bytes)
        session = self._server.open_session(principal, hello.app, hello.publisher)
        client = BinaryClient(self._server, channel, hello, session)
        self._server.names[session] = channel.peer
        if rest:
            client.received(channel, rest)

    def _link(self, channel: Channel, frames: list[bytes]) -> None:
        principal = self._broker(channel)
        self._forget(channel)
        channel.limit_frames(LONGEST_FRAME)
        self._server.neighbours.accept(channel, frames, principal)

    def _give_key(self, channel: Channel, asked: AskKey) -> None:
        if channel.extra("ssl_object") is None:
            raise Refused("keys are given over TLS alone")
        given = self._server.neighbours.give_key(self._broker(channel), asked)
        channel.send(protocol.encode(given))
        channel.close("refused", "there is nothing more to say")

    def _broker(self, channel: Channel) -> Principal:
        principal = self._peer or self._server.authenticate("", channel)
        if principal.role not in ("broker", "admin"):
            raise NotPermitted(principal.name, "link a broker", "its role is not `broker`")
        return principal

    def writable(self, channel: Channel) -> None:
        pass

    def lost(self, channel: Channel, reason: str) -> None:
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        self._server.unknown.discard(channel)
        if self._timer is not None:
            self._timer.cancel()
