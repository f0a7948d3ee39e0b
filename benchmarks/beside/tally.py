"""Tally of deliveries: counts and ages of events, kept by each process in shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from multiprocessing.sharedctypes import RawArray
from time import perf_counter
from typing import Any

_READY, _SEEN, _FIRST = 0, 1, 2
_STEPS = 50  # to a factor of e: an age is known within two parts in a hundred
_BUCKETS = 1_024


class Tally:
    """Of one process of subscribers. All processes of a machine have one clock."""

    def __init__(self) -> None:
        self._cells: Any = RawArray("q", _FIRST + _BUCKETS)

    def ready(self) -> None:
        """One more subscription stands."""
        self._cells[_READY] += 1

    def saw(self, sent: float) -> None:
        """An event was delivered that somebody wanted, and that was sent at that time."""
        cells = self._cells
        cells[_SEEN] += 1
        microseconds = (perf_counter() - sent) * 1e6
        place = int(_STEPS * log(microseconds)) if microseconds > 1 else 0
        cells[_FIRST + place if place < _BUCKETS else -1] += 1

    def aged(self, sent: float, count: int) -> None:
        """As `saw`, for so many subscriptions at once."""
        place = min(_BUCKETS - 1, int(_STEPS * log(max(1.0, (perf_counter() - sent) * 1e6))))
        self._cells[_FIRST + place] += count
        self._cells[_SEEN] += count

    @property
    def standing(self) -> int:
        return int(self._cells[_READY])

    @property
    def seen(self) -> int:
        return int(self._cells[_SEEN])

    def ages(self) -> list[int]:
        return list(self._cells[_FIRST:])


def ages_of(tallies: Iterable[Tally]) -> list[int]:
    return [sum(each) for each in zip(*(tally.ages() for tally in tallies), strict=True)]


def milliseconds_at(ages: Sequence[int], share: float) -> float:
    """The age that so large a share of the deliveries did not exceed."""
    left = share * sum(ages)
    for place, count in enumerate(ages):
        left -= count
        if left <= 0:
            return exp((place + 0.5) / _STEPS) / 1e3
    return float("nan")
