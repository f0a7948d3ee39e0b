"""Batch of events as columns: one Arrow column for each attribute, and columns of ids, sources and times.

A batch stands for the events of its rows, as `Event.from_arrow` reads them, and no Python object is made of a row until
somebody asks for it. So that two readers cannot disagree about a row, columns have one form each: their names are
attribute paths, and their types one for each kind of value (`COLUMN_TYPES`). Narrow integers, dictionaries, views and
structures become that form when a batch is made. Arrays, maps, structures that are null, integers above 64 bits, and
times before the year 1 or after 9999 have none: their rows stay events.

Costs about a microsecond for a hundred values to make, and as little to take rows of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError, InvalidArgument
from palio.events.arrow import DAYS_RANGE, MICROS_RANGE, read_column
from palio.events.event import Event, random_id
from palio.events.foreign_objects import as_arrow
from palio.events.names import check_path, enclosing_paths, quote_segment
from palio.events.values import DEFAULT_LIMITS, Limits, Value

BATCH_ROWS: Final = 4_096  # rows of a batch, unless a caller bounds them otherwise
# Nulls take no bytes in a column, bits one eighth, and a name is there once: without these bounds a small batch could
# become gigabytes of single events.
MAX_BATCH_VALUES: Final = 1_000_000
MAX_BATCH_EVENT_BYTES: Final = 16 * 1024 * 1024  # of all events, written one by one: half of the longest frame
_ENVELOPE_BYTES: Final = 64  # of an event beside its content, at most
MIN_COLUMN_ROWS: Final = 16  # below which events cost less one by one
TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
COLUMN_TYPES: Final = (
    pa.null(),
    pa.bool_(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    TIME_TYPE,
)
"""The types of columns; `decimal128` of any precision and scale is one, too."""
Rows: TypeAlias = npt.NDArray[np.int64]
_types = pa.types
_CASTS: Final = (
    (_types.is_boolean, pa.bool_()),
    (_types.is_integer, pa.int64()),
    (_types.is_floating, pa.float64()),
    (_types.is_string, pa.string()),
    (_types.is_large_string, pa.string()),
    (_types.is_string_view, pa.string()),
    (_types.is_binary, pa.binary()),
    (_types.is_large_binary, pa.binary()),
    (_types.is_binary_view, pa.binary()),
    (_types.is_fixed_size_binary, pa.binary()),
)
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000}
_TYPE_OF_KIND: Final = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: TIME_TYPE,
}


class EventBatch:
    """Some events as columns. All columns have as many rows; `sources` and `times` are None where no event has one."""

    __slots__ = ("columns", "ids", "sources", "times")

    def __init__(
        self, columns: pa.RecordBatch, ids: pa.Array, sources: pa.Array | None = None, times: pa.Array | None = None
    ) -> None:
        self.columns = columns
        self.ids = ids
        self.sources = sources
        self.times = times

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<EventBatch of {len(self):,} events with {', '.join(self.columns.schema.names)}>"

    def take(self, rows: Rows) -> EventBatch:
        """The events of some rows."""
        chosen = pa.array(rows, pa.int64())
        return EventBatch(
            self.columns.take(chosen),
            self.ids.take(chosen),
            None if self.sources is None else self.sources.take(chosen),
            None if self.times is None else self.times.take(chosen),
        )

    def slice(self, start: int, count: int) -> EventBatch:
        """Consecutive events, without a copy."""
        return EventBatch(
            self.columns.slice(start, count),
            self.ids.slice(start, count),
            None if self.sources is None else self.sources.slice(start, count),
            None if self.times is None else self.times.slice(start, count),
        )

    def said_by(self, source: str) -> EventBatch:
        """A copy in which events without a source have this one."""
        if self.sources is None:
            sources = pa.repeat(pa.scalar(source, pa.string()), len(self))
        else:
            sources = pc.fill_null(self.sources, source)
        return EventBatch(self.columns, self.ids, sources, self.times)

    def events(self) -> list[Event]:
        """The events, one for each row."""
        ids, sources, times, contents = self.rows()
        made = []
        for id, source, time, content in zip(ids, sources, times, contents, strict=True):
            event = Event._made(content)
            event._id, event._source, event._time = id, source, time
            made.append(event)
        return made

    def rows(self) -> tuple[list[str], list[str | None], list[datetime | None], list[dict[str, Value]]]:
        """Ids, sources, times and attributes of all rows as Python's objects: about a microsecond for ten values."""
        count = len(self)
        names = self.columns.schema.names
        values = [read_column(column, name) for column, name in zip(self.columns.columns, names, strict=True)]
        contents = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        nothing: list[Any] = [None] * count
        sources = nothing if self.sources is None else self.sources.to_pylist()
        times = nothing if self.times is None else read_column(self.times)
        return self.ids.to_pylist(), sources, times, contents

    def event_bytes(self) -> tuple[int, int]:
        """Upper bounds of the bytes of the largest event, and of all events, as single messages have them."""
        # A value that is no text has at most 14 bytes, a decimal at most 48; a name of more than 255 has 5 before it.
        fixed = _ENVELOPE_BYTES
        variable = np.zeros(len(self), np.int64)
        for name, column in zip(self.columns.schema.names, self.columns.columns, strict=True):
            fixed += len(name.encode()) + 5 + (48 if _types.is_decimal(column.type) else 14)
            _add_lengths(variable, column)
        _add_lengths(variable, self.ids)
        if self.sources is not None:
            _add_lengths(variable, self.sources)
        return fixed + int(variable.max(initial=0)), fixed * len(self) + int(variable.sum())


def _add_lengths(lengths: npt.NDArray[np.int64], column: pa.Array) -> None:
    """Add the bytes of texts to those of their rows."""
    if _types.is_string(column.type) or _types.is_binary(column.type):
        lengths += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)


def batches_of(
    data: Any,
    *,
    ids: Any = None,
    source: str | None = None,
    rows: int = BATCH_ROWS,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[EventBatch | list[Event]]:
    """The events of a table, a frame, or a sequence of events, in batches; events where rows have no columns' form.

    `ids` are those of the rows of a table, `source` that of all; an event that comes as such has its own.
    """
    table = as_arrow(data)
    if not isinstance(table, pa.Table | pa.RecordBatch) and hasattr(table, "__arrow_c_stream__"):
        table = pa.table(table)
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        yield from _batches_of_table(table, ids, source, rows, limits)
        return
    if ids is not None:
        raise InvalidArgument("ids are those of the rows of a table; an event has its own: Event(…, id=…)")
    if isinstance(table, str | bytes | Event) or not hasattr(table, "__iter__") or hasattr(table, "keys"):
        raise InvalidArgument(
            f"publish_many takes a table, a frame or a sequence of events, not one {type(data).__name__}"
        )
    pending: list[Event] = []
    for each in table:
        event = Event.read(each, limits=limits)
        pending.append(event.said_by(source) if source is not None and event.source is None else event)
        if len(pending) == rows:
            yield from _runs(pending)
            pending = []
    yield from _runs(pending)


def _batches_of_table(
    table: pa.Table, ids: Any, source: str | None, rows: int, limits: Limits
) -> Iterator[EventBatch | list[Event]]:
    given = None if ids is None else _given_ids(ids, table.num_rows)
    rows = min(rows, max(1, MAX_BATCH_VALUES // max(1, table.num_columns)))
    begin = 0
    for piece in table.to_batches(max_chunksize=rows):
        if not piece.num_rows:
            continue
        if given is None:
            prefix = random_id()
            own = pa.array([f"{prefix}-{number}" for number in range(piece.num_rows)], pa.string())
        else:
            own = given.slice(begin, piece.num_rows)
        begin += piece.num_rows
        sources = None if source is None else pa.repeat(pa.scalar(source, pa.string()), piece.num_rows)
        columns = canonical_columns(piece, limits)
        # A structure is several columns, so that there may be too many values all the same.
        if columns is None or columns.num_columns * columns.num_rows > MAX_BATCH_VALUES:
            contents = Event.from_arrow(piece, limits=limits)
            events = zip(contents, own.to_pylist(), strict=True)
            yield [Event(each.attributes, id=id, source=source, limits=limits) for each, id in events]
        else:
            yield EventBatch(columns, own, sources)


def _given_ids(ids: Any, count: int) -> pa.Array:
    try:
        made = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else pa.array(ids)
        made = made.cast(pa.string())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(f"ids are texts, one for each row: {error}") from None
    if len(made) != count or made.null_count or (count and pc.min(pc.binary_length(made)).as_py() == 0):
        raise InvalidArgument(f"every one of the {count:,} rows has an id, which is not empty")
    return made


def canonical_columns(batch: pa.RecordBatch, limits: Limits = DEFAULT_LIMITS) -> pa.RecordBatch | None:
    """The columns of a batch by attribute path and in one form each; None where an attribute has no such form."""
    names: list[str] = []
    arrays: list[pa.Array] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not _add_column(quote_segment(field.name), column, names, arrays):
            return None
    if not names or len(names) > limits.attributes or len(set(names)) < len(names):
        return None  # `Event.from_arrow` says what is wrong
    for name in names:
        check_path(name, limits)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _add_column(path: str, column: pa.Array, names: list[str], arrays: list[pa.Array]) -> bool:
    """Append a column, or the members of a structure; False where it has no form."""
    if isinstance(column, pa.ExtensionArray):
        return _add_column(path, column.storage, names, arrays)
    kind = column.type
    if _types.is_dictionary(kind):
        return _add_column(path, column.dictionary_decode(), names, arrays)
    if _types.is_run_end_encoded(kind):
        return _add_column(path, pc.run_end_decode(column), names, arrays)
    if _types.is_struct(kind):
        # A null structure is one null attribute, where one that is there has its members.
        if column.null_count or not kind.num_fields:
            return False
        members = zip(kind.names, column.flatten(), strict=True)
        return all(_add_column(f"{path}.{quote_segment(name)}", each, names, arrays) for name, each in members)
    try:
        made = _canonical(column)
    except pa.ArrowException:  # a value that does not fit
        return False
    if made is None:
        return False
    names.append(path)
    arrays.append(made)
    return True


def _canonical(column: pa.Array) -> pa.Array | None:
    kind = column.type
    if _types.is_null(kind):
        return column
    for is_kind, cast in _CASTS:
        if is_kind(kind):
            return column if kind == cast else column.cast(cast)
    if _types.is_decimal128(kind):
        return column if 0 <= kind.scale <= kind.precision else None
    if _types.is_date(kind):
        days = column.cast(pa.date32())
        return days if is_within(days.cast(pa.int32()), DAYS_RANGE) else None
    if _types.is_timestamp(kind):
        if kind.unit == "ns":
            column = pc.floor_temporal(column.cast(pa.timestamp("ns")), unit="microsecond").cast(pa.timestamp("us"))
        # By its numbers: a zone is how a time is shown, not which time it is.
        numbers = column.cast(pa.int64())
        factor = 1_000_000 // _UNITS_PER_SECOND.get(kind.unit, 1_000_000)
        micros = pc.multiply_checked(numbers, factor) if factor > 1 else numbers
        return micros.view(TIME_TYPE) if is_within(micros, MICROS_RANGE) else None
    return None


def is_within(numbers: pa.Array, bounds: tuple[int, int]) -> bool:
    """Whether all numbers but nulls are from the first to the last."""
    extremes = pc.min_max(numbers).as_py()
    return extremes["min"] is None or (bounds[0] <= extremes["min"] and extremes["max"] <= bounds[1])


def _runs(events: Sequence[Event]) -> Iterator[EventBatch | list[Event]]:
    """Consecutive events with the same attributes and kinds of values as batches, where there are enough of them."""
    begin = 0
    while begin < len(events):
        first = events[begin]
        names = first.attributes.keys()
        end = begin + 1
        while end < len(events) and events[end].attributes.keys() == names:
            end += 1
        run = events[begin:end]
        batch = batch_of_events(run) if len(run) >= MIN_COLUMN_ROWS else None
        yield list(run) if batch is None else batch
        begin = end


def batch_of_events(events: Sequence[Event]) -> EventBatch | None:
    """Events with the same attributes as columns; None where the values of one are of several kinds, or arrays."""
    names = list(events[0].attributes)
    if len(names) * len(events) > MAX_BATCH_VALUES:
        return None
    # Arrays of objects are beside the attributes (`GroupedAttributes`).
    if not names or any(type(event.attributes) is not dict for event in events):
        return None
    arrays = []
    try:
        for name in names:
            values = [event.attributes[name] for event in events]
            kinds = set(map(type, values)) - {type(None)}
            if len(kinds) > 1 or (kinds and not kinds <= _TYPE_OF_KIND.keys()):
                return None
            arrays.append(pa.array(values, _TYPE_OF_KIND[kinds.pop()] if kinds else pa.null()))
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    sources, times = [event.source for event in events], [event.time for event in events]
    return EventBatch(
        pa.RecordBatch.from_arrays(arrays, names=names),
        pa.array([event.id for event in events], pa.string()),
        pa.array(sources, pa.string()) if any(each is not None for each in sources) else None,
        pa.array(times, TIME_TYPE) if any(each is not None for each in times) else None,
    )


@lru_cache(256)
def check_names(names: tuple[str, ...], limits: Limits) -> None:
    """EventError unless these can be the attributes of one event."""
    if not names:
        raise EventError("a batch without columns; events without attributes travel one by one")
    if len(names) > limits.attributes:
        raise EventError(f"{len(names):,} columns; an event may have {limits.attributes:,} attributes")
    known = set(names)
    if len(known) < len(names):
        raise EventError("two columns have one name")
    for name in names:
        check_path(name, limits)
        enclosing = enclosing_paths(name)
        if not known.isdisjoint(enclosing):
            raise EventError("an attribute cannot be a value and an object with members", name)
        if len(enclosing) >= limits.depth:
            raise EventError(f"more than {limits.depth} levels of objects", name)
