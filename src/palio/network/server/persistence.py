"""Persistence of a broker's records, and queries of its event log.

`Persist` effects go to the store; the outcome comes back to the broker as an input, in the thread of the loop. Records
of sessions are confirmed without being written: a subscription that ends with its connection must not be recovered
after a crash, because no client would take its events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from threading import get_ident
from time import monotonic
from typing import Final

from palio import errors
from palio.errors import ExpiredOffset, PalioError, StoreError
from palio.filters.filter import Filter
from palio.network.error_codes import refusal_of
from palio.network.logging_setup import LogThrottle
from palio.network.protocol import LogAnswer, LoggedEvent, LogQuery
from palio.network.security.authorization import Principal, effective_filter
from palio.network.store.interface import Acknowledged, Log, LogEntry, Store, Writable
from palio.routing import codec
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
from palio.routing.messages import LogPage, PastEvent
from palio.routing.node import NodeInput

log = logging.getLogger("palio.disk")
SESSION_CLIENT_PREFIX: Final = "session "  # of the names of clients that exist as long as their connection
_MAX_QUERY_EVENTS: Final = 10_000  # that one query looks at
_MAX_PAGE_BYTES: Final = 1024 * 1024
_SCAN_EVENTS: Final = 500  # that are read from the store together


class Persistence:
    """Writes the records of a broker to its store, and reads pages of its event log.

    `enqueue` takes the outcome of each write, `on_queue_written` the client whose durable queue has a new event.
    """

    def __init__(
        self,
        store: Store,
        node: int,
        enqueue: Callable[[NodeInput], None],
        on_queue_written: Callable[[Client], None],
        drops: Counter[str],
    ) -> None:
        self._store = store
        self._node = node
        self._enqueue = enqueue
        self._on_queue_written = on_queue_written
        self._drops = drops
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._full: set[tuple[Client, str]] = set()  # durable queues that take no more
        self._failures = LogThrottle[type](monotonic)

    def persist(self, effect: Persist) -> None:
        """Write records; the broker gets `Persisted`, or `NotPersisted` with the reason."""

        def on_written(error: PalioError | None) -> None:
            if error is not None:
                self._on_failed(effect.token, error)
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
            key = (done.client, done.name)
            if error is None and key in self._full:
                self._full.discard(key)
                self._enqueue(QueueFree(*key))

        self._submit([done], on_written)

    def read_log(self, read: Read) -> LogPage | None:
        """A page of the event log, None where it cannot be read. Slow: called in a thread of its own."""
        try:
            return read_log_page(read, self._store.log, self._node)
        except PalioError:
            return None

    def _submit(self, entries: Sequence[Writable], on_written: Callable[[PalioError | None], None]) -> None:
        def answer(error: PalioError | None) -> None:
            # A store on disk answers in its writer thread, one in memory before `submit` returns.
            if get_ident() == self._thread:
                on_written(error)
            else:
                self._loop.call_soon_threadsafe(on_written, error)

        self._store.submit(entries, answer)

    def _on_failed(self, token: int, error: PalioError) -> None:
        count = self._failures.note(type(error))
        if count:
            log.error("not written", extra={"reason": str(error), "count": count})
        self._drops["not written"] += 1
        if isinstance(error, errors.QueueFull):
            self._full.add((error.client, error.name))
            self._enqueue(QueueFull(error.client, error.name))
        # The message of a store error names the directory of the store, which clients need not know.
        reason = error.reason if isinstance(error, StoreError) else str(error)
        self._enqueue(NotPersisted(token, reason, refusal_of(error)))


def _is_of_session(entry: Writable) -> bool:
    return type(entry) is Record and entry.client.startswith(SESSION_CLIENT_PREFIX)


def read_log_page(read: Read, log: Log, node: int) -> LogPage:
    """The matching events of a log from an offset or a time on, as one broker sends them to another."""
    oldest, end = log.bounds()
    start = log.find(read.since) if read.place is None else read.place
    if start < oldest:
        return LogPage(node, oldest, start, start, end, 0.0)
    next, until, found = _scan(log, start, min(end, start + read.limit), read.wanted)
    events = tuple(
        PastEvent(each.offset, each.time, each.event.kept.identity if each.event.kept else b"", each.event.body)
        for each in found
    )
    return LogPage(node, oldest, start, next, end, until, events)


def answer_log_query(query: LogQuery, log: Log, node: int, principal: Principal) -> LogAnswer:
    """The events of a log that a client asks for and may receive; an expired offset is answered by the oldest one."""
    wanted = effective_filter(query.wanted, principal)
    oldest, after = log.bounds()
    start = log.find(query.time) if query.time is not None else query.start or oldest
    stop = min(after, start + min(max(0, query.limit), _MAX_QUERY_EVENTS))
    try:
        next, _, found = _scan(log, start, stop, wanted)
    except ExpiredOffset as expired:
        return LogAnswer(query.request, node, expired.oldest, after, start, ())
    events = tuple(LoggedEvent(each.offset, each.time, each.event.body) for each in found)
    return LogAnswer(query.request, node, oldest, after, next, events)


def _scan(log: Log, offset: int, stop: int, wanted: Filter) -> tuple[int, float, list[LogEntry]]:
    """The matching entries between two offsets, up to the size of one page: next offset, time of the last, entries."""
    found: list[LogEntry] = []
    size, until = 0, inf
    while offset < stop and size < _MAX_PAGE_BYTES:
        for entry in log.read(offset, min(_SCAN_EVENTS, stop - offset)):
            offset, until = entry.offset + 1, entry.time
            if wanted.matches_attributes(codec.decode_event(entry.event.body).attributes):
                found.append(entry)
                size += len(entry.event.body)
                if size >= _MAX_PAGE_BYTES:
                    break
    return offset, until, found
