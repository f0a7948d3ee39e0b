"""Join of events and subscriptions within a bucket: subscriptions first, then events, batch by batch.

Both sides carry the list of their buckets, so that a bucket decides alone whether a pair met in an earlier one; only
their first common bucket reports a match.

The index of a bucket is built on the executor and cached on its disk under a digest of its subscriptions, in the folder
that Spark removes with the application. A second action on the same DataFrame, or the next micro-batch, maps it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import IndexFileError
from palio.matching.matcher import Matcher
from palio.peers.placement import Int64s
from palio.spark.record_batches import MatchPairs, OutputColumns, group_into_lists, match_batch
from palio.spark.subscription_frame import CHOSEN, SUBSCRIPTION_SCHEMA, decode_rows

if TYPE_CHECKING:
    from palio.spark.record_batches import MatchCounter


# A row of the shuffle has `place` = 2 * bucket + side; sorting by it puts the subscriptions of a bucket first.
SUBSCRIPTION_SIDE, EVENT_SIDE = 0, 1
RANGES: Final = "ranges"  # buckets of a subscription: first and last of each range, alternating
_MIN_CACHED_SUBSCRIPTIONS: Final = 2_000  # fewer are indexed sooner than read from disk
_MAX_CACHE_BYTES: Final = 4 << 30  # on an executor's disk


@dataclass(frozen=True)
class JoinColumns:
    """Layout of the shuffled rows: `attributes` and `json` are the fields of the struct `event`, in this order."""

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
class BucketJoin:
    """Work of a task on the rows of its buckets."""

    columns: JoinColumns
    output: OutputColumns
    counter: MatchCounter | None = None

    def match(self, index: BucketIndex, batch: pa.RecordBatch) -> MatchPairs:
        """The matches whose first common bucket is this one."""
        rows, numbers = match_batch(index.matcher, self.columns.event(batch), self.columns.json)
        new = _first_seen_here(index, batch.column("buckets"), rows, numbers.astype(np.int64))
        if self.counter is not None:
            self.counter.add(len(new))
        return rows[new], numbers[new]

    def result_columns(self, index: BucketIndex, numbers: npt.NDArray[np.int32]) -> list[pa.Array]:
        at = pa.array(numbers)
        found = [(index.numbers if self.output.numbers else index.ids).take(at).cast(self.output.arrow_type)]
        if self.output.subscriber is not None:
            found.append(index.subscribers.take(at))
        return found + [column.take(at) for column in index.chosen]


def _first_seen_here(index: BucketIndex, buckets: pa.ListArray, rows: Int64s, numbers: Int64s) -> Int64s:
    """Positions of the matches that no earlier bucket has seen."""
    offsets, every = buckets.offsets.to_numpy(), buckets.values.to_numpy()
    has_earlier_bucket = every[offsets[:-1]] < index.bucket
    # Only a pair whose sides both have an earlier bucket can have met before; most pairs end here.
    doubtful = np.flatnonzero(has_earlier_bucket[rows] & index.has_earlier_bucket[numbers])
    seen = np.zeros(len(rows), np.bool_)
    if len(doubtful):
        # Cross every doubtful match with every bucket of its event.
        starts, ends = offsets[rows[doubtful]], offsets[rows[doubtful] + 1]
        lengths = (ends - starts).astype(np.int64)
        match = np.repeat(doubtful, lengths)
        within = np.arange(len(match)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        other = every[np.repeat(starts, lengths) + within].astype(np.int64)
        before = other < index.bucket
        match, other = match[before], other[before]
        seen[match[index.is_in_bucket(numbers[match], other)]] = True
    return np.flatnonzero(~seen)


def _split_by_place(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Split batches into runs of one bucket and side."""
    for batch in batches:
        places = batch.column("place").to_numpy()
        ends = [*(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        start = 0
        for end in ends:
            if end > start:
                bucket, side = divmod(int(places[start]), 2)
                yield bucket, side, batch.slice(start, end - start)
                start = end


def _buckets_with_index(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[BucketIndex | None, int, pa.RecordBatch]]:
    """Batches of events with the index of their bucket; None where the bucket has no subscriptions."""
    current = -1
    pieces: list[pa.StructArray] = []
    index: BucketIndex | None = None
    for bucket, side, rows in _split_by_place(batches):
        # Rows are sorted by place: all subscriptions of a bucket come before its first event.
        if bucket != current:
            current, pieces, index = bucket, [], None
        if side == SUBSCRIPTION_SIDE:
            pieces.append(rows.column("subscription"))
            continue
        if pieces:  # a bucket without events needs no index
            index, pieces = BucketIndex.of(bucket, pieces), []
        yield index, bucket, rows


def palio_rendezvous_pairs(join: BucketJoin, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each match: the kept columns and the subscription."""
    for index, _, batch in _buckets_with_index(batches):
        if index is None:
            continue
        rows, numbers = join.match(index, batch)
        at = pa.array(rows)
        kept = [column.take(at) for column in join.columns.keep(batch)]
        names = [*join.columns.kept, *join.output.names]
        yield pa.RecordBatch.from_arrays([*kept, *join.result_columns(index, numbers)], names)


def palio_rendezvous_lists(join: BucketJoin, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each event with its matches in this bucket; only the first bucket reports an event without any."""
    for index, bucket, batch in _buckets_with_index(batches):
        if index is None:
            found = group_into_lists(np.empty(0, np.int64), pa.array([], join.output.arrow_type), batch.num_rows)
        else:
            rows, numbers = join.match(index, batch)
            found = group_into_lists(rows, join.result_columns(index, numbers)[0], batch.num_rows)
        buckets = batch.column("buckets")
        is_first = buckets.values.to_numpy()[buckets.offsets.to_numpy()[:-1]] == bucket
        reported = np.flatnonzero(is_first | (np.diff(found.offsets.to_numpy()) > 0))
        result = pa.RecordBatch.from_arrays(
            [batch.column("row"), batch.column("keep"), found], ["row", "keep", join.output.name]
        )
        yield result.take(pa.array(reported))


@dataclass(frozen=True)
class BucketIndex:
    """The subscriptions of one bucket in an index, with the other buckets of each."""

    bucket: int
    matcher: Matcher
    ids: pa.StringArray
    subscribers: pa.StringArray
    numbers: pa.Int64Array
    ranges: pa.ListArray
    chosen: Sequence[pa.Array] = ()

    @classmethod
    def of(cls, bucket: int, pieces: Sequence[pa.StructArray]) -> BucketIndex:
        """Build the index of shuffled rows; sorted, so that recomputed rows give the same digest."""
        # Rows come out of a shuffle in any order; the digest of the cache needs a fixed one.
        found = pa.Table.from_batches([pa.RecordBatch.from_struct_array(each) for each in pieces]).combine_chunks()
        found = found.take(pa.array(np.argsort(found.column("number").to_numpy(), kind="stable")))
        rows = pa.Table.from_arrays(
            [_single_chunk(found, name) for name in SUBSCRIPTION_SCHEMA.names], schema=SUBSCRIPTION_SCHEMA
        )
        return cls(
            bucket,
            open_index(rows),
            _single_chunk(found, "id"),
            _single_chunk(found, "subscriber"),
            _single_chunk(found, "number"),
            _single_chunk(found, RANGES),
            _single_chunk(found, CHOSEN).flatten() if CHOSEN in found.schema.names else (),
        )

    def is_in_bucket(self, numbers: Int64s, buckets: Int64s) -> npt.NDArray[np.bool_]:
        """Whether each subscription is also in the other bucket beside it."""
        firsts, lasts, width = self._spans
        # Subscription and bucket as one number, so that one binary search answers for all pairs.
        wanted = numbers * width + buckets
        at = np.searchsorted(firsts, wanted, side="right") - 1
        return np.asarray((at >= 0) & (lasts[np.maximum(at, 0)] >= wanted))

    @cached_property
    def has_earlier_bucket(self) -> npt.NDArray[np.bool_]:
        """Whether each subscription is also in a bucket before this one."""
        starts = self.ranges.offsets.to_numpy()[:-1]
        return np.asarray(self._flat[starts] < self.bucket)

    @cached_property
    def _flat(self) -> Int64s:
        return np.asarray(self.ranges.values.to_numpy()).astype(np.int64)

    @cached_property
    def _spans(self) -> tuple[Int64s, Int64s, int]:
        """All ranges of all subscriptions as disjoint ascending intervals, offset by subscription, for one search."""
        pairs = self._flat.reshape(-1, 2)
        lengths = np.diff(self.ranges.offsets.to_numpy()) // 2
        width = max(int(pairs.max(initial=0)), self.bucket) + 1
        base = np.repeat(np.arange(len(lengths)), lengths) * width
        return base + pairs[:, 0], base + pairs[:, 1], width


def open_index(rows: pa.Table) -> Matcher:
    """The matcher of the subscriptions in rows, numbered by row; from the cache where it has one."""
    if rows.num_rows < _MIN_CACHED_SUBSCRIPTIONS:
        return _build_index(rows)
    path = _folder() / f"bucket-{_digest(rows)}.palio"
    with suppress(FileNotFoundError, IndexFileError):  # another worker may be evicting it
        # Marks the index as recently used, for `_evict`.
        os.utime(path)
        return Matcher.open(path)
    matcher = _build_index(rows)
    _evict(path.parent, most_bytes=_MAX_CACHE_BYTES)
    matcher.save(path)
    return matcher


def _build_index(rows: pa.Table) -> Matcher:
    matcher = Matcher()
    matcher.add_subscriptions(list(decode_rows(rows)))
    return matcher


def _single_chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _folder() -> Path:
    """The cache folder of this executor; outside of Spark, one for all processes of this user."""
    from pyspark import SparkFiles

    try:
        root = Path(SparkFiles.getRootDirectory())
    except Exception:  # there is no Spark around this process
        root = Path(tempfile.gettempdir()) / f"palio-{os.getuid()}"
    folder = root / "palio-buckets"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _digest(rows: pa.Table) -> str:
    digest = blake2b(digest_size=16)
    for name in SUBSCRIPTION_SCHEMA.names[1:]:
        # Lengths and bytes separately: concatenated texts alone could be split otherwise. NULL is not an empty text.
        column = _single_chunk(rows, name).cast(pa.string()).fill_null("\0")
        _, offsets, text = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        digest.update((ends - ends[0]).tobytes())
        if text is not None:
            digest.update(memoryview(text)[int(ends[0]) : int(ends[-1])])
    return digest.hexdigest()


def _evict(folder: Path, most_bytes: int) -> None:
    """Remove the least recently used indexes until the rest fits."""
    found = []
    for path in folder.glob("bucket-*.palio"):
        with suppress(OSError):  # another worker may be removing it too
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found, key=lambda each: each[0]):
        if total <= most_bytes:
            return
        path.unlink(missing_ok=True)  # a worker that has mapped it keeps its pages
        total -= size
