"""How does what a broker wants written reach its store? What is of a connection only is not written at all.

A subscription that ends with its connection must not be found again after a crash: nobody would take its events. So
records of sessions are answered at once, as if they were written, and only the others go to the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from threading import get_ident
from time import monotonic
from typing import Final

from palio import errors
from palio.errors import PalioError
from palio.network.replaying import log_page
from palio.network.sparing import Sparing
from palio.network.store.interface import Acknowledged, Store, Writable
from palio.routing.clients import Refusal
from palio.routing.effects import (
    Client,
    NotPersisted,
    Persist,
    Persisted,
    Queued,
    QueueFree,
    QueueFull,
    Read,
    Record,
)
from palio.routing.messages import LogPage
from palio.routing.node import NodeInput

log = logging.getLogger("palio.disk")
PASSING: Final = "session "  # how the names of clients begin that are connections


class StoreDisk:
    """Writes to a store; the answer, None or why it is not written, comes in the thread of the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def write(self, entries: Sequence[Writable], answered: Callable[[PalioError | None], None]) -> None:
        lasting = [each for each in entries if not (type(each) is Record and each.client.startswith(PASSING))]
        if not lasting:
            answered(None)
            return

        def answer(error: PalioError | None) -> None:
            if get_ident() == self._thread:
                answered(error)
            else:
                self._loop.call_soon_threadsafe(answered, error)

        self._store.submit(lasting, answer)

    def read(self, read: Read, node: int) -> LogPage | None:
        """A piece of the log; None where it cannot be read. It takes a while."""
        try:
            return log_page(read, self._store.log, node)
        except PalioError:
            return None


class Writing:
    """What the effects of a broker write. `queued` hears which client has more in a queue of its own."""

    def __init__(
        self,
        disk: StoreDisk,
        give: Callable[[NodeInput], None],
        queued: Callable[[Client], None],
        drops: Counter[str],
    ) -> None:
        self._disk = disk
        self._give = give
        self._queued = queued
        self._drops = drops
        self._full: set[tuple[Client, str]] = set()  # durable queues that take no more
        self._unwritten = Sparing[type](monotonic)

    def persist(self, effect: Persist) -> None:
        """Write records, and tell the broker what became of them."""

        def answered(error: PalioError | None) -> None:
            if error is not None:
                self._failed(effect.token, error)
                return
            self._give(Persisted(effect.token))
            for record in effect.records:
                if type(record) is Queued:
                    self._queued(record.client)

        self._disk.write(effect.records, answered)

    def acknowledge(self, done: Acknowledged) -> None:
        """Events of a durable subscription are not kept any more; a queue that was full takes more then."""

        def answered(error: PalioError | None) -> None:
            key = (done.client, done.name)
            if error is None and key in self._full:
                self._full.discard(key)
                self._give(QueueFree(*key))

        self._disk.write([done], answered)

    def _failed(self, token: int, error: PalioError) -> None:
        count = self._unwritten.note(type(error))
        if count:
            log.error("not written", extra={"reason": str(error), "count": count})
        self._drops["not written"] += 1
        if isinstance(error, errors.QueueFull):
            self._full.add((error.client, error.name))
            self._give(QueueFull(error.client, error.name))
        self._give(NotPersisted(token, *_refusal(error)))


def _refusal(error: PalioError) -> tuple[str, Refusal]:
    """What clients are told; where this broker keeps its files is not for them."""
    match error:
        case errors.StoreFull():
            return error.reason, "full"
        case errors.StoreError():
            return error.reason, "broken"
    return str(error), "refused"
