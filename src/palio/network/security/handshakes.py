"""Who may begin to agree on TLS, and for how long? Who connects and says nothing must not cost a place for ever.

asyncio tells nobody of a connection before its handshake is done, so that those that never are could be any number.
Here connections are accepted by hand: each is counted from the first packet on, and ends where its handshake takes too
long. Those that fail are counted by what was the matter, of which there are few kinds whoever comes.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Final, Literal, TypeAlias

from palio.network.sparing import Sparing

log = logging.getLogger("palio.server")
POLITELY: Final = 64  # connections beyond the limit that are told so; all further ones are cut off
BACKLOG: Final = 4096
_ABSENT: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_PAUSE: Final = 0.2  # seconds until the next is accepted, where this process may open no more files
_PLAIN: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")  # what OpenSSL calls what is no TLS

Failed: TypeAlias = Literal["silent", "no TLS", "certificate", "closed", "other"]


class Handshakes:
    """The handshakes of all listeners of a broker. Each may take so many seconds."""

    def __init__(self, seconds: float, connections: int) -> None:
        self._seconds = seconds
        self._most = connections + POLITELY
        self._under_way: set[asyncio.Task[None]] = set()
        self._unaccepted = Sparing[int | None](monotonic)
        self.failures: Counter[Failed] = Counter()

    def __len__(self) -> int:
        return len(self._under_way)

    def listen(
        self, place: socket.socket, tls: ssl.SSLContext, made: Callable[[], asyncio.Protocol], there: Callable[[], int]
    ) -> TlsListener:
        """Accept connections; `made` makes the protocol of each, `there` says how many have come further than this."""
        place.setblocking(False)
        return TlsListener(place, asyncio.get_running_loop().create_task(self._accept(place, tls, made, there)))

    async def _accept(
        self, place: socket.socket, tls: ssl.SSLContext, made: Callable[[], asyncio.Protocol], there: Callable[[], int]
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(place)
            except OSError as error:
                count = self._unaccepted.note(error.errno)
                if count:
                    log.error("cannot accept", extra={"reason": error.strerror or str(error), "count": count})
                await asyncio.sleep(_PAUSE)
                continue
            if len(self) + there() >= self._most:
                connection.close()
                continue
            shaking = loop.create_task(self._shake(connection, tls, made))
            self._under_way.add(shaking)
            shaking.add_done_callback(self._under_way.discard)

    async def _shake(
        self, connection: socket.socket, tls: ssl.SSLContext, made: Callable[[], asyncio.Protocol]
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(made, connection, ssl=tls, ssl_handshake_timeout=self._seconds)
        except OSError as error:  # whoever does not agree goes
            self.failures[_failed(error)] += 1

    async def stop(self) -> None:
        """End those that are under way."""
        for each in self._under_way:
            each.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


def _failed(error: OSError) -> Failed:
    """What was the matter; a certificate may be one that we do not trust, that we were not shown, or our own."""
    if isinstance(error, ConnectionAbortedError):  # which asyncio raises where it was too long
        return "silent"
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return "closed"
    reason = error.reason or ""
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return "certificate"
    return "no TLS" if reason in _PLAIN else "other"


class TlsListener:
    """A place at which connections are accepted, until it is closed."""

    def __init__(self, place: socket.socket, accepting: asyncio.Task[None]) -> None:
        self._place = place
        self._accepting = accepting

    def close(self) -> None:
        self._accepting.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait([self._accepting])
        self._place.close()


def listening(address: tuple[str, int], family: int) -> socket.socket:
    """A socket that listens. What it accepts sends at once: asyncio asks for that only where it made the socket, and a
    small message would wait for the answer to the one before, which mostly has none."""
    place = socket.create_server(address, family=family, backlog=BACKLOG)
    place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return place


async def places(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen, one for each address that a host has; one that this machine does not have is left out where
    it has another, as `localhost` mostly means IPv6 too."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            made.append(listening((str(address[0]), int(address[1])), family))
        except OSError as error:
            failure = failure if error.errno in _ABSENT and failure is not None else error
    if failure is not None and (failure.errno not in _ABSENT or not made):
        for each in made:
            each.close()
        raise failure
    return made
