"""The columns of a batch by the attributes they are.

A structure is so many columns. A list is several values of one attribute, and a row with lists is one row for every
choice of their elements; only what is asked for is laid out so. What lies deeper, a list of structures or a map, is
told by rows alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError
from palio.events.names import join_path
from palio.filters.choosing import MOST_CHOICES
from palio.matching.columnar.columns import simplified
from palio.matching.columnar.segment import Ints

_ROWS: Final = 8_192  # choices laid out at a time


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """Columns by the dotted names of attributes: of one value a row, and of lists."""

    scalars: dict[str, pa.Array] = field(default_factory=dict)
    lists: dict[str, pa.Array] = field(default_factory=dict)

    def choices(self, count: int) -> Iterator[tuple[Mapping[str, pa.Array], Ints]] | None:
        """Columns of one value a row, a row for every choice of elements, some at a time; with the rows they are of.

        None where a row has too many.
        """
        lengths = [_lengths(column) for column in self.lists.values()]
        several = [np.maximum(each, 1) for each in lengths]
        counts = np.ones(count, np.float64)
        for each in several:
            counts *= each
        if counts.max(initial=0) > MOST_CHOICES:
            return None
        return self._laid_out(counts.astype(np.int64), lengths, several)

    def _laid_out(
        self, counts: Ints, lengths: list[Ints], several: list[Ints]
    ) -> Iterator[tuple[Mapping[str, pa.Array], Ints]]:
        rows = np.repeat(np.arange(len(counts)), counts)
        choice = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places: dict[str, tuple[pa.Array, Ints]] = {}
        for name, length, many in zip(self.lists, lengths, several, strict=True):
            choice, element = np.divmod(choice, many[rows])
            place = (np.cumsum(length) - length)[rows] + element
            elements = _takeable(simplified(self.lists[name].flatten(), name))
            places[name] = elements, np.where(length[rows] == 0, -1, place)
        scalars = {name: _takeable(column) for name, column in self.scalars.items()}
        for first in range(0, len(rows), _ROWS):
            own = rows[first : first + _ROWS]
            columns = {name: column.take(pa.array(own)) for name, column in scalars.items()}
            for name, (elements, place) in places.items():
                chosen = place[first : first + _ROWS]
                columns[name] = elements.take(pa.array(chosen, mask=chosen < 0))
            yield columns, own


def _takeable(column: pa.Array) -> pa.Array:
    """A column of a type of which Arrow can take rows."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(column.type)
    return column if plain is None else column.cast(plain)


def _lengths(column: pa.Array) -> Ints:
    """How many elements each row has; none where it is null."""
    lengths: Ints = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def flat_columns(batch: pa.RecordBatch, wanted: Collection[str] | None, paths: bool = False) -> FlatColumns | None:
    """The columns that are asked for, or all; None where what is asked for lies too deep.

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
    is_list = _is_list_of_scalars(column.type)
    if pa.types.is_nested(column.type) and not (is_list and wanted is not None and name in wanted):
        return wanted is not None and not any(is_within(each, name) for each in wanted)
    if wanted is None or name in wanted:
        if name in columns.scalars or name in columns.lists:
            raise EventError("two columns have this name", name)
        if is_list:
            columns.lists[name] = column
        else:
            columns.scalars[name] = simplified(column, name)
    return True


def _is_list_of_scalars(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and not pa.types.is_nested(kind.value_type))


def is_within(name: str, path: str) -> bool:
    """Whether an attribute is that of a path, or of a member of it."""
    return name == path or name.startswith(path + ".")
