"""How wide are the buckets that ranges are filed in? An axis has levels: single slots, then ever wider buckets.

A range goes to the finest level at which it touches few buckets. Every level in use costs each event one more posting
to visit, so a level with little in it is given up: what belongs there goes to the next coarser one, where some events
meet it in vain.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

MOST_LEVELS: Final = 12
_STEP: Final = 3  # neighbouring levels differ by a factor of 8
_FINEST_SHIFT: Final = 2  # but for the first, of single slots
_COARSEST_BITS: Final = 4  # of the buckets of the coarsest level
_WORTH: Final = 8.0  # entries that are read in the time it takes to visit one more posting

Levels: TypeAlias = npt.NDArray[np.int8]
Numbers: TypeAlias = npt.NDArray[np.int32]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


def possible_levels(sizes: Numbers) -> tuple[Levels, Levels]:
    """How many bits of a slot each level of an axis leaves out, and how many levels it may have.

    None at level 0, then ever more, up to a few buckets for the whole axis.
    """
    coarsest = np.maximum(0, np.frexp(sizes - 1.0)[1] - _COARSEST_BITS)
    counts = np.where(coarsest < _FINEST_SHIFT, 1, 2 + (coarsest - _FINEST_SHIFT) // _STEP)
    level = np.arange(MOST_LEVELS)
    shifts = coarsest[:, None] - _STEP * (counts[:, None] - 1 - level)
    shifts[:, 0] = 0
    return np.clip(shifts, 0, 32).astype(np.int8), counts.astype(np.int8)


class Buckets:
    """The buckets of some levels of axes, numbered."""

    def __init__(self, sizes: Numbers, shifts: Levels, levels: Flags) -> None:
        axes, those = np.nonzero(levels)
        self.shifts = shifts[axes, those].astype(np.int64)
        counts = ((sizes[axes] - 1) >> self.shifts) + 1
        self.firsts = np.cumsum(counts) - counts
        self.count = int(counts.sum())
        self.bases = np.zeros(levels.shape, np.int64)
        """The first bucket by axis and level."""
        self.bases[axes, those] = self.firsts


def takers_of(filed: Numbers, buckets: Buckets, shifts: Levels, counts: Levels) -> tuple[Levels, Flags]:
    """Which level takes what belongs to a level, itself or a coarser one; and which levels are in use then.

    `filed` is how many intervals begin in each bucket of all possible levels.
    """
    used = np.arange(MOST_LEVELS) < counts[:, None]
    takers = np.tile(np.arange(MOST_LEVELS, dtype=np.int8), (len(counts), 1))
    if not len(filed):
        return takers, used
    used[used] = np.add.reduceat(filed, buckets.firsts) > 0
    held = np.split(filed.astype(np.int64), buckets.firsts[1:])
    place_of = np.cumsum(counts, dtype=np.int64) - counts  # of an axis's first level among all
    for axis in np.flatnonzero(np.count_nonzero(used, axis=1) > 1).tolist():
        levels = np.flatnonzero(used[axis]).tolist()
        here = held[place_of[axis] + levels[0]]
        given_up: list[int] = []
        for finer, coarser in pairwise(levels):
            there = held[place_of[axis] + coarser]
            wider = _widened(here, int(shifts[axis, coarser] - shifts[axis, finer]))
            if _neighbours(wider) - _neighbours(here) > _WORTH:
                here, given_up = there, []
                continue
            here = wider + there
            given_up.append(finer)
            takers[axis, given_up] = coarser
            used[axis, finer] = False
    return takers, used


def _widened(filed: Ints, bits: int) -> Ints:
    """What buckets hold that are wider by so many bits."""
    wide = 1 << bits
    padded = np.zeros(-(-len(filed) // wide) * wide, np.int64)
    padded[: len(filed)] = filed
    found: Ints = padded.reshape(-1, wide).sum(axis=1)
    return found


def _neighbours(filed: Ints) -> float:
    """With how many others an interval shares its bucket: where many are, many events are expected, too."""
    return float(np.square(filed).sum() / filed.sum())
