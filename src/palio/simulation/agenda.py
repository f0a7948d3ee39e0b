"""What happens next? Virtual time: things to come, by their time, and within a time in the order they were planned."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Things to come. Those that are only upkeep go on for ever; the others must come to an end."""

    __slots__ = ("_at", "_times", "_upkeep", "awaited", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.awaited = 0  # things to come that are not only upkeep
        self._times: list[float] = []
        self._at: dict[float, list[T]] = {}
        self._upkeep: dict[float, int] = {}  # how many of those of a time are upkeep

    def plan(self, after: float, what: T, upkeep: bool = False) -> None:
        self.plan_at(self.now + after, what)
        if upkeep:
            time = self.now + after
            self._upkeep[time] = self._upkeep.get(time, 0) + 1
            self.awaited -= 1

    def plan_at(self, time: float, what: T) -> None:
        there = self._at.get(time)
        if there is None:
            self._at[time] = [what]
            heappush(self._times, time)
        else:
            there.append(what)
        self.awaited += 1

    def next_time(self) -> float | None:
        return self._times[0] if self._times else None

    def advance(self) -> list[T]:
        """Go to the next time, and all that happens then."""
        self.now = heappop(self._times)
        due = self._at.pop(self.now)
        self.awaited -= len(due) - self._upkeep.pop(self.now, 0)
        return due
