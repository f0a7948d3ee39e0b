"""Arrow columns for the kernels: flattened to attributes, and described by the addresses of their buffers.

Nothing is copied and no Python object is made per value. There are two ways to describe the columns of a batch:

- `ColumnPlan` by Arrow's C data interface, where every column is of a plain type: one call exports all buffers, where
  asking each column would take longer than matching a few hundred rows. The plan of a schema is made once.
- `bind_columns` one by one, for dictionaries, decimals, views and other rare types. The values of a dictionary are
  encoded once and its indices looked up. Decimals are read as floats where that places them alike
  (`Axes.rounds_safely`), and as a dictionary elsewhere.

`flatten_columns` names columns by attributes: a structure is one column for each member; a list is several values of
one attribute, and a row with lists becomes one row for every choice of their elements (`FlatColumns.choices`). A list
of structures or a map is left to matching row by row.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError
from palio.events.names import join_path
from palio.events.values import MAX_INT64
from palio.filters.array_choice import MAX_CHOICES
from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.array_types import Int32s, Int64s
from palio.matching.columnar.axes import SHORT_DIGITS, Axes
from palio.matching.columnar.layout import (
    ARRAY_FIELDS,
    ARRAY_RELEASE,
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
from palio.matching.columnar.native import address_of

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
_CASTS: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary(), pa.float16(): pa.float32()}
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
            floats = _as_floats(column) if pa.types.is_decimal128(column.type) and axes.rounds_safely(axis) else None
            column, kind, factors = _readable(column) if floats is None else (floats, KIND_F64, factors)
        buffers = column.buffers()
        # The kernels get addresses: what they point to must live as long as the binding.
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
            found = slots_of_values(axes, axis, column.dictionary)
            kept.append(found)
            slots = address_of(found)
        values = 0 if buffers[1] is None else buffers[1].address
        # In the order of `layout`.
        table += (kind, axis, valid, column.offset, values, text, text_end, *factors, slots, valid_end)
    return BoundColumns(table, rows, kept)


def _readable(column: pa.Array) -> tuple[pa.Array, int, tuple[int, int]]:
    """A column of a type with no kernel of its own, as one that has."""
    data_type = column.type
    direct = direct_kind(data_type)
    if direct is not None:
        return column, *direct
    if pa.types.is_dictionary(data_type):
        if column.dictionary.null_count:
            return _without_null_values(column), KIND_SLOT64, (1, 1)
        index = data_type.index_type
        if pa.types.is_unsigned_integer(index):
            index = pa.int32() if index.bit_width < 32 else pa.int64()
            column = pa.DictionaryArray.from_arrays(column.indices.cast(index), column.dictionary)
        return column, _INDICES[index.bit_width // 8], (1, 1)
    if data_type in _CASTS:
        column = column.cast(_CASTS[data_type])
        return column, _KINDS[column.type.id], (1, 1)
    if data_type == pa.uint64() and (pc.max(column).as_py() or 0) <= MAX_INT64:
        return column, KIND_U64, (1, 1)
    if pa.types.is_decimal(data_type) or data_type == pa.uint64():
        return column.dictionary_encode(), KIND_SLOT32, (1, 1)
    raise EventError(f"an event cannot hold the Arrow type {data_type}")


def _as_floats(column: pa.Array) -> pa.Array | None:
    """A column of short decimals, each rounded to a float once; None where one has many digits.

    Palio divides itself: Arrow multiplies by a power of ten that is rounded already.
    """
    scale = column.type.scale
    if not len(column) or not 0 <= scale <= SHORT_DIGITS:
        return None
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = words[::2], words[1::2]
    null = None
    if column.null_count:
        null = pc.is_null(column).to_numpy(zero_copy_only=False)
        low, high = np.where(null, 0, low), np.where(null, 0, high)
    beyond = 10**SHORT_DIGITS
    if not ((high == low >> 63) & (-beyond < low) & (low < beyond)).all():
        return None
    return pa.array(low / 10.0**scale, mask=null)


def simplify(column: pa.Array, name: str) -> pa.Array:
    """A column in a type that the kernels, or a look at its values, can deal with; an error names what cannot be."""
    while (storage := _storage_of(column)) is not None:
        column = storage
    if pa.types.is_dictionary(column.type):
        _check_indices(column, name)
        values = simplify(column.dictionary, name)
        return column if values is column.dictionary else pa.DictionaryArray.from_arrays(column.indices, values)
    if direct_kind(column.type) is None and not (
        column.type in _CASTS or pa.types.is_decimal(column.type) or column.type == pa.uint64()
    ):
        raise EventError(f"an event cannot hold the Arrow type {column.type}", name)
    return column


def _storage_of(column: pa.Array) -> pa.Array | None:
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
    """Refuse an index beyond the dictionary, which Arrow itself does not check."""
    ends = pc.min_max(column.indices).as_py()
    if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(column.dictionary):
        raise EventError(f"an index leads out of a dictionary of {len(column.dictionary):,} values", name)


def _without_null_values(column: pa.Array) -> pa.Array:
    """A dictionary that holds no null: an index of a null becomes null itself."""
    values = column.dictionary
    places = pc.cumulative_sum(pc.cast(pc.is_valid(values), pa.int64()))
    moved = pc.if_else(pc.is_valid(values), pc.subtract(places, 1), pa.scalar(None, pa.int64()))
    return pa.DictionaryArray.from_arrays(moved.take(column.indices.cast(pa.int64())), values.drop_null())


def slots_of_values(axes: Axes, axis: int, values: pa.Array) -> Int32s:
    """The slot of every value of a dictionary, and one more; what a null gets means nothing."""
    slots = np.zeros(len(values) + 1, np.int32)
    if pa.types.is_decimal(values.type) or values.type == pa.uint64():
        slots[:-1] = [axes.slot(axis, value) for value in values.to_pylist()]
        return slots
    slots[:-1] = encode_cells(axes, values, np.full(len(values), axis, np.int32))  # the axis is cut off
    return slots


def encode_cells(axes: Axes, values: pa.Array, cell_axes: Int32s) -> Int64s:
    """The codes of values, none of which is null, each on an axis of its own; -1 where that is -1."""
    codes = np.empty(len(values), np.int64)
    bound = bind_columns(axes, [(0, values)], len(values))
    kernels.encode_cells(axes.address, bound.address, address_of(cell_axes), len(values), address_of(codes))
    return codes


_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_STRING_KINDS: Final = {pa.string().id: KIND_TEXT32, pa.large_string().id: KIND_TEXT64}


class ColumnPlan:
    """Which columns of a schema are read, and how."""

    __slots__ = ("_children", "_table", "columns", "schema", "tested", "texts")

    def __init__(
        self,
        schema: pa.Schema,
        table: list[int],
        children: list[int],
        tested: dict[str, int],
        texts: list[tuple[str, int]],
    ) -> None:
        self.schema = schema
        self.columns = len(children)
        # Behind the columns that axes read lie those of strings that are tested.
        self._children = array("q", [*children, *(place for _, place in texts)])
        for _, place in texts:
            table += (_STRING_KINDS[schema.field(place).type.id], *[0] * (COLUMN_FIELDS - 2), 0)
        self._table = array("q", table)
        self.tested = tested
        """The places of the columns whose values are tested, by attribute."""
        self.texts = texts
        """Those of them, and of all that are searched, that hold strings: their names and places."""

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        axis_of: Mapping[str, int],
        tested: Collection[str],
        searched: bool = False,
        paths: bool = False,
        computed: int = 0,
    ) -> ColumnPlan | None:
        """The plan for a schema; None where its columns must be looked at one by one.

        Where events are `searched`, all columns are tested; with `paths`, columns are named by attributes' paths. So
        are the last ones, which are `computed` and never searched.
        """
        first_computed = len(schema) - computed
        table: list[int] = []
        children: list[int] = []
        places: dict[str, int] = {}
        texts: list[tuple[str, int]] = []
        read: set[str] = set()
        for place, column in enumerate(schema):
            is_computed = place >= first_computed
            name = column.name if paths or is_computed else join_path((column.name,))
            if pa.types.is_nested(column.type):
                if searched:
                    return None
                within = name + "."
                if any(each == name or each.startswith(within) for each in (*axis_of, *tested)):
                    return None
                continue
            if name not in axis_of and name not in tested and (is_computed or not searched):
                continue
            if name in read:
                return None
            read.add(name)
            if name in tested or (searched and not is_computed):
                if direct_kind(column.type) is None:
                    return None
                if column.type.id in _STRING_KINDS:
                    texts.append((name, place))
                else:
                    places[name] = place
            if name in axis_of:
                kind = direct_kind(column.type)
                if kind is None:
                    return None
                children.append(place)
                table += (kind[0], axis_of[name], 0, 0, 0, 0, 0, *kind[1], 0, 0)
        return cls(schema, table, children, places, texts)

    def bind(self, batch: pa.RecordBatch) -> ExportedColumns:
        return ExportedColumns(self._table, self._children, self.columns, batch)


class ExportedColumns(BoundColumns):
    """The columns of one batch, for as long as they are needed: what was exported must be released."""

    __slots__ = ("_exported", "_release")

    def __init__(self, template: array[int], children: array[int], columns: int, batch: pa.RecordBatch) -> None:
        self.table = template[:]
        self.address = self.table.buffer_info()[0]
        self.count = columns
        self.rows = batch.num_rows
        self.kept = []
        self._exported = array("q", bytes(8 * ARRAY_FIELDS))
        self._release: Callable[[int], Any] | None = None
        exported = self._exported.buffer_info()[0]
        batch._export_to_c(exported)
        self._release = _RELEASE(self._exported[ARRAY_RELEASE])
        kernels.bind_exported(exported, children.buffer_info()[0], len(children), self.address)

    def __enter__(self) -> ExportedColumns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the batch back to Arrow."""
        # Once: a second release would be of memory that Arrow has freed.
        release, self._release = self._release, None
        if release is not None:
            release(self._exported.buffer_info()[0])


_CHOICES_AT_A_TIME: Final = 8_192


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """Columns by the dotted names of attributes: of one value a row, and of lists."""

    scalars: dict[str, pa.Array] = field(default_factory=dict)
    lists: dict[str, pa.Array] = field(default_factory=dict)

    def choices(self, count: int) -> Iterator[tuple[Mapping[str, pa.Array], Int64s]] | None:
        """Columns of one value a row, a row for every choice of elements, some at a time; with the rows they are of.

        None where a row has too many.
        """
        lengths = [list_lengths(column) for column in self.lists.values()]
        # A row without elements is one choice, in which the attribute is missing.
        several = [np.maximum(each, 1) for each in lengths]
        # Floats, because the product of several lengths may not fit into 64 bits.
        counts = np.ones(count, np.float64)
        for each in several:
            counts *= each
        if counts.max(initial=0) > MAX_CHOICES:
            return None
        return self._lay_out(counts.astype(np.int64), lengths, several)

    def _lay_out(
        self, counts: Int64s, lengths: list[Int64s], several: list[Int64s]
    ) -> Iterator[tuple[Mapping[str, pa.Array], Int64s]]:
        rows = np.repeat(np.arange(len(counts)), counts)
        choice = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places: dict[str, tuple[pa.Array, Int64s]] = {}
        for name, length, many in zip(self.lists, lengths, several, strict=True):
            # The number of a choice, read as digits: one digit per array, whose base is the array's length.
            choice, element = np.divmod(choice, many[rows])
            place = (np.cumsum(length) - length)[rows] + element
            elements = _takeable(simplify(self.lists[name].flatten(), name))
            places[name] = elements, np.where(length[rows] == 0, -1, place)
        scalars = {name: _takeable(column) for name, column in self.scalars.items()}
        for first in range(0, len(rows), _CHOICES_AT_A_TIME):
            some = rows[first : first + _CHOICES_AT_A_TIME]
            columns = {name: column.take(pa.array(some)) for name, column in scalars.items()}
            for name, (elements, place) in places.items():
                chosen = place[first : first + _CHOICES_AT_A_TIME]
                columns[name] = elements.take(pa.array(chosen, mask=chosen < 0))
            yield columns, some


def _takeable(column: pa.Array) -> pa.Array:
    """A column of a type of which Arrow can take rows."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(column.type)
    return column if plain is None else column.cast(plain)


def list_lengths(column: pa.Array) -> Int64s:
    """The length of each list of a column; 0 where it is null."""
    lengths: Int64s = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def flatten_columns(batch: pa.RecordBatch, wanted: Collection[str] | None, paths: bool = False) -> FlatColumns | None:
    """The wanted columns, or all; None where a wanted one lies within lists of structures.

    With `paths`, the columns are named by the paths of attributes, not by names of their own.
    """
    columns = FlatColumns()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if paths and wanted is not None and name not in wanted and not pa.types.is_nested(column.type):
            continue
        if not _flatten((name,), column, wanted, columns, paths):
            return None
    return columns


def _flatten(
    path: tuple[str, ...], column: pa.Array, wanted: Collection[str] | None, columns: FlatColumns, paths: bool
) -> bool:
    name = path[0] if paths else join_path(path)
    if pa.types.is_struct(column.type) and not paths:
        fields = [column.type.field(index).name for index in range(column.type.num_fields)]
        return all(
            _flatten((*path, field), child, wanted, columns, paths)
            for field, child in zip(fields, column.flatten(), strict=True)
        )
    is_list = is_list_of_scalars(column.type)
    if pa.types.is_nested(column.type) and not (is_list and wanted is not None and name in wanted):
        return wanted is not None and not any(is_within(each, name) for each in wanted)
    if wanted is None or name in wanted:
        if name in columns.scalars or name in columns.lists:
            raise EventError("two columns have this name", name)
        if is_list:
            columns.lists[name] = column
        else:
            columns.scalars[name] = simplify(column, name)
    return True


def is_list_of_scalars(kind: pa.DataType) -> bool:
    """Whether a type is that of an array of scalars."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and not pa.types.is_nested(kind.value_type))


def is_within(name: str, path: str) -> bool:
    """Whether an attribute is that of a path, or of a member of it."""
    return name == path or name.startswith(path + ".")
