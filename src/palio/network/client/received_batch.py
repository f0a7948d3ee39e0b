"""Batches of events at a subscriber: as they wait in a stream, and as a program receives them.

Columns stay columns until a program asks for events. Modules of columns are imported by the first batch: a program that
receives single events should not wait for Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from palio.errors import EventError, WireError
from palio.events import Event
from palio.network.protocol import MatchedColumns
from palio.routing.codec import Stamp, stamps_in

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.events.batches import EventBatch
    from palio.network.client.event_stream import EventStream, ReceivedEvent


class WaitingBatch(NamedTuple):
    """Events as columns, with the subscriptions of each row, or of all rows where these are the same."""

    batch: EventBatch
    subscriptions: tuple[str, ...] | list[tuple[str, ...]]
    stamps: bytes

    def events(self) -> list[tuple[Event, tuple[str, ...], bytes, int, int]]:
        """The events as they wait one by one."""
        names = self.subscriptions
        several = names if isinstance(names, list) else [names] * len(self.batch)
        return [(event, each, self.stamps, 0, 1) for event, each in zip(self.batch.events(), several, strict=True)]


class ReceivedBatch:
    """Some received events, in order. `len` is their number, and iterating gives each as an event.

    `to_arrow()` has their attributes as columns, `ids` and `subscriptions` what belongs to each row.
    """

    __slots__ = ("_events", "_waiting")

    def __init__(self, waiting: WaitingBatch | None, events: Sequence[ReceivedEvent]) -> None:
        """Of columns, or of events."""
        self._waiting = waiting
        self._events = events

    def __len__(self) -> int:
        return len(self._events) if self._waiting is None else len(self._waiting.batch)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events if self._waiting is None else self._waiting.batch.events())

    def __repr__(self) -> str:
        return f"<ReceivedBatch of {len(self):,} events>"

    @property
    def ids(self) -> list[str]:
        """The ids of the events."""
        if self._waiting is None:
            return [event.id for event in self._events]
        ids: list[str] = self._waiting.batch.ids.to_pylist()
        return ids

    @property
    def sources(self) -> list[str | None]:
        """The sources of the events."""
        if self._waiting is None:
            return [event.source for event in self._events]
        sources = self._waiting.batch.sources
        return [None] * len(self) if sources is None else sources.to_pylist()

    @property
    def subscriptions(self) -> list[tuple[str, ...]]:
        """For each event the names of the subscriptions that it matched in its stream."""
        if self._waiting is None:
            return [event.subscriptions for event in self._events]
        names = self._waiting.subscriptions
        return names if isinstance(names, list) else [names] * len(self)

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """The links that the first event passed, as `event.stamps` of single events."""
        return stamps_in(self._waiting.stamps) if self._waiting is not None else self._events[0].stamps

    def to_arrow(self) -> pa.RecordBatch:
        """The attributes of all events as columns named by their paths; one that an event lacks is null there."""
        if self._waiting is not None:
            return self._waiting.batch.columns
        from palio.events.batches import batch_of_events

        columns = batch_of_events(self._events) if self._has_equal_names() else None
        return _columns_of(self._events) if columns is None else columns.columns

    def _has_equal_names(self) -> bool:
        names = self._events[0].attributes.keys()
        return all(event.attributes.keys() == names for event in self._events)

    async def ack(self) -> None:
        """Acknowledge all events: a durable subscription will not deliver them again."""
        for event in self._events:
            await event.ack()


def _columns_of(events: Sequence[Event]) -> pa.RecordBatch:
    import pyarrow as pa

    names = dict.fromkeys(name for event in events for name in event.attributes)
    columns = {name: [event.get(name) for event in events] for name in names}
    arrays = []
    for name, values in columns.items():
        try:
            arrays.append(pa.array(values))
        except (pa.ArrowException, OverflowError) as error:
            reason = f"values of one column are of several kinds ({error}); iterate over the events instead"
            raise EventError(reason, name) from None
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def waiting_batches(
    groups: Sequence[tuple[Sequence[tuple[EventStream, tuple[str, ...]]], bytes]], message: MatchedColumns
) -> Iterator[tuple[EventStream, WaitingBatch]]:
    """The rows of a batch for each stream, by the groups of streams and their rows."""
    from palio.routing.columnar_codec import decode_batch

    batch = decode_batch(message.body)
    if len(groups) == 1 and not groups[0][1]:
        for stream, names in groups[0][0]:
            yield stream, WaitingBatch(batch, names, message.stamps)
        return
    by_stream: dict[EventStream, dict[int, tuple[str, ...]]] = {}
    for targets, encoded in groups:
        rows = _rows_of(encoded, len(batch))
        for stream, names in targets:
            by_stream.setdefault(stream, {}).update(dict.fromkeys(rows, names))
    for stream, names_of in by_stream.items():
        yield stream, _chosen(batch, names_of, message.stamps)


def _chosen(batch: EventBatch, names_of: Mapping[int, tuple[str, ...]], stamps: bytes) -> WaitingBatch:
    import numpy as np

    rows = sorted(names_of)
    chosen = batch if len(rows) == len(batch) else batch.take(np.array(rows, np.int64))
    return WaitingBatch(chosen, [names_of[row] for row in rows], stamps)


def _rows_of(encoded: bytes, count: int) -> list[int]:
    import numpy as np

    if len(encoded) % 4:
        raise WireError("rows of a batch are numbers of four bytes")
    rows: Any = np.frombuffer(encoded, "<u4")
    if len(rows) and int(rows.max()) >= count:
        raise WireError(f"a row {int(rows.max()):,} of a batch of {count:,}")
    listed: list[int] = rows.tolist()
    return listed
