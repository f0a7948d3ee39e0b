"""How does a log become a file that Spark reads? As Parquet: a column for each attribute, and one for who said it when.

The log is read twice, so many events at a time: once for the types of the columns, which one event may widen, and once
for the values. Memory is what one piece takes, however long the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from palio.errors import InvalidArgument
from palio.network.store.columns import Columns
from palio.network.store.interface import Log, LogEntry
from palio.routing import codec

IDENTITY: Final = "_palio"
_PIECE: Final = 1_000  # events
_PIECES_PER_GROUP: Final = 32
_IDENTITY_TYPE: Final = pa.struct(
    [
        ("offset", pa.int64()),
        ("logged", pa.timestamp("us", "UTC")),
        ("publisher", pa.string()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)


def entries(log: Log, start: int, stop: int) -> Iterator[list[LogEntry]]:
    """The events of a log from an offset up to before another, piece by piece."""
    while start < stop:
        piece = log.read(start, min(_PIECE, stop - start))
        if not piece:
            return
        yield piece
        start = piece[-1].offset + 1


def export(
    log: Log, where: Path | BinaryIO, start: int | None = None, stop: int | None = None, identity: str = IDENTITY
) -> int:
    """Write the events of a log, and answer how many; `ExpiredOffset` where some are let go of meanwhile.

    The content of each is in columns of its own names; `identity` is the column for what the log knows of it.
    """
    oldest, after = log.bounds()
    first = oldest if start is None else start
    last = after if stop is None else min(stop, after)
    columns = Columns()
    for piece in entries(log, first, last):
        for entry in piece:
            columns.see(_content(entry))
    fields = columns.fields()
    if identity in {field.name for field in fields}:
        raise InvalidArgument(f"events have an attribute {identity!r}; name another column for who they are")
    schema = pa.schema([pa.field(identity, _IDENTITY_TYPE), *fields])
    written = 0
    with pq.ParquetWriter(where, schema, compression="zstd") as writer:
        gathered: list[pa.RecordBatch] = []
        for piece in entries(log, first, last):
            gathered.append(_batch(piece, columns, schema))
            written += len(piece)
            if len(gathered) == _PIECES_PER_GROUP:
                writer.write_table(pa.Table.from_batches(gathered))
                gathered = []
        if gathered:
            writer.write_table(pa.Table.from_batches(gathered))
    return written


def _batch(piece: list[LogEntry], columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    identities = pa.array([_identity(entry) for entry in piece], _IDENTITY_TYPE)
    contents = [_content(entry) for entry in piece]
    return pa.RecordBatch.from_arrays([identities, *columns.arrays(contents)], schema=schema)


def _content(entry: LogEntry) -> dict[str, Any]:
    return codec.decode_event(entry.event.body).to_dict()


def _identity(entry: LogEntry) -> dict[str, Any]:
    event = codec.decode_event(entry.event.body)
    return {
        "offset": entry.offset,
        "logged": datetime.fromtimestamp(entry.time, UTC),
        "publisher": entry.publisher,
        "id": event.id,
        "source": event.source,
        "time": event.time,
    }
