"""A list of events as columns, and what a segment says of them: the same as it says of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from palio.filters.tree import Attributes
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.segment import AskTheFilters, Ints, Numbers, Segment
from palio.matching.columnar.transposed import Transposed, choices_of


class EventRows:
    """The events of a piece as columns, for all segments."""

    def __init__(self, events: Sequence[Attributes], segments: Sequence[Segment]) -> None:
        self._events = events
        self._asked = {name for segment in segments for name in segment.attributes}
        self._searched = any(segment.reads_whole_event for segment in segments)
        self._flat = Transposed(events, self._asked, self._searched)
        self._arrays = sorted(set(self._flat.rows_of_arrays))

    def match(self, segment: Segment, catalogue: Catalogue) -> tuple[Ints, Numbers] | None:
        """The candidates of a segment, by row; None where it must be asked event by event."""
        try:
            row, number = segment.match_transposed(self._flat)
            if not self._arrays:
                return row, number
            is_flat = np.ones(self._flat.count, bool)
            is_flat[self._arrays] = False
            flat = is_flat[row]
            found = [(row[flat], number[flat]), self._match_choices(segment), self._match_singly(segment, catalogue)]
        except AskTheFilters:
            return None
        row, number = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(row, kind="stable")
        return row[order], number[order]

    @cached_property
    def _choices(self) -> tuple[Transposed, Ints, list[int]]:
        """The choices of elements as events, with their rows; and the rows that have too many."""
        events: list[Attributes] = []
        rows: list[int] = []
        left: list[int] = []
        for row in self._arrays:
            choices = choices_of(self._events[row], self._asked)
            if choices is None:
                left.append(row)
            else:
                events += choices
                rows += [row] * len(choices)
        made = Transposed(events, self._asked, self._searched)
        if self._searched:
            for place, row in enumerate(rows):
                several = (value for value in self._events[row].values() if isinstance(value, tuple))
                made.searched += [(place, values) for values in several]
        return made, np.array(rows, np.int64), left

    def _match_choices(self, segment: Segment) -> tuple[Ints, Numbers]:
        choices, rows, _ = self._choices
        place, number = segment.match_transposed(choices)
        return once(rows[place] << 32 | number)

    def _match_singly(self, segment: Segment, catalogue: Catalogue) -> tuple[Ints, Numbers]:
        left = self._choices[2]
        place, number = match_events(segment, [self._events[row] for row in left], catalogue)
        return np.array(left, np.int64)[place], number


def once(pairs: Ints) -> tuple[Ints, Numbers]:
    """Rows and numbers, by row: what several choices of an event satisfy, the event does once."""
    distinct = np.unique(pairs)
    return distinct >> 32, (distinct & 0xFFFFFFFF).astype(np.int32)


def match_events(segment: Segment, events: Sequence[Attributes], catalogue: Catalogue) -> tuple[Ints, Numbers]:
    """The candidates of a segment for events looked at one by one."""
    rows: list[int] = []
    numbers: list[int] = []
    for row, attributes in enumerate(events):
        found = segment_candidates(segment, attributes, catalogue)
        rows += [row] * len(found)
        numbers += found
    return np.array(rows, np.int64), np.array(numbers, np.int32)


def segment_candidates(segment: Segment, attributes: Attributes, catalogue: Catalogue) -> list[int]:
    """The candidates of a segment for one event; asked one by one where its arrays allow too many choices."""
    try:
        return segment.match_event(attributes)
    except AskTheFilters:
        return [number for number in segment.alive() if catalogue[number].filter.matches_attributes(attributes)]
