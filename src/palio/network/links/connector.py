"""How is a link to a neighbour kept? It is dialled, and dialled again whenever it breaks, ever more patiently.

The pauses grow from a tenth of a second to ten, each drawn around its mean: many brokers that lost one neighbour
should not all come back at the same moment. A neighbour that greeted as it should makes the next pause short again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

from palio.network.addresses import Address
from palio.network.channel import Channel
from palio.network.links.tcp import TcpLink

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
_REFUSAL: Final = 0.2  # seconds in which a neighbour that greeted says that it wants no link
PATIENCE: Final = 10.0  # seconds in which a connection must be made
log = logging.getLogger("palio.links")


class Connector:
    """Keeps one link."""

    def __init__(
        self,
        address: Address,
        link: TcpLink,
        heartbeat: float,
        tls: Callable[[], ssl.SSLContext],
        random: Random,
    ) -> None:
        self.address = address
        self.link = link
        self.reason = "not yet connected"  # why there is no connection, where there is none
        self._heartbeat = heartbeat
        self._tls = tls
        self._random = random
        self._broken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"link to {self.address}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def broke(self, reason: str) -> None:
        """The connection is over."""
        self.reason = reason
        self._broken.set()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._broken.clear()
            try:
                await self._dial()
            except (OSError, ssl.SSLError, TimeoutError) as error:
                self._say(why(error))
            else:
                await self._until_greeted()
                if self.link.is_up and not await self._breaks_within(_REFUSAL):
                    pause = FIRST_PAUSE
                    self.reason = ""
                    log.info("linked", extra={"address": str(self.address), "neighbour": self.link.neighbour})
                    await self._broken.wait()
                self._say(self.reason)
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        context = self._tls() if self.address.is_secure else None
        async with asyncio.timeout(PATIENCE):
            await loop.create_connection(self._channel, self.address.host, self.address.port, ssl=context)

    def _channel(self) -> Channel:
        return Channel(self.link, self._heartbeat, turn=self.link.host)

    async def _breaks_within(self, seconds: float) -> bool:
        """Whether the neighbour refuses this broker once both have greeted, as one of another network does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._broken.wait()
        return self._broken.is_set()

    async def _until_greeted(self) -> None:
        """Until the neighbour said who it is, or the connection broke."""
        while not self.link.is_up and not self._broken.is_set():
            # Not `wait_for`: with Python 3.11 it forgets that it was cancelled where what it waits for comes just then.
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await self._broken.wait()

    def _say(self, reason: str) -> None:
        if reason != self._said:
            log.warning("no link", extra={"address": str(self.address), "reason": reason})
        self._said = self.reason = reason

    _said = ""


def why(error: BaseException) -> str:
    """Why there is no connection, for people."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, TimeoutError):
        return f"no answer within {PATIENCE:g} seconds"
    return str(error) or type(error).__name__
