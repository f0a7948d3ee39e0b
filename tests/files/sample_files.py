"""Files of every format and compression, and what is read from them."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from palio.errors import InputError
from palio.events import Event
from palio.files import (
    read_events,
)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}

ROWS = [{"x": i, "s": f"v{i % 3}"} for i in range(20)]


def jsonl(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def csv(rows: list[dict[str, Any]]) -> bytes:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines).encode() + b"\n"


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    return sink.getvalue()


CONTENTS: dict[str, Callable[[list[Any]], bytes]] = {
    "jsonl": jsonl,
    "ndjson": jsonl,
    "json": lambda rows: json.dumps(rows, indent=1).encode(),
    "csv": csv,
    "parquet": parquet,
}


def all_events(path: str | Path, **options: Any) -> list[dict[str, Any]]:
    """The attributes of all events of a file."""
    with read_events(path, **options) as reader:
        batches = list(reader)
    events = [event for batch in batches for event in (batch if isinstance(batch, list) else Event.from_arrow(batch))]
    return [dict(event.attributes) for event in events]


def read_with_faults(path: str | Path, **options: Any) -> tuple[list[dict[str, Any]], list[tuple[int | None, str]]]:
    faults: list[InputError] = []
    events = all_events(path, on_error=faults.append, **options)
    return events, [(fault.line, fault.reason) for fault in faults]


Make = Callable[[str, bytes], Path]
