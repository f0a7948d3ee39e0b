"""The index that is none: ask one filter after the other, the oldest first. Exact for filters of every shape."""

from __future__ import annotations

from palio.covering.interests import Interest


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
        found: list[Interest] = []
        for each in self.interests:
            self.comparisons += 1
            if each.is_above(interest):
                found.append(each)
                if len(found) == limit:
                    break
        return found

    def covered(self, interest: Interest) -> list[Interest]:
        self.comparisons += len(self.interests)
        return [each for each in self.interests if interest.is_above(each)]
