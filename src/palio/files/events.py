"""Event reader: batches of events from a file.

Columnar files (CSV, Parquet) give record batches, which the matcher takes as they are; JSON gives lists of
`Event`, because its objects need not be alike; an XML file is one event, its document. Events are numbered by their
place in the file, from 1; an event that cannot be read is counted too, reported and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from palio.errors import DocumentError, EventError, InputError, InvalidArgument
from palio.events import DEFAULT_LIMITS, Event, Limits
from palio.files.input_file import FileKind, InputFile, kind_of
from palio.files.json_reader import read_lines, read_values

if TYPE_CHECKING:
    import pyarrow as pa

OnError: TypeAlias = Callable[[InputError], None]


def read_events(
    path: str | Path,
    format: str | None = None,
    batch_size: int = 8192,
    on_error: OnError | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> EventReader:
    """Open a file of events (`-` is standard input, and needs a format); it is read while it is iterated over.

    The error of an event that cannot be read goes to `on_error`, and the event is left out; without `on_error`
    it is raised. The error of a file that cannot be read any further is always raised.
    """
    return EventReader(path, kind_of(path, format), batch_size, on_error, limits)


class EventReader:
    """Iterates over the batches of a file, once; closes it at the end, or at the end of a `with`."""

    def __init__(
        self, path: str | Path, kind: FileKind, batch_size: int, on_error: OnError | None, limits: Limits
    ) -> None:
        if batch_size < 1:
            raise InvalidArgument(f"batch_size must be positive, not {batch_size}")
        self.format = kind.format
        self.faults = 0
        """How many events could not be read so far."""
        self.numbers: Sequence[int] = range(0)
        """The numbers of the events in the batch that was given last."""
        self._path = str(path)
        self._compression = kind.compression
        self._batch_size = batch_size
        self._on_error = on_error
        self._limits = limits
        self._finished = False
        self._share: Callable[[], int | None] = lambda: None
        self._source = InputFile(path, kind.compression)

    @property
    def name(self) -> str:
        """The file, as messages name it."""
        return self._source.name

    @property
    def size(self) -> int | None:
        """The bytes of the file as it is stored; None where that is not known, as for standard input."""
        return self._source.size

    @property
    def position(self) -> int:
        """How many bytes of the file, as it is stored, have been read."""
        if self._finished and self.size is not None:
            return self.size
        share = self._share()
        return self._source.position if share is None else share

    def __iter__(self) -> Iterator[pa.RecordBatch | list[Event]]:
        batches = {"csv": self._csv, "parquet": self._parquet, "xml": self._xml}.get(self.format, self._json)
        try:
            yield from batches()
            self._finished = True
        finally:
            self.close()

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> EventReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _report(self, line: int, reason: str) -> None:
        self.faults += 1
        error = InputError(self.name, reason, line)
        if self._on_error is None:
            raise error
        self._on_error(error)

    def _json(self) -> Iterator[list[Event]]:
        split = read_lines if self.format == "jsonl" else read_values
        longest = self._limits.json_bytes
        events: list[Event] = []
        numbers: list[int] = []
        number = 0

        # Faults of the splitter and of the parser are both events, and take a number.
        def report(line: int, reason: str) -> None:
            nonlocal number
            number += 1
            self._report(line, reason)

        for texts in split(self._source.stream, self.name, longest, report):
            for line, text in texts:
                try:
                    events.append(Event.from_json(text, limits=self._limits))
                except EventError as error:
                    report(line, str(error))
                    continue
                number += 1
                numbers.append(number)
                if len(events) >= self._batch_size:
                    self.numbers = numbers
                    yield events
                    events, numbers = [], []
            # A pipe may pause for long: what has come is matched now, though the batch is not full.
            if events and self._source.live:
                self.numbers = numbers
                yield events
                events, numbers = [], []
        if events:
            self.numbers = numbers
            yield events

    def _xml(self) -> Iterator[list[Event]]:
        """The one event of a file that is an XML document."""
        # One byte more than is allowed: the parser refuses what is too long, and says how much is allowed.
        data = self._source.stream.read(self._limits.json_bytes + 1)
        try:
            event = Event.from_xml(data, limits=self._limits)
        except DocumentError as error:
            self._report(error.line or 1, error.reason)
            return
        self.numbers = range(1, 2)
        yield [event]

    def _csv(self) -> Iterator[pa.RecordBatch]:
        from palio.files.csv_reader import read_typed

        for numbers, batch in read_typed(self._source.stream, self.name, self._report):
            for start in range(0, batch.num_rows, self._batch_size):
                self.numbers = numbers[start : start + self._batch_size]
                yield batch.slice(start, self._batch_size)

    def _parquet(self) -> Iterator[pa.RecordBatch]:
        from palio.files.parquet_reader import ParquetRows

        rows = ParquetRows(self._source, self._path, self._compression, self._batch_size)
        self._share = lambda: rows.position
        first = 1
        try:
            for batch in rows.batches():
                self.numbers = range(first, first + batch.num_rows)
                first += batch.num_rows
                yield batch
        finally:
            rows.close()
