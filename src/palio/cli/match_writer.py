"""Files of matches: JSON lines, a JSON array, CSV or Parquet, each also compressed.

A row is an event's number, the id of a matching subscription and, if requested, its subscriber and the event itself.
Each format takes columns a piece at a time, and the file is valid after every piece. `output_file` moves it to its path
when it is complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from palio.cli.output_file import STANDARD_OUTPUT, OutputError, OutputFile, defer_interrupt
from palio.errors import InputError
from palio.files.input_file import FileKind, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.events import Event

COLUMNS = ("event", "path", "subscription", "subscriber", "content")
_ROWS_PER_GROUP = 128 * 1024  # of Parquet, which are held in memory until the group is written


def open_writer(
    path: str | Path | None, format: str | None = None, columns: Sequence[str] = ("event", "subscription")
) -> MatchWriter:
    """Open a file for matches; None or `-` is standard output, as JSON lines unless a format is given.

    `columns` are some of `event`, `path`, `subscription`, `subscriber`, `content`, in the order they shall have.
    """
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns or len(set(columns)) != len(columns):
        raise ValueError(f"columns are some of {', '.join(COLUMNS)}, each once; not {', '.join(columns)}")
    kind = _output_kind(path, format)
    if kind.compression is not None or kind.format == "parquet":
        _refuse_terminal(path)
    return MatchWriter(OutputFile(path, kind.compression), kind, columns)


def refuse_inputs(out: str | Path | None, *inputs: str | Path) -> None:
    """OutputError for an output that is one of the inputs."""
    for each in inputs:
        # By identity, not by name: a link to an input is that input. One that does not exist is none.
        with suppress(OSError):
            if out is not None and os.path.samefile(out, each):
                raise OutputError(str(out), f"it is read from as {each}, and would be lost; write to another file")


class MatchWriter:
    """Writer of matches, a piece at a time; as a context manager it completes the file at the end.

    After Ctrl-C the file is completed with the rows so far. After any other exception it is discarded, and an
    existing file of its name stays.
    """

    def __init__(self, file: OutputFile, kind: FileKind, columns: Sequence[str]) -> None:
        self.rows = 0
        """The number of matches written."""
        self._file = file
        self._columns = tuple(columns)
        self._open = True
        # An interrupt here would leave a format half made, of which nothing could be completed or discarded.
        try:
            with defer_interrupt(), file.failures():
                self._format = FORMATS[kind.format](file.stream, self._columns)
        except BaseException:
            file.discard()
            raise

    def write(
        self,
        event: Any,
        subscription: Any,
        subscriber: Any = None,
        content: Sequence[Event] | None = None,
        path: Sequence[str] | None = None,
    ) -> None:
        """Write one piece: columns of equal length, as sequences, NumPy or Arrow arrays."""
        given = {
            "event": event, "path": path, "subscription": subscription, "subscriber": subscriber, "content": content,
        }  # fmt: skip
        columns = {name: given[name] for name in self._columns}
        # Checked before the first byte: a piece that fails half-way could not be taken back.
        absent = [name for name, values in columns.items() if values is None]
        if absent:
            raise ValueError(f"the column {absent[0]} was announced, but is not given")
        if len({len(values) for values in columns.values()}) > 1:
            raise ValueError("the columns of a piece have one length")
        with defer_interrupt(), self._file.failures():
            self._format.write(columns)
            self._file.flush()
            self.rows += len(event)

    def close(self) -> None:
        """Complete the file and move it to its path."""
        if not self._open:
            return
        self._open = False  # first: a close that fails has discarded the file, and must not be tried again
        try:
            with defer_interrupt(), self._file.failures():
                self._format.finish()
                self._file.finish()
        except BaseException:
            self._file.discard()
            raise

    def discard(self) -> None:
        """Remove what was written."""
        if self._open:
            self._open = False
            # Finished first: otherwise the libraries do so when they are collected, and fail where nobody sees it.
            with suppress(Exception):
                self._format.finish()
            self._file.discard()

    def __enter__(self) -> MatchWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Rows up to an interrupt are a valid result; those up to an error are not.
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.close()
        else:
            self.discard()


def _output_kind(path: str | Path | None, format: str | None) -> FileKind:
    # Without a name there is nothing to tell the format from.
    if format is None and (path is None or str(path) == STANDARD_OUTPUT):
        return FileKind("jsonl", None)
    try:
        kind = kind_of(STANDARD_OUTPUT if path is None else path, format)
        if kind.format not in FORMATS:  # an XML document is an event, and no table of matches
            raise InputError(_shown(path), kind.format)
        return kind
    except InputError:
        known = f"{', '.join('.' + name for name in FORMATS)}, each also with .gz, .xz or .zst"
        if format is not None:
            raise OutputError(_shown(path), f"there is no format {format!r}; known are {known}") from None
        raise OutputError(_shown(path), f"its name does not say what to write; end it in {known}") from None


def _refuse_terminal(path: str | Path | None) -> None:
    if (path is None or str(path) == STANDARD_OUTPUT) and sys.stdout.isatty():
        raise OutputError(_shown(path), "a terminal cannot show this format; write it to a file")


def _shown(path: str | Path | None) -> str:
    return "standard output" if path is None or str(path) == STANDARD_OUTPUT else str(path)


class Format(Protocol):
    """A writer of columns of equal length to a stream."""

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
        # What goes before the next row. JSON forbids a comma after the last one, so each piece begins with it.
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
    """Rows gathered into row groups, because many small ones make a slow file."""

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

        if self._rows:  # an empty file has no row group, and is valid with its schema alone
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
        return map(str, _to_list(values))  # numbers need no encoding
    if name == "content":
        return [event.to_json() for event in values]
    # Few subscriptions have most of the matches, so that most texts are encoded already.
    encode = _json_string()
    encoded: dict[Any, str] = {}
    return [encoded.get(value) or encoded.setdefault(value, encode(value)) for value in _to_list(values)]


@cache
def _json_string() -> Callable[[str | None], str]:
    import json

    # One encoder for all texts: `json.dumps` makes a new one for each call with options.
    return json.JSONEncoder(ensure_ascii=False).encode


def _to_list(values: Any) -> Sequence[Any]:
    # To Python values at once: reading an Arrow or NumPy array element by element makes an object for each.
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
            values = values.combine_chunks()  # a record batch takes no chunks
        # A cast, because ids come as a dictionary, and the file has plain strings.
        arrays.append(values.cast(field.type) if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
