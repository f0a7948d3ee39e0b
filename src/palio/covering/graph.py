"""What does a broker tell a neighbour, of all that it wants itself? A relation graph decides (Shen §4.1).

A graph holds filters and who covers whom among them. It says after each change which filters are to be forwarded now
and which forwarded ones to be retracted: additions before withdrawals, so that whoever applies them in this order never
misses what is wanted throughout. One graph serves one outgoing interface, and holds all that could be sent there.

Unless a graph says otherwise it forwards exactly the maximal filters, a function of the set of filters alone, whatever
the order in which they came and went. The source's own graph leaves forwarded what a later filter covers; to retract it
keeps the neighbours' tables smallest, and makes all graphs comparable. A filter that never matches is never forwarded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from palio.covering.interests import Interest
from palio.errors import InvalidArgument
from palio.filters.filter import Filter


class Changes(NamedTuple):
    """Filters to forward, then forwarded ones to retract, each in the order in which they first came."""

    forward: tuple[Filter, ...] = ()
    retract: tuple[Filter, ...] = ()


NO_CHANGES: Final = Changes()


class RelationGraph(ABC):
    """Filters and who covers whom. Equal filters are one, which stays as long as one of them does.

    `comparisons` counts the pairs of filters that were looked at, a measure that no machine changes.
    """

    def __init__(self) -> None:
        self._interests: dict[Filter, Interest] = {}
        self._forwarded: dict[Filter, None] = {}
        self._arrivals = 0
        self._comparisons = 0

    def insert(self, filter: Filter) -> Changes:
        """Take a filter in, or count it where an equal one is there."""
        known = self._interests.get(filter)
        if known is not None:
            known.wanted += 1
            return NO_CHANGES
        self._arrivals += 1
        entering = self._interests[filter] = Interest(filter, self._arrivals)
        if filter == Filter.nothing:
            return NO_CHANGES
        return self._settled(*self._enter(entering))

    def remove(self, filter: Filter) -> Changes:
        """Take one of the equal filters out; the last one takes what it alone covered to the forwarded ones."""
        known = self._interests.get(filter)
        if known is None:
            raise InvalidArgument(f"there is no filter {str(filter)!r} to remove")
        known.wanted -= 1
        if known.wanted:
            return NO_CHANGES
        del self._interests[filter]
        if filter == Filter.nothing:
            return NO_CHANGES
        retracted = (known,) if filter in self._forwarded else ()
        return self._settled(self._leave(known), retracted)

    @property
    def forwarded(self) -> Collection[Filter]:
        """The filters that a neighbour has been told of, if all changes were sent."""
        return self._forwarded.keys()

    @property
    def comparisons(self) -> int:
        return self._comparisons

    def __len__(self) -> int:
        """How many different filters there are."""
        return len(self._interests)

    def __contains__(self, filter: object) -> bool:
        return filter in self._interests

    def _is_above(self, one: Interest, other: Interest) -> bool:
        self._comparisons += 1
        return one.is_above(other)

    def _settled(self, forward: Iterable[Interest], retract: Iterable[Interest]) -> Changes:
        changes = Changes(_in_order(forward), _in_order(retract))
        self._forwarded.update(dict.fromkeys(changes.forward))
        for filter in changes.retract:
            del self._forwarded[filter]
        return changes

    @abstractmethod
    def _enter(self, entering: Interest) -> tuple[Iterable[Interest], Iterable[Interest]]:
        """Take in an interest that is new; what is forwarded and what is retracted for it."""

    @abstractmethod
    def _leave(self, leaving: Interest) -> Iterable[Interest]:
        """Forget an interest; what is forwarded in its place."""


def _in_order(interests: Iterable[Interest]) -> tuple[Filter, ...]:
    return tuple(each.filter for each in sorted(interests, key=lambda each: each.arrival))
