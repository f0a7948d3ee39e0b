"""Matching a batch: Arrow columns straight into the index, rows and ids out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.errors import EventError
from palio.events import Event
from palio.events.names import join_path, split_path
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.columns import simplified
from palio.matching.columnar.segment import AskTheFilters, Ints, Numbers, Segment
from palio.matching.live import LiveSubscriptions

_ROWS: Final = 8_192  # rows matched at a time: enough to share the work of a column, few enough to stay in cache
_FEW_OF_ALL: Final = 2  # so many ids for every match, and a result has a dictionary of its own
RESULT_SCHEMA: Final = pa.schema([("row", pa.int64()), ("subscription", pa.dictionary(pa.int32(), pa.string()))])


def match_batch(
    events: Any,
    segments: Sequence[Segment],
    live: LiveSubscriptions,
    catalogue: Catalogue,
) -> pa.Table:
    """All matches of a batch of events."""
    found: list[tuple[Ints, Numbers]] = []
    base = 0
    for piece in _pieces(events):
        row, number = match_piece(piece, segments, live, catalogue)
        if base:
            row += base
        found.append((row, number))
        base += len(piece)
    names = catalogue.names()
    if sum(len(number) for _, number in found) * _FEW_OF_ALL < len(names):
        found, names = _only_those_found(found, names)
    return pa.Table.from_batches([_result(row, number, names) for row, number in found], RESULT_SCHEMA)


def _only_those_found(
    found: Sequence[tuple[Ints, Numbers]], names: pa.StringArray
) -> tuple[list[tuple[Ints, Numbers]], pa.StringArray]:
    """The same matches with a dictionary of the ids that occur: whoever sends or writes a result sends that, too."""
    numbers = np.unique(np.concatenate([number for _, number in found])) if found else np.empty(0, np.int32)
    own = [(row, np.searchsorted(numbers, number).astype(np.int32)) for row, number in found]
    return own, names.take(pa.array(numbers))


def _result(row: Ints, number: Numbers, names: pa.StringArray) -> pa.RecordBatch:
    # The numbers are the catalogue's own: looking through millions of them for one out of bounds would find none.
    subscription = pa.DictionaryArray.from_arrays(pa.array(number, pa.int32()), names, safe=False)
    return pa.RecordBatch.from_arrays([pa.array(row, pa.int64()), subscription], schema=RESULT_SCHEMA)


def _pieces(events: Any) -> Iterator[pa.RecordBatch | list[Event]]:
    if isinstance(events, pa.RecordBatch) and events.num_rows <= _ROWS:
        yield events
        return
    if isinstance(events, pa.RecordBatch):
        events = pa.Table.from_batches([events])
    if isinstance(events, pa.Table):
        yield from events.to_batches(max_chunksize=_ROWS)
        return
    if isinstance(events, str | bytes | Mapping | Event) or not isinstance(events, Iterable):
        raise EventError(
            f"a batch is a pyarrow Table or RecordBatch or a sequence of events, not one {type(events).__name__}"
        )
    pending: list[Event] = []
    for event in events:
        pending.append(Event.read(event))
        if len(pending) == _ROWS:
            yield pending
            pending = []
    if pending:
        yield pending


def match_piece(
    piece: pa.RecordBatch | list[Event],
    segments: Sequence[Segment],
    live: LiveSubscriptions,
    catalogue: Catalogue,
    paths: bool = False,
) -> tuple[Ints, Numbers]:
    """Rows and numbers of the matches of one piece, by row; with `paths`, columns are named by attributes' paths."""
    events = _Events(piece, paths)
    rows: list[Ints] = []
    numbers: list[Numbers] = []
    for segment in segments:
        found = None
        if not isinstance(piece, list):
            found = segment.match_batch(piece, paths) or _match_columns(segment, piece, paths)
        row, number = _match_events(segment, events.all(), catalogue) if found is None else found
        row, number = _sure(segment, row, number, events, catalogue)
        rows.append(row)
        numbers.append(number)
    if len(live):
        newest = [live.match(attributes) for attributes in events.all()]
        rows.append(np.repeat(np.arange(len(newest)), [len(each) for each in newest]))
        numbers.append(np.array([number for each in newest for number in each], np.int32))
    if len(rows) == 1:
        return rows[0], numbers[0]
    row = np.concatenate(rows) if rows else np.empty(0, np.int64)
    number = np.concatenate(numbers) if numbers else np.empty(0, np.int32)
    order = np.argsort(row, kind="stable")
    return row[order], number[order]


def _match_columns(segment: Segment, batch: pa.RecordBatch, paths: bool) -> tuple[Ints, Numbers] | None:
    """The candidates for columns looked at one by one; None where they must be looked at row by row."""
    columns = flat_columns(batch, None if segment.reads_whole_event else segment.attributes, paths)
    if columns is None:
        return None
    try:
        return segment.match_columns(columns, batch.num_rows)
    except AskTheFilters:
        return None


def _match_events(segment: Segment, events: Sequence[Mapping[str, Any]], catalogue: Catalogue) -> tuple[Ints, Numbers]:
    from palio.matching.matcher import segment_candidates

    rows: list[int] = []
    numbers: list[int] = []
    for row, attributes in enumerate(events):
        found = segment_candidates(segment, attributes, catalogue)
        rows += [row] * len(found)
        numbers += found
    return np.array(rows, np.int64), np.array(numbers, np.int32)


def _sure(
    segment: Segment, rows: Ints, numbers: Numbers, events: _Events, catalogue: Catalogue
) -> tuple[Ints, Numbers]:
    """Without the candidates whose residual conditions do not hold."""
    if not len(segment.unsure) or not len(numbers):
        return rows, numbers
    at = np.searchsorted(segment.unsure, numbers)
    at[at == len(segment.unsure)] = 0
    asked = np.flatnonzero(segment.unsure[at] == numbers)
    if not len(asked):
        return rows, numbers
    keep = np.ones(len(numbers), bool)
    for number in np.unique(numbers[asked]).tolist():
        filter = catalogue[number].filter
        own = asked[numbers[asked] == number]
        names = None if filter.reads_whole_event else filter.attributes
        keep[own] = [filter.matches_attributes(attributes) for attributes in events.some(rows[own], names)]
    return rows[keep], numbers[keep]


class _Events:
    """The events of a piece, one by one, made only when a condition needs them so."""

    def __init__(self, piece: pa.RecordBatch | list[Event], paths: bool = False) -> None:
        self._piece = piece
        self._paths = paths
        self._attributes: list[Mapping[str, Any]] | None = None

    def all(self) -> list[Mapping[str, Any]]:
        if self._attributes is None:
            events = self._piece if isinstance(self._piece, list) else Event.from_arrow(self._piece)
            self._attributes = list(self._renamed(event.attributes for event in events))
        return self._attributes

    def _renamed(self, events: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        """Events by the paths of their attributes, where the columns are named by those."""
        if not self._paths or isinstance(self._piece, list):
            return events
        rename = _Renaming(self._piece.schema.names)
        return ({rename[name]: value for name, value in attributes.items()} for attributes in events)

    def some(self, rows: Ints, names: Collection[str] | None) -> Iterator[Mapping[str, Any]]:
        """The events of some rows, in that order; of their attributes at least those that are named."""
        taken = None
        if self._attributes is None and not isinstance(self._piece, list):
            narrow = self._piece if names is None else _with_columns_of(self._piece, names, self._paths)
            with suppress(pa.ArrowNotImplementedError):  # of columns of some rare types, rows cannot be taken
                taken = narrow.take(pa.array(rows))
        if taken is not None:
            yield from self._renamed(event.attributes for event in Event.from_arrow(taken))
        else:
            known = self.all()
            yield from (known[row] for row in rows.tolist())


class _Renaming(dict[str, str]):
    """From an attribute whose first name was taken as a name of its own to one whose first name is a path."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__((join_path((path,)), path) for path in paths)

    def __missing__(self, attribute: str) -> str:
        first, *rest = split_path(attribute)
        self[attribute] = renamed = ".".join((first, join_path(rest)))
        return renamed


def _with_columns_of(batch: pa.RecordBatch, names: Collection[str], paths: bool) -> pa.RecordBatch:
    """A batch without the columns that have no part in some attributes."""
    first = {split_path(name)[0] for name in names}
    if paths:
        first = {
            each for each in batch.schema.names if any(name == each or name.startswith(each + ".") for name in names)
        }
    return batch.select([place for place, name in enumerate(batch.schema.names) if name in first])


def flat_columns(
    batch: pa.RecordBatch, wanted: Collection[str] | None, paths: bool = False
) -> dict[str, pa.Array] | None:
    """The columns that are asked for, by dotted name; None where one holds arrays or maps, which rows must tell.

    Where none are named, all are asked for.
    """
    columns: dict[str, pa.Array] = {}
    if paths:
        named = zip(batch.schema.names, batch.columns, strict=True)
        columns = {name: column for name, column in named if wanted is None or name in wanted}
        if any(pa.types.is_nested(column.type) for column in columns.values()):
            return None
        return {name: simplified(column, name) for name, column in columns.items()}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _flatten((name,), column, wanted, columns):
            return None
    return columns


def _flatten(
    path: tuple[str, ...], column: pa.Array, wanted: Collection[str] | None, columns: dict[str, pa.Array]
) -> bool:
    name = join_path(path)
    if pa.types.is_struct(column.type):
        fields = [column.type.field(index).name for index in range(column.type.num_fields)]
        return all(
            _flatten((*path, field), child, wanted, columns)
            for field, child in zip(fields, column.flatten(), strict=True)
        )
    if pa.types.is_nested(column.type):
        return wanted is not None and not any(each == name or each.startswith(name + ".") for each in wanted)
    if wanted is None or name in wanted:
        if name in columns:
            raise EventError("two columns have this name", name)
        columns[name] = simplified(column, name)
    return True
