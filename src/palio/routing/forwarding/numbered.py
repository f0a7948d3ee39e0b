"""Filters under small numbers that stay: what forwarding keeps beside each filter lies in arrays by these numbers.

The columnar matcher finds which filters match, by the numbers of its own, which it gives out in the order of additions
until it forgets what was removed. Here a filter has one number from its coming to its going, and the matcher is made
anew before it would forget by itself. What comes waits until somebody asks, because many are added together for a
fraction of what each costs alone. A handful of filters are asked one by one, which is quicker than any index.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.batches import FEWEST_TRANSPOSED
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.routing.effects import Job

_FEW: Final = 16  # filters that are added one by one
_HANDFUL: Final = 8  # filters that are asked one by one
_FEWEST_REMOVED: Final = 64  # for which it is worth making the matcher anew

Ints64 = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]


class NumberedFilters:
    """Filters by number; finds those that match events. Numbers of filters that went are given out again."""

    def __init__(self) -> None:
        self._filters: list[Filter | None] = []
        self._free: list[int] = []
        self._matcher: Matcher | None = None  # made when there is something to match: most brokers are idle
        self._place_of: dict[int, int] = {}  # from numbers to the matcher's own
        self._number_at = array("i")  # and back
        self._placed = 0
        self._waiting: dict[int, None] = {}  # numbers whose filters the matcher has not yet
        self._handful: list[tuple[bytes, Filter]] | None = None  # all filters, where they are few and did not change

    def __len__(self) -> int:
        return len(self._place_of) + len(self._waiting)

    def __getitem__(self, number: int) -> Filter:
        wanted = self._filters[number]
        if wanted is None:
            raise KeyError(number)
        return wanted

    def add(self, wanted: Filter) -> int:
        """Take in a filter and give it a number; it is filed when somebody asks."""
        if self._free:
            number = self._free.pop()
            self._filters[number] = wanted
        else:
            number = len(self._filters)
            self._filters.append(wanted)
        self._waiting[number] = None
        self._handful = None
        return number

    def remove(self, number: int) -> None:
        """Forget a filter; its number may be given to another."""
        self._filters[number] = None
        self._free.append(number)
        self._handful = None
        if number in self._waiting:
            del self._waiting[number]
            return
        place = self._place_of.pop(number)
        removed = self._placed - len(self._place_of)
        if removed >= _FEWEST_REMOVED and 2 * removed > self._placed:
            self._make_anew()
        elif self._matcher is not None:
            self._matcher.remove(str(place))

    def work(self) -> Job | None:
        """What is worth doing beside everything else: the matcher's segments."""
        return None if self._matcher is None else self._matcher.work()

    def find_each(self, events: Sequence[Event]) -> list[bytes]:
        """For each event the numbers of all filters that match it, in no order: an array of ints as bytes, which is
        the quickest to look up."""
        if len(self) <= _HANDFUL:
            return self._ask_each(events)
        self._file_waiting()
        if self._matcher is None:
            return [b""] * len(events)
        if len(events) < FEWEST_TRANSPOSED:
            number_at, match = self._number_at, self._matcher.match_event
            return [array("i", [number_at[place] for place in match(event)]).tobytes() for event in events]
        rows, numbers = self.find(events)
        ends = (numbers.itemsize * np.cumsum(np.bincount(rows, minlength=len(events)))).tolist()
        found = numbers.tobytes()
        return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _ask_each(self, events: Sequence[Event]) -> list[bytes]:
        if self._handful is None:
            numbers = (*self._place_of, *self._waiting)
            self._handful = [(array("i", (number,)).tobytes(), self[number]) for number in numbers]
        if len(self._handful) == 1:
            ((written, wanted),) = self._handful
            return [written if wanted.matches_attributes(event.attributes) else b"" for event in events]
        handful = self._handful
        return [
            b"".join([written for written, wanted in handful if wanted.matches_attributes(event.attributes)])
            for event in events
        ]

    def find(self, events: Sequence[Event]) -> tuple[Ints64, Ints32]:
        """Rows and numbers of all filters that match some events, by row."""
        self._file_waiting()
        if self._matcher is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        rows, places = self._matcher.match_events(list(events))
        return rows, np.frombuffer(self._number_at, np.int32)[places]

    def _file_waiting(self) -> None:
        if not self._waiting:
            return
        if self._matcher is None:
            self._matcher = Matcher(background=False)
        numbers = list(self._waiting)
        first = self._placed
        self._place_of.update({number: place for place, number in enumerate(numbers, first)})
        self._placed += len(numbers)
        self._number_at.extend(numbers)
        wanted = [(str(place), self[number]) for place, number in enumerate(numbers, first)]
        self._waiting.clear()
        if len(wanted) > _FEW:
            self._matcher.add_subscriptions(as_texts(wanted))
            return
        for id, filter in wanted:
            self._matcher.add(id, filter)

    def _make_anew(self) -> None:
        """Have what is left filed again, in the order in which it came."""
        left = sorted(self._place_of, key=self._place_of.__getitem__)
        self._waiting = dict.fromkeys([*left, *self._waiting])
        self._place_of, self._number_at, self._placed, self._matcher = {}, array("i"), 0, None


def as_texts(filters: Iterable[tuple[str, Filter]]) -> list[Subscription]:
    """Filters under ids as their texts: those of one shape are filed many at a time, in a tenth of the time."""
    return [Subscription(id, str(filter), timezone=filter.timezone) for id, filter in filters]
