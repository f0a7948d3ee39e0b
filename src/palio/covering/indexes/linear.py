"""The index that is none: ask one filter after the other, the oldest first. Exact for filters of every shape."""

from __future__ import annotations

from collections.abc import Iterator

from palio.covering.interests import Interest, some_above


class LinearIndex:
    """Costs a comparison with every filter; adding and removing cost nothing."""

    def __init__(self) -> None:
        self.interests: dict[Interest, None] = {}
        self.comparisons = 0

    def add(self, interest: Interest) -> None:
        self.interests[interest] = None

    def remove(self, interest: Interest) -> None:
        del self.interests[interest]

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        return some_above(self._one_by_one(), interest, limit)

    def covered(self, interest: Interest) -> list[Interest]:
        return [each for each in self._one_by_one() if interest.is_above(each)]

    def _one_by_one(self) -> Iterator[Interest]:
        for each in self.interests:
            self.comparisons += 1
            yield each
