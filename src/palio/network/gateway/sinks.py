"""May an event be sent there, and how? A small HTTP client that a stranger's URL cannot turn against its own network.

A subscriber names a sink, and the broker, which stands inside somebody's network, sends requests to it. So the name is
resolved here, the address that came out is judged, and that very address is connected to: nothing is resolved a second
time, when the answer could be another one. Redirects are not followed, no proxy of the environment is used, and no more
of an answer is read than is needed. One connection carries one event: sinks are many and slow, events for each are few.
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
    """Send one request to a sink and read the head of its answer, within a time."""
    context = (tls or ssl.create_default_context()) if sink.is_secure else None
    try:
        async with asyncio.timeout(seconds):
            address = await reach.resolve(sink)
            reader, writer = await asyncio.open_connection(
                address, sink.port, ssl=context, server_hostname=sink.host if context else None
            )
            try:
                return await _converse(reader, writer, sink, method, headers, body)
            finally:
                writer.close()
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await writer.wait_closed()
    except TimeoutError:
        raise SinkUnreachable(f"{sink.authority} did not answer in {seconds:g} seconds") from None
    except (OSError, h11.ProtocolError, EOFError) as error:
        raise SinkUnreachable(f"{sink.authority} cannot be reached: {error}") from None


async def _converse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    sink: Sink,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
) -> Reply:
    connection = h11.Connection(h11.CLIENT, _LONGEST_ANSWER)
    own = {"Host": sink.authority, "User-Agent": "palio", "Connection": "close", "Content-Length": str(len(body))}
    request = h11.Request(method=method, target=sink.target, headers=list({**headers, **own}.items()))
    for part in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(part) or b"")
    await writer.drain()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(16 * 1024))
        elif isinstance(event, h11.Response):
            answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
            return Reply(event.status_code, answered)
        elif not isinstance(event, h11.InformationalResponse):
            raise EOFError("it closed the connection without an answer")
