"""Is there a point beyond this one, on the curve? Most of the space is searched, or all of it (Shen §4.6 to 4.8).

Covering spares messages, no more: a coverer that is not found costs a filter sent in vain. So a search may leave out a
share epsilon of the volume in which coverers could lie, and it may stop when its budget of probes is spent; what it
finds is there. Two searches. The source's own probes the greedy cubes of the box, largest first; their number does not
grow with the box, but it grows with the power of the dimensions, and soon exceeds the number of points. The other
follows the points: from the universe down, only cubes that hold some and reach into the box are looked at, the one that
shares most with it first. It is exact where nothing is left out, and needs no more visits than there are points times
bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import prod
from typing import NamedTuple, TypeAlias

from palio.covering.curve import Cube, Universe, cubes_needed


class Box(NamedTuple):
    """All cells from one corner to another, both in it."""

    low: tuple[int, ...]
    high: tuple[int, ...]


class Allowance:
    """What a search may leave out of the volume, how many probes it may make, and how many it made."""

    def __init__(self, epsilon: float = 0.0, budget: int | None = None) -> None:
        self.epsilon = epsilon
        self.budget = budget
        self.probes = 0

    def probe(self) -> bool:
        """Whether one more probe is allowed; if so it is counted."""
        if self.budget is not None and self.probes >= self.budget:
            return False
        self.probes += 1
        return True


Search: TypeAlias = Callable[[Sequence[int], Universe, Box, Allowance], Iterator[int]]
"""Places of keys in a box, among sorted ones. The box reaches to the far corner where greedy cubes are asked for."""


def greedy_search(keys: Sequence[int], universe: Universe, box: Box, allowed: Allowance) -> Iterator[int]:
    """Probe the largest standard cubes in what dominates a point, until enough of the volume is searched."""
    sides = universe.sides(box.low)
    needed = cubes_needed(sides, allowed.epsilon)
    for cube in universe.cubes(sides):
        if needed == 0 or not allowed.probe():
            return
        needed -= 1
        stretch = universe.stretch(cube)
        place = bisect_left(keys, stretch.start)
        while place < len(keys) and keys[place] < stretch.stop:
            yield place
            place += 1


def populated_search(keys: Sequence[int], universe: Universe, box: Box, allowed: Allowance) -> Iterator[int]:
    """Visit the cubes that hold keys and reach into a box, the one with the largest share of it first."""
    left_out = Fraction(allowed.epsilon) * _shared_volume(Cube(universe.bits, (0,) * universe.dimensions), box)
    whole = Cube(universe.bits, (0,) * universe.dimensions)
    waiting = [(-_shared_volume(whole, box), 0, len(keys), whole)] if keys else []
    unsearched = -waiting[0][0] if waiting else 0
    while waiting and unsearched > left_out and allowed.probe():
        shared, first, last, cube = heappop(waiting)
        unsearched += shared
        if -shared == 1 << (cube.level * universe.dimensions):
            yield from range(first, last)
            continue
        for inner, start, stop in _populated(keys, universe, cube, first, last):
            volume = _shared_volume(inner, box)
            if volume:
                heappush(waiting, (-volume, start, stop, inner))
                unsearched += volume


def planned_search(keys: Sequence[int], universe: Universe, box: Box, allowed: Allowance) -> Iterator[int]:
    """Probe greedy cubes where they are known to be fewer than the keys; else follow the keys."""
    needed = cubes_needed(universe.sides(box.low), allowed.epsilon)
    search = greedy_search if needed <= len(keys) else populated_search
    return search(keys, universe, box, allowed)


def _populated(
    keys: Sequence[int], universe: Universe, cube: Cube, first: int, last: int
) -> Iterator[tuple[Cube, int, int]]:
    """The cubes of half the side that hold some of the keys, with the places of these."""
    dimensions = universe.dimensions
    shift = (cube.level - 1) * dimensions
    while first < last:
        prefix = keys[first] >> shift
        stop = bisect_left(keys, (prefix + 1) << shift, first, last)
        corner = tuple(
            coordinate << 1 | prefix >> (dimensions - 1 - at) & 1 for at, coordinate in enumerate(cube.corner)
        )
        yield Cube(cube.level - 1, corner), first, stop
        first = stop


def _shared_volume(cube: Cube, box: Box) -> int:
    """How many cells a cube and a box share."""
    side = 1 << cube.level
    return prod(
        max(0, min((at + 1) * side, high + 1) - max(at * side, low))
        for at, low, high in zip(cube.corner, box.low, box.high, strict=True)
    )
