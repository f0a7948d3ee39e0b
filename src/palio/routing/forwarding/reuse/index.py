"""What is wanted behind one interface: find any, find up to so many, find all (Shen §3.3).

The source stops its indexes at the first match, or at the n-th. The columnar matcher finds all that a batch of events
matches for less than it would cost to ask it event by event, so these find all and take what is asked for. They take
the lowest numbers, which depend on what came and went before and on nothing else, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.columnar.axes import address_of
from palio.routing.effects import Job
from palio.routing.forwarding.numbered import NumberedFilters
from palio.routing.forwarding.reuse import kernels


class InterfaceIndex:
    """Filters under short keys, each with a number to remove it by."""

    def __init__(self) -> None:
        self._filters = NumberedFilters()
        self._keys: npt.NDArray[np.uint64] = np.zeros(8, np.uint64)

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, key: int, wanted: Filter) -> int:
        """File a filter; the number it is removed by."""
        number = self._filters.add(wanted)
        if number >= len(self._keys):
            self._keys = np.concatenate([self._keys, np.zeros(len(self._keys), np.uint64)])
        self._keys[number] = key
        return number

    def remove(self, number: int) -> None:
        self._filters.remove(number)

    def __getitem__(self, number: int) -> Filter:
        return self._filters[number]

    def work(self) -> Job | None:
        """What is worth doing beside everything else."""
        return self._filters.work()

    def find_any(self, events: Sequence[Event]) -> list[bool]:
        """Whether each event matches something."""
        rows, _ = self._filters.find(events)
        found = np.zeros(len(events), bool)
        found[rows] = True
        return found.tolist()

    def find_all(self, events: Sequence[Event]) -> list[list[int]]:
        """The keys of all that each event matches, in order."""
        rows, numbers = self._filters.find(events)
        order = np.lexsort((numbers, rows))
        ends = np.cumsum(np.bincount(rows, minlength=len(events)))
        return _split(self._keys[numbers[order]].tolist(), [0, *ends[:-1].tolist()], ends.tolist())

    def find_up_to(self, events: Sequence[Event], limit: int) -> list[list[int]]:
        """The keys of at most so many that each event matches, those with the lowest numbers."""
        rows, numbers = self._filters.find(events)
        ends = np.zeros(len(events), np.int64)
        lowest = np.zeros(len(events) * limit, np.int32)
        kernels.lowest_of_rows(
            address_of(rows), address_of(numbers), len(rows), limit, address_of(ends), address_of(lowest), len(events)
        )
        return _split(self._keys[lowest].tolist(), range(0, len(lowest), limit), ends.tolist())


def _split(keys: list[int], starts: Sequence[int], ends: Sequence[int]) -> list[list[int]]:
    return [keys[start:end] for start, end in zip(starts, ends, strict=True)]
