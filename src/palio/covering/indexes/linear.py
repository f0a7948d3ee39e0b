"""The index that is none: ask one filter after the other, the oldest first. Exact for filters of every shape."""

from __future__ import annotations

from palio.covering.interests import Interest


class LinearIndex:
    """Costs a comparison with every filter; adding and removing cost nothing."""

    def __init__(self) -> None:
        self._interests: dict[Interest, None] = {}
        self.comparisons = 0

    def add(self, interest: Interest) -> None:
        self._interests[interest] = None

    def remove(self, interest: Interest) -> None:
        del self._interests[interest]

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        found: list[Interest] = []
        for each in self._interests:
            self.comparisons += 1
            if each.is_above(interest):
                found.append(each)
                if len(found) == limit:
                    break
        return found

    def covered(self, interest: Interest) -> list[Interest]:
        self.comparisons += len(self._interests)
        return [each for each in self._interests if interest.is_above(each)]
