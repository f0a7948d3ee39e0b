"""The index of a bucket: built on the executor from the rows that came, and kept there for the next who needs it.

An index is found by a digest of its subscriptions, on the executor's own disk, in the folder that Spark clears away
with the application; a second action on the same DataFrame, or the next micro-batch, maps it instead of building it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import IndexFileError
from palio.matching.matcher import Matcher
from palio.spark.rendezvous.placement import Int64s
from palio.spark.rendezvous.rows import SCHEMA, read_rows

RANGES: Final = "ranges"  # of buckets, as first and last by turns
_WORTH_KEEPING: Final = 2_000  # subscriptions; fewer are indexed sooner than found on a disk
_MOST_BYTES: Final = 4 << 30  # of indexes that an executor keeps on its disk


@dataclass(frozen=True)
class BucketIndex:
    """The subscriptions of one bucket, and in which others each of them is."""

    bucket: int
    matcher: Matcher
    ids: pa.StringArray
    subscribers: pa.StringArray
    numbers: pa.Int64Array
    ranges: pa.ListArray

    @classmethod
    def of(cls, bucket: int, pieces: Sequence[pa.StructArray]) -> BucketIndex:
        """The index of the subscriptions in rows, whatever their order."""
        found = pa.Table.from_batches([pa.RecordBatch.from_struct_array(each) for each in pieces]).combine_chunks()
        found = found.take(pa.array(np.argsort(found.column("number").to_numpy(), kind="stable")))
        rows = pa.Table.from_arrays([_whole(found, name) for name in SCHEMA.names], schema=SCHEMA)
        return cls(
            bucket,
            open_index(rows),
            _whole(found, "id"),
            _whole(found, "subscriber"),
            _whole(found, "number"),
            _whole(found, RANGES),
        )

    def is_elsewhere_before(self, numbers: Int64s, buckets: Int64s) -> npt.NDArray[np.bool_]:
        """Whether each of these subscriptions is also in this other bucket, which comes before."""
        firsts, lasts, width = self._spans
        wanted = numbers * width + buckets
        at = np.searchsorted(firsts, wanted, side="right") - 1
        return np.asarray((at >= 0) & (lasts[np.maximum(at, 0)] >= wanted))

    @cached_property
    def begins_before(self) -> npt.NDArray[np.bool_]:
        """Which subscriptions are also in a bucket before this one."""
        starts = self.ranges.offsets.to_numpy()[:-1]
        return np.asarray(self._flat[starts] < self.bucket)

    @cached_property
    def _flat(self) -> Int64s:
        return np.asarray(self.ranges.values.to_numpy()).astype(np.int64)

    @cached_property
    def _spans(self) -> tuple[Int64s, Int64s, int]:
        """All ranges of all subscriptions, as runs of one line of numbers."""
        pairs = self._flat.reshape(-1, 2)
        lengths = np.diff(self.ranges.offsets.to_numpy()) // 2
        width = max(int(pairs.max(initial=0)), self.bucket) + 1
        base = np.repeat(np.arange(len(lengths)), lengths) * width
        return base + pairs[:, 0], base + pairs[:, 1], width


def open_index(rows: pa.Table) -> Matcher:
    """A matcher of the subscriptions in rows, numbered as they stand there."""
    if rows.num_rows < _WORTH_KEEPING:
        return _built(rows)
    place = _folder() / f"bucket-{_digest(rows)}.palio"
    with suppress(FileNotFoundError, IndexFileError):  # another worker may be making room meanwhile
        os.utime(place)
        return Matcher.open(place)
    matcher = _built(rows)
    _make_room(place.parent, most_bytes=_MOST_BYTES)
    matcher.save(place)
    return matcher


def _built(rows: pa.Table) -> Matcher:
    matcher = Matcher()
    matcher.add_subscriptions(list(read_rows(rows)))
    return matcher


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _folder() -> Path:
    """A folder of this executor; where Spark has none, one for all workers of this user."""
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
    for name in SCHEMA.names[1:]:
        column = _whole(rows, name).cast(pa.string()).fill_null("\0")
        _, offsets, text = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        digest.update((ends - ends[0]).tobytes())
        if text is not None:
            digest.update(memoryview(text)[int(ends[0]) : int(ends[-1])])
    return digest.hexdigest()


def _make_room(folder: Path, most_bytes: int) -> None:
    """Remove the indexes that were not used for longest, until the rest is not too much."""
    found = []
    for path in folder.glob("bucket-*.palio"):
        with suppress(OSError):  # another worker may be removing it too
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found, key=lambda each: each[0]):
        if total <= most_bytes:
            return
        path.unlink(missing_ok=True)  # who has mapped it keeps it
        total -= size
