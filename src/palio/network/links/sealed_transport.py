"""Sealed datagram links: transport, listener and dialler of datagrams under authenticated encryption.

The dialling end exchanges a key over TLS first, and a new one before the old expires; the link stays up meanwhile.
After a break it always exchanges a new key, since the other end may have restarted and know none. Datagrams that do not
authenticate are counted and never answered.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

from palio.errors import PalioError, Refused, WireError
from palio.network.addresses import Address
from palio.network.backoff import Backoff
from palio.network.links.key_exchange import (
    KEY_OVERLAP_SECONDS,
    UNKNOWN_KEY,
    IssuedKey,
    KeyRegistry,
    Seal,
    SharedKey,
    key_id_of,
)
from palio.network.links.tcp import MAX_BACKOFF_SECONDS, MIN_BACKOFF_SECONDS, connect_failure
from palio.network.links.udp import SocketAddress, UdpLink, greeting_node, widen_receive_buffer
from palio.network.security.authorization import Principal

ExchangeKey = Callable[[bytes], Awaitable[SharedKey]]  # given the id of the key to be replaced
_KEY_CHECK_SECONDS: Final = 0.5  # between two checks whether a key is to be replaced
log = logging.getLogger("palio.links")
KEY_USED_UP: Final = "key for datagrams used up"


class SealedTransport:
    """Sending side of one link: a socket behind the newest key that the other end surely has."""

    def __init__(self, link: UdpLink, socket: Any, seal: Seal, drops: Counter[str], now: Callable[[], float]) -> None:
        self.link = link
        self.seal = seal
        self._socket = socket
        self._drops = drops
        self._now = now

    @property
    def is_in_use(self) -> bool:
        """Whether the link still uses this transport, and not a later one."""
        return self.link.transport is self

    def sendto(self, data: bytes, place: SocketAddress | None) -> None:
        if self.seal.has_expired(self._now()):
            self._drops[KEY_USED_UP] += 1
        elif not self._socket.is_closing():
            self._socket.sendto(self.seal.seal(data), place)


class SealedListener(asyncio.DatagramProtocol):
    """Socket that other brokers dial; `on_dialled` returns the link of a neighbour, or None where it may have none."""

    def __init__(
        self,
        keys: KeyRegistry,
        on_dialled: Callable[[int, str, Principal], UdpLink | None],
        drops: Counter[str],
        now: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._on_dialled = on_dialled
        self._drops = drops
        self._now = now
        self._socket: Any = None

    def connection_made(self, transport: Any) -> None:
        widen_receive_buffer(transport)
        self._socket = transport

    def datagram_received(self, data: bytes, addr: SocketAddress) -> None:
        try:
            issued, content = self._keys.open(data)
        except WireError as error:
            self._drops[str(error)] += 1
            return
        if issued.transport is None or not issued.transport.is_in_use:
            self._open_link(issued, content, addr)
        if issued.transport is not None:
            issued.transport.link.on_datagram(content)

    def _open_link(self, issued: IssuedKey, content: bytes, addr: SocketAddress) -> None:
        """Open a link with the holder of this key; a datagram that is no greeting belongs to a link that has ended."""
        node = greeting_node(content)
        link = None if node is None else self._on_dialled(node, f"{addr[0]}:{addr[1]}", issued.principal)
        issued.transport = None
        if link is not None:
            issued.transport = SealedTransport(link, self._socket, issued.seal, self._drops, self._now)
            link.open(issued.transport, addr)


class SealedDialler(asyncio.DatagramProtocol):
    """Keeps one sealed link to a broker, with backoff between attempts."""

    def __init__(
        self, address: Address, link: UdpLink, exchange_key: ExchangeKey, drops: Counter[str], random: Random
    ) -> None:
        self._address = address
        self._link = link
        self._exchange_key = exchange_key
        self._drops = drops
        self._random = random
        self._seals: dict[bytes, Seal] = {}  # by key id: the newest, and its predecessor while that may be used
        self._socket: Any = None
        self._broken = asyncio.Event()
        self._was_up = False
        self._now = asyncio.get_running_loop().time
        self._task: asyncio.Task[None] | None = None
        link.on_broken = self._broken.set

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"link to {self._address}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._link.stop()
        if self._socket is not None:
            self._socket.close()

    # Callbacks of asyncio

    def connection_made(self, transport: Any) -> None:
        widen_receive_buffer(transport)
        self._socket = transport

    def datagram_received(self, data: bytes, addr: SocketAddress) -> None:
        try:
            seal = self._seals.get(key_id_of(data))
            if seal is None or seal.has_expired(self._now()):
                raise WireError(UNKNOWN_KEY)
            content = seal.open(data)
        except WireError as error:
            self._drops[str(error)] += 1
            return
        self._link.on_datagram(content)
        self._was_up = self._was_up or self._link.is_up

    def error_received(self, exc: Exception) -> None:
        self._link.on_unreachable("nothing listens there")

    async def _run(self) -> None:
        backoff = Backoff(MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, self._random.uniform)
        while True:
            self._was_up = False
            try:
                await self._renew_keys(await self._dial())
            except (OSError, ssl.SSLError, TimeoutError, PalioError) as error:
                self._link.close(connect_failure(error))
            # Reset only by a link that was up: a key exchange alone does not show that datagrams arrive.
            if self._was_up:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    async def _dial(self) -> SealedTransport:
        seal = Seal(await self._exchange_key(b""), dials=True, now=self._now())
        if self._socket is None:
            loop = asyncio.get_running_loop()
            remote = (self._address.host, self._address.port)
            await loop.create_datagram_endpoint(lambda: self, remote_addr=remote)
        self._seals = {seal.id: seal}
        transport = SealedTransport(self._link, self._socket, seal, self._drops, self._now)
        self._link.open(transport)
        return transport

    async def _renew_keys(self, transport: SealedTransport) -> None:
        """Replace the key before it expires, until the link breaks."""
        next_try = 0.0
        while True:
            self._broken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_KEY_CHECK_SECONDS):
                    await self._broken.wait()
            if not transport.is_in_use:
                return
            if transport.seal.has_expired(self._now()):
                raise Refused("its key has expired, and none could be exchanged to replace it")
            if transport.seal.is_renewal_due(self._now()) and self._now() >= next_try:
                next_try = self._now() + (0.0 if await self._replace_key(transport) else MAX_BACKOFF_SECONDS)

    async def _replace_key(self, transport: SealedTransport) -> bool:
        """Exchange a new key; whether that succeeded."""
        try:
            key = await self._exchange_key(transport.seal.id)
        except (OSError, ssl.SSLError, TimeoutError, PalioError) as error:
            log.warning("no new key", extra={"address": str(self._address), "reason": connect_failure(error)})
            return False
        old, new = transport.seal, Seal(key, dials=True, now=self._now())
        old.expire_by(self._now() + KEY_OVERLAP_SECONDS)
        self._seals = {old.id: old, new.id: new}  # the other end goes on with the old one until it sees the new
        transport.seal = new  # at once: the other end issued it, and so has it
        return True
