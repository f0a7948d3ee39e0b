"""How can a row's random numbers be had without those of the rows before it?

By computing them from where they stand: seed, stream, row, purpose and place are mixed into 64 bits that look like
chance (the finaliser of SplitMix64, twice). Any row can then be made anywhere, alone and in any order; a generator with
a state would have to be run up to it, or be given one for each row, which costs a thousand times as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_PURPOSES = 40  # bits below a purpose: twenty each for attempts and places


def mixed(words: _Words) -> _Words:
    """Other words, in which nothing of these is to be seen; no two become the same."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True)
class Numbers:
    """The random numbers of some rows of a stream."""

    seed: int
    stream: int
    rows: Ints

    @cached_property
    def _bases(self) -> _Words:
        key = mixed(np.array([self.seed % 2**64], np.uint64) ^ mixed(np.array([self.stream], np.uint64)))
        return mixed(self.rows.astype(np.uint64) ^ key)

    def uniform(self, purpose: int, count: int, attempt: int = 0) -> Floats:
        """Numbers from 0 up to 1, so many for each row; another attempt gives others."""
        first = (purpose << _PURPOSES) + (attempt << (_PURPOSES // 2))
        places = np.arange(first, first + count, dtype=np.uint64) * _STEP
        words = mixed(self._bases[:, None] + places[None, :])
        return np.asarray((words >> np.uint64(11)) * 2.0**-53)

    def normal(self, purpose: int, count: int, attempt: int = 0) -> Floats:
        """Numbers of the standard normal distribution, by Box and Muller."""
        pairs = self.uniform(purpose, 2 * count, attempt)
        radius = np.sqrt(-2.0 * np.log1p(-pairs[:, :count]))
        return np.asarray(radius * np.cos(2.0 * np.pi * pairs[:, count:]))

    def of(self, chosen: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Numbers:
        """Those of some of the rows."""
        return Numbers(self.seed, self.stream, self.rows[chosen])
