"""Where do subscribers live? At brokers, numbered from 0: anywhere, where many others are, or near those who want the
same. A placement is asked for each subscriber in turn, with what it wants, and one seed gives the same places.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import Final, TypeAlias

from palio.errors import InvalidArgument

Placement: TypeAlias = Callable[[str], int]
"""From what a subscriber wants to the broker that it lives at."""

_SKEW: Final = 1.0
_AT_HOME: Final = 0.8


def uniform(brokers: int, seed: int = 0) -> Placement:
    """Anywhere."""
    _some(brokers)
    random = Random(seed)
    return lambda wanted: random.randrange(brokers)


def popular(brokers: int, seed: int = 0, skew: float = _SKEW) -> Placement:
    """At few brokers most of them, by Zipf's law; which ones, the seed decides."""
    _some(brokers)
    random = Random(seed)
    order = random.sample(range(brokers), brokers)
    below = list(accumulate((rank + 1) ** -skew for rank in range(brokers)))

    def place(wanted: str) -> int:
        return order[bisect(below, random.random() * below[-1], 0, brokers - 1)]

    return place


def alike(brokers: int, seed: int = 0, at_home: float = _AT_HOME) -> Placement:
    """Those who want the same live at one broker, but for a share of them that live anywhere."""
    _some(brokers)
    if not 0 <= at_home <= 1:
        raise InvalidArgument(f"a share is from 0 to 1, not {at_home!r}")
    random = Random(seed)
    key = seed.to_bytes(16, "little", signed=True)

    def place(wanted: str) -> int:
        elsewhere, anywhere = random.random() >= at_home, random.randrange(brokers)
        home = int.from_bytes(blake2b(wanted.encode(), digest_size=8, key=key).digest(), "little") % brokers
        return anywhere if elsewhere else home

    return place


PLACEMENTS: Final[dict[str, Callable[[int, int], Placement]]] = {
    "uniform": uniform,
    "popular": popular,
    "alike": alike,
}


def _some(brokers: int) -> None:
    if brokers < 1:
        raise InvalidArgument(f"subscribers live at one of at least one broker, not of {brokers}")
