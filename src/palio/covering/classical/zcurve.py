"""Z-curve index: filters as points on a space filling curve, searched in part or in full (Shen §4.6 to 4.8).

A filter with ranges of β attributes is a cell of a universe of 2β dimensions, how far it reaches down and how far up
each; the cells that dominate it are those of all that could cover it. Ranges are rounded to cells, and conditions on
other attributes are not in them, so candidates are verified with the filters: errors are on one side.

A universe of 2^k cells in each of d dimensions is halved in all of them, again and again; the cubes that come of it are
standard cubes, and the Z-curve visits the cells of each one after the other. So a standard cube is one range of keys,
however large, and whether it holds a point is one binary search. The cells that dominate a point are a box at the far
corner of the universe, which is cut greedily into the largest standard cubes (Shen §4.6.3, §4.6.4). The source lists
the cubes of one size rectangle by rectangle, by the positions of one-bits in the side lengths. But cubes of side 2^i
fill what lengths rounded down to multiples of 2^i have more than those rounded to multiples of 2^(i+1) (Lemma 6); here
that difference of two boxes is walked directly, one slab for each dimension.

A coverer that is not found costs a filter forwarded in vain, no more. So a search may leave out a share epsilon, and it
may stop when its budget of probes is spent. `greedy_search`, the source's own, leaves out a share of the volume in
which coverers could lie: it probes the greedy cubes of the box, largest first; their number does not grow with the box,
but it grows with the power of the dimensions, and soon exceeds the number of points. `populated_search` follows the
points, and leaves out a share of those that could lie in the box: from the universe down, only cubes that hold points
and reach into the box are visited. It is exact where nothing is left out, and needs no more visits than there are
points times bits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, inf, prod
from typing import Final, NamedTuple, TypeAlias

from palio.covering.classical.curves import CURVES, CurveName
from palio.covering.extents import IndexedFilter, axis_of, first_above
from palio.errors import InvalidArgument


class Cube(NamedTuple):
    """A standard cube: its side is 2^`level`, its corner is given in sides."""

    level: int
    corner: tuple[int, ...]


class Universe(NamedTuple):
    """All cells with `dimensions` coordinates of `bits` bits each."""

    dimensions: int
    bits: int
    curve: CurveName = "z"

    def key(self, cube: Cube) -> int:
        """The place of a cube among those of its size, in the order of the curve."""
        return CURVES[self.curve].key(cube.corner, self.bits - cube.level)

    def cube(self, key: int, level: int) -> Cube:
        """The cube of side 2^`level` at a place: the inverse of `key`."""
        return Cube(level, CURVES[self.curve].corner(key, self.dimensions, self.bits - level))

    def key_range(self, cube: Cube) -> range:
        """The range of keys of all cells of a cube."""
        cells = cube.level * self.dimensions
        key = self.key(cube)
        return range(key << cells, (key + 1) << cells)

    def sides(self, point: Sequence[int]) -> tuple[int, ...]:
        """The side lengths of the box of all cells that dominate a point."""
        return tuple((1 << self.bits) - coordinate for coordinate in point)

    def cubes(self, sides: Sequence[int]) -> Iterator[Cube]:
        """The greedy cubes of a box at the far corner, the largest first, generated lazily."""
        for level in range(min(sides).bit_length() - 1, -1, -1):
            if any(side >> level & 1 for side in sides):
                yield from self._cubes_of(sides, level)

    def _cubes_of(self, sides: Sequence[int], level: int) -> Iterator[Cube]:
        end = 1 << (self.bits - level)
        inner = [end - (side >> (level + 1) << 1) for side in sides]  # larger cubes fill the box from here on
        outer = [end - (side >> level) for side in sides]
        # A cell between the two boxes is listed once: under the first dimension in which it is outside the inner one.
        for at in range(len(sides)):
            if outer[at] < inner[at]:
                before = [range(start, end) for start in inner[:at]]
                after = [range(start, end) for start in outer[at + 1 :]]
                for corner in _walk([*before, range(outer[at], inner[at]), *after]):
                    yield Cube(level, corner)


def count_cubes(sides: Sequence[int]) -> list[int]:
    """How many greedy cubes of side 1, 2, 4, … a box has (Lemma 7)."""
    dimensions = len(sides)
    levels = range(min(sides).bit_length())
    volumes = [prod(side >> level << level for side in sides) for level in (*levels, len(levels))]
    return [(volumes[level] - volumes[level + 1]) >> (level * dimensions) for level in levels]


def cubes_needed(sides: Sequence[int], epsilon: float) -> int:
    """How many of the largest greedy cubes hold all but a share of a box's volume; computed without a search."""
    missing = ceil((1 - Fraction(_share(epsilon))) * prod(sides))
    needed = 0
    for level, count in reversed(list(enumerate(count_cubes(sides)))):
        volume = 1 << (level * len(sides))
        if count * volume >= missing:
            return needed - (-missing // volume)
        needed += count
        missing -= count * volume
    return needed


def _share(epsilon: float) -> float:
    if not 0 <= epsilon < 1:
        raise InvalidArgument(f"what may be left out is a share from 0 to below 1, not {epsilon}")
    return epsilon


def _walk(ranges: Sequence[range]) -> Iterator[tuple[int, ...]]:
    """The product of ranges, which may be long: `itertools.product` would first materialise them all."""
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _walk(ranges[1:]):
            yield (first, *rest)


class Box(NamedTuple):
    """All cells from one corner to another, both included."""

    low: tuple[int, ...]
    high: tuple[int, ...]


class SearchBudget:
    """The share of the volume that a search may leave out, the probes that it may make, and those it made."""

    def __init__(self, epsilon: float = 0.0, budget: int | None = None) -> None:
        self.epsilon = epsilon
        self.budget = budget
        self.probes = 0

    def probe(self) -> bool:
        """Count one more probe; returns whether the budget allows it."""
        if self.budget is not None and self.probes >= self.budget:
            return False
        self.probes += 1
        return True


Search: TypeAlias = Callable[[Sequence[int], Universe, Box, SearchBudget], Iterator[int]]
"""Positions of the keys in a box, among sorted ones. For greedy cubes the box must reach to the far corner."""


def greedy_search(keys: Sequence[int], universe: Universe, box: Box, budget: SearchBudget) -> Iterator[int]:
    """Probe the largest standard cubes of the cells that dominate a point, until enough volume is searched."""
    sides = universe.sides(box.low)
    needed = cubes_needed(sides, budget.epsilon)
    for cube in universe.cubes(sides):
        if needed == 0 or not budget.probe():
            return
        needed -= 1
        key_range = universe.key_range(cube)
        place = bisect_left(keys, key_range.start)
        while place < len(keys) and keys[place] < key_range.stop:
            yield place
            place += 1


def populated_search(keys: Sequence[int], universe: Universe, box: Box, budget: SearchBudget) -> Iterator[int]:
    """Visit the cubes that hold keys and reach into a box, the one with most keys that may lie in it first.

    What is left out is a share of the keys that are expected there, each cube's counted by the share of its volume that
    lies in the box. Of the volume itself nearly all holds no key: a search that may leave out a hundredth of it would
    end among the first few cubes.
    """
    whole = Cube(universe.bits, (0,) * universe.dimensions)
    heap = [(-_expected_keys(universe, whole, box, len(keys)), 0, len(keys), whole)] if keys else []
    unsearched = -heap[0][0] if heap else 0.0
    left_out = budget.epsilon * unsearched
    while heap and budget.probe():
        negative, first, last, cube = heappop(heap)
        # Exact where nothing is left out, whatever the rounding of the sum.
        if budget.epsilon and unsearched <= left_out:
            return
        unsearched += negative
        # The cube is wholly inside the box: all its keys are results.
        if _shared_volume(cube, box) == 1 << (cube.level * universe.dimensions):
            yield from range(first, last)
            continue
        for inner, start, stop in _populated(keys, universe, cube, first, last):
            expected = _expected_keys(universe, inner, box, stop - start)
            if expected:
                heappush(heap, (-expected, start, stop, inner))
                unsearched += expected


def _expected_keys(universe: Universe, cube: Cube, box: Box, keys: int) -> float:
    """How many keys of a cube lie in a box, if they are spread evenly; above 0 where any may."""
    return keys * (_shared_volume(cube, box) / (1 << (cube.level * universe.dimensions)))


def planned_search(keys: Sequence[int], universe: Universe, box: Box, budget: SearchBudget) -> Iterator[int]:
    """Greedy search where its cubes are fewer than the keys, else populated search."""
    needed = cubes_needed(universe.sides(box.low), budget.epsilon)
    search = greedy_search if needed <= len(keys) else populated_search
    return search(keys, universe, box, budget)


def _populated(
    keys: Sequence[int], universe: Universe, cube: Cube, first: int, last: int
) -> Iterator[tuple[Cube, int, int]]:
    """The cubes of half the side that hold some of the keys, with the positions of these."""
    shift = (cube.level - 1) * universe.dimensions
    while first < last:
        prefix = keys[first] >> shift
        stop = bisect_left(keys, (prefix + 1) << shift, first, last)
        yield universe.cube(prefix, cube.level - 1), first, stop
        first = stop


def _shared_volume(cube: Cube, box: Box) -> int:
    """The number of cells that a cube and a box share."""
    side = 1 << cube.level
    return prod(
        max(0, min((at + 1) * side, high + 1) - max(at * side, low))
        for at, low, high in zip(cube.corner, box.low, box.high, strict=True)
    )


_EVERYWHERE: Final = (-inf, inf)


class ZCurveIndex:
    """A covering index that may be approximate; exact with `epsilon` 0 and no `budget`.

    `domains` has the numeric attributes and the ranges of their values; 2^`bits` cells divide each. `epsilon` is the
    share that a search may leave out, `budget` the number of probes it may make, `curve` the order of the cells.
    `comparisons` counts probes, and the filters that were verified.
    """

    def __init__(
        self,
        domains: Mapping[str, tuple[float, float]],
        *,
        bits: int = 10,
        epsilon: float = 0.0,
        budget: int | None = None,
        search: Search = populated_search,
        curve: CurveName = "z",
    ) -> None:
        if curve not in CURVES:
            raise InvalidArgument(f"there is no curve {curve!r}; known are {', '.join(CURVES)}")
        if not domains or not all(low < high for low, high in domains.values()):
            raise InvalidArgument("the curve needs attributes, each with a domain from a lesser to a greater number")
        if bits < 1:
            raise InvalidArgument(f"a coordinate has at least one bit, not {bits}")
        self._domains = {axis_of(name): domain for name, domain in domains.items()}
        self._universe = Universe(2 * len(domains), bits, curve)
        cubes_needed((1,), epsilon)  # raises where epsilon is no share
        self._epsilon, self._budget, self._search = epsilon, budget, search
        self._keys: list[int] = []
        self._at: dict[int, dict[IndexedFilter, None]] = {}
        self._cells: dict[IndexedFilter, int] = {}
        self.comparisons = 0

    def add(self, filter: IndexedFilter) -> None:
        key = self._cells[filter] = self._universe.key(Cube(0, self._point(filter)))
        if key not in self._at:
            insort(self._keys, key)
            self._at[key] = {}
        self._at[key][filter] = None

    def remove(self, filter: IndexedFilter) -> None:
        key = self._cells.pop(filter)
        del self._at[key][filter]
        if not self._at[key]:
            del self._at[key]
            del self._keys[bisect_left(self._keys, key)]

    def covering(self, filter: IndexedFilter, limit: int) -> list[IndexedFilter]:
        far = (1 << self._universe.bits) - 1
        box = Box(self._point(filter), (far,) * self._universe.dimensions)
        return first_above(self._candidates(box, self._search), filter, limit)

    def covered(self, filter: IndexedFilter) -> list[IndexedFilter]:
        """Filters below one are dominated by it: their box is at the near corner, where greedy cubes do not apply."""
        box = Box((0,) * self._universe.dimensions, self._point(filter))
        return [each for each in self._candidates(box, populated_search) if filter.is_above(each)]

    def _candidates(self, box: Box, search: Search) -> Iterator[IndexedFilter]:
        budget = SearchBudget(self._epsilon, self._budget)
        # Counted at every result, because the caller may stop at any of them.
        probed = 0
        for place in search(self._keys, self._universe, box, budget):
            self.comparisons += budget.probes - probed
            probed = budget.probes
            for each in self._at[self._keys[place]]:
                self.comparisons += 1
                yield each
        self.comparisons += budget.probes - probed

    def _point(self, filter: IndexedFilter) -> tuple[int, ...]:
        """The cell of a filter; an attribute without a range takes the whole domain."""
        cells = 1 << self._universe.bits
        point: list[int] = []
        for axis, (least, most) in self._domains.items():
            low, high = (
                min(int(min(max((end - least) / (most - least), 0.0), 1.0) * cells), cells - 1)
                for end in filter.extent.get(axis, _EVERYWHERE)
            )
            # The lower end is mirrored, so that a range that reaches further is larger in both coordinates.
            point += (cells - 1 - low, high)
        return tuple(point)
