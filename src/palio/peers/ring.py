"""Identifier ring of Chord: positions modulo a power of two, and sets of positions as runs.

A node is responsible for the positions after its predecessor up to its own, itself included: the half-open arc
(predecessor, node]. With open arcs, as printed, a key equal to a node's own position would have no owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha1
from typing import TypeAlias

from palio.errors import InvalidArgument
from palio.peers.histograms import Run, merge_runs

Runs: TypeAlias = tuple[Run, ...]  # disjoint, ascending, none of them wraps


@dataclass(frozen=True, slots=True)
class Ring:
    """The positions from 0 to 2^bits - 1, clockwise."""

    bits: int = 64

    def __post_init__(self) -> None:
        if type(self.bits) is not int or not 1 <= self.bits <= 160:
            raise InvalidArgument(f"the bits of a ring are a whole number from 1 to 160, not {self.bits!r:.80}")

    @property
    def size(self) -> int:
        return 1 << self.bits

    def position_of(self, name: str) -> int:
        """A position for a name, by consistent hashing."""
        return int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()) >> (160 - self.bits)

    def distance(self, start: int, end: int) -> int:
        """The number of steps clockwise from one position to another."""
        return (end - start) % self.size

    def is_between(self, low: int, position: int, high: int) -> bool:
        """Whether a position lies in the open arc between two others; from one to itself, that is all but it."""
        if low == high:
            return position != low
        return 0 < self.distance(low, position) < self.distance(low, high)

    def arc(self, low: int, high: int) -> Runs:
        """The half-open arc (low, high]; from a position to itself, that is the whole ring."""
        first = (low + 1) % self.size
        return self.runs(first, high)

    def runs(self, first: int, last: int) -> Runs:
        """All positions from `first` clockwise to `last`, both included."""
        if first <= last:
            return ((first, last),)
        return (0, last), (first, self.size - 1)


def intersect_runs(first: Runs, second: Runs) -> Runs:
    """The positions that two sets have in common."""
    found: list[Run] = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            found.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def subtract_runs(from_: Runs, taken: Runs) -> Runs:
    """The positions of one set that another lacks."""
    found: list[Run] = []
    j = 0
    for low, high in from_:
        while j < len(taken) and taken[j][1] < low:
            j += 1
        place = j
        while place < len(taken) and taken[place][0] <= high:
            if low < taken[place][0]:
                found.append((low, taken[place][0] - 1))
            low = taken[place][1] + 1
            place += 1
        if low <= high:
            found.append((low, high))
    return tuple(found)


def union_runs(sets: Iterable[Runs]) -> Runs:
    """The positions that any of some sets has."""
    return tuple(merge_runs(run for runs in sets for run in runs))


def contains(runs: Runs, position: int) -> bool:
    return any(low <= position <= high for low, high in runs)
