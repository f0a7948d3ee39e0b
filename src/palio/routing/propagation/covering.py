"""Covering-based routing: a neighbour is told only the filters that no other covers (Jerzak §2.5.5, Shen §4.1).

Of filters that cover each other the one with the lower key is told, so that what is told depends on the set alone. Who
covers whom is `Cover`'s matter, and any structure that keeps the maximal filters of a set can stand in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from palio.filters.filter import Filter
from palio.routing.messages import Key
from palio.routing.propagation.protocol import Change


class Cover(Protocol):
    """Keeps the maximal filters of a set."""

    def add(self, key: Key, wanted: Filter) -> None: ...

    def remove(self, key: Key) -> None: ...

    def maximal(self) -> Mapping[Key, Filter]:
        """Those that no other covers, ties going to the lower key."""
        ...


class PairwiseCover:
    """Compares each new filter with the maximal ones there are: a linear number of comparisons for a change."""

    __slots__ = ("_below", "_maximal")

    def __init__(self) -> None:
        self._maximal: dict[Key, Filter] = {}
        self._below: dict[Key, tuple[Filter, Key]] = {}  # with a maximal one that covers it

    def add(self, key: Key, wanted: Filter) -> None:
        for other, known in self._maximal.items():
            if _precedes(other, known, key, wanted):
                self._below[key] = wanted, other
                return
        covered = [other for other, known in self._maximal.items() if _precedes(key, wanted, other, known)]
        for other in covered:
            self._below[other] = self._maximal.pop(other), key
        # What lay below one that now lies below the new one has a maximal one above it again.
        for other, (known, above) in self._below.items():
            if above in covered:
                self._below[other] = known, key
        self._maximal[key] = wanted

    def remove(self, key: Key) -> None:
        if key in self._below:
            del self._below[key]
            return
        del self._maximal[key]
        orphans = [(other, known) for other, (known, above) in self._below.items() if above == key]
        for other, _ in orphans:
            del self._below[other]
        for other, known in orphans:
            self.add(other, known)

    def maximal(self) -> Mapping[Key, Filter]:
        return self._maximal


class Maximal:
    """The filters that no other covers are made known."""

    __slots__ = ("_cover", "_dirty", "_told")

    def __init__(self, cover: Callable[[], Cover] = PairwiseCover) -> None:
        self._cover = cover()
        self._told: dict[Key, Filter] = {}
        self._dirty = False

    def add(self, key: Key, wanted: Filter) -> None:
        self._cover.add(key, wanted)
        self._dirty = True

    def remove(self, key: Key) -> None:
        self._cover.remove(key)
        self._dirty = True

    def desired(self) -> Mapping[Key, Filter]:
        return self._cover.maximal()

    def change(self) -> Change:
        if not self._dirty:
            return Change({}, ())
        self._dirty = False
        return difference(self._told, self.desired())


def difference(told: dict[Key, Filter], desired: Mapping[Key, Filter]) -> Change:
    """What to say so that a neighbour that was told one set knows another; `told` becomes that other."""
    additions = {key: desired[key] for key in sorted(desired.keys() - told.keys())}
    withdrawals = tuple(sorted(told.keys() - desired.keys()))
    told.update(additions)
    for key in withdrawals:
        del told[key]
    return Change(additions, withdrawals)


def _precedes(key: Key, wanted: Filter, other: Key, known: Filter) -> bool:
    """Whether one filter makes another superfluous."""
    return wanted.covers(known) and (key < other or not known.covers(wanted))
