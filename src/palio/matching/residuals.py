"""Residual evaluation: conditions that the index cannot hold, evaluated on the candidates it found.

The index decides most subscriptions. The others (`Segment.residual_numbers`) have conditions such as `a + b > 10` that
no interval of slots says; for them a segment gives candidates, and their filters decide.

A batch of Arrow columns has no events to evaluate filters on. `RowReader` makes them, of the rows and columns that the
filters at hand read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.events import Event
from palio.events.names import join_path, split_path
from palio.events.nested_content import Element, Group, GroupedAttributes
from palio.filters.filter import Filter
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.array_types import Int32s, Int64s
from palio.matching.columnar.arrow_columns import is_within
from palio.matching.columnar.segment import Segment

_CANDIDATES_AT_A_TIME: Final = 4_096  # so that few filters and events are in memory together
_TAKE_BELOW_SHARE: Final = 0.5  # of all rows; where more are read, all are


def check_residuals(
    segment: Segment, candidates: list[int], attributes: Mapping[str, Any], catalogue: Catalogue
) -> list[int]:
    """The candidates of one event without those whose residual conditions do not hold."""
    if not len(segment.residual_numbers):
        return candidates
    return [
        number
        for number in candidates
        if not _contains(segment.residual_numbers, number) or catalogue.filter(number).matches_attributes(attributes)
    ]


def _contains(numbers: Int32s, number: int) -> bool:
    sorted_numbers = numbers.data  # bisecting the buffer is far quicker than NumPy's search for one number
    at = bisect_left(sorted_numbers, number)
    return at < len(sorted_numbers) and sorted_numbers[at] == number


def check_residuals_of_rows(
    segment: Segment, rows: Int64s, numbers: Int32s, events: RowReader, catalogue: Catalogue
) -> tuple[Int64s, Int32s]:
    """The candidates of a batch, as rows and numbers, without those whose residual conditions do not hold."""
    if not len(segment.residual_numbers) or not len(numbers):
        return rows, numbers
    at = np.searchsorted(segment.residual_numbers, numbers)
    # Beyond the last: any index will do, as the comparison fails.
    at[at == len(segment.residual_numbers)] = 0
    undecided = np.flatnonzero(segment.residual_numbers[at] == numbers)
    if not len(undecided):
        return rows, numbers
    keep = np.ones(len(numbers), bool)
    # By number, so that the filters of a chunk are few and read few columns.
    order = undecided[np.argsort(numbers[undecided], kind="stable")]
    for chunk in np.array_split(order, range(_CANDIDATES_AT_A_TIME, len(order), _CANDIDATES_AT_A_TIME)):
        filters = [catalogue.filter(number) for number in numbers[chunk].tolist()]
        found = events.some(rows[chunk], _attributes_read_by(filters))
        keep[chunk] = [filter.matches_attributes(each) for filter, each in zip(filters, found, strict=True)]
    return rows[keep], numbers[keep]


def _attributes_read_by(filters: Iterable[Filter]) -> frozenset[str] | None:
    """The attributes that some filters read; None where it may be any."""
    # By identity: hashing a filter writes out its text.
    different = {id(filter): filter for filter in filters}.values()
    if any(filter.reads_whole_event for filter in different):
        return None
    return frozenset().union(*(filter.attributes for filter in different))


class RowReader:
    """The events of a batch, made of its rows when they are needed; made once."""

    def __init__(self, piece: pa.RecordBatch | Sequence[Mapping[str, Any]], paths: bool = False) -> None:
        """Of columns, which `paths` says are named by the paths of attributes; or of the attributes of events."""
        self._paths = paths
        self._made: dict[tuple[int, ...] | None, Sequence[Mapping[str, Any]]] = {}  # by the columns they are made of
        if isinstance(piece, pa.RecordBatch):
            self._piece = piece
        else:
            self._made[None] = piece

    def all(self) -> Sequence[Mapping[str, Any]]:
        return self._of_columns(None)

    def _of_columns(self, places: tuple[int, ...] | None) -> Sequence[Mapping[str, Any]]:
        known = self._made.get(places)
        if known is None:
            known = self._made[places] = list(self._read(_narrowed(self._piece, places)))
        return known

    def _read(self, piece: pa.RecordBatch) -> Iterable[Mapping[str, Any]]:
        """The attributes of each event, named as the batch names its columns."""
        events = (event.attributes for event in Event.from_arrow(piece))
        if not self._paths:
            return events
        names = _PathNames(piece.schema.names)
        return (names.all_in(attributes) for attributes in events)

    def some(self, rows: Int64s, names: Collection[str] | None) -> Iterable[Mapping[str, Any]]:
        """The events of some rows, in that order; of their attributes at least those that are named."""
        if None in self._made:
            known = self.all()
            return [known[row] for row in rows.tolist()]
        columns = None if names is None else _columns_of(self._piece, names, self._paths)
        if columns not in self._made:
            distinct, places = np.unique(rows, return_inverse=True)
            if len(distinct) < _TAKE_BELOW_SHARE * self._piece.num_rows:
                with suppress(pa.ArrowNotImplementedError):  # rows cannot be taken of some rare types
                    taken = list(self._read(_narrowed(self._piece, columns).take(pa.array(distinct))))
                    return [taken[place] for place in places.tolist()]
        known = self._of_columns(columns)
        return [known[row] for row in rows.tolist()]


class _PathNames(dict[str, str]):
    """Names of attributes whose first part is a path, by names whose first part was taken literally."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__((join_path((path,)), path) for path in paths)

    def __missing__(self, attribute: str) -> str:
        first, *rest = split_path(attribute)
        self[attribute] = renamed = ".".join((first, join_path(rest)))
        return renamed

    def all_in(self, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Attributes by their other names; objects in arrays stay together."""
        if isinstance(attributes, GroupedAttributes):
            return GroupedAttributes(self.all_in(attributes.ungrouped), self._groups(attributes.groups))
        return {self[name]: value for name, value in attributes.items()}

    def _groups(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        return tuple(
            Group(self[path], tuple(Element(self.all_in(alone), self._groups(inner)) for alone, inner in elements))
            for path, elements in groups
        )


def _columns_of(batch: pa.RecordBatch, names: Collection[str], paths: bool) -> tuple[int, ...]:
    """The places of the columns that hold some attributes, or parts of them."""
    first = {split_path(name)[0] for name in names}

    def has_part(column: str) -> bool:
        return any(is_within(name, column) for name in names) if paths else column in first

    return tuple(place for place, column in enumerate(batch.schema.names) if has_part(column))


def _narrowed(batch: pa.RecordBatch, places: tuple[int, ...] | None) -> pa.RecordBatch:
    return batch if places is None else batch.select(list(places))
