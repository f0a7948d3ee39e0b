"""Index of filters under stable small integers, used to keep per-filter data in arrays.

The columnar matcher numbers its subscriptions in the order of additions, and renumbers them when it drops removed ones.
Here a filter keeps one number from `add` to `remove`, and the matcher is rebuilt before it would renumber by itself.
Additions are pending until the next search, because the matcher takes a batch for a fraction of what single additions
cost. Very few filters are evaluated one by one, which is faster than any index.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.batch_match import MIN_TRANSPOSED_EVENTS
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.routing.effects import Job
from palio.routing.structures import classical_matcher_of

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.matching.classical.brute_force import LazyMatcher

_MAX_SINGLE_ADDITIONS: Final = 16  # more pending filters are added to the matcher as one batch
_MAX_UNINDEXED_FILTERS: Final = 8  # up to these, each is evaluated, without the matcher
_MIN_REMOVED_TO_REBUILD: Final = 64

Ints64 = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]


class NumberedFilters(Protocol):
    """Filters under stable small integers, of which numbers of removed ones are reused."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Filter: ...

    def add(self, wanted: Filter) -> int:
        """Add a filter under a free number."""
        ...

    def remove(self, number: int) -> None:
        """Remove a filter; its number may be reused."""

    def work(self) -> Job | None:
        """Background work that makes the index faster, if there is any."""
        ...

    def find_each(self, events: Sequence[Event]) -> list[bytes]:
        """For each event the numbers of all filters that match it, unordered, as the bytes of an array of ints."""
        ...

    def find(self, events: Sequence[Event]) -> tuple[Ints64, Ints32]:
        """All matches as two arrays: the row of the event, ascending, and the number of the filter."""
        ...


class ClassicalFilterIndex:
    """Numbered filters in a matcher of the literature, which finds the matches of one event at a time."""

    def __init__(self, matcher: LazyMatcher) -> None:
        self._matcher = matcher
        self._filters: dict[int, Filter] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._filters)

    def __getitem__(self, number: int) -> Filter:
        return self._filters[number]

    def add(self, wanted: Filter) -> int:
        number = self._free.pop() if self._free else len(self._filters)
        self._filters[number] = wanted
        self._matcher.add(str(number), wanted)
        return number

    def remove(self, number: int) -> None:
        del self._filters[number]
        self._free.append(number)
        self._matcher.remove(str(number))

    def work(self) -> Job | None:
        return None

    def find_each(self, events: Sequence[Event]) -> list[bytes]:
        return [array("i", self._find(event)).tobytes() for event in events]

    def find(self, events: Sequence[Event]) -> tuple[Ints64, Ints32]:
        found = [self._find(event) for event in events]
        rows = np.repeat(np.arange(len(found), dtype=np.int64), [len(each) for each in found])
        return rows, np.array([number for each in found for number in each], np.int32)

    def _find(self, event: Event) -> list[int]:
        # In order: a set of texts has another one in every process.
        return sorted(map(int, self._matcher.match(event)))


def filter_index_of(matcher: str) -> NumberedFilters:
    """An index of filters for one broker, by the name of its matcher."""
    make = classical_matcher_of(matcher)
    return FilterIndex() if make is None else ClassicalFilterIndex(make())


class FilterIndex:
    """Finds the filters that match events, by number. Numbers of removed filters are reused."""

    def __init__(self) -> None:
        self._filters: list[Filter | None] = []
        self._free: list[int] = []
        self._matcher: Matcher | None = None  # made at the first search: most brokers of a simulation are idle
        self._position_of: dict[int, int] = {}  # from a filter's number to its position in the matcher
        self._number_at = array("i")  # and back
        self._assigned = 0  # positions that were given out, removed filters' too
        self._pending: dict[int, None] = {}  # numbers whose filters are not in the matcher yet; ordered
        # All filters, each with its number as bytes, where they are few; None after a change.
        self._unindexed: list[tuple[bytes, Filter]] | None = None

    def __len__(self) -> int:
        return len(self._position_of) + len(self._pending)

    def __getitem__(self, number: int) -> Filter:
        wanted = self._filters[number]
        if wanted is None:
            raise KeyError(number)
        return wanted

    def add(self, wanted: Filter) -> int:
        """Add a filter under a free number; the matcher takes it at the next search."""
        if self._free:
            number = self._free.pop()
            self._filters[number] = wanted
        else:
            number = len(self._filters)
            self._filters.append(wanted)
        # Even one that takes a removed filter's number is new to the matcher: it gets a position of its own there.
        self._pending[number] = None
        self._unindexed = None
        return number

    def remove(self, number: int) -> None:
        """Remove a filter; its number may be reused."""
        self._filters[number] = None
        self._free.append(number)
        self._unindexed = None
        if number in self._pending:
            del self._pending[number]
            return
        position = self._position_of.pop(number)
        removed = self._assigned - len(self._position_of)
        # Rebuild before the matcher would compact itself, and so renumber.
        if removed >= _MIN_REMOVED_TO_REBUILD and 2 * removed > self._assigned:
            self._rebuild()
        elif self._matcher is not None:
            self._matcher.remove(str(position))

    def work(self) -> Job | None:
        """The matcher's background job, if one is due: it seals and merges segments."""
        return None if self._matcher is None else self._matcher.work()

    def find_each(self, events: Sequence[Event]) -> list[bytes]:
        """For each event the numbers of all filters that match it, unordered, as the bytes of an array of ints.

        Callers use the bytes as keys of a memo: hashing them is faster than hashing a tuple of numbers.
        """
        # Pending filters stay pending here: the matcher is not made for a handful.
        if len(self) <= _MAX_UNINDEXED_FILTERS:
            return self._evaluate_each(events)
        self._add_pending()
        if self._matcher is None:
            return [b""] * len(events)
        # Few events are matched one by one: laying them out in columns costs more than it saves.
        if len(events) < MIN_TRANSPOSED_EVENTS:
            number_at, match = self._number_at, self._matcher.match_event
            return [array("i", [number_at[position] for position in match(event)]).tobytes() for event in events]
        rows, numbers = self.find(events)
        ends = (numbers.itemsize * np.cumsum(np.bincount(rows, minlength=len(events)))).tolist()
        found = numbers.tobytes()
        return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _evaluate_each(self, events: Sequence[Event]) -> list[bytes]:
        if self._unindexed is None:
            numbers = (*self._position_of, *self._pending)
            self._unindexed = [(array("i", (number,)).tobytes(), self[number]) for number in numbers]
        if len(self._unindexed) == 1:
            # No list and no join for each event.
            ((packed, wanted),) = self._unindexed
            return [packed if wanted.matches_attributes(event.attributes) else b"" for event in events]
        unindexed = self._unindexed
        return [
            b"".join([packed for packed, wanted in unindexed if wanted.matches_attributes(event.attributes)])
            for event in events
        ]

    def find(self, events: Sequence[Event]) -> tuple[Ints64, Ints32]:
        """All matches as two arrays: the row of the event, ascending, and the number of the filter."""
        self._add_pending()
        if self._matcher is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        rows, positions = self._matcher.match_events(list(events))
        return rows, np.frombuffer(self._number_at, np.int32)[positions]

    def find_columns(self, columns: pa.RecordBatch) -> tuple[Ints64, Ints32]:
        """As `find`, for a batch whose columns are named by the paths of attributes."""
        self._add_pending()
        if self._matcher is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        rows, positions = self._matcher.match_columns(columns)
        return rows, np.frombuffer(self._number_at, np.int32)[positions]

    def _add_pending(self) -> None:
        if not self._pending:
            return
        if self._matcher is None:
            self._matcher = Matcher(background=False)
        numbers = list(self._pending)
        first = self._assigned
        self._position_of.update({number: position for position, number in enumerate(numbers, first)})
        self._assigned += len(numbers)
        self._number_at.extend(numbers)
        wanted = [(str(position), self[number]) for position, number in enumerate(numbers, first)]
        self._pending.clear()
        if len(wanted) > _MAX_SINGLE_ADDITIONS:
            self._matcher.add_subscriptions(as_subscriptions(wanted))
            return
        for id, filter in wanted:
            self._matcher.add(id, filter)

    def _rebuild(self) -> None:
        """Drop the matcher; the remaining filters are pending again, in the order in which they came."""
        remaining = sorted(self._position_of, key=self._position_of.__getitem__)
        self._pending = dict.fromkeys([*remaining, *self._pending])
        self._position_of, self._number_at, self._assigned, self._matcher = {}, array("i"), 0, None


def as_subscriptions(filters: Iterable[tuple[str, Filter]]) -> list[Subscription]:
    """Filters under ids as texts: the matcher reads those of one template together, in a tenth of the time."""
    return [Subscription(id, str(filter), timezone=filter.timezone) for id, filter in filters]
