"""Matching a batch: Arrow columns straight into the index, rows and ids out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.errors import EventError
from palio.events import Event
from palio.events.names import join_path, split_path
from palio.matching.catalogue import Catalogue
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
    if isinstance(events, str | bytes | Mapping | Event):
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
    columns = flat_columns(batch, segment.attributes, paths)
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
    all_attributes = events.all()
    for index in asked:
        filter = catalogue[int(numbers[index])].filter
        keep[index] = filter.matches_attributes(all_attributes[int(rows[index])])
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
            self._attributes = [event.attributes for event in events]
            if self._paths and not isinstance(self._piece, list):
                rename = _Renaming(self._piece.schema.names)
                self._attributes = [
                    {rename[name]: value for name, value in attributes.items()} for attributes in self._attributes
                ]
        return self._attributes


class _Renaming(dict[str, str]):
    """From an attribute whose first name was taken as a name of its own to one whose first name is a path."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__((join_path((path,)), path) for path in paths)

    def __missing__(self, attribute: str) -> str:
        first, *rest = split_path(attribute)
        self[attribute] = renamed = ".".join((first, join_path(rest)))
        return renamed


def flat_columns(batch: pa.RecordBatch, wanted: Collection[str], paths: bool = False) -> dict[str, pa.Array] | None:
    """The columns that are asked for, by dotted name; None where one holds arrays or maps, which rows must tell."""
    columns: dict[str, pa.Array] = {}
    if paths:
        named = zip(batch.schema.names, batch.columns, strict=True)
        columns = {name: column for name, column in named if name in wanted}
        return None if any(pa.types.is_nested(column.type) for column in columns.values()) else columns
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _flatten((name,), column, wanted, columns):
            return None
    return columns


def _flatten(path: tuple[str, ...], column: pa.Array, wanted: Collection[str], columns: dict[str, pa.Array]) -> bool:
    name = join_path(path)
    if pa.types.is_struct(column.type):
        fields = [column.type.field(index).name for index in range(column.type.num_fields)]
        return all(
            _flatten((*path, field), child, wanted, columns)
            for field, child in zip(fields, column.flatten(), strict=True)
        )
    if pa.types.is_nested(column.type):
        return not any(each == name or each.startswith(name + ".") for each in wanted)
    if name in wanted:
        columns[name] = column
    return True
