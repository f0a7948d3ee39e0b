"""A link over datagrams that strangers could send too: each is sealed, and what is not by the other end is as if lost.

Whoever dials agrees on a key over TLS first, and on a new one before that is over; the link goes on meanwhile. Where it
broke, a new key is agreed on too: the other end may have been started again, and know none. Datagrams that prove
nothing are counted, and never answered.
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
from palio.network.links.connector import FIRST_PAUSE, LONGEST_PAUSE, why
from palio.network.links.keys import OVERLAP, UNKNOWN_KEY, Given, Keys
from palio.network.links.sealing import Sealing
from palio.network.links.udp import Place, UdpLink, node_of, widen
from palio.network.security.principals import Principal
from palio.network.security.sealing import Key, Seal, id_of

Agree = Callable[[bytes], Awaitable[Key]]  # on a key, in the place of the one with this id
_LOOK: Final = 0.5  # seconds between two looks at whether a key is still good
log = logging.getLogger("palio.links")


class SealedListening(asyncio.DatagramProtocol):
    """A socket that others dial. `dialled` makes or finds a neighbour's link, or None where it may have none."""

    def __init__(
        self,
        keys: Keys,
        dialled: Callable[[int, str, Principal], UdpLink | None],
        drops: Counter[str],
        now: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._dialled = dialled
        self._drops = drops
        self._now = now
        self._socket: Any = None

    def connection_made(self, transport: Any) -> None:
        widen(transport)
        self._socket = transport

    def datagram_received(self, data: bytes, addr: Place) -> None:
        try:
            given, content = self._keys.open(data)
        except WireError as error:
            self._drops[str(error)] += 1
            return
        if given.sealing is None or not given.sealing.is_in_use:
            self._greeted(given, content, addr)
        if given.sealing is not None:
            given.sealing.link.received(content)

    def _greeted(self, given: Given, content: bytes, addr: Place) -> None:
        """Begin a link with whoever has this key; what is no greeting is of a link that is over."""
        node = node_of(content)
        link = None if node is None else self._dialled(node, f"{addr[0]}:{addr[1]}", given.principal)
        given.sealing = None
        if link is not None:
            given.sealing = Sealing(link, self._socket, given.seal, self._drops, self._now)
            link.open(given.sealing, addr)


class SealedDialler(asyncio.DatagramProtocol):
    """Keeps one link to a broker that is dialled."""

    def __init__(self, address: Address, link: UdpLink, agree: Agree, drops: Counter[str], random: Random) -> None:
        self._address = address
        self._link = link
        self._agree = agree
        self._drops = drops
        self._random = random
        self._seals: dict[bytes, Seal] = {}  # of the newest key, and of the one before for as long as it may be used
        self._socket: Any = None
        self._stirred = asyncio.Event()
        self._was_up = False
        self._now = asyncio.get_running_loop().time
        self._task: asyncio.Task[None] | None = None
        link.broken = self._stirred.set

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"link to {self._address}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._link.stop()
        if self._socket is not None:
            self._socket.close()

    # What asyncio tells

    def connection_made(self, transport: Any) -> None:
        widen(transport)
        self._socket = transport

    def datagram_received(self, data: bytes, addr: Place) -> None:
        try:
            seal = self._seals.get(id_of(data))
            if seal is None or seal.is_over(self._now()):
                raise WireError(UNKNOWN_KEY)
            content = seal.open(data)
        except WireError as error:
            self._drops[str(error)] += 1
            return
        self._link.received(content)
        self._was_up = self._was_up or self._link.is_up

    def error_received(self, exc: Exception) -> None:
        self._link.unheard("nothing listens there")

    # Dialling, again and again

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._was_up = False
            try:
                await self._carry_on(await self._dial())
            except (OSError, ssl.SSLError, TimeoutError, PalioError) as error:
                self._link.close(why(error))
            pause = FIRST_PAUSE if self._was_up else pause
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _dial(self) -> Sealing:
        seal = Seal(await self._agree(b""), dials=True, now=self._now())
        if self._socket is None:
            loop = asyncio.get_running_loop()
            remote = (self._address.host, self._address.port)
            await loop.create_datagram_endpoint(lambda: self, remote_addr=remote)
        self._seals = {seal.id: seal}
        sealing = Sealing(self._link, self._socket, seal, self._drops, self._now)
        self._link.open(sealing)
        return sealing

    async def _carry_on(self, sealing: Sealing) -> None:
        """Keep the link with ever new keys, until it breaks."""
        next_try = 0.0
        while True:
            self._stirred.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._stirred.wait()
            if not sealing.is_in_use:
                return
            if sealing.seal.is_over(self._now()):
                raise Refused("its key is over, and there was no other")
            if sealing.seal.is_half_over(self._now()) and self._now() >= next_try:
                next_try = self._now() + (0.0 if await self._change_key(sealing) else LONGEST_PAUSE)

    async def _change_key(self, sealing: Sealing) -> bool:
        """Agree on a new key; whether that was to be had."""
        try:
            key = await self._agree(sealing.seal.id)
        except (OSError, ssl.SSLError, TimeoutError, PalioError) as error:
            log.warning("no new key", extra={"address": str(self._address), "reason": why(error)})
            return False
        old, new = sealing.seal, Seal(key, dials=True, now=self._now())
        old.end_by(self._now() + OVERLAP)
        self._seals = {old.id: old, new.id: new}
        sealing.seal = new
        return True
