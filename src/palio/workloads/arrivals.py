"""When do things happen? Arrival processes: endless times in seconds from 0, each decided by its arguments alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from math import inf, log1p
from random import Random
from typing import Final

from palio.errors import InvalidArgument

_BURST: Final = 10.0  # events of a burst, in the mean


def periodic(rate: float, seed: int = 0) -> Iterator[float]:
    """One after the other, so many a second, the first at 0."""
    _positive(rate)
    number = 0
    while True:
        yield number / rate
        number += 1


def poisson(rate: float, seed: int = 0) -> Iterator[float]:
    """Each without regard to the others, so many a second in the mean."""
    _positive(rate)
    random = Random(seed)
    time = 0.0
    while True:
        time += _exponential(random, rate)
        yield time


def bursts(rate: float, seed: int = 0, size: float = _BURST) -> Iterator[float]:
    """Many at once and then none for a while: bursts come as `poisson` says, each of `size` events in the mean
    (geometric), and all together so many a second."""
    _positive(rate)
    if not 1 <= size < inf:
        raise InvalidArgument(f"a burst has at least one event in the mean, not {size!r}")
    random = Random(seed)
    for time in poisson(rate / size, seed + 1):
        yield time
        while random.random() < 1 - 1 / size:
            yield time


def recorded(times: Iterable[datetime], rate: float) -> Iterator[float]:
    """As often as it was, and so much faster: seconds since the first, divided by the rate. They must be in order."""
    _positive(rate)
    first = before = None
    for time in times:
        first = time if first is None else first
        if before is not None and time < before:
            raise InvalidArgument(f"{time} is not after {before}, and times are given in order")
        before = time
        yield (time - first).total_seconds() / rate


PROCESSES: Final[dict[str, Callable[[float, int], Iterator[float]]]] = {
    "periodic": periodic,
    "poisson": poisson,
    "bursts": bursts,
}


def _exponential(random: Random, rate: float) -> float:
    return -log1p(-random.random()) / rate


def _positive(rate: float) -> None:
    if not 0 < rate < inf:
        raise InvalidArgument(f"a rate is a positive number, not {rate!r}")
