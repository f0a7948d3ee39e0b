"""How the columns of an Arrow batch are shown to the kernels: where their buffers lie and how to read them.

Nothing is copied and no Python object is made per value. A dictionary's values are encoded once and its indices
looked up; kinds that are rare in events (decimals, unsigned integers beyond 63 bits) take the same road.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError
from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.axes import Axes, address_of
from palio.matching.columnar.cuts import LARGEST
from palio.matching.columnar.layout import (
    COLUMN_FIELDS,
    KIND_BOOL,
    KIND_BYTES32,
    KIND_BYTES64,
    KIND_DATE32,
    KIND_DATE64,
    KIND_F32,
    KIND_F64,
    KIND_I8,
    KIND_I16,
    KIND_I32,
    KIND_I64,
    KIND_NULL,
    KIND_SLOT8,
    KIND_SLOT16,
    KIND_SLOT32,
    KIND_SLOT64,
    KIND_TEXT32,
    KIND_TEXT64,
    KIND_TIMESTAMP,
    KIND_U8,
    KIND_U16,
    KIND_U32,
    KIND_U64,
)

_TYPES: Final = {
    pa.null(): KIND_NULL,
    pa.bool_(): KIND_BOOL,
    pa.int8(): KIND_I8,
    pa.int16(): KIND_I16,
    pa.int32(): KIND_I32,
    pa.int64(): KIND_I64,
    pa.uint8(): KIND_U8,
    pa.uint16(): KIND_U16,
    pa.uint32(): KIND_U32,
    pa.float32(): KIND_F32,
    pa.float64(): KIND_F64,
    pa.string(): KIND_TEXT32,
    pa.large_string(): KIND_TEXT64,
    pa.binary(): KIND_BYTES32,
    pa.large_binary(): KIND_BYTES64,
    pa.date32(): KIND_DATE32,
}
_KINDS: Final[dict[int, int]] = {data_type.id: kind for data_type, kind in _TYPES.items()}
_TEXTS: Final = frozenset((KIND_TEXT32, KIND_TEXT64, KIND_BYTES32, KIND_BYTES64))
_INDICES: Final = {1: KIND_SLOT8, 2: KIND_SLOT16, 4: KIND_SLOT32, 8: KIND_SLOT64}
_CLEARER: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary(), pa.float16(): pa.float32()}
# What a timestamp's unit is in microseconds: to multiply and to divide by.
_UNITS: Final = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_MILLISECONDS_PER_DAY: Final = 86_400_000


def direct_kind(data_type: pa.DataType) -> tuple[int, tuple[int, int]] | None:
    """How the values of a type are read as they lie, if they are; and the factors that make a time microseconds."""
    kind = _KINDS.get(data_type.id)
    if kind is not None:
        return kind, (1, 1)
    if pa.types.is_timestamp(data_type):
        return KIND_TIMESTAMP, _UNITS[data_type.unit]
    return (KIND_DATE64, (1, _MILLISECONDS_PER_DAY)) if data_type == pa.date64() else None


class BoundColumns:
    """Columns of one batch as a table of addresses, and the arrays that own the memory."""

    __slots__ = ("address", "count", "kept", "rows", "table")

    def __init__(self, table: list[int], rows: int, kept: list[Any]) -> None:
        self.table = array("q", table)
        self.address = self.table.buffer_info()[0]
        self.count = len(table) // COLUMN_FIELDS
        self.rows = rows
        self.kept = kept

    def address_of(self, place: int) -> int:
        """Where the descriptor of a column lies."""
        return self.address + 8 * COLUMN_FIELDS * place


def bind_columns(axes: Axes, columns: Sequence[tuple[int, pa.Array]], rows: int) -> BoundColumns:
    """Bind arrays of one length to axes. The axes are those of one segment: bind again for another."""
    table: list[int] = []
    kept: list[Any] = []
    for axis, column in columns:
        if len(column) != rows:
            raise ValueError(f"a column of {len(column)} rows in a batch of {rows}")
        kind = _KINDS.get(column.type.id, -1)
        factors = (1, 1)
        if kind <= KIND_NULL:
            if kind == KIND_NULL:
                table += (kind, axis, *[0] * (COLUMN_FIELDS - 2))
                continue
            column, kind, factors = _clearer(column)
        buffers = column.buffers()
        kept.append((column, buffers))
        valid = valid_end = text = text_end = slots = 0
        if buffers[0] is not None:
            valid = buffers[0].address
            valid_end = valid + buffers[0].size
        if kind in _TEXTS:
            if buffers[2] is not None:
                text = buffers[2].address
                text_end = text + buffers[2].size
        elif kind >= KIND_SLOT8:
            found = _slots(axes, axis, column.dictionary)
            kept.append(found)
            slots = address_of(found)
        values = 0 if buffers[1] is None else buffers[1].address
        # In the order of `layout`.
        table += (kind, axis, valid, column.offset, values, text, text_end, *factors, slots, valid_end)
    return BoundColumns(table, rows, kept)


def _clearer(column: pa.Array) -> tuple[pa.Array, int, tuple[int, int]]:
    """A column of a type with no kernel of its own, as one that has."""
    data_type = column.type
    direct = direct_kind(data_type)
    if direct is not None:
        return column, *direct
    if pa.types.is_dictionary(data_type):
        if column.dictionary.null_count:
            return _clearer_dictionary(column), KIND_SLOT64, (1, 1)
        index = data_type.index_type
        if pa.types.is_unsigned_integer(index):
            index = pa.int32() if index.bit_width < 32 else pa.int64()
            column = pa.DictionaryArray.from_arrays(column.indices.cast(index), column.dictionary)
        return column, _INDICES[index.bit_width // 8], (1, 1)
    if data_type in _CLEARER:
        column = column.cast(_CLEARER[data_type])
        return column, _KINDS[column.type.id], (1, 1)
    if data_type == pa.uint64() and (pc.max(column).as_py() or 0) <= LARGEST:
        return column, KIND_U64, (1, 1)
    if pa.types.is_decimal(data_type) or data_type == pa.uint64():
        return column.dictionary_encode(), KIND_SLOT32, (1, 1)
    raise EventError(f"an event cannot hold the Arrow type {data_type}")


def simplified(column: pa.Array, name: str) -> pa.Array:
    """A column in a type that the kernels, or a look at its values, can deal with; an error names what cannot be."""
    while (plainer := _plainer(column)) is not None:
        column = plainer
    if pa.types.is_dictionary(column.type):
        _check_indices(column, name)
        values = simplified(column.dictionary, name)
        return column if values is column.dictionary else pa.DictionaryArray.from_arrays(column.indices, values)
    if direct_kind(column.type) is None and not (
        column.type in _CLEARER or pa.types.is_decimal(column.type) or column.type == pa.uint64()
    ):
        raise EventError(f"an event cannot hold the Arrow type {column.type}", name)
    return column


def _plainer(column: pa.Array) -> pa.Array | None:
    """A column that another type says as well, as a column of that type."""
    data_type = column.type
    if isinstance(data_type, pa.BaseExtensionType):
        return column.storage
    if pa.types.is_fixed_size_binary(data_type):
        return column.cast(pa.binary())
    if pa.types.is_run_end_encoded(data_type):
        return pc.run_end_decode(column)
    if pa.types.is_decimal(data_type) and data_type.bit_width < 128:
        return column.cast(pa.decimal128(data_type.precision, data_type.scale))
    return None


def _check_indices(column: pa.Array, name: str) -> None:
    """Whoever made a batch may have left an index that leads out of the dictionary."""
    ends = pc.min_max(column.indices).as_py()
    if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(column.dictionary):
        raise EventError(f"an index leads out of a dictionary of {len(column.dictionary):,} values", name)


def _clearer_dictionary(column: pa.Array) -> pa.Array:
    """A dictionary that holds no null: an index of a null becomes null itself."""
    values = column.dictionary
    places = pc.cumulative_sum(pc.cast(pc.is_valid(values), pa.int64()))
    moved = pc.if_else(pc.is_valid(values), pc.subtract(places, 1), pa.scalar(None, pa.int64()))
    return pa.DictionaryArray.from_arrays(moved.take(column.indices.cast(pa.int64())), values.drop_null())


def _slots(axes: Axes, axis: int, values: pa.Array) -> npt.NDArray[np.int32]:
    """The slot of every value of a dictionary."""
    slots = np.zeros(len(values) + 1, np.int32)
    if pa.types.is_decimal(values.type) or values.type == pa.uint64():
        slots[:-1] = [axes.slot(axis, value) for value in values.to_pylist()]
        return slots
    bound = bind_columns(axes, [(axis, values)], len(values))
    kernels.slots_of(axes.address, bound.address, 0, len(values), address_of(slots))
    return slots
