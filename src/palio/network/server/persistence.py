"""Persistence of a broker: records go to the store, outcomes come back as inputs.

A full disk or a broken store ends no connection: the broker gets `NotPersisted` with the reason, and refuses the
publishers that wait for a confirmation. A durable queue without room is reported as `QueueFull`, and as `QueueFree`
when acknowledgements have made room; until then kept events wait at the broker that accepted them.

Records of sessions are confirmed without being written: a subscription that ends with its connection must not be
recovered after a crash, because no client would take its events.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Final

from palio import errors
from palio.errors import PalioError, StoreError
from palio.network.error_codes import refusal_of
from palio.network.log_throttle import LogThrottle
from palio.network.store.interface import (
    Acknowledged,
    ConsumerLost,
    DeadLetterAdded,
    DeadLettersRemoved,
    DeliveriesFailed,
    Store,
    Writable,
)
from palio.routing.effects import Client, NotPersisted, Persist, Persisted, Queued, QueueFree, QueueFull, Record
from palio.routing.node import NodeInput

log = logging.getLogger("palio.disk")
SESSION_CLIENT_PREFIX: Final = "session "  # of the names of clients that exist as long as their connection


class Persistence:
    """The store of one broker. Outcomes are handed over in the thread of the event loop."""

    def __init__(
        self,
        store: Store,
        enqueue: Callable[[NodeInput], None],
        on_queue_written: Callable[[Client], None],
        drops: Counter[str],
    ) -> None:
        self._store = store
        self._enqueue = enqueue
        self._on_queue_written = on_queue_written
        self._drops = drops
        self._full_queues: set[tuple[Client, str]] = set()  # durable queues that take no more
        self._write_failures = LogThrottle[type](time.monotonic)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()

    def persist(self, effect: Persist) -> None:
        """Write records; the broker gets `Persisted`, or `NotPersisted` with the reason."""

        def on_written(error: PalioError | None) -> None:
            if error is not None:
                self._on_not_written(effect.token, error)
                return
            self._enqueue(Persisted(effect.token))
            for record in effect.records:
                if type(record) is Queued:
                    self._on_queue_written(record.client)

        durable = [each for each in effect.records if not _is_of_session(each)]
        if durable:
            self._submit(durable, on_written)
        else:
            on_written(None)

    def acknowledge(self, done: Acknowledged) -> None:
        """Remove acknowledged events from a durable queue; one that was full takes more then."""

        def on_written(error: PalioError | None) -> None:
            if error is None:
                self._note_room(done.client, done.name)

        self._submit([done], on_written)

    def _note_room(self, client: Client, name: str) -> None:
        if (client, name) in self._full_queues and self._store.is_half_empty(client, name):
            self._full_queues.discard((client, name))
            self._enqueue(QueueFree(client, name))

    def fail_deliveries(self, failed: DeliveriesFailed | ConsumerLost, on_answered: Callable[[], None]) -> None:
        """Count failed deliveries; `on_answered` is called although that may fail: the events are delivered again."""

        def on_written(error: PalioError | None) -> None:
            if error is not None:
                self._drops["failed delivery not counted"] += 1
            else:
                self._note_room(failed.client, failed.name)  # an event may have left the queue for the dead letters
            on_answered()

        self._submit([failed], on_written)

    def bury(self, letter: DeadLetterAdded) -> None:
        """Keep a message that could not be read; the store drops the oldest where there are too many."""

        def on_written(error: PalioError | None) -> None:
            if error is not None:
                self._drops["dead letter not written"] += 1

        self._submit([letter], on_written)

    def queue_again(
        self, queued: Queued, removed: DeadLettersRemoved, on_answer: Callable[[PalioError | None], None]
    ) -> None:
        """Put the event of a dead letter back into its durable queue, all in one write."""

        def on_written(error: PalioError | None) -> None:
            if error is None:
                self._on_queue_written(queued.client)
            on_answer(error)

        self._submit([queued, removed], on_written)

    def _submit(self, entries: Sequence[Writable], on_written: Callable[[PalioError | None], None]) -> None:
        def answer(error: PalioError | None) -> None:
            # A store on disk answers in its writer thread, one in memory before `submit` returns.
            if get_ident() == self._loop_thread:
                on_written(error)
            else:
                self._loop.call_soon_threadsafe(on_written, error)

        self._store.submit(entries, answer)

    def _on_not_written(self, token: int, error: PalioError) -> None:
        count = self._write_failures.note(type(error))
        if isinstance(error, errors.QueueFull):
            # No failure: a confirmed event waits for room, and others are counted as dropped where they are.
            if count:
                log.warning("a durable queue is full", extra={"reason": str(error), "count": count})
            self._full_queues.add((error.client, error.name))
            self._enqueue(QueueFull(error.client, error.name))
        else:
            if count:
                log.error("not written", extra={"reason": str(error), "count": count})
            self._drops["not written"] += 1
        # The message of a store error names the directory of the store, which clients need not know.
        reason = error.reason if isinstance(error, StoreError) else str(error)
        self._enqueue(NotPersisted(token, reason, refusal_of(error)))


def _is_of_session(entry: Writable) -> bool:
    return type(entry) is Record and entry.client.startswith(SESSION_CLIENT_PREFIX)
