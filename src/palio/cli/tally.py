"""What came of a run of `palio match`: how many events, how many matches, whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.matching.subscription import Subscription


class Tally:
    """Counts batches of matches; costs a pass over each, and an array of numbers per subscription."""

    def __init__(self, subscriptions: Sequence[Subscription], faulty: int) -> None:
        import numpy as np

        self.events = 0
        self.matches = 0
        self.wanted_events = 0
        """How many events somebody wanted."""
        self.subscriptions = len(subscriptions)
        self.faulty_events = 0
        self.faulty_subscriptions = faulty
        self.elapsed = 0.0
        self.interrupted = False
        self.unseen: set[str] = set()
        """Attributes that subscriptions ask about and no event had so far."""
        self._subscriptions = subscriptions
        self._counts = np.zeros(len(subscriptions), np.int64)
        self._number_of: dict[str, int] = {}
        # Of the dictionary of all ids, which stays the same; one of the few that a batch has is read each time.
        self._known: tuple[Any, pa.Array] | None = None

    def add(self, events: int, rows: Any, subscriptions: pa.DictionaryArray) -> None:
        """Count a batch: so many events, and its matches in the order of rows."""
        import numpy as np

        self.events += events
        self.matches += len(rows)
        if len(rows):
            self.wanted_events += 1 + int(np.count_nonzero(np.diff(rows)))
            numbers, _ = self._dictionary(subscriptions)
            found = np.bincount(subscriptions.indices.to_numpy(), minlength=len(numbers))
            np.add.at(self._counts, numbers, found)

    def subscribers_of(self, subscriptions: pa.DictionaryArray) -> pa.Array:
        """The subscriber of each match."""
        _, subscribers = self._dictionary(subscriptions)
        return subscribers.take(subscriptions.indices)

    def _dictionary(self, subscriptions: pa.DictionaryArray) -> tuple[Any, pa.Array]:
        import numpy as np
        import pyarrow as pa

        ids = subscriptions.dictionary
        has_all = len(ids) == self.subscriptions
        if self._known is not None and has_all:
            return self._known
        if not self._number_of:
            self._number_of = {each.id: number for number, each in enumerate(self._subscriptions)}
        numbers = np.array([self._number_of[id] for id in ids.to_pylist()], np.int64)
        names = pa.array([self._subscriptions[number].subscriber for number in numbers.tolist()], pa.string())
        if has_all:
            self._known = numbers, names
        return numbers, names

    def most_matched(self, most: int) -> list[tuple[Subscription, int]]:
        """The subscriptions with most matches, and how many; none without any."""
        import numpy as np

        order = np.argsort(-self._counts, kind="stable")[:most].tolist()
        return [(self._subscriptions[n], int(self._counts[n])) for n in order if self._counts[n]]

    def never_matched(self) -> list[str]:
        """The ids of the subscriptions that no event matched."""
        import numpy as np

        return [self._subscriptions[number].id for number in np.flatnonzero(self._counts == 0).tolist()]
