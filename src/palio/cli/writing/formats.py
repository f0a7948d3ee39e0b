"""How are matches written down: as JSON lines, a JSON array, CSV, or Parquet?

Each format takes columns a piece at a time and keeps what it has written valid at every piece's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_PER_GROUP = 128 * 1024


class Format(Protocol):
    """Writes columns of equal length to a stream."""

    def write(self, columns: Mapping[str, Any]) -> None: ...

    def finish(self) -> None: ...


class JsonLines:
    """One object per row and line."""

    def __init__(self, stream: Any, names: Sequence[str]) -> None:
        self._stream = stream

    def write(self, columns: Mapping[str, Any]) -> None:
        self._stream.write("".join(line + "\n" for line in _objects(columns)).encode())

    def finish(self) -> None:
        pass


class JsonArray:
    """One object per row, in an array; the array is closed at the end."""

    def __init__(self, stream: Any, names: Sequence[str]) -> None:
        self._stream = stream
        self._between = "[\n"

    def write(self, columns: Mapping[str, Any]) -> None:
        rows = ",\n".join(_objects(columns))
        if rows:
            self._stream.write((self._between + rows).encode())
            self._between = ",\n"

    def finish(self) -> None:
        self._stream.write(b"[]\n" if self._between == "[\n" else b"\n]\n")


class Csv:
    """A header, then a row per match; an event's content is a field of JSON text."""

    def __init__(self, stream: Any, names: Sequence[str]) -> None:
        import pyarrow.csv

        self._schema = _schema(names)
        self._writer = pyarrow.csv.CSVWriter(
            stream, self._schema, write_options=pyarrow.csv.WriteOptions(quoting_style="needed")
        )

    def write(self, columns: Mapping[str, Any]) -> None:
        self._writer.write_batch(_to_batch(columns, self._schema))

    def finish(self) -> None:
        self._writer.close()


class Parquet:
    """Rows gathered into groups, because many small groups make a slow file."""

    def __init__(self, stream: Any, names: Sequence[str]) -> None:
        import pyarrow.parquet

        self._schema = _schema(names)
        self._writer = pyarrow.parquet.ParquetWriter(stream, self._schema)
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, columns: Mapping[str, Any]) -> None:
        batch = _to_batch(columns, self._schema)
        self._gathered.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ROWS_PER_GROUP:
            self._write_group()

    def finish(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._gathered))
        self._gathered = []
        self._rows = 0


FORMATS: dict[str, Callable[[Any, Sequence[str]], Format]] = {
    "jsonl": JsonLines,
    "json": JsonArray,
    "csv": Csv,
    "parquet": Parquet,
}


def _objects(columns: Mapping[str, Any]) -> Iterable[str]:
    """Each row as the text of a JSON object."""
    names = [f'"{name}":' for name in columns]
    texts = [_texts(name, values) for name, values in columns.items()]
    for row in zip(*texts, strict=True):
        yield "{" + ",".join([name + text for name, text in zip(names, row, strict=True)]) + "}"


def _texts(name: str, values: Any) -> Iterable[str]:
    if name == "event":
        return map(str, _to_list(values))
    if name == "content":
        return [event.to_json() for event in values]
    # Few subscriptions have most of the matches, so most are found, not written anew.
    encode = _json_string()
    known: dict[Any, str] = {}
    return [known.get(value) or known.setdefault(value, encode(value)) for value in _to_list(values)]


@cache
def _json_string() -> Callable[[str | None], str]:
    import json

    return json.JSONEncoder(ensure_ascii=False).encode


def _to_list(values: Any) -> Sequence[Any]:
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    elif hasattr(values, "tolist"):
        values = values.tolist()
    listed: Sequence[Any] = values
    return listed


def _schema(names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, pa.int64() if name == "event" else pa.string()) for name in names])


def _to_batch(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = []
    for field in schema:
        values = columns[field.name]
        if field.name == "content":
            values = [event.to_json() for event in values]
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        arrays.append(values.cast(field.type) if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
