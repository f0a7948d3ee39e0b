"""Who comes and goes? A population in which newcomers arrive without regard to each other and stay for a random time.

Both times are exponential, and as many come as go, so that the population stays what it was in the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf, log1p
from random import Random
from typing import NamedTuple

from palio.errors import InvalidArgument
from palio.workloads.arrivals import poisson


class Change(NamedTuple):
    """Somebody comes, or goes: who, by a number that nobody else has."""

    time: float
    number: int
    comes: bool


def churn(population: int, stay: float, seed: int = 0) -> Iterator[Change]:
    """Endless changes in order of time: all of a first population come at 0, everybody stays for `stay` seconds in the
    mean, and as many newcomers come as go."""
    if population < 0 or not 0 < stay < inf:
        raise InvalidArgument("a population is not negative, and its members stay for a positive time")
    random = Random(seed)
    leaving: list[tuple[float, int]] = []

    def come(time: float, number: int) -> Change:
        heappush(leaving, (time - stay * log1p(-random.random()), number))
        return Change(time, number, True)

    for number in range(population):
        yield come(0.0, number)
    newcomers = poisson(population / stay, seed + 1) if population else iter(())
    for number, time in enumerate(newcomers, population):
        while leaving and leaving[0][0] <= time:
            yield Change(*heappop(leaving), False)
        yield come(time, number)
