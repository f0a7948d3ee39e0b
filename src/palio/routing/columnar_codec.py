"""Wire format of a batch of events: columns as their Arrow buffers, each with its name and type, in MessagePack.

Not Arrow's IPC format: that has compression, dictionaries, nested types, metadata and offsets from one part of a
message to another, and each of these would have to be bounded before a hostile message is read. Here a column is a
name, the number of its type, and up to three buffers whose lengths follow from the number of rows, but for the last one
of texts. A batch of ten rows has some ten bytes for each column beside the values, where IPC has hundreds. The values
of a batch and the bytes of its events are bounded as if each had come alone.

Whatever the bytes are, the result is a batch whose rows are events that could have come one by one, or an error:
lengths are checked before Arrow sees a buffer, Arrow validates offsets, UTF-8 and decimals, and names, times and ids
are checked as those of single events are.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from palio.errors import EventError, WireError
from palio.events.arrow import DAYS_RANGE, MICROS_RANGE
from palio.events.batches import (
    COLUMN_TYPES,
    MAX_BATCH_EVENT_BYTES,
    MAX_BATCH_VALUES,
    TIME_TYPE,
    EventBatch,
    check_names,
    is_within,
)
from palio.events.values import DEFAULT_LIMITS, MAX_DECIMAL_DIGITS, Limits
from palio.routing import codec

MAX_BATCH_ROWS: Final = 65_536  # of one message, whatever a broker's own limits are
_DECIMAL: Final = len(COLUMN_TYPES)  # the number of its type; others have their place in `COLUMN_TYPES`
_NUMBER_OF: Final = {data_type: number for number, data_type in enumerate(COLUMN_TYPES)}
_NULL, _BOOL, _TEXT, _BINARY = (_NUMBER_OF[each] for each in (pa.null(), pa.bool_(), pa.string(), pa.binary()))
_DATE, _TIME = _NUMBER_OF[pa.date32()], _NUMBER_OF[TIME_TYPE]
_WIDTHS: Final = {_NUMBER_OF[each]: each.bit_width // 8 for each in (pa.int64(), pa.float64(), pa.date32(), TIME_TYPE)}
_DECIMAL_BYTES: Final = 16


class _Column(Struct, frozen=True, array_like=True):
    """A column: the number of its type, the bitmap of rows that are not null (empty where none is), and its values.

    Texts and bytes have `offsets`, one more than rows; a decimal has digits, of which `scale` are after the point.
    """

    kind: int
    valid: bytes
    values: bytes
    offsets: bytes = b""
    digits: int = 0
    scale: int = 0


class _Batch(Struct, frozen=True, array_like=True):
    rows: int
    ids: _Column
    sources: _Column | None
    times: _Column | None
    columns: tuple[tuple[str, _Column], ...]


def encode_batch(batch: EventBatch) -> bytes:
    """The bytes of a batch."""
    columns = zip(batch.columns.schema.names, batch.columns.columns, strict=True)
    return codec.encode_any(
        _Batch(
            len(batch),
            _column_of(batch.ids),
            None if batch.sources is None else _column_of(batch.sources),
            None if batch.times is None else _column_of(batch.times),
            tuple((name, _column_of(column)) for name, column in columns),
        )
    )


def decode_batch(data: bytes, limits: Limits = DEFAULT_LIMITS) -> EventBatch:
    """A batch from its bytes; `WireError` or `EventError` for anything else."""
    read = _decode(data)
    if not 0 < read.rows <= MAX_BATCH_ROWS:
        raise WireError(f"a batch of {read.rows:,} events, where one has from 1 to {MAX_BATCH_ROWS:,}")
    values = read.rows * len(read.columns)
    if values > MAX_BATCH_VALUES:
        raise WireError(f"a batch of {values:,} values, where one has up to {MAX_BATCH_VALUES:,}")
    names = tuple(name for name, _ in read.columns)
    check_names(names, limits)
    columns = pa.RecordBatch.from_arrays(
        [_array_of(column, read.rows) for _, column in read.columns], names=list(names)
    )
    ids = _array_of(read.ids, read.rows)
    if ids.null_count:
        raise EventError("an event without an id", "id")
    sources = None if read.sources is None else _array_of(read.sources, read.rows)
    for column, what in ((ids, "id"), (sources, "source")):
        if column is not None:
            _check_texts(column, what)
    times = None if read.times is None else _array_of(read.times, read.rows)
    if times is not None and times.type != TIME_TYPE:
        raise EventError(f"the time of an event must be a timestamp, not {times.type}", "time")
    batch = EventBatch(columns, ids, sources, times)
    total = batch.event_bytes()[1]
    if total > MAX_BATCH_EVENT_BYTES:
        raise WireError(f"a batch of events of {total:,} bytes, where they have up to {MAX_BATCH_EVENT_BYTES:,}")
    return batch


def bodies_of(batch: EventBatch) -> list[bytes]:
    """The encoded body of each event, as `codec.encode_event` writes it."""
    if any(pa.types.is_decimal(each) or pa.types.is_date32(each) for each in batch.columns.schema.types):
        return [codec.encode_event(event) for event in batch.events()]
    if any("." in name or "`" in name for name in batch.columns.schema.names):  # nested content
        return [codec.encode_event(event) for event in batch.events()]
    return codec.encode_rows(zip(*batch.rows(), strict=True))


def _check_texts(column: pa.Array, what: str) -> None:
    if column.type != pa.string():
        raise EventError(f"the {what} of an event must be a string, not {column.type}", what)
    if pc.min(pc.binary_length(column)).as_py() == 0:
        raise EventError(f"the {what} of an event must not be empty", what)


def _column_of(array: pa.Array) -> _Column:
    kind = _NUMBER_OF.get(array.type, _DECIMAL)
    if kind == _NULL:
        return _Column(_NULL, b"", b"")
    rows, start = len(array), array.offset
    if kind == _BOOL and start:
        array, start = pa.concat_arrays([array]), 0
    buffers = array.buffers()
    valid = _validity(array) if array.null_count else b""
    if kind in (_TEXT, _BINARY):
        offsets = np.frombuffer(buffers[1], np.int32, rows + 1, 4 * start)
        first, last = int(offsets[0]), int(offsets[-1])
        values = buffers[2].slice(first, last - first).to_pybytes() if last > first else b""
        return _Column(kind, valid, values, (offsets - offsets[0] if first else offsets).tobytes())
    if kind == _BOOL:
        return _Column(kind, valid, buffers[1].slice(0, _bitmap_bytes(rows)).to_pybytes())
    width = _WIDTHS.get(kind, _DECIMAL_BYTES)
    values = buffers[1].slice(width * start, width * rows).to_pybytes()
    if kind == _DECIMAL:
        return _Column(kind, valid, values, b"", array.type.precision, array.type.scale)
    return _Column(kind, valid, values)


def _validity(array: pa.Array) -> bytes:
    bits: bytes = array.is_valid().buffers()[1].slice(0, _bitmap_bytes(len(array))).to_pybytes()
    return bits


def _bitmap_bytes(rows: int) -> int:
    return (rows + 7) // 8


def _array_of(column: _Column, rows: int) -> pa.Array:
    """The array of a column; an error where its buffers are no such array."""
    kind = column.kind
    if kind == _NULL:
        if column.valid or column.values or column.offsets:
            raise WireError("a column of nulls with values")
        return pa.nulls(rows)
    data_type = _type_of(column)
    bitmap = _bitmap_bytes(rows)
    if len(column.valid) not in (0, bitmap):
        raise WireError(f"{len(column.valid):,} bytes say which of {rows:,} values are null; {bitmap:,} would")
    buffers: list[Any] = [pa.py_buffer(column.valid) if column.valid else None]
    if kind in (_TEXT, _BINARY):
        if len(column.offsets) != 4 * (rows + 1):
            raise WireError(f"{len(column.offsets):,} bytes of offsets for {rows:,} texts; 4 for each, and 4")
        buffers.append(pa.py_buffer(column.offsets))
    else:
        wanted = bitmap if kind == _BOOL else _WIDTHS.get(kind, _DECIMAL_BYTES) * rows
        if len(column.values) != wanted or column.offsets:
            raise WireError(f"{len(column.values):,} bytes of values for {rows:,} of {data_type}; {wanted:,} would be")
    buffers.append(pa.py_buffer(column.values))
    try:
        array = pa.Array.from_buffers(data_type, rows, buffers)
        array.validate(full=True)
    except pa.ArrowException as error:
        raise WireError(f"a column that is no array of {data_type}: {str(error).splitlines()[0][:200]}") from None
    if kind == _DATE and not is_within(array.cast(pa.int32()), DAYS_RANGE):
        raise EventError("a date outside the years 1 to 9999")
    if kind == _TIME and not is_within(array.cast(pa.int64()), MICROS_RANGE):
        raise EventError("a timestamp outside the years 1 to 9999")
    return array


def _type_of(column: _Column) -> pa.DataType:
    if 0 <= column.kind < len(COLUMN_TYPES):
        return COLUMN_TYPES[column.kind]
    if column.kind != _DECIMAL:
        raise WireError(f"a column of type {column.kind}, where types are 0 to {_DECIMAL}")
    if not 1 <= column.digits <= MAX_DECIMAL_DIGITS or not 0 <= column.scale <= column.digits:
        raise WireError(f"decimals of {column.digits} digits with {column.scale} after the point")
    return pa.decimal128(column.digits, column.scale)


_decode: Final = codec.checked(msgspec.msgpack.Decoder(_Batch).decode)
