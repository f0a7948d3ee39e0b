"""Reader of events from Arrow tables, one event per row.

Columns are turned into Python lists one at a time, by type, and the lists are then read across. A struct is an object,
a list an array, a map an object by its keys, and a dictionary-encoded or run-end-encoded column the values it encodes;
an Arrow null is a null. So a row means what it means as JSON, except that Arrow has more kinds of value. Types an
event cannot hold (time of day, durations, intervals, unions, maps whose keys are not strings) are rejected by the
column's name before any row is read.

Timestamps of all units are read to the microsecond, towards the past; without a zone they are UTC. Arrow's dates and
timestamps have a larger range than Python's, and one value must not cost a whole batch: a value before the year 1 or
after 9999 is clamped, which keeps its order with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError
from palio.events.foreign_objects import as_arrow
from palio.events.names import abbreviate, check_path, quote_segment
from palio.events.nested_content import flatten
from palio.events.values import MAX_INT64, Limits, Value, to_scalar, type_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MICROS_RANGE = (
    (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND,
    (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND,
)
DAYS_RANGE = (date.min - _EPOCH.date()).days, (date.max - _EPOCH.date()).days
_MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_types = pa.types


def read_rows(data: Any, limits: Limits) -> Iterator[dict[str, Value]]:
    """The attributes of each row; the schema is checked before the first row is read."""
    schema, batches = _open(data)
    names = schema.names
    if len(names) > limits.attributes:
        raise EventError(f"{len(names):,} columns; an event may have {limits.attributes:,} attributes")
    for name in names:
        check_path(quote_segment(name), limits)
        if names.count(name) > 1:
            raise EventError("two columns have this name", abbreviate(quote_segment(name)))
    for field in schema:
        _check_type(field.type, quote_segment(field.name))
    return _rows(schema, batches, limits)


def read_column(column: Any, name: str = "") -> list[Any]:
    """The values of one Array or ChunkedArray; a nested one gives dicts and lists."""
    path = quote_segment(name)
    _check_type(column.type, path)
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk, path)]
    return _values(column, path)


def _open(data: Any) -> tuple[pa.Schema, Any]:
    data = as_arrow(data)
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return reader.schema, reader
    raise EventError(f"not an Arrow table or record batch, but {type_name(data)}")


def _rows(schema: pa.Schema, batches: Any, limits: Limits) -> Iterator[dict[str, Value]]:
    paths = [quote_segment(name) for name in schema.names]
    nested = any(_is_nested(field.type) for field in schema)
    for batch in batches:
        columns = [_values(column, path) for column, path in zip(batch.columns, paths, strict=True)]
        if not columns:
            yield from ({} for _ in range(batch.num_rows))
        elif nested:
            for row in zip(*columns, strict=True):
                yield flatten(dict(zip(schema.names, row, strict=True)), limits)
        else:
            for row in zip(*columns, strict=True):
                yield dict(zip(paths, row, strict=True))


def _is_nested(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_nested(kind.storage_type)
    if _types.is_dictionary(kind) or _types.is_run_end_encoded(kind):
        return _is_nested(kind.value_type)
    return bool(_types.is_nested(kind))


def _check_type(kind: pa.DataType, path: str) -> None:
    """Reject a type that no event can hold, also within a column's type."""
    if isinstance(kind, pa.BaseExtensionType):
        _check_type(kind.storage_type, path)
    elif _types.is_dictionary(kind) or _types.is_run_end_encoded(kind) or _is_list(kind):
        _check_type(kind.value_type, path)
    elif _types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        for i, name in enumerate(names):
            inner = f"{path}.{quote_segment(name)}"
            if names.count(name) > 1:
                raise EventError("two fields of a struct have this name", abbreviate(inner))
            _check_type(kind.field(i).type, inner)
    elif _types.is_map(kind):
        if _reader_of(kind.key_type) is not _plain or not _is_text(kind.key_type):
            raise EventError(f"the keys of a map must be strings, not {kind.key_type}", abbreviate(path))
        _check_type(kind.item_type, path)
    elif _reader_of(kind) is None:
        raise EventError(f"an event cannot hold the Arrow type {kind}", abbreviate(path))


def _values(array: Any, path: str) -> list[Any]:
    """The values of a column as Python objects; None, dict and list stand for null, object and array."""
    kind = array.type
    try:
        if isinstance(kind, pa.BaseExtensionType):
            return _values(array.storage, path)
        if _types.is_dictionary(kind):
            # A null index takes the None at the end.
            entries = [*_values(array.dictionary, path), None]
            return [entries[-1 if i is None else i] for i in array.indices.to_pylist()]
        if _types.is_run_end_encoded(kind):
            return _values(pc.run_end_decode(array), path)
        if _types.is_struct(kind):
            return _objects(array, path)
        if _types.is_map(kind):
            return _maps(array, path)
        if _is_list(kind):
            return _arrays(array, _values(array.flatten(), path))
        read = _reader_of(kind)
        assert read is not None  # the schema was checked
        return read(array, path)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EventError(f"a value of type {kind} cannot be read: {reason}", abbreviate(path)) from None


def _objects(array: Any, path: str) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    valid = array.is_valid().to_pylist()
    if not names:
        return [{} if present else None for present in valid]
    members = [_values(array.field(i), f"{path}.{quote_segment(name)}") for i, name in enumerate(names)]
    rows = zip(*members, strict=True)
    return [dict(zip(names, row, strict=True)) if present else None for row, present in zip(rows, valid, strict=True)]


def _maps(array: Any, path: str) -> list[Any]:
    kind = array.type
    entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    entries = array.cast(pa.list_(entry))
    flat = entries.flatten()
    pairs = list(zip(_values(flat.field(0), path), _values(flat.field(1), path), strict=True))
    objects: list[Any] = []
    for row in _arrays(entries, pairs):
        made = None if row is None else dict(row)
        if made is not None and len(made) != len(row):
            raise EventError("a key occurs twice in one map", abbreviate(path))
        objects.append(made)
    return objects


def _arrays(array: Any, elements: list[Any]) -> list[Any]:
    """The rows of a list column, sliced from the elements of all rows."""
    rows: list[Any] = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        if length is None:
            # `flatten` leaves out the elements of null rows, so `start` stays.
            rows.append(None)
            continue
        rows.append(elements[start : start + length])
        start += length
    return rows


def _plain(array: Any, path: str) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _unsigned(array: Any, path: str) -> list[Any]:
    values = array.to_pylist()
    return [Decimal(v) if v is not None and v > MAX_INT64 else v for v in values]


def _half(array: Any, path: str) -> list[Any]:
    return _plain(array.cast(pa.float32()), path)


def _decimals(array: Any, path: str) -> list[Any]:
    return [to_scalar(value, path) for value in array.to_pylist()]


def _timestamps(array: Any, path: str) -> list[Any]:
    unit = array.type.unit
    if unit == "ns":
        array = pc.floor_temporal(array.cast(pa.timestamp("ns")), unit="microsecond").cast(pa.timestamp("us"))
    each = _MICROS_PER_UNIT.get(unit, 1)
    first, last = MICROS_RANGE
    # Clamped in its own unit, because the microseconds of a distant second would overflow.
    micros = _clamped(array.cast(pa.int64()), first // each, last // each).to_pylist()
    return [None if value is None else _EPOCH + timedelta(microseconds=value * each) for value in micros]


def _dates(array: Any, path: str) -> list[Any]:
    days = _clamped(array.cast(pa.date32()).cast(pa.int32()), *DAYS_RANGE)
    return _plain(days.cast(pa.date32()), path)


def _clamped(numbers: Any, first: int, last: int) -> Any:
    """Numbers clamped to a range; nulls stay null."""
    at_least = pc.max_element_wise(numbers, pa.scalar(first, numbers.type), skip_nulls=False)
    return pc.min_element_wise(at_least, pa.scalar(last, numbers.type), skip_nulls=False)


def _reader_of(kind: pa.DataType) -> Callable[[Any, str], list[Any]] | None:
    """The reader of a type that is not nested; None where an event cannot hold its values."""
    if _types.is_uint64(kind):
        return _unsigned
    if _types.is_float16(kind):
        return _half
    if _types.is_decimal(kind):
        return _decimals
    if _types.is_timestamp(kind):
        return _timestamps
    if _types.is_date(kind):
        return _dates
    plain = (_types.is_null, _types.is_boolean, _types.is_integer, _types.is_floating)
    return _plain if _is_text(kind) or _is_binary(kind) or any(test(kind) for test in plain) else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    tests = (_types.is_binary, _types.is_large_binary, _types.is_binary_view, _types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_list(kind: pa.DataType) -> bool:
    tests = (
        _types.is_list,
        _types.is_large_list,
        _types.is_fixed_size_list,
        _types.is_list_view,
        _types.is_large_list_view,
    )
    return any(test(kind) for test in tests)
