"""Webhook delivery: an HTTP client for sinks, permission of the sink, and retries up to a dead letter.

A subscriber names the sink's URL, and the broker, which stands inside a private network, sends requests to it: the
setting of server-side request forgery. So the host name is resolved here, the address is checked, and that very address
is connected to; a second resolution could give another one. Redirects are not followed, no proxy of the environment is
used, and the size of an answer is bounded. A connection is kept between events, and closed when idle.

The rules are those of HTTP 1.1 Web Hooks for Event Delivery (CNCF). §4: before the first event, the sink is asked by
OPTIONS whether it takes events from this origin. §2.2: the status of an answer decides about the next attempt.

Events of one subscription are sent in order, each until it is taken. After the last attempt an event becomes a dead
letter with the reason, and the next one is sent: one bad event does not hold up the rest for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from random import Random
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import h11

from palio.errors import InvalidArgument, PalioError
from palio.network.gateway.cloudevents import write_cloudevent
from palio.network.gateway.settings import RetryPolicy
from palio.network.security.quotas import RateLimiter
from palio.network.server.delivery_queues import Delivered
from palio.network.server.session import Session
from palio.routing import codec

if TYPE_CHECKING:
    from palio.network.gateway.subscription_request import SubscriptionRequest

log = logging.getLogger("palio.push")
Network: TypeAlias = IPv4Network | IPv6Network
Outcome: TypeAlias = Literal["delivered", "retry", "rejected", "gone"]
_MAX_URL_LENGTH: Final = 2_048
_MAX_ANSWER_BYTES: Final = 64 * 1024
_MAX_RETRY_AFTER_SECONDS: Final = 3_600.0
_CONNECTION_IDLE_SECONDS: Final = 30.0
# What is not public, by IANA's registries of special-purpose addresses (RFC 6890, as of 2025-10). Python's `is_global`
# differs from one patch release to the next. All of IPv6 that is assigned to networks is in 2000::/3; what stands
# outside is local, or carries an IPv4 address to which a gateway would translate it, as 2002::/16 does within.
_PUBLIC_IPV6: Final = ip_network("2000::/3")
_SPECIAL_PURPOSE: Final = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
        ),
    )
)  # fmt: skip


class SinkRefused(PalioError):
    """A sink that gets no events: its address is not public, or it did not permit them."""


class SinkUnreachable(PalioError):
    """A sink that could not be reached, or did not answer in HTTP; a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The parsed URL that events are sent to."""

    is_secure: bool
    host: str
    port: int
    target: str

    @classmethod
    def parse(cls, url: str) -> Sink:
        """A sink from its URL; InvalidArgument says what is wrong with it."""
        if len(url) > _MAX_URL_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
            raise InvalidArgument(f"a sink is a URL of at most {_MAX_URL_LENGTH:,} characters of ASCII, without blanks")
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
class SinkReply:
    """The answer of a sink; header names are in lower case."""

    status: int
    headers: Mapping[str, str]


class AddressPolicy:
    """The addresses that events may be sent to: public ones, and those of networks that the broker's owner allows."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """`allowed` are networks such as `10.1.0.0/16`."""
        try:
            self._allowed: tuple[Network, ...] = tuple(ip_network(each) for each in allowed)
        except ValueError as error:
            raise InvalidArgument(f"a network that sinks may be in looks like 10.1.0.0/16: {error}") from None

    def permits(self, address: str) -> bool:
        ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
        # ::ffff:10.0.0.1 reaches 10.0.0.1, and is judged as that.
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        if any(ip in network for network in self._allowed):
            return True
        is_assigned = ip.version == 4 or ip in _PUBLIC_IPV6
        return is_assigned and not any(ip in each for each in _SPECIAL_PURPOSE)

    async def resolve(self, sink: Sink) -> str:
        """A permitted address of a sink; SinkRefused if it has none."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(sink.host, sink.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise SinkUnreachable(f"{sink.host} cannot be resolved: {error}") from None
        addresses = [str(each[4][0]) for each in found]
        for address in addresses:
            if self.permits(address):
                return address
        raise SinkRefused(f"{sink.host} is no public address; the broker's owner can allow its network")


class SinkConnection:
    """A keep-alive connection to one sink, opened when needed."""

    def __init__(self, sink: Sink, policy: AddressPolicy, *, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        """`seconds` bounds each request with its answer."""
        self._sink = sink
        self._policy = policy
        self._seconds = seconds
        self._context = (tls or ssl.create_default_context()) if sink.is_secure else None
        self._open: _OpenConnection | None = None

    async def send(self, method: str, headers: Mapping[str, str], body: bytes) -> SinkReply:
        """Send one request and read its answer; SinkRefused or SinkUnreachable if that fails."""
        sink = self._sink
        try:
            async with asyncio.timeout(self._seconds):
                return await self._send(method, headers, body)
        except TimeoutError:
            self.close()
            raise SinkUnreachable(f"{sink.authority} did not answer in {self._seconds:g} seconds") from None
        except (OSError, h11.ProtocolError, EOFError) as error:
            self.close()
            raise SinkUnreachable(f"{sink.authority} cannot be reached: {error}") from None
        except BaseException:
            # Cancelled in the middle of an exchange: a later request would get the answer to this one.
            self.close()
            raise

    async def _send(self, method: str, headers: Mapping[str, str], body: bytes) -> SinkReply:
        if self._open is not None:
            # The sink may have closed an idle connection just now: then it has not seen this request, and a new
            # connection sends it.
            with contextlib.suppress(OSError, h11.ProtocolError, EOFError):
                return await self._exchange(self._open, method, headers, body)
            self.close()
        address = await self._policy.resolve(self._sink)
        reader, writer = await asyncio.open_connection(
            address, self._sink.port, ssl=self._context, server_hostname=self._sink.host if self._context else None
        )
        self._open = _OpenConnection(reader, writer, h11.Connection(h11.CLIENT, _MAX_ANSWER_BYTES))
        return await self._exchange(self._open, method, headers, body)

    async def _exchange(
        self, opened: _OpenConnection, method: str, headers: Mapping[str, str], body: bytes
    ) -> SinkReply:
        own = {"Host": self._sink.authority, "User-Agent": "palio", "Content-Length": str(len(body))}
        request = h11.Request(method=method, target=self._sink.target, headers=list({**headers, **own}.items()))
        for part in (request, h11.Data(data=body), h11.EndOfMessage()):
            opened.writer.write(opened.state.send(part) or b"")
        await opened.writer.drain()
        reply, left = None, _MAX_ANSWER_BYTES
        while True:
            event = opened.state.next_event()
            if event is h11.NEED_DATA:
                opened.state.receive_data(await opened.reader.read(16 * 1024))
            elif isinstance(event, h11.Response):
                answered = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
                reply = SinkReply(event.status_code, answered)
            elif isinstance(event, h11.Data) and reply is not None:
                left -= len(event.data)
                if left < 0:  # the status is known; more of the body is of no use
                    self.close()
                    return reply
            elif isinstance(event, h11.EndOfMessage) and reply is not None:
                self._keep_alive(opened)
                return reply
            elif not isinstance(event, h11.InformationalResponse):
                raise EOFError("it closed the connection without an answer")

    def _keep_alive(self, opened: _OpenConnection) -> None:
        """Prepare the connection for the next request, unless the sink announced to close it."""
        if opened.state.our_state is h11.DONE and opened.state.their_state is h11.DONE:
            opened.state.start_next_cycle()
        else:
            self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.writer.close()


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    state: h11.Connection


async def send_once(
    sink: Sink,
    method: str,
    headers: Mapping[str, str],
    body: bytes,
    policy: AddressPolicy,
    *,
    seconds: float,
    tls: ssl.SSLContext | None = None,
) -> SinkReply:
    """Send one request over a connection of its own, and read the answer."""
    connection = SinkConnection(sink, policy, seconds=seconds, tls=tls)
    try:
        return await connection.send(method, {**headers, "Connection": "close"}, body)
    finally:
        connection.close()
        await asyncio.sleep(0)  # lets the transport close


def classify_reply(reply: SinkReply) -> Outcome:
    """The outcome of a delivery attempt, by the status of the answer."""
    status = reply.status
    if 200 <= status < 300:
        return "delivered"
    if status == 410:
        return "gone"
    if 300 <= status < 400 or status in (413, 414, 415):
        return "rejected"  # redirects are not followed, and an unreadable event stays unreadable
    return "retry"


def retry_after_seconds(reply: SinkReply) -> float:
    """The delay that a sink asks for before the next attempt; 0 without one, or with a date."""
    text = reply.headers.get("retry-after", "").strip()
    return min(float(text), _MAX_RETRY_AFTER_SECONDS) if text.isascii() and text.isdigit() else 0.0


async def request_permission(
    sink: Sink, origin: str, policy: AddressPolicy, seconds: float, tls: ssl.SSLContext | None
) -> float | None:
    """Ask a sink for its permission to send events; its rate limit in events per minute, or None.

    SinkRefused without a permission.
    """
    reply = await send_once(sink, "OPTIONS", {"WebHook-Request-Origin": origin}, b"", policy, seconds=seconds, tls=tls)
    allowed = reply.headers.get("webhook-allowed-origin", "")
    if not 200 <= reply.status < 300 or allowed.strip().lower() not in ("*", origin.lower()):
        raise SinkRefused(
            f"{sink.authority} did not agree to get events: asked by OPTIONS with WebHook-Request-Origin: {origin}, "
            f"it answered {reply.status} and WebHook-Allowed-Origin: {allowed[:80] or 'none'}"
        )
    rate = reply.headers.get("webhook-allowed-rate", "*").strip()
    return float(rate) if rate.isascii() and rate.isdigit() and int(rate) > 0 else None


class WebhookSender:
    """Delivers the events of one push subscription to its sink."""

    def __init__(
        self,
        session: Session,
        request: SubscriptionRequest,
        policy: AddressPolicy,
        retries: RetryPolicy,
        bury: Callable[[str, bytes], None],
        *,
        per_minute: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`bury` gets the reason and the data of an undeliverable event; `per_minute` is the sink's rate limit."""
        self._session = session
        self._sink = Sink.parse(request.sink)
        self._request = request
        self._connection = SinkConnection(self._sink, policy, seconds=retries.seconds, tls=tls)
        self._retries = retries
        self._bury = bury
        self._random = Random()
        self._now = asyncio.get_running_loop().time
        self._rate = (
            None if per_minute is None else RateLimiter(per_minute / 60, max(1.0, per_minute / 60), self._now())
        )

    async def run(self) -> PalioError | None:
        """Deliver until the session ends, or the sink is gone for good; the reason of the end."""
        try:
            while batch := await self._next_batch():
                for each in batch:
                    if await self._deliver(each) == "gone":
                        return SinkRefused(f"{self._sink.authority} is gone")
        finally:
            self._connection.close()
        return self._session.failure

    async def _next_batch(self) -> list[Delivered]:
        """The next events; an idle connection is closed meanwhile."""
        try:
            async with asyncio.timeout(_CONNECTION_IDLE_SECONDS):
                return await self._session.next_batch()
        except TimeoutError:
            self._connection.close()
            return await self._session.next_batch()

    async def _deliver(self, delivered: Delivered) -> Outcome:
        """Send one event until it is taken, or becomes a dead letter."""
        body = write_cloudevent(codec.decode_event(delivered.event.body)).encode()
        outcome: Outcome = "retry"
        reason, retry_after, attempt = "", 0.0, 0
        while outcome == "retry" and attempt < self._retries.attempts:
            if attempt:
                await asyncio.sleep(max(retry_after, self._retries.wait(attempt - 1, self._random.random)))
            outcome, reason, retry_after = await self._attempt(body)
            attempt += 1
        if outcome in ("retry", "rejected"):
            log.warning("not delivered", extra={"sink": self._sink.authority, "reason": reason})
            self._bury(f"{reason}, after {attempt} attempts", body)
        # Acknowledged last: a crash before this delivers the event again, and loses none.
        if delivered.number:
            self._session.ack(delivered.name, (delivered.number,))
        return outcome

    async def _attempt(self, body: bytes) -> tuple[Outcome, str, float]:
        """Send an event once: its outcome, the reason, and the delay that the sink asks for."""
        if self._rate is not None:
            while not self._rate.take(1, self._now()):
                await asyncio.sleep(self._rate.wait(1, self._now()))
        try:
            reply = await self._connection.send("POST", self._request.headers(), body)
        except (SinkRefused, SinkUnreachable) as error:
            return "retry", str(error), 0.0
        return classify_reply(reply), f"{self._sink.authority} answered {reply.status}", retry_after_seconds(reply)
