"""Delivery of a batch of events to the clients of a broker: shared bytes, and one or few frames for each client.

A client that takes batches gets its rows in one frame: as columns where they are many, and otherwise as the bodies of
single events, which cost less than the columns' own overhead. A body is made once for all clients, and so are the
columns of equal rows; a client that gets all rows gets the bytes that the publisher sent.

For a client that takes no batches, or whose queues have to wait, the rows are events as if they had come one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Raw

from palio.events.batches import Rows
from palio.network import protocol
from palio.network.protocol import MatchedColumns, MatchedMany
from palio.routing.columnar_codec import bodies_of, encode_batch
from palio.routing.effects import DeliverColumns
from palio.routing.event_batches import BatchArrival
from palio.routing.messages import LOCAL, Publish, PublishColumns
from palio.routing.upkeep.timeliness import Age

if TYPE_CHECKING:
    from palio.network.server.delivery_queues import ClientDelivery

_MIN_COLUMN_ROWS: Final = 64  # for one client, below which bodies cost less than columns
Groups: TypeAlias = Sequence[tuple[tuple[str, ...], Rows]]
EncodedGroups: TypeAlias = Sequence[tuple[Raw, Rows]]
SendBatch: TypeAlias = "Callable[[EncodedGroups, SharedBatch], bool]"


class SharedBatch:
    """A batch that is delivered to several clients, and what they share of it."""

    __slots__ = ("_arrival", "_bodies", "_columns", "_effect")

    def __init__(self, effect: DeliverColumns) -> None:
        self._effect = effect
        self._arrival = BatchArrival(LOCAL, effect.message, effect.batch)
        self._bodies: dict[int, bytes] | None = None  # by row
        self._columns: dict[bytes, bytes] = {}  # encoded, by the rows they are of

    @property
    def columns(self) -> pa.RecordBatch:
        return self._effect.batch.columns

    @property
    def message(self) -> PublishColumns:
        """The envelope of all events."""
        return self._effect.message

    def event(self, row: int) -> Publish:
        """The event of a row."""
        return self._arrival.event(row, self.body(row))

    def body(self, row: int) -> bytes:
        """The encoded body of a row."""
        if self._bodies is None:
            self._bodies = self._encode_wanted()
        body = self._bodies.get(row)
        if body is None:
            [body] = bodies_of(self._effect.batch.slice(row, 1))
            self._bodies[row] = body
        return body

    def _encode_wanted(self) -> dict[int, bytes]:
        """The bodies of all rows that any client with few rows gets: made together they cost a tenth."""
        few = [
            rows
            for _, groups in self._effect.clients
            if sum(len(each) for _, each in groups) < _MIN_COLUMN_ROWS
            for _, rows in groups
        ]
        wanted = np.unique(np.concatenate(few)) if few else np.arange(len(self._effect.batch))
        bodies = bodies_of(self._effect.batch.take(wanted))
        return dict(zip(wanted.tolist(), bodies, strict=True))

    def frames(self, groups: EncodedGroups, age: Age) -> Iterator[bytes]:
        """The messages that bring one client its rows, in their order; `age` is that of all of them."""
        stamps = self._effect.message.stamps
        count = sum(len(rows) for _, rows in groups)
        if count >= _MIN_COLUMN_ROWS:
            if len(groups) == 1:
                [(numbers, rows)] = groups
                yield protocol.encode(MatchedColumns(((numbers, b""),), self._encoded(rows), stamps, *age))
                return
            union = np.sort(np.concatenate([rows for _, rows in groups]))
            placed = tuple((numbers, np.searchsorted(union, rows).astype("<u4").tobytes()) for numbers, rows in groups)
            yield protocol.encode(MatchedColumns(placed, self._encoded(union), stamps, *age))
            return
        body = self.body
        for numbers, several in _runs(groups):
            yield protocol.encode(MatchedMany(numbers, tuple(map(body, several)), stamps, *age))

    def _encoded(self, rows: Rows) -> bytes:
        if len(rows) == len(self._effect.batch):
            return self._effect.message.body
        key = rows.tobytes()
        encoded = self._columns.get(key)
        if encoded is None:
            encoded = self._columns[key] = encode_batch(self._effect.batch.take(rows))
        return encoded


def _runs(groups: EncodedGroups) -> Iterator[tuple[Raw, Sequence[int]]]:
    """Consecutive rows of one group."""
    if len(groups) == 1:
        [(numbers, rows)] = groups
        yield numbers, rows.tolist()
        return
    for place, several in groupby(in_order([rows for _, rows in groups]), key=lambda each: each[1]):
        yield groups[place][0], [row for row, _ in several]


def in_order(rows: Sequence[Rows]) -> Iterator[tuple[int, int]]:
    """All rows of several groups, ascending, each with the number of its group."""
    return merge(*([(row, place) for row in each.tolist()] for place, each in enumerate(rows)))


def permitted_rows(groups: Groups, admitted: npt.NDArray[np.bool_]) -> Groups:
    """The rows of groups that a grant admits; groups without any are left out."""
    chosen = [(names, rows[admitted[rows]]) for names, rows in groups]
    return [(names, rows) for names, rows in chosen if len(rows)]


def offer_batch(delivery: ClientDelivery, groups: Groups, batch: SharedBatch) -> None:
    """Send rows of a batch to a client, or queue their events where one of its queues must wait."""
    delivery.end_run()
    if delivery.send_batch is not None and _bypass(delivery, delivery.send_batch, groups, batch):
        return
    for row, place in in_order([rows for _, rows in groups]):
        delivery.offer(groups[place][0], batch.event(row))


def _bypass(delivery: ClientDelivery, send: SendBatch, groups: Groups, batch: SharedBatch) -> bool:
    """Send rows at once, unless one of their subscriptions has to wait. The last rows may exceed its credit."""
    plans = [delivery.plan(names) for names, _ in groups]
    if any(queue.must_wait for plan in plans for queue in plan.queues):
        return False
    encoded = [
        (plan.encoded_numbers, rows)
        for plan, (_, rows) in zip(plans, groups, strict=True)
        if plan.encoded_numbers is not None  # None where all of the subscriptions have ended
    ]
    if encoded and not send(encoded, batch):
        return False
    for plan, (_, rows) in zip(plans, groups, strict=True):
        for queue in plan.queues:
            queue.count_direct(len(rows))
    return True
