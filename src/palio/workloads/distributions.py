"""How are names, values and sizes chosen? Three distributions on the line from 0 to 1 (Jerzak §9.1, Table 9.1).

The thesis draws real numbers and does not say how they become indexes; here the part of each distribution that has
nearly all of it is laid onto the line: the normal one from -1 to 1, the Pareto one from its least value to ten times
that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt
from typing import Final, Protocol

import numpy as np

from palio.workloads.counters import Floats, Ints, Numbers

_FEW: Final = 256  # names, of which all are given a chance at once
_MOST_TIMES_LEAST: Final = 10.0  # where the Pareto distribution is cut off


class Distribution(Protocol):
    """Where on the line from 0 to 1 a choice falls."""

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        """Places from 0 up to 1, so many for each row."""
        ...

    def below(self, place: float) -> float:
        """How likely a place below this one is."""
        ...


@dataclass(frozen=True)
class Uniform:
    """All places alike."""

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        return numbers.uniform(purpose, count, attempt)

    def below(self, place: float) -> float:
        return place


UNIFORM: Final = Uniform()


@dataclass(frozen=True)
class Normal:
    """Most places around the middle."""

    mean: float = 0.0
    deviation: float = 0.3

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        found = np.full((len(numbers.rows), count), np.nan)
        again = 0
        while np.isnan(found).any():
            # So far apart that another attempt of the caller's has other numbers.
            drawn = self.mean + self.deviation * numbers.normal(purpose, count, attempt + (again << 10))
            keep = np.isnan(found) & (np.abs(drawn) < 1.0)
            found[keep] = (drawn[keep] + 1.0) / 2.0
            again += 1
        return found

    def below(self, place: float) -> float:
        low, here, high = (self._cumulated(2 * each - 1) for each in (0.0, place, 1.0))
        return (here - low) / (high - low)

    def _cumulated(self, x: float) -> float:
        return 0.5 * (1.0 + erf((x - self.mean) / (self.deviation * sqrt(2.0))))


@dataclass(frozen=True)
class Pareto:
    """Most places near the beginning."""

    alpha: float = 3.0
    beta: float = 1.0

    def units(self, numbers: Numbers, purpose: int, count: int, attempt: int = 0) -> Floats:
        last = _MOST_TIMES_LEAST**-self.alpha
        drawn = self.beta * (1.0 - (1.0 - last) * numbers.uniform(purpose, count, attempt)) ** (-1.0 / self.alpha)
        return np.asarray(np.minimum((drawn / self.beta - 1.0) / (_MOST_TIMES_LEAST - 1.0), np.nextafter(1.0, 0.0)))

    def below(self, place: float) -> float:
        last = _MOST_TIMES_LEAST**-self.alpha
        return float((1.0 - (1.0 + place * (_MOST_TIMES_LEAST - 1.0)) ** -self.alpha) / (1.0 - last))


@dataclass(frozen=True)
class Extent:
    """From the lowest to the highest, both included, chosen by a distribution; where both are one, always that."""

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
    """For each row `counts` different numbers below `size`, as if equal ones were drawn again; the rest is -1."""
    if size <= _FEW:
        # The largest of (log weight + Gumbel noise) are a weighted choice without replacement.
        edges = [distribution.below(place / size) for place in range(size + 1)]
        with np.errstate(divide="ignore"):
            weights = np.log(np.diff(edges))
            noise = -np.log(-np.log(numbers.uniform(purpose, size)))
        found = np.argsort(-(weights + noise), axis=1, kind="stable")[:, :most]
    else:
        found = np.floor(distribution.units(numbers, purpose, most) * size).astype(np.int64)
        attempt = 1
        while (again := _repeated(found)).any():
            others = np.floor(distribution.units(numbers, purpose, most, attempt) * size).astype(np.int64)
            found = np.where(again, others, found)
            attempt += 1
    return np.where(np.arange(most) < counts[:, None], found, -1)


def _repeated(found: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which numbers stand further left in their row already."""
    order = np.argsort(found, axis=1, kind="stable")
    ordered = np.take_along_axis(found, order, axis=1)
    same = np.zeros(found.shape, np.bool_)
    same[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    again = np.empty_like(same)
    np.put_along_axis(again, order, same, axis=1)
    return again
