"""Matching a batch: Arrow columns straight into the index, rows and ids out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.errors import EventError
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.segment import AskTheFilters, Ints, Numbers, Segment
from palio.matching.event_rows import EventRows, match_events, once
from palio.matching.flat_columns import FlatColumns, flat_columns
from palio.matching.live import LiveSubscriptions
from palio.matching.single_events import SingleEvents

_ROWS: Final = 8_192  # rows matched at a time: enough to share the work of a column, few enough to stay in cache
FEWEST_TRANSPOSED: Final = 16  # events for which it may be worth making columns of them
_EVENTS_FOR_A_COLUMN: Final = 2  # so many more for each column
_FEW_OF_ALL: Final = 1_024  # so many ids for every match: making a dictionary of its own then costs a result nothing
_ASKED: Final = 4_096  # candidates with residual conditions that are asked at a time
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
    elif not isinstance(events, pa.Table) and hasattr(events, "__arrow_c_stream__"):
        events = pa.table(events)  # a DataFrame of Polars, a reader of batches
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
    events = SingleEvents(piece, paths)
    transposed: EventRows | None = None
    rows: list[Ints] = []
    numbers: list[Numbers] = []
    for segment in segments:
        found = None
        if not isinstance(piece, list):
            found = segment.match_batch(piece, paths) or _match_columns(segment, piece, paths)
        elif transposed or _is_worth_columns(piece, segments):
            transposed = transposed or EventRows(events.all(), segments)
            found = transposed.match(segment, catalogue)
        row, number = match_events(segment, events.all(), catalogue) if found is None else found
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


def _is_worth_columns(events: Sequence[Event], segments: Sequence[Segment]) -> bool:
    """Whether there are so many events that making columns of what is asked about takes less time than it saves."""
    if len(events) < FEWEST_TRANSPOSED:
        return False
    columns = len(events[0].attributes)
    if not any(segment.reads_whole_event for segment in segments):
        columns = min(columns, sum(len(segment.attributes) for segment in segments))
    return len(events) >= FEWEST_TRANSPOSED + _EVENTS_FOR_A_COLUMN * columns


def _match_columns(segment: Segment, batch: pa.RecordBatch, paths: bool) -> tuple[Ints, Numbers] | None:
    """The candidates for columns looked at one by one; None where they must be looked at row by row."""
    columns = flat_columns(batch, None if segment.reads_whole_event else segment.attributes, paths)
    # An array without elements is a missing value, which a column does not tell from null.
    if columns is None or not segment.null_is_not_missing.isdisjoint(columns.lists):
        return None
    try:
        if columns.lists:
            return _match_choices(segment, columns, batch.num_rows)
        return segment.match_columns(columns.scalars, batch.num_rows)
    except AskTheFilters:
        return None


def _match_choices(segment: Segment, columns: FlatColumns, count: int) -> tuple[Ints, Numbers] | None:
    choices = columns.choices(count)
    if choices is None:
        return None
    found = [np.empty(0, np.int64)]
    for chosen, rows in choices:
        place, number = segment.match_columns(chosen, len(rows))
        found.append(rows[place] << 32 | number)
    return once(np.concatenate(found))


def _sure(
    segment: Segment, rows: Ints, numbers: Numbers, events: SingleEvents, catalogue: Catalogue
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
    order = asked[np.argsort(numbers[asked], kind="stable")]
    for own in np.array_split(order, range(_ASKED, len(order), _ASKED)):
        filters = [catalogue.filter(number) for number in numbers[own].tolist()]
        found = events.some(rows[own], _read_by(filters))
        keep[own] = [filter.matches_attributes(each) for filter, each in zip(filters, found, strict=True)]
    return rows[keep], numbers[keep]


def _read_by(filters: Iterable[Filter]) -> frozenset[str] | None:
    """The attributes that some filters look at; None where it may be any."""
    different = {id(filter): filter for filter in filters}.values()
    if any(filter.reads_whole_event for filter in different):
        return None
    return frozenset().union(*(filter.attributes for filter in different))
