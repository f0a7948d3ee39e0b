"""Publisher of a client: single events and batches, the window of confirmed ones, and refusals that come late.

Modules of columns are imported by the first batch: a program that publishes single events should not wait for Arrow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from palio.errors import PalioError
from palio.events import Event
from palio.network import protocol
from palio.network.client.connection import Connection
from palio.network.client.rate_pacing import RatePacer, publish_paced
from palio.network.protocol import Publish, PublishColumns, Sync
from palio.routing import codec

if TYPE_CHECKING:
    from palio.events.batches import EventBatch

_CLOSE_SYNC_SECONDS: Final = 2.0  # for refusals of unconfirmed events that are still under way at the end
PublishedEvent: TypeAlias = Event | Mapping[str, Any] | str | bytes


class Publisher:
    """What one client publishes over its connection; `open` it when that is connected."""

    __slots__ = ("_connection", "_has_unconfirmed", "_pacer", "_refused", "_window", "_window_lock")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._window: asyncio.Semaphore | None = None
        self._window_lock = asyncio.Lock()  # of a batch that takes several places in the window
        self._pacer: RatePacer | None = None
        self._refused: PalioError | None = None
        self._has_unconfirmed = False  # events were published without confirmation; a refusal may be under way

    def open(self) -> None:
        """Take window and rate from the broker's welcome."""
        assert self._connection.welcome is not None
        self._window = asyncio.Semaphore(self._connection.window)
        self._pacer = RatePacer(self._connection.welcome)

    async def await_refusals(self) -> None:
        """Wait for a while until a refusal of an unconfirmed event has come, if there is one."""
        connection = self._connection
        if self._has_unconfirmed and connection.is_ready and connection.failure is None:
            with suppress(TimeoutError, PalioError):
                async with asyncio.timeout(_CLOSE_SYNC_SECONDS):
                    # Answered after everything sent before: a refusal has arrived by then.
                    await connection.request(Sync)

    def note_refused(self, error: PalioError) -> None:
        """Note the refusal of something that no call waits for: the next one raises it."""
        self._refused = error

    def raise_refused(self) -> None:
        """Raise the refusal of an unconfirmed event that no call has raised yet."""
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def publish(self, event: PublishedEvent, confirm: bool) -> None:
        body = codec.encode_event(Event.read(event))
        self._connection.check_event(len(body))
        if not confirm:
            frame = protocol.encode(Publish(0, body))
            self._has_unconfirmed = True
            if self._connection.is_writable:  # the common case, without a turn of the event loop
                self._connection.send_event(frame)
            else:
                await self._connection.send_event_when_writable(frame)
            if self._refused is not None:
                self.raise_refused()
            return
        assert self._window is not None
        await self._window.acquire()
        # The place in the window is free when the broker has answered, also if this call was cancelled meanwhile.
        await self._connection.request(lambda number: Publish(number, body), self._window.release)

    async def publish_all(
        self,
        events: Iterable[PublishedEvent] | AsyncIterable[PublishedEvent],
        confirm: bool,
        show: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Publish events in order, at the rate that the broker takes; returns their number."""
        assert self._pacer is not None
        publish = partial(self.publish, confirm=confirm)
        return await publish_paced(events, publish, self._pacer, self._connection.window if confirm else 0, show)

    async def publish_many(self, events: Any, confirm: bool, ids: Any, source: str | None) -> int:
        """Publish events in batches of columns; returns their number."""
        from palio.events.batches import BATCH_ROWS, batches_of

        assert self._pacer is not None
        most = min(BATCH_ROWS, self._connection.batch_events or BATCH_ROWS, self._pacer.burst)
        rows = int(min(most, self._connection.window) if confirm else most)
        published = 0
        for batch in batches_of(events, ids=ids, source=source, rows=rows):
            if isinstance(batch, list) or not self._connection.batch_events:
                await self.publish_all(batch if isinstance(batch, list) else batch.events(), confirm)
            else:
                await self._publish_batch(batch, confirm)
            published += len(batch)
        return published

    async def _publish_batch(self, batch: EventBatch, confirm: bool) -> None:
        from palio.events.batches import MAX_BATCH_EVENT_BYTES
        from palio.routing.columnar_codec import encode_batch

        body = encode_batch(batch)
        if len(body) > self._connection.longest_body or batch.event_bytes()[1] > MAX_BATCH_EVENT_BYTES:
            if len(batch) == 1:
                await self.publish_all(batch.events(), confirm)
                return
            half = len(batch) // 2
            await self._publish_batch(batch.slice(0, half), confirm)
            await self._publish_batch(batch.slice(half, len(batch) - half), confirm)
            return
        assert self._pacer is not None
        await self._pacer.wait(len(batch))
        if not confirm:
            self._has_unconfirmed = True
            await self._connection.send_event_when_writable(protocol.encode(PublishColumns(0, body)))
            self.raise_refused()
            return
        assert self._window is not None
        window = self._window
        async with self._window_lock:  # two batches that have half of their places each would wait for ever
            for _ in range(len(batch)):
                await window.acquire()

        def release() -> None:
            for _ in range(len(batch)):
                window.release()

        await self._connection.request(lambda number: PublishColumns(number, body), release)
