"""What runs where subscriptions and events meet: a bucket's subscriptions come first, then its events, batch by batch.

An event and a subscription may be together in several buckets. Both know in which buckets they are, so each bucket can
tell by itself whether they met in an earlier one; only the first of their common buckets says that they match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.spark.rendezvous.indexing import BucketIndex
from palio.spark.rendezvous.placement import Int64s
from palio.spark.worker import Found, Output, lists, matches_in

if TYPE_CHECKING:
    from palio.spark.counting import Counter

SUBSCRIPTION, EVENT = 0, 1  # sides, in the order in which they come


@dataclass(frozen=True)
class Columns:
    """Where the columns of a batch have what: `attributes` and `json` are fields of the event, in this order."""

    attributes: tuple[str, ...]
    json: tuple[str, ...]
    kept: tuple[str, ...]

    def event(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = batch.column("event").flatten()
        names = [*self.attributes, *self.json]
        return pa.RecordBatch.from_arrays(fields[: len(names)], names)

    def keep(self, batch: pa.RecordBatch) -> list[pa.Array]:
        fields: list[pa.Array] = batch.column("keep").flatten()
        return fields[: len(self.kept)]


@dataclass(frozen=True)
class Meeting:
    """What a task is asked to do with the rows of its buckets."""

    columns: Columns
    output: Output
    counter: Counter | None = None

    def found(self, index: BucketIndex, batch: pa.RecordBatch) -> Found:
        """Rows and numbers of the matches that this bucket is the first to see."""
        rows, numbers = matches_in(index.matcher, self.columns.event(batch), self.columns.json)
        new = _first_here(index, batch.column("buckets"), rows, numbers.astype(np.int64))
        if self.counter is not None:
            self.counter.add(len(new))
        return rows[new], numbers[new]

    def who(self, index: BucketIndex, numbers: npt.NDArray[np.int32]) -> list[pa.Array]:
        at = pa.array(numbers)
        found = [index.numbers.take(at).cast(pa.int32()) if self.output.numbers else index.ids.take(at)]
        return found if self.output.subscriber is None else [*found, index.subscribers.take(at)]


def _first_here(index: BucketIndex, buckets: pa.ListArray, rows: Int64s, numbers: Int64s) -> Int64s:
    """Which matches were not seen in an earlier bucket."""
    offsets, every = buckets.offsets.to_numpy(), buckets.values.to_numpy()
    earlier_event = every[offsets[:-1]] < index.bucket
    doubtful = np.flatnonzero(earlier_event[rows] & index.begins_before[numbers])
    seen = np.zeros(len(rows), np.bool_)
    if len(doubtful):
        # Each doubtful match beside each bucket of its event.
        starts, ends = offsets[rows[doubtful]], offsets[rows[doubtful] + 1]
        lengths = (ends - starts).astype(np.int64)
        match = np.repeat(doubtful, lengths)
        within = np.arange(len(match)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        other = every[np.repeat(starts, lengths) + within].astype(np.int64)
        before = other < index.bucket
        match, other = match[before], other[before]
        seen[match[index.is_elsewhere_before(numbers[match], other)]] = True
    return np.flatnonzero(~seen)


def _sides(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Bucket, side and rows of stretches of batches."""
    for batch in batches:
        places = batch.column("place").to_numpy()
        ends = [*(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        start = 0
        for end in ends:
            if end > start:
                bucket, side = divmod(int(places[start]), 2)
                yield bucket, side, batch.slice(start, end - start)
                start = end


def _meetings(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[BucketIndex | None, int, pa.RecordBatch]]:
    """Events of a bucket with the index of its subscriptions; None where there are none."""
    current = -1
    pieces: list[pa.StructArray] = []
    index: BucketIndex | None = None
    for bucket, side, rows in _sides(batches):
        if bucket != current:
            current, pieces, index = bucket, [], None
        if side == SUBSCRIPTION:
            pieces.append(rows.column("subscription"))
            continue
        if pieces:  # made only where there is an event to ask it
            index, pieces = BucketIndex.of(bucket, pieces), []
        yield index, bucket, rows


def palio_rendezvous_pairs(meeting: Meeting, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each match: what is kept of the event, and who wants it."""
    for index, _, batch in _meetings(batches):
        if index is None:
            continue
        rows, numbers = meeting.found(index, batch)
        at = pa.array(rows)
        kept = [column.take(at) for column in meeting.columns.keep(batch)]
        names = [*meeting.columns.kept, *meeting.output.names]
        yield pa.RecordBatch.from_arrays([*kept, *meeting.who(index, numbers)], names)


def palio_rendezvous_lists(meeting: Meeting, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Who wants each event, as far as this bucket knows; what is kept of the event comes from its first bucket."""
    for index, bucket, batch in _meetings(batches):
        kind = pa.int32() if meeting.output.numbers else pa.string()
        if index is None:
            found = lists(np.empty(0, np.int64), pa.array([], kind), batch.num_rows)
        else:
            rows, numbers = meeting.found(index, batch)
            found = lists(rows, meeting.who(index, numbers)[0], batch.num_rows)
        buckets = batch.column("buckets")
        is_first = buckets.values.to_numpy()[buckets.offsets.to_numpy()[:-1]] == bucket
        wanted = np.flatnonzero(is_first | (np.diff(found.offsets.to_numpy()) > 0))
        said = pa.RecordBatch.from_arrays(
            [batch.column("row"), batch.column("keep"), found], ["row", "keep", meeting.output.name]
        )
        yield said.take(pa.array(wanted))
