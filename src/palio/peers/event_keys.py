"""Keys of event batches under a key mapping, computed by column.

The mappings of `palio.peers.rendezvous_mappings` define the keys of one event; here a whole Arrow column is looked up
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import PipelineError
from palio.events import Event
from palio.events.arrow import read_column
from palio.events.values import MAX_INT64, MIN_INT64
from palio.filters.kinds import LAST_FLOAT, MISSING, Kind
from palio.peers.histograms import Histogram, OrderedCells
from palio.peers.placement import EventCells, Int64s
from palio.peers.rendezvous_mappings import AttributeSplit, KeyMapping, KeySpaceSplit, SelectiveAttribute

_UNIX_EPOCH_ORDINAL: Final = 719_163  # `date(1970, 1, 1).toordinal()`
_MAGNITUDE_MASK: Final = np.int64(0x7FFFFFFFFFFFFFFF)

Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnCells:
    """The cells of a column. `rows` has the row of each cell, ascending, where rows may have several; `present` is
    set for cells of actual values.
    """

    cells: Int64s
    present: Bools
    rows: Int64s | None = None


class EventKeys:
    """Computes the keys of batches under one mapping; made once in a worker."""

    def __init__(self, mapping: KeyMapping) -> None:
        self._mapping = mapping
        self._columns = {name: ColumnScale(scale) for name, scale in mapping.histograms.items()}

    def of_columns(self, columns: Mapping[str, pa.Array], count: int) -> list[EventCells]:
        """Keys of rows whose attributes are columns; an attribute without a column is missing."""
        cells = {
            name: scale.cells(columns[name]) if name in columns else scale.missing(count)
            for name, scale in self._columns.items()
        }
        match self._mapping:
            case SelectiveAttribute():
                return self._each(cells, count)
            case AttributeSplit(chosen=str(chosen)):
                return [_keyed(0, cells[chosen], count)]
            case KeySpaceSplit():
                return [self._product(cells, count)]
        raise PipelineError(f"events of a job cannot be keyed by {self._mapping.name} with {self._mapping!r}")

    def of_events(self, events: Sequence[Event]) -> list[EventCells]:
        """Keys of single events."""
        rows: dict[int, tuple[list[int], list[int]]] = {axis: ([], []) for axis in range(len(self._mapping.sizes))}
        for row, event in enumerate(events):
            for axis, cell in self._mapping.event_keys(event.attributes):
                rows[axis][0].append(row)
                rows[axis][1].append(cell)
        return [
            EventCells(axis, np.array(at, np.int64), np.array(cells, np.int64)) for axis, (at, cells) in rows.items()
        ]

    def _each(self, cells: Mapping[str, ColumnCells], count: int) -> list[EventCells]:
        keyed = []
        for axis, found in enumerate(cells.values()):
            rows = np.arange(count) if found.rows is None else found.rows
            keyed.append(EventCells(axis, rows[found.present], found.cells[found.present]))
        everyone = np.arange(count)
        return [*keyed, EventCells(len(cells), everyone, np.zeros(count, np.int64))]

    def _product(self, cells: Mapping[str, ColumnCells], count: int) -> EventCells:
        rows, keys = np.arange(count), np.zeros(count, np.int64)
        for name, found in cells.items():
            size = self._mapping.histograms[name].cells
            if found.rows is None:
                keys = keys * size + found.cells[rows]
                continue
            # Cross every key so far with every cell of its row.
            lengths = np.bincount(found.rows, minlength=count)
            starts = np.cumsum(lengths) - lengths
            repeats = lengths[rows]
            within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            keys = np.repeat(keys, repeats) * size + found.cells[np.repeat(starts[rows], repeats) + within]
            rows = np.repeat(rows, repeats)
        return EventCells(0, rows, keys)


def _keyed(axis: int, found: ColumnCells, count: int) -> EventCells:
    return EventCells(axis, np.arange(count) if found.rows is None else found.rows, found.cells)


class ColumnScale:
    """A scale for columns: a search in the cuts where the type allows, else one lookup for each distinct value."""

    def __init__(self, scale: Histogram) -> None:
        self._scale = scale
        self._missing = scale.cell(MISSING)

    def missing(self, count: int) -> ColumnCells:
        return ColumnCells(np.full(count, self._missing, np.int64), np.zeros(count, np.bool_))

    def cells(self, column: pa.Array) -> ColumnCells:
        """The distinct cells of each row; a row without a value has the cell of missing values."""
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            return self._of_values(column)
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        inner = self._of_values(column.flatten())
        count = len(lengths)
        rows = np.repeat(np.arange(count), lengths)
        empty = np.flatnonzero(lengths == 0)
        rows = np.concatenate([rows, empty])
        cells = np.concatenate([inner.cells, np.full(len(empty), self._missing)])
        present = np.concatenate([inner.present, np.zeros(len(empty), np.bool_)])
        # Sorted by row, then cell, then values before NULLs, and the first of each cell is kept: a NULL element may
        # share its cell with a value, and then the value counts.
        width = 2 * self._scale.cells
        _, kept = np.unique(rows * width + cells * 2 + ~present, return_index=True)
        return ColumnCells(cells[kept], present[kept], rows[kept])

    def _of_values(self, column: pa.Array) -> ColumnCells:
        present = column.is_valid().to_numpy(zero_copy_only=False)
        cells = self._search_cuts(column)
        if cells is None:
            cells = self._look_up_distinct(column)
        return ColumnCells(np.where(present, cells, self._missing), present)

    def _search_cuts(self, column: pa.Array) -> Int64s | None:
        """The cells of a column whose values have integer positions; None for other types. NULLs get any cell."""
        for is_of, kind, read in _READERS:
            if is_of(column.type):
                cells: Int64s = self._scale.cells_by_kind[kind].first + np.searchsorted(
                    self._cuts[kind], read(column), side="right"
                )
                return cells
        return None

    @cached_property
    def _cuts(self) -> dict[Kind, Int64s]:
        """The cuts of kinds with integer positions; those above 64 bits are above all values and are dropped."""
        return {
            kind: np.array([max(MIN_INT64, cut) for cut in stretch.cuts if cut <= MAX_INT64], np.int64)
            for kind in (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)
            if isinstance(stretch := self._scale.cells_by_kind[kind], OrderedCells)
        }

    def _look_up_distinct(self, column: pa.Array) -> Int64s:
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        cells = [self._scale.cell(value) for value in read_column(column.dictionary)]
        at = pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*cells, self._missing], np.int64)[at])


def _integers(column: pa.Array) -> Int64s:
    return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)).astype(np.int64)


def _booleans(column: pa.Array) -> Int64s:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False)).astype(np.int64)


def _floats(column: pa.Array) -> Int64s:
    """Positions as `float_position` has them: order-preserving integers, NaN last."""
    values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
    # IEEE 754 bits order positive floats; adding 0.0 above has turned -0.0 into 0.0.
    bits = values.view(np.int64)
    places = np.where(bits >= 0, bits, -(bits & _MAGNITUDE_MASK))
    return np.where(np.isnan(values), LAST_FLOAT, places)


def _days(column: pa.Array) -> Int64s:
    return _integers(column.cast(pa.int32())) + _UNIX_EPOCH_ORDINAL


def _micros(column: pa.Array) -> Int64s:
    return _integers(column.cast(pa.int64()))


_Reader: TypeAlias = Callable[[Any], Int64s]
_READERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Kind, _Reader], ...]] = (
    (pa.types.is_boolean, Kind.BOOLEAN, _booleans),
    # Unsigned 64-bit integers may exceed the positions of a search; they are looked up one by one.
    (lambda kind: pa.types.is_integer(kind) and not pa.types.is_uint64(kind), Kind.INTEGER, _integers),
    (lambda kind: pa.types.is_float32(kind) or pa.types.is_float64(kind), Kind.FLOAT, _floats),
    (pa.types.is_date32, Kind.DATE, _days),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us", Kind.TIMESTAMP, _micros),
)
