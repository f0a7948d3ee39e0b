"""What happens next? Virtual time: things to come, by their time, and within a time in the order they were planned."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Things to come. Those that are only upkeep go on for ever; the others must come to an end."""

    __slots__ = ("_at", "_times", "awaited", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.awaited = 0  # things to come that are not only upkeep
        self._times: list[float] = []
        self._at: dict[float, list[tuple[T, bool]]] = {}

    def plan(self, after: float, what: T, upkeep: bool = False) -> None:
        self.plan_at(self.now + after, what, upkeep)

    def plan_at(self, time: float, what: T, upkeep: bool = False) -> None:
        there = self._at.get(time)
        if there is None:
            self._at[time] = [(what, upkeep)]
            heappush(self._times, time)
        else:
            there.append((what, upkeep))
        self.awaited += not upkeep

    def next_time(self) -> float | None:
        return self._times[0] if self._times else None

    def advance(self) -> list[T]:
        """Go to the next time, and all that happens then."""
        self.now = heappop(self._times)
        due = self._at.pop(self.now)
        for _, upkeep in due:
            self.awaited -= not upkeep
        return [what for what, _ in due]
