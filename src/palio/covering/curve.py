"""Which stretches of a space filling curve make up a corner of space? (Shen §4.6.3, §4.6.4)

A universe of 2^k cells in each of d dimensions is halved in all of them, again and again; the cubes that come of it are
standard cubes, and the Z-curve visits the cells of each one after the other. So a standard cube is one stretch of keys,
however large, and whether it holds a point is one search among sorted keys. What dominates a point is a box that ends
at the far corner of the universe; it has side lengths, and its shape is cut greedily into the largest standard cubes.

The source lists the cubes of one size rectangle by rectangle, by the positions of one-bits in the side lengths. But
cubes of side 2^i fill what lengths rounded down to multiples of 2^i have more than those rounded to multiples of
2^(i+1) (Lemma 6); here that difference of two boxes is walked through directly, one slab for each dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from math import ceil, prod
from typing import NamedTuple

from palio.errors import InvalidArgument


class Cube(NamedTuple):
    """A standard cube: the side is 2^`level`, the corner is counted in sides."""

    level: int
    corner: tuple[int, ...]


class Universe(NamedTuple):
    """Cells with so many coordinates, of so many bits each."""

    dimensions: int
    bits: int

    def key(self, cube: Cube) -> int:
        """The bits of a corner, most significant first, one of each coordinate in turn."""
        spread = _spread_bytes(self.dimensions)
        key = 0
        for at, coordinate in enumerate(cube.corner, 1):
            shift = self.dimensions - at
            while coordinate:
                key |= spread[coordinate & 0xFF] << shift
                coordinate >>= 8
                shift += 8 * self.dimensions
        return key

    def stretch(self, cube: Cube) -> range:
        """The keys of all cells of a cube."""
        cells = cube.level * self.dimensions
        key = self.key(cube)
        return range(key << cells, (key + 1) << cells)

    def sides(self, point: Sequence[int]) -> tuple[int, ...]:
        """The side lengths of the box of all that dominates a point."""
        return tuple((1 << self.bits) - coordinate for coordinate in point)

    def cubes(self, sides: Sequence[int]) -> Iterator[Cube]:
        """The greedy cubes of a box at the far corner, the largest first; none is made before it is asked for."""
        for level in range(min(sides).bit_length() - 1, -1, -1):
            if any(side >> level & 1 for side in sides):
                yield from self._cubes_of(sides, level)

    def _cubes_of(self, sides: Sequence[int], level: int) -> Iterator[Cube]:
        end = 1 << (self.bits - level)
        inner = [end - (side >> (level + 1) << 1) for side in sides]  # where what larger cubes fill begins
        outer = [end - (side >> level) for side in sides]
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
    """How many of the largest greedy cubes hold all but a share of a box's volume; costs no search."""
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
    """The product of ranges, which may be long: `itertools.product` would first write them all out."""
    if not ranges:
        yield ()
        return
    for first in ranges[0]:
        for rest in _walk(ranges[1:]):
            yield (first, *rest)


@cache
def _spread_bytes(dimensions: int) -> list[int]:
    """For each byte its bits with room for those of the other dimensions between them."""
    return [sum((byte >> bit & 1) << (bit * dimensions) for bit in range(8)) for byte in range(256)]
