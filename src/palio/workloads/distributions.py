"""Counter-based random numbers, and the distributions of XSiena's workload (Jerzak §9.1, Table 9.1).

The numbers of a row are computed from seed, stream, row, purpose and position, mixed into 64 bits (the finaliser of
SplitMix64, twice). Any row can be made alone, anywhere and in any order. Rejected: generators with a state, which must
be advanced to a row, or created for each row at a thousand times the cost.

The thesis draws real numbers and does not say how they become indexes. Here the part of each distribution that has
nearly all of its mass is mapped to the unit interval: the normal one from -1 to 1, the Pareto one from its minimum to
ten times that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import erf, sqrt
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
_Words: TypeAlias = npt.NDArray[np.uint64]

# Constants of SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_PURPOSE_SHIFT = 40  # bits below a purpose: twenty each for attempts and positions
_MAX_GUMBEL_NAMES: Final = 256  # up to here, weighing all names at once is cheaper than drawing again
_PARETO_CUTOFF: Final = 10.0  # times the minimum


def mix_bits(words: _Words) -> _Words:
    """The finaliser of SplitMix64, a bijection."""
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
        key = mix_bits(np.array([self.seed % 2**64], np.uint64) ^ mix_bits(np.array([self.stream], np.uint64)))
        return mix_bits(self.rows.astype(np.uint64) ^ key)

    def uniform(self, purpose: int, count: int, attempt: int = 0) -> Floats:
        """`count` numbers in [0, 1) for each row; another attempt gives others."""
        first = (purpose << _PURPOSE_SHIFT) + (attempt << (_PURPOSE_SHIFT // 2))
        places = np.arange(first, first + count, dtype=np.uint64) * _STEP
        words = mix_bits(self._bases[:, None] + places[None, :])
        # The upper 53 bits, which are as many as a double holds exactly.
        return np.asarray((words >> np.uint64(11)) * 2.0**-53)

    def normal(self, purpose: int, count: int, attempt: int = 0) -> Floats:
        """Standard normal numbers, by Box and Muller."""
        pairs = self.uniform(purpose, 2 * count, attempt)
        # log1p(-u) is log(1 - u), which is finite for u in [0, 1).
        radius = np.sqrt(-2.0 * np.log1p(-pairs[:, :count]))
        return np.asarray(radius * np.cos(2.0 * np.pi * pairs[:, count:]))

    def of(self, chosen: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Numbers:
        """The numbers of some of the rows."""
        return Numbers(self.seed, self.stream, self.rows[chosen])


class Distribution(Protocol):
    """A distribution on the unit interval."""

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        """`count` numbers in [0, 1) for each row."""
        ...

    def below(self, place: float) -> float:
        """The cumulative distribution function."""
        ...


@dataclass(frozen=True)
class Uniform:
    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        return numbers.uniform(purpose, count, attempt)

    def below(self, place: float) -> float:
        return place


UNIFORM: Final = Uniform()


@dataclass(frozen=True)
class Normal:
    """Normal distribution, mapped from [-1, 1]; outliers are drawn again."""

    mean: float = 0.0
    deviation: float = 0.3

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        units = np.full((len(numbers.rows), count), np.nan)
        again = 0
        while np.isnan(units).any():
            # Shifted, so that other attempts of the caller have other numbers.
            drawn = self.mean + self.deviation * numbers.normal(purpose, count, attempt + (again << 10))
            keep = np.isnan(units) & (np.abs(drawn) < 1.0)
            units[keep] = (drawn[keep] + 1.0) / 2.0
            again += 1
        return units

    def below(self, place: float) -> float:
        low, here, high = (self._cumulated(2 * each - 1) for each in (0.0, place, 1.0))
        return (here - low) / (high - low)

    def _cumulated(self, x: float) -> float:
        return 0.5 * (1.0 + erf((x - self.mean) / (self.deviation * sqrt(2.0))))


@dataclass(frozen=True)
class Pareto:
    """Pareto distribution, mapped from its minimum to the cutoff."""

    alpha: float = 3.0
    beta: float = 1.0

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        last = _PARETO_CUTOFF**-self.alpha
        drawn = self.beta * (1.0 - (1.0 - last) * numbers.uniform(purpose, count, attempt)) ** (-1.0 / self.alpha)
        return np.asarray(np.minimum((drawn / self.beta - 1.0) / (_PARETO_CUTOFF - 1.0), np.nextafter(1.0, 0.0)))

    def below(self, place: float) -> float:
        last = _PARETO_CUTOFF**-self.alpha
        return float((1.0 - (1.0 + place * (_PARETO_CUTOFF - 1.0)) ** -self.alpha) / (1.0 - last))


@dataclass(frozen=True)
class Extent:
    """Numbers from `low` to `high`, both included, by a distribution."""

    low: float
    high: float
    distribution: Distribution = UNIFORM

    def integers(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Ints:
        units = self.distribution.units(numbers, purpose, count, attempt)
        return np.asarray(int(self.low) + np.floor(units * (int(self.high) - int(self.low) + 1))).astype(np.int64)

    def reals(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        units = self.distribution.units(numbers, purpose, count, attempt)
        return np.asarray(self.low + units * (self.high - self.low))


def distinct(distribution: Distribution, size: int, counts: Ints, most: int, numbers: Numbers, purpose: int) -> Ints:
    """For each row `counts` distinct numbers below `size`, as if repeats were drawn again; the rest is -1."""
    if size <= _MAX_GUMBEL_NAMES:
        # Gumbel top-k: the largest of (log weight + Gumbel noise) are a weighted choice without replacement.
        edges = [distribution.below(place / size) for place in range(size + 1)]
        with np.errstate(divide="ignore"):
            weights = np.log(np.diff(edges))
            noise = -np.log(-np.log(numbers.uniform(purpose, size)))
        chosen = np.argsort(-(weights + noise), axis=1, kind="stable")[:, :most]
    else:
        chosen = np.floor(distribution.units(numbers, purpose, most) * size).astype(np.int64)
        attempt = 1
        while (again := _repeated(chosen)).any():
            others = np.floor(distribution.units(numbers, purpose, most, attempt) * size).astype(np.int64)
            chosen = np.where(again, others, chosen)
            attempt += 1
    return np.where(np.arange(most) < counts[:, None], chosen, -1)


def _repeated(numbers: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which numbers repeat one further left in their row."""
    order = np.argsort(numbers, axis=1, kind="stable")
    ordered = np.take_along_axis(numbers, order, axis=1)
    same = np.zeros(numbers.shape, np.bool_)
    same[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    again = np.empty_like(same)
    np.put_along_axis(again, order, same, axis=1)
    return again
