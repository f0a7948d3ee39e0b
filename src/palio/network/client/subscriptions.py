"""Many conditions, one stream: each event comes once, with the names of all subscriptions that want it.

For a program that holds thousands of conditions: it needs no task for each of them, and an event that a hundred of them
want is sent, read and handed over once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final

from palio.errors import InvalidArgument, PalioError
from palio.filters.filter import Filter
from palio.network import protocol
from palio.network.client.stream import Stream, check_options
from palio.network.protocol import Overflow, Subscribe, Unsubscribe
from palio.routing.clients import Confirm

if TYPE_CHECKING:
    from palio.network.client.broker import Broker


_LASTING: Final = "each of many conditions stands until it is removed; one that is valid for a while stands alone"


class Subscriptions(Stream):
    """Events that match any of several conditions; `event.subscriptions` names those. Enter it, then iterate."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        wanted: Mapping[str, Filter],
        confirm: Confirm,
        queue: int,
        overflow: Overflow | None,
    ) -> None:
        for each in (name, *wanted):
            check_options(each, confirm, queue, overflow)
        if any(each.validity is not None for each in wanted.values()):
            raise InvalidArgument(_LASTING)
        super().__init__(broker, name)
        self._wanted = dict(wanted)
        self._confirm: Confirm = confirm
        self._queue = queue
        self._overflow = overflow
        self._asked: set[str] = set()  # those that the broker has, or will have when it has read all
        self._standing: set[str] = set()  # those that it has confirmed

    @property
    def names(self) -> list[str]:
        return list(self._wanted)

    async def __aenter__(self) -> Subscriptions:
        self._was_entered = self._is_entered = True
        try:
            for name in (self.name, *self._wanted):
                self._streams.add(name, self)
            answers = await asyncio.gather(*map(self._ask, self._wanted), return_exceptions=True)
        except BaseException:
            self._leave()
            raise
        for answer in answers:
            if isinstance(answer, BaseException):
                self._leave()
                raise answer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._is_entered = False
        for name in (self.name, *self._wanted):
            self._forget(name)
        self._wake()

    async def add(self, name: str, where: str | Filter, *, language: str = "sql") -> None:
        """Ask for what matches one more condition."""
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language)
        check_options(name, self._confirm, self._queue, self._overflow)
        if wanted.validity is not None:
            raise InvalidArgument(_LASTING)
        self._streams.add(name, self)
        self._wanted[name] = wanted
        try:
            await self._ask(name)
        except BaseException:
            await self.remove(name)
            raise

    async def remove(self, name: str) -> None:
        """Ask no more for what matches a condition."""
        self._forget(name)
        del self._wanted[name]

    async def _ask(self, name: str) -> None:
        try:
            self._stands(name, await self._connection.ask(partial(self._request, name)))
        except PalioError:
            self._asked.discard(name)
            raise

    def _request(self, name: str, number: int) -> Subscribe:
        self._streams.number(number, self, name)
        self._asked.add(name)
        return Subscribe(
            number,
            name,
            self._wanted[name],
            confirm=self._confirm,
            credit=self._room,
            queue=self._queue,
            overflow=self._overflow or "",
            group=self.name,
        )

    def _forget(self, name: str) -> None:
        if self._streams.get(name) is not self:
            return
        self._streams.forget(name)
        if name in self._asked and self._connection.is_ready and self._connection.failure is None:
            self._connection.say(protocol.encode(Unsubscribe(0, name)))
        self._asked.discard(name)
        self._standing.discard(name)

    def ended(self, name: str, error: PalioError) -> None:
        self._asked.discard(name)  # there is nothing to take back
        self._leave()
        self.fail(error)

    def resubscribe(self) -> None:
        """Ask again over a new connection; what is under way is sent again without this."""
        self._taken = 0
        standing, self._standing = self._standing, set()
        for name in standing:
            self._connection.post(partial(self._request, name), self.fail, partial(self._stands, name))

    def _stands(self, name: str, answer: None) -> None:
        if name in self._asked:
            self._standing.add(name)
