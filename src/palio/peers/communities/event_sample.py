"""Sample of events by which interests are compared: how many of them each matches, and how many both do (Chand §8.1).

The similarity of one interest to another is the probability that an event which matches the one also matches the other.
Where containment decides it, it is exactly 1; otherwise it is estimated from the sample, with a little weight for the
share of all events that the other matches, by which few observations are smoothed. An XPath is asked about documents in
the same way. Whatever has `proximity` can stand in its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.relation import Relation, relate

MAX_SAMPLE_EVENTS: Final = 512
_MAX_KNOWN_INTERESTS: Final = 1 << 16
_MAX_KNOWN_RELATIONS: Final = 1 << 18
_PRIOR_WEIGHT: Final = 1.0  # observations that the share of all events counts for (α)

_Counts = TypeVar("_Counts", float, Any)
Matches: TypeAlias = int  # a bit for each event of the sample


def estimate(mine: _Counts, its: _Counts, both: _Counts, events: int) -> _Counts:
    """The share of the events matched by one interest that another matches too; of numbers, or arrays of them."""
    share = (its + 1.0) / (events + 2.0)
    return (both + _PRIOR_WEIGHT * share) / (mine + _PRIOR_WEIGHT)


class EventSample:
    """The last events of those that were added, at most `MAX_SAMPLE_EVENTS`.

    A comparison costs less than a microsecond where the interests were seen before; to see one for the first time costs
    to ask it about all events.

    >>> sample = EventSample(Event({"price": price}) for price in range(100))
    >>> low, high, some = map(Filter.parse, ("price < 50", "price > 60", "price BETWEEN 40 AND 49"))
    >>> sample.similarity(some, low), round(sample.similarity(low, some), 2), round(sample.similarity(low, high), 2)
    (1.0, 0.2, 0.01)
    >>> sample.proximity(low, some) == sample.proximity(some, low)
    True
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events: deque[Event] = deque(events, MAX_SAMPLE_EVENTS)
        self._forget()

    def _forget(self) -> None:
        self.matches = lru_cache(_MAX_KNOWN_INTERESTS)(self._find_matches)
        self.relate = lru_cache(_MAX_KNOWN_RELATIONS)(self._find_relation)

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Event) -> None:
        """Take an event into the sample; the oldest goes where there is no room. What was known is found anew."""
        self._events.append(event)
        self._forget()

    def similarity(self, one: Filter, other: Filter) -> float:
        """The probability that an event which matches one interest also matches the other."""
        mine, its = self.matches(one), self.matches(other)
        # An event of the sample that only the one matches refutes containment for much less than a comparison costs.
        if not mine & ~its and self.relate(one, other) in (Relation.EQUIVALENT, Relation.WITHIN):
            return 1.0
        both = (mine & its).bit_count()
        found: float = estimate(float(mine.bit_count()), float(its.bit_count()), float(both), len(self._events))
        return found

    def proximity(self, one: Filter, other: Filter) -> float:
        """How close two interests are, from 0 to 1; the same in both directions (f_s)."""
        return (self.similarity(one, other) + self.similarity(other, one)) / 2

    def _find_matches(self, wanted: Filter) -> Matches:
        """The events of the sample that an interest matches."""
        found = 0
        for place, event in enumerate(self._events):
            found |= wanted.matches(event) << place
        return found

    def _find_relation(self, one: Filter, other: Filter) -> Relation:
        # An event that only one of them matches refutes containment, for much less than a comparison costs.
        mine, its = self.matches(one), self.matches(other)
        if mine & ~its and its & ~mine:
            return Relation.UNRELATED
        return relate(one, other)
