"""May an event be sent there, and how? A small HTTP client that a stranger's URL cannot turn against its own network.

A subscriber names a sink, and the broker, which stands inside somebody's network, sends requests to it. So the name is
resolved here, the address that came out is judged, and that very address is connected to: nothing is resolved a second
time, when the answer could be another one. Redirects are not followed, no proxy of the environment is used, and of an
answer no more is read than a bound. A connection is kept from one event to the next, and closed after a while without.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import h11

from palio.errors import InvalidArgument, PalioError

Network: TypeAlias = IPv4Network | IPv6Network
_LONGEST_URL: Final = 2_048
_LONGEST_ANSWER: Final = 64 * 1024
# Addresses of IPv6 that carry one of IPv4, by a gateway that this machine knows nothing of (RFC 6052, 3056, 4380).
_CARRIERS: Final = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")))


class SinkRefused(PalioError):
    """A sink that is not sent to: its address is not public, or it did not agree to get events."""


class SinkUnreachable(PalioError):
    """A sink that could not be reached, or did not answer as HTTP does; it may later."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Where events are sent."""

    is_secure: bool
    host: str
    port: int
    target: str

    @classmethod
    def parse(cls, url: str) -> Sink:
        """A sink from its URL; InvalidArgument says what is wrong with it."""
        if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
            raise InvalidArgument(f"a sink is a URL of at most {_LONGEST_URL:,} characters of ASCII, without blanks")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidArgument(f"a sink is a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument("a sink is a URL that begins with https:// or http:// and names a host")
        if parts.username is not None or parts.password is not None:
            raise InvalidArgument("a sink's URL has no user and no password in it")
        is_secure = parts.scheme == "https"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(is_secure, parts.hostname, port or (443 if is_secure else 80), target)

    @property
    def authority(self) -> str:
        """The host and port, as the header Host has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a sink answered; headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]


class Reach:
    """Which addresses may be sent to: public ones, and those of networks that the broker's owner named."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """`allowed` are networks such as `10.1.0.0/16`; a sink there is as good as a public one."""
        try:
            self._allowed: tuple[Network, ...] = tuple(ip_network(each) for each in allowed)
        except ValueError as error:
            raise InvalidArgument(f"a network that sinks may be in looks like 10.1.0.0/16: {error}") from None

    def includes(self, address: str) -> bool:
        """Whether an address may be sent to."""
        ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        if any(ip in network for network in self._allowed):
            return True
        return ip.is_global and not ip.is_multicast and not any(ip in each for each in _CARRIERS)

    async def resolve(self, sink: Sink) -> str:
        """An address of a sink that may be sent to; SinkRefused where it has none."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(sink.host, sink.port, type=1)
        except (OSError, UnicodeError) as error:
            raise SinkUnreachable(f"{sink.host} cannot be resolved: {error}") from None
        addresses = [str(each[4][0]) for each in found]
        for address in addresses:
            if self.includes(address):
                return address
        raise SinkRefused(f"{sink.host} is no public address; the broker's owner can allow its network")


class Connection:
    """The way to one sink. What connects both is kept between requests, for as long as the sink likes."""

    def __init__(self, sink: Sink, reach: Reach, *, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        """`seconds` bounds each exchange."""
        self._sink = sink
        self._reach = reach
        self._seconds = seconds
        self._context = (tls or ssl.create_default_context()) if sink.is_secure else None
        self._open: _Open | None = None

    async def exchange(self, method: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send one request and read its answer, within a time; SinkRefused or SinkUnreachable where that fails."""
        sink = self._sink
        try:
            async with asyncio.timeout(self._seconds):
                return await self._exchange(method, headers, body)
        except TimeoutError:
            self.close()
            raise SinkUnreachable(f"{sink.authority} did not answer in {self._seconds:g} seconds") from None
        except (OSError, h11.ProtocolError, EOFError) as error:
            self.close()
            raise SinkUnreachable(f"{sink.authority} cannot be reached: {error}") from None
        except BaseException:
            self.close()
            raise

    async def _exchange(self, method: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if self._open is not None:
            # A sink may have closed what was kept just when it was used again: then it has seen nothing of this.
            with contextlib.suppress(OSError, h11.ProtocolError, EOFError):
                return await self._converse(self._open, method, headers, body)
            self.close()
        address = await self._reach.resolve(self._sink)
        reader, writer = await asyncio.open_connection(
            address, self._sink.port, ssl=self._context, server_hostname=self._sink.host if self._context else None
        )
        self._open = _Open(reader, writer, h11.Connection(h11.CLIENT, _LONGEST_ANSWER))
        return await self._converse(self._open, method, headers, body)

    async def _converse(self, over: _Open, method: str, headers: Mapping[str, str], body: bytes) -> Reply:
        own = {"Host": self._sink.authority, "User-Agent": "palio", "Content-Length": str(len(body))}
        request = h11.Request(method=method, target=self._sink.target, headers=list({**headers, **own}.items()))
        for part in (request, h11.Data(data=body), h11.EndOfMessage()):
            over.writer.write(over.state.send(part) or b"")
        await over.writer.drain()
        reply, left = None, _LONGEST_ANSWER
        while True:
            event = over.state.next_event()
            if event is h11.NEED_DATA:
                over.state.receive_data(await over.reader.read(16 * 1024))
            elif isinstance(event, h11.Response):
                answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
                reply = Reply(event.status_code, answered)
            elif isinstance(event, h11.Data) and reply is not None:
                left -= len(event.data)
                if left < 0:  # nobody needs to hear more than that
                    self.close()
                    return reply
            elif isinstance(event, h11.EndOfMessage) and reply is not None:
                self._keep(over)
                return reply
            elif not isinstance(event, h11.InformationalResponse):
                raise EOFError("it closed the connection without an answer")

    def _keep(self, over: _Open) -> None:
        """Use what connects both once more, if the sink has not said that it will close it."""
        if over.state.our_state is h11.DONE and over.state.their_state is h11.DONE:
            over.state.start_next_cycle()
        else:
            self.close()

    def close(self) -> None:
        """Keep nothing; the next request connects anew."""
        over, self._open = self._open, None
        if over is not None:
            over.writer.close()


@dataclass(frozen=True, slots=True)
class _Open:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    state: h11.Connection


async def exchange(
    sink: Sink,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    reach: Reach,
    *,
    seconds: float,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """Send one request to a sink that gets no other, and read its answer."""
    connection = Connection(sink, reach, seconds=seconds, tls=tls)
    try:
        return await connection.exchange(method, {**headers, "Connection": "close"}, body)
    finally:
        connection.close()
        await asyncio.sleep(0)  # which closes it
