"""Vectors: the values of an expression for all rows of a batch, in NumPy or Arrow arrays.

A vector has values of one kind. Booleans, integers, doubles, days and moments are NumPy arrays beside a mask of those
that are not NULL; what lies under a NULL is arbitrary. Strings, binary values and decimals are Arrow arrays. Arrow's
own arithmetic is not used for integers: it raises on an overflow or lets it wrap, where an expression is NULL.

A constant is a vector of one value without a dimension, which meets any other vector.

A vector keeps the dictionary of its values, once it has been asked for it. A function without a vector form of its own
is computed once for every distinct value, and several functions of one column share the work of finding these. Doubles
are told apart by their bits, because 0.0 and -0.0 are equal, and functions differ on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError
from palio.events.arrow import read_column
from palio.events.names import abbreviate
from palio.filters.expressions.ast import Micros
from palio.filters.expressions.coercion import EPOCH, FIRST_DAY, Value, ValueType
from palio.filters.kinds import timestamp_position
from palio.matching.columnar.array_types import AnyArray, Flags, Int64s

FIRST_MICROS: Final = timestamp_position(datetime.min.replace(tzinfo=UTC))
LAST_MICROS: Final = timestamp_position(datetime.max.replace(tzinfo=UTC))
FIRST_DAYS: Final = date.min.toordinal() - FIRST_DAY
LAST_DAYS: Final = date.max.toordinal() - FIRST_DAY

ARROW_TYPES: Final[dict[ValueType, pa.DataType]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
    date: pa.date32(),
    datetime: pa.timestamp("us", "UTC"),
    bytes: pa.large_binary(),
}
_DTYPES: Final[dict[ValueType, Any]] = {
    bool: np.bool_,
    int: np.int64,
    float: np.float64,
    date: np.int64,
    datetime: np.int64,
    Micros: np.int64,
}
IN_NUMPY: Final = frozenset(_DTYPES)
"""The kinds whose values are NumPy arrays: days since 1970 for dates, and microseconds, since 1970 for moments."""
_MICROS_PER_UNIT: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MAX_NUMBER: Final = 2**62  # of a combination of distinct values
_types = pa.types


class Vector:
    """The values of one kind for all rows of a batch."""

    __slots__ = ("_dictionary", "_values", "valid")

    def __init__(self, values: Any, valid: Flags | None = None, dictionary: pa.DictionaryArray | None = None) -> None:
        self._values = values
        self.valid = valid
        """Which rows are not NULL; None where all are. Those of an Arrow array are also its own nulls."""
        self._dictionary = dictionary

    @property
    def values(self) -> Any:
        if self._values is None and self._dictionary is not None:
            self._values = self._dictionary.dictionary.take(self._dictionary.indices)
        return self._values

    @property
    def is_encoded(self) -> bool:
        """Whether a dictionary of the values is at hand."""
        return self._dictionary is not None

    def dictionary(self) -> pa.DictionaryArray:
        """The values as a dictionary without nulls in it; some may occur there twice."""
        if self._dictionary is None:
            array = self._values if isinstance(self._values, pa.Array) else _bits(self._values, self.valid)
            self._dictionary = array.dictionary_encode()
        return self._dictionary


def _bits(values: AnyArray, valid: Flags | None) -> pa.Array:
    numbers = values.view(np.int64) if values.dtype == np.float64 else values
    return pa.array(numbers, mask=None if valid is None else ~valid)


def of_arrow(array: pa.Array) -> Vector:
    """A vector of strings, binary values or decimals."""
    return Vector(array, _validity(array))


def of_dictionary(dictionary: pa.DictionaryArray) -> Vector:
    """A vector of the strings in a dictionary."""
    if dictionary.dictionary.null_count:
        return of_arrow(dictionary.dictionary.take(dictionary.indices))
    return Vector(None, _validity(dictionary.indices), dictionary)


def of_constant(value: Value, kind: ValueType) -> Vector:
    """A vector of one value that is the same in every row."""
    if kind in IN_NUMPY:
        return Vector(np.asarray(number_of(value), _DTYPES[kind]))
    return Vector(pa.scalar(value, ARROW_TYPES.get(kind)))


def null_of(kind: ValueType) -> Vector:
    """A vector of NULLs among values of a kind."""
    if kind in IN_NUMPY:
        return Vector(np.zeros((), _DTYPES[kind]), np.zeros((), np.bool_))
    return Vector(pa.scalar(None, ARROW_TYPES[kind]))


def number_of(value: Any) -> Any:
    """A value as the number that stands for it in an array."""
    if isinstance(value, datetime):
        return timestamp_position(value)
    if isinstance(value, Micros):
        return value.micros
    return value.toordinal() - FIRST_DAY if isinstance(value, date) else value


def of_values(values: Sequence[Value], kind: ValueType, data_type: pa.DataType | None = None) -> Vector:
    """A vector of Python values, all of one kind or None; decimals are all of one Arrow type."""
    if kind not in IN_NUMPY:
        return of_arrow(pa.array(values, data_type or ARROW_TYPES[kind]))
    valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
    numbers = (0 if value is None else number_of(value) for value in values)
    return Vector(np.fromiter(numbers, _DTYPES[kind], len(values)), None if valid.all() else valid)


def repeated(vector: Vector, count: int) -> Vector:
    """A vector with one value for each row, though it may be of a constant."""
    values = vector.values
    if isinstance(values, pa.Scalar):
        return of_arrow(pa.repeat(values, count))
    if isinstance(values, pa.Array) or values is None or values.ndim:
        return vector
    valid = vector.valid
    return Vector(np.full(count, values), None if valid is None else np.broadcast_to(valid, (count,)))


def both(*masks: Flags | None) -> Flags | None:
    """Which rows are not NULL in any of several vectors."""
    joint: Flags | None = None
    for mask in masks:
        if mask is not None:
            joint = mask if joint is None else joint & mask
    return joint


def without(valid: Flags | None, wrong: Any) -> Flags | None:
    """Which rows are not NULL after those that went wrong have become so."""
    return both(valid, np.asarray(~wrong)) if np.any(wrong) else valid


def mask_arrow(array: pa.Array, valid: Flags) -> pa.Array:
    """An Arrow array with NULL in the rows that are not valid."""
    return pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))


# Between columns and vectors


def kind_of(data_type: pa.DataType) -> ValueType | None:
    """The kind of a column's values, NoneType where all are NULL; None where values of one column differ in kind."""
    if _types.is_dictionary(data_type):
        return kind_of(data_type.value_type)
    # What exceeds 64 bits with a sign is a decimal.
    if _types.is_uint64(data_type):
        return None
    # Of other decimals the scale may differ from value to value.
    if _types.is_decimal(data_type) and not (_types.is_decimal128(data_type) and data_type.scale >= 0):
        return None
    tests: tuple[tuple[Callable[[pa.DataType], bool], ValueType], ...] = (
        (_types.is_integer, int),
        (_types.is_floating, float),
        (_types.is_boolean, bool),
        (_is_text, str),
        (_types.is_timestamp, datetime),
        (_types.is_date, date),
        (_types.is_decimal, Decimal),
        (_is_binary, bytes),
        (_types.is_null, NoneType),
    )
    return next((kind for test, kind in tests if test(data_type)), None)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(_types.is_string(data_type) or _types.is_large_string(data_type) or _types.is_string_view(data_type))


def _is_binary(data_type: pa.DataType) -> bool:
    tests = (_types.is_binary, _types.is_large_binary, _types.is_binary_view)
    return any(test(data_type) for test in tests)


def load(column: pa.Array) -> Vector:
    """The vector of a column, with the values that `events.arrow.read_column` reads from it."""
    kind = kind_of(column.type)
    if _types.is_dictionary(column.type):
        if kind is str:
            return of_dictionary(pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary, str)))
        column = column.dictionary.take(column.indices)
    if kind is NoneType or kind is None:
        return Vector(None)
    plain = _plain(column, kind)
    if kind not in IN_NUMPY:
        return of_arrow(plain)
    return Vector(_numbers(plain, kind), _validity(plain))


def _plain(column: pa.Array, kind: ValueType) -> pa.Array:
    """A column in the one Arrow type that is read for its kind."""
    if kind in (str, bytes):
        return _rebased(column.cast(ARROW_TYPES[kind]))
    if kind is date and column.type != pa.date32():
        return column.cast(pa.date32())
    return column


def _rebased(array: pa.Array) -> pa.Array:
    """Strings that begin where their buffer does.

    Of a slice they do not, and pyarrow 26 then gives wrong strings: `pc.ascii_upper(texts[9:].cast("large_string"))`.
    """
    if not len(array):
        return array.slice(0, 0)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    first = int(offsets[0])
    if not first and not array.offset:
        return array
    valid = _validity(array)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = array.buffers()[2]
    buffers = [bitmap, pa.py_buffer(offsets - first), None if data is None else data.slice(first)]
    return pa.Array.from_buffers(array.type, len(array), buffers)


def is_ascii(array: pa.Array) -> bool:
    """Whether strings are of ASCII characters only."""
    data = array.buffers()[2]
    if data is None or not len(array):
        return True
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    used = np.frombuffer(data, np.uint8)[int(offsets[0]) : int(offsets[-1])]
    return not len(used) or int(used.max()) < 0x80


def check_text(column: pa.Array, name: str) -> None:
    """Refuse strings that are no UTF-8, which Arrow takes from anyone; ASCII is."""
    values = column.dictionary if _types.is_dictionary(column.type) else column
    if not _is_text(values.type) or is_ascii(values.cast(pa.large_string())):
        return
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        reason = f"a value of type {column.type} cannot be read: {str(error).splitlines()[0]}"
        raise EventError(reason, abbreviate(name)) from None


def _numbers(column: pa.Array, kind: ValueType) -> AnyArray:
    count, buffer = len(column), column.buffers()[1]
    if buffer is None or not count:
        return np.zeros(count, _DTYPES[kind])
    if kind is bool:
        return _unpacked(buffer, column.offset, count)
    width = column.type.bit_width // 8
    code = {int: "u" if _types.is_unsigned_integer(column.type) else "i", float: "f"}.get(kind, "i")
    raw = np.frombuffer(buffer, f"{code}{width}", count, column.offset * width)
    numbers: AnyArray = raw.astype(_DTYPES[kind], copy=False)
    # Arrow has more years than Python; a time beyond is taken as the first or last.
    if kind is date:
        return numbers.clip(FIRST_DAYS, LAST_DAYS)
    if kind is datetime:
        if column.type.unit == "ns":
            return (numbers // 1_000).clip(FIRST_MICROS, LAST_MICROS)
        factor = _MICROS_PER_UNIT[column.type.unit]
        clamped: AnyArray = numbers.clip(FIRST_MICROS // factor, LAST_MICROS // factor)
        return clamped if factor == 1 else clamped * factor
    return numbers


def _validity(array: pa.Array) -> Flags | None:
    if not array.null_count:
        return None
    bitmap = array.buffers()[0]
    # An array of type null, or a union, has nulls without a bitmap.
    return np.zeros(len(array), np.bool_) if bitmap is None else _unpacked(bitmap, array.offset, len(array))


def _unpacked(bitmap: pa.Buffer, offset: int, count: int) -> Flags:
    first = offset // 8
    bits = np.frombuffer(bitmap, np.uint8)[first : (offset + count + 7) // 8]
    return np.unpackbits(bits, bitorder="little")[offset % 8 : offset % 8 + count].view(np.bool_)


def dump(vector: Vector, kind: ValueType, count: int) -> pa.Array:
    """The column of a vector, of an Arrow type that the kernels read."""
    if kind is NoneType:
        return pa.nulls(count)
    if kind not in IN_NUMPY:
        values = vector.values
        return pa.repeat(values, count) if isinstance(values, pa.Scalar) else values
    bitmap = None
    if vector.valid is not None:
        valid = np.broadcast_to(vector.valid, (count,))
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    numbers = np.broadcast_to(vector.values, (count,))
    if kind is bool:
        numbers = np.packbits(numbers, bitorder="little")
    elif kind is date:
        numbers = numbers.astype(np.int32)
    return pa.Array.from_buffers(ARROW_TYPES[kind], count, [bitmap, pa.py_buffer(np.ascontiguousarray(numbers))])


# Values by distinct value


def distinct(vector: Vector, kind: ValueType) -> tuple[list[Any], Int64s]:
    """The distinct values of a vector as Python values, NULL last of them, and for each row the place of its own."""
    dictionary = vector.dictionary()
    values = read(dictionary.dictionary, kind)
    places: Int64s = np.asarray(dictionary.indices.fill_null(0)).astype(np.int64)
    if vector.valid is not None:
        places[~vector.valid] = len(values)
    return [*values, None], places


def combinations(columns: Sequence[tuple[list[Any], Int64s]], count: int) -> tuple[list[tuple[Any, ...]], Int64s]:
    """The distinct combinations of several columns' values, and for each row the place of its own."""
    places: Int64s = np.zeros(count, np.int64)
    numbers = 1
    for values, own in columns:
        if numbers * len(values) > _MAX_NUMBER:
            found, places = np.unique(places, return_inverse=True)
            numbers = len(found)
        places = places * len(values) + own
        numbers *= len(values)
    _, first_rows, places = np.unique(places, return_index=True, return_inverse=True)
    chosen = [[values[place] for place in own[first_rows].tolist()] for values, own in columns]
    return list(zip(*chosen, strict=True)) if columns else [()] * len(first_rows), places


def read(values: pa.Array, kind: ValueType) -> list[Any]:
    """The entries of a vector's dictionary as Python values."""
    if kind is float:
        return list(values.view(pa.float64()).to_pylist())
    if kind is date:
        return [date.fromordinal(FIRST_DAY + value) for value in values.to_pylist()]
    if kind is datetime:
        return [EPOCH + timedelta(microseconds=value) for value in values.to_pylist()]
    if kind is Micros:
        return list(map(Micros, values.to_pylist()))
    return read_column(values) if kind is Decimal else list(values.to_pylist())


def spread(vector: Vector, places: Int64s, kind: ValueType) -> Vector:
    """The vector of all rows, from one of distinct values and the place of each row's own."""
    if kind is str:
        # A row of a NULL has no place, because a dictionary with a null in it could not be kept.
        mask = None if vector.valid is None else ~vector.valid[places]
        return of_dictionary(pa.DictionaryArray.from_arrays(pa.array(places, mask=mask), vector.values.fill_null("")))
    if kind not in IN_NUMPY:
        return of_arrow(vector.values.take(pa.array(places)))
    return Vector(vector.values[places], None if vector.valid is None else vector.valid[places])
