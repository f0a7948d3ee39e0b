"""Matching of batches: Arrow columns straight into the index, rows and subscriptions out.

A batch is matched in pieces of some thousand rows. A piece of Arrow columns goes to each segment as columns; a list of
events is transposed to columns, or taken as cells, where there are enough of them. What a segment cannot take so is
matched row by row. Residual conditions are checked on the candidates, and the live segment is evaluated on every row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.errors import EventError
from palio.events import Event
from palio.events.foreign_objects import as_arrow
from palio.filters.tree import Attributes
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.array_types import Int32s, Int64s
from palio.matching.columnar.arrow_columns import FlatColumns, flatten_columns
from palio.matching.columnar.computed_columns import ComputedValues
from palio.matching.columnar.event_cells import EventCells, read_events
from palio.matching.columnar.event_codes import CannotEncode
from palio.matching.columnar.segment import Segment
from palio.matching.columnar.segment_encoder import CannotCompute
from palio.matching.columnar.transposition import MAX_LOOKED_UP, TransposedEvents, choices_of
from palio.matching.live_segment import LiveSegment
from palio.matching.residuals import RowReader, check_residuals, check_residuals_of_rows

_PIECE_ROWS: Final = 8_192  # enough to share the work of a column, few enough to stay in cache
_PIECE_EVENTS: Final = 2_048  # of events in Python's objects, which take more room
MIN_TRANSPOSED_EVENTS: Final = 16  # that may be worth the transposition to columns
_MIN_EVENTS_PER_COLUMN: Final = 2  # more for each column
_MIN_CELL_EVENTS: Final = 24  # that are worth being taken as cells, whatever their attributes
_MAX_IDS_PER_MATCH: Final = 1_024  # ids in the dictionary of a result; beyond, the result gets a dictionary of its own
_MAX_MATCHES_BY_HAND: Final = 16  # that get their dictionary in Python: starting NumPy and Arrow takes 25 µs
RESULT_SCHEMA: Final = pa.schema([("row", pa.int64()), ("subscription", pa.dictionary(pa.int32(), pa.string()))])
_ID_TYPE: Final = RESULT_SCHEMA.field("subscription").type
_NO_MATCHES: Final = pa.Table.from_batches([], RESULT_SCHEMA)  # `empty_table` imports pandas, half a second


def match_batch(
    events: Any,
    segments: Sequence[Segment],
    live: LiveSegment,
    catalogue: Catalogue,
) -> pa.Table:
    """All matches of a batch of events."""
    if type(events) is list and len(events) < MIN_TRANSPOSED_EVENTS:
        return _match_few(events, segments, live, catalogue)
    found: list[tuple[Int64s, Int32s]] = []
    base = 0
    for piece in _pieces(events):
        row, number = match_piece(piece, segments, live, catalogue)
        if base:
            row += base
        found.append((row, number))
        base += len(piece)
    return _table(found, catalogue)


def _match_few(events: list[Any], segments: Sequence[Segment], live: LiveSegment, catalogue: Catalogue) -> pa.Table:
    """All matches of a few events, one by one: a batch of one takes 20 µs so, and twice that with NumPy's arrays."""
    rows: list[int] = []
    numbers: list[int] = []
    for row, event in enumerate(events):
        attributes = Event.read(event).attributes
        for segment in segments:
            candidates = segment_candidates(segment, attributes, catalogue)
            numbers += check_residuals(segment, candidates, attributes, catalogue)
        if len(live):
            numbers += live.match(attributes)
        rows += [row] * (len(numbers) - len(rows))
    if len(rows) > _MAX_MATCHES_BY_HAND:
        return _table([(np.array(rows, np.int64), np.array(numbers, np.int32))], catalogue)
    return _small_table(rows, numbers, catalogue)


def _table(found: list[tuple[Int64s, Int32s]], catalogue: Catalogue) -> pa.Table:
    """The result, with the ids of all subscriptions as its dictionary, or of those that occur where they are few."""
    names = catalogue.names()
    matches = sum(len(number) for _, number in found)
    if matches * _MAX_IDS_PER_MATCH < len(names):
        if matches <= _MAX_MATCHES_BY_HAND:
            rows = [each for row, _ in found for each in row.tolist()]
            return _small_table(rows, [each for _, number in found for each in number.tolist()], catalogue)
        found, names = _with_own_dictionary(found, names)
    return pa.Table.from_batches([_result(row, number, names) for row, number in found], RESULT_SCHEMA)


def _small_table(rows: list[int], numbers: list[int], catalogue: Catalogue) -> pa.Table:
    if not rows:
        return _NO_MATCHES
    places: dict[int, int] = {}
    indices = array("i", [places.setdefault(number, len(places)) for number in numbers])
    ids = [catalogue.id_of(number).encode() for number in places]
    # From buffers: half of the time of arrays that Arrow makes of Python's lists.
    ends = array("i", accumulate(map(len, ids), initial=0))
    names = pa.Array.from_buffers(pa.string(), len(ids), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(ids))])
    row = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(array("q", rows))])
    subscription = pa.DictionaryArray.from_buffers(_ID_TYPE, len(rows), [None, pa.py_buffer(indices)], names)
    return pa.Table.from_arrays([row, subscription], schema=RESULT_SCHEMA)


def _with_own_dictionary(
    found: Sequence[tuple[Int64s, Int32s]], names: pa.StringArray
) -> tuple[list[tuple[Int64s, Int32s]], pa.StringArray]:
    """The matches with a dictionary of the ids that occur: sending a result sends its dictionary, too."""
    numbers = np.unique(np.concatenate([number for _, number in found]))
    renumbered = [(row, np.searchsorted(numbers, number).astype(np.int32)) for row, number in found]
    return renumbered, names.take(pa.array(numbers))


def _result(row: Int64s, number: Int32s, names: pa.StringArray) -> pa.RecordBatch:
    # safe=False: checking millions of numbers against the dictionary costs as much as matching them.
    subscription = pa.DictionaryArray.from_arrays(pa.array(number, pa.int32()), names, safe=False)
    return pa.RecordBatch.from_arrays([pa.array(row, pa.int64()), subscription], schema=RESULT_SCHEMA)


def count_rows(events: Any) -> int:
    """About how many events a batch has: those of a reader or an iterator are not known, and taken to be many."""
    if isinstance(events, pa.RecordBatch | pa.Table):
        return int(events.num_rows)
    return len(events) if isinstance(events, Sized) else _PIECE_ROWS


@dataclass(frozen=True, slots=True)
class EventPiece:
    """Some events, by their attributes; and their cells, where reading them has made these."""

    attributes: Sequence[Attributes]
    cells: EventCells | None = None

    def __len__(self) -> int:
        return len(self.attributes)

    @classmethod
    def read(cls, contents: Sequence[Any]) -> EventPiece:
        """Of anything that `Event.read` takes."""
        if len(contents) < MIN_TRANSPOSED_EVENTS:
            return cls([Event.read(each).attributes for each in contents])
        return cls(*read_events(contents))


def _pieces(events: Any) -> Iterator[pa.RecordBatch | EventPiece]:
    if type(events) is not list:  # of which a small one must not wait for the questions below
        events = as_arrow(events)
        if not isinstance(events, pa.Table) and hasattr(events, "__arrow_c_stream__"):
            if isinstance(events, pa.RecordBatch) and events.num_rows <= _PIECE_ROWS:
                yield events
                return
            events = pa.table(events)  # a larger batch, a DataFrame of Polars, a reader of batches
        if isinstance(events, pa.Table):
            yield from events.to_batches(max_chunksize=_PIECE_ROWS)
            return
        if isinstance(events, str | bytes | Mapping | Event) or not isinstance(events, Iterable):
            raise EventError(
                f"a batch is a pyarrow Table or RecordBatch or a sequence of events, not one {type(events).__name__}"
            )
    iterator = iter(events)
    while pending := list(islice(iterator, _PIECE_EVENTS)):
        yield EventPiece.read(pending)


def match_piece(
    piece: pa.RecordBatch | EventPiece,
    segments: Sequence[Segment],
    live: LiveSegment,
    catalogue: Catalogue,
    paths: bool = False,
) -> tuple[Int64s, Int32s]:
    """Rows and numbers of the matches of one piece, by row; with `paths`, columns are named by attributes' paths."""
    events = RowReader(piece.attributes if isinstance(piece, EventPiece) else piece, paths)
    transposed: EventColumns | None = None
    computed: dict[str, ComputedValues] = {}
    rows: list[Int64s] = []
    numbers: list[Int32s] = []
    for segment in segments:
        found = None
        if not isinstance(piece, EventPiece):
            found = segment.match_batch(piece, paths, computed) or _match_columns(segment, piece, paths)
        elif transposed or _is_worth_columns(piece.attributes, segments):
            transposed = transposed or EventColumns(piece, segments)
            found = transposed.match(segment, catalogue)
        # The slow way: events are made of the rows, if that has not been done, and matched one by one.
        row, number = match_one_by_one(segment, events.all(), catalogue) if found is None else found
        row, number = check_residuals_of_rows(segment, row, number, events, catalogue)
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


def _is_worth_columns(events: Sequence[Attributes], segments: Sequence[Segment]) -> bool:
    """Whether the transposition of the attributes that are read takes less time than it saves."""
    if len(events) < MIN_TRANSPOSED_EVENTS:
        return False
    columns = len(events[0])
    if not any(segment.encoder.reads_whole_event for segment in segments):
        read = sum(len(segment.encoder.attributes) for segment in segments)
        if read > MAX_LOOKED_UP:
            return len(events) >= _MIN_CELL_EVENTS
        columns = min(columns, read)
    return len(events) >= MIN_TRANSPOSED_EVENTS + _MIN_EVENTS_PER_COLUMN * columns


def _match_columns(segment: Segment, batch: pa.RecordBatch, paths: bool) -> tuple[Int64s, Int32s] | None:
    """The candidates for columns looked at one by one; None where they must be looked at row by row."""
    names = segment.encoder.attributes | segment.encoder.arrays
    columns = flatten_columns(batch, None if segment.encoder.reads_whole_event else names, paths)
    if columns is None:
        return None
    arrays = {name: column for name, column in columns.lists.items() if name in segment.encoder.arrays}
    chosen = {name: column for name, column in columns.lists.items() if name in segment.encoder.attributes}
    # An array without elements is a missing value, which a column does not tell from null.
    if not segment.encoder.null_is_not_missing.isdisjoint(chosen):
        return None
    try:
        if chosen:
            return _match_choices(segment, FlatColumns(columns.scalars, chosen), arrays, batch.num_rows)
        return segment.match_columns(columns.scalars, batch.num_rows, arrays)
    except (CannotEncode, pa.ArrowNotImplementedError):  # rows cannot be taken of some rare types
        return None


def _match_choices(
    segment: Segment, columns: FlatColumns, arrays: Mapping[str, pa.Array], count: int
) -> tuple[Int64s, Int32s] | None:
    choices = columns.choices(count)
    if choices is None:
        return None
    found = [np.empty(0, np.int64)]
    for chosen, rows in choices:
        whole = {name: column.take(pa.array(rows)) for name, column in arrays.items()}
        place, number = segment.match_columns(chosen, len(rows), whole)
        # Row and number in one integer, so that one sort finds pairs that several choices gave.
        found.append(rows[place] << 32 | number)
    return distinct_pairs(np.concatenate(found))


class EventColumns:
    """The events of a piece as columns, for all segments."""

    def __init__(self, events: EventPiece, segments: Sequence[Segment]) -> None:
        self._events = events.attributes
        self._wanted = {name for segment in segments for name in segment.encoder.attributes}
        self._searched = any(segment.encoder.reads_whole_event for segment in segments)
        self._flat = TransposedEvents(self._events, self._wanted, self._searched, cells=events.cells)
        self._arrays = sorted(set(self._flat.rows_of_arrays))

    def match(self, segment: Segment, catalogue: Catalogue) -> tuple[Int64s, Int32s] | None:
        """The candidates of a segment, by row; None where events must be matched one by one."""
        try:
            row, number = segment.match_transposed(self._flat)
            if not self._arrays:
                return row, number
            # The columns lack the arrays. What they gave for rows with arrays is dropped, and those rows follow.
            is_flat = np.ones(self._flat.count, bool)
            is_flat[self._arrays] = False
            flat = is_flat[row]
            found = [(row[flat], number[flat]), self._match_choices(segment), self._match_singly(segment, catalogue)]
        except CannotEncode:
            return None
        row, number = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(row, kind="stable")
        return row[order], number[order]

    @cached_property
    def _choices(self) -> tuple[TransposedEvents, Int64s, list[int]]:
        """The choices of elements as events, with their rows; and the rows that have too many."""
        events: list[Attributes] = []
        rows: list[int] = []
        left: list[int] = []
        for row in self._arrays:
            choices = choices_of(self._events[row], self._wanted)
            if choices is None:
                left.append(row)
            else:
                events += choices
                rows += [row] * len(choices)
        made = TransposedEvents(events, self._wanted, self._searched, [self._events[row] for row in rows])
        if self._searched:
            for place, row in enumerate(rows):
                several = (value for value in self._events[row].values() if isinstance(value, tuple))
                made.searched += [(place, values) for values in several]
        return made, np.array(rows, np.int64), left

    def _match_choices(self, segment: Segment) -> tuple[Int64s, Int32s]:
        choices, rows, _ = self._choices
        place, number = segment.match_transposed(choices)
        return distinct_pairs(rows[place] << 32 | number)

    def _match_singly(self, segment: Segment, catalogue: Catalogue) -> tuple[Int64s, Int32s]:
        left = self._choices[2]
        place, number = match_one_by_one(segment, [self._events[row] for row in left], catalogue)
        return np.array(left, np.int64)[place], number


def distinct_pairs(pairs: Int64s) -> tuple[Int64s, Int32s]:
    """Rows and numbers, by row: what several choices of an event satisfy, the event does once."""
    distinct = np.unique(pairs)
    return distinct >> 32, (distinct & 0xFFFFFFFF).astype(np.int32)


def match_one_by_one(segment: Segment, events: Sequence[Attributes], catalogue: Catalogue) -> tuple[Int64s, Int32s]:
    """The candidates of a segment for events looked at one by one."""
    rows: list[int] = []
    numbers: list[int] = []
    for row, attributes in enumerate(events):
        found = segment_candidates(segment, attributes, catalogue)
        rows += [row] * len(found)
        numbers += found
    return np.array(rows, np.int64), np.array(numbers, np.int32)


def segment_candidates(segment: Segment, attributes: Attributes, catalogue: Catalogue) -> list[int]:
    """The candidates of a segment for one event; by their filters where the index cannot encode the event."""
    try:
        try:
            return segment.match_event(attributes)
        except CannotCompute:
            computed = segment.alive_among(segment.computed_numbers)
            return _by_filters(computed, attributes, catalogue) + segment.match_event_by_attributes(attributes)
    except CannotEncode:
        return _by_filters(segment.alive(), attributes, catalogue)


def _by_filters(numbers: Sequence[int], attributes: Attributes, catalogue: Catalogue) -> list[int]:
    return [number for number in numbers if catalogue[number].filter.matches_attributes(attributes)]
