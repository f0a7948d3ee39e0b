"""Bloom filters: sets of elements as sets of bits, sparse, dense, and counting.

Jerzak §5.2.3: an event satisfies few predicates, so the sorted indices of the bits that are set are smaller than a
bitmap as long as fewer than m / log2 m of them are. An empty filter then costs nothing at any width, and the width may
be chosen generously. Structures in Palio work with `Bits`; a bitmap is for the wire, where it is the smaller one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import log2
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bits: TypeAlias = tuple[int, ...]
"""The indices of the bits that are set, ascending, none twice."""


def union(many: Iterable[Bits]) -> Bits:
    """All bits that are in one of many."""
    return tuple(sorted(set().union(*many)))


def has_all(bits: Bits, asked: Bits) -> bool:
    """Whether all bits that are asked for are set: the elements they stand for are probably there, else surely not."""
    return set(asked).issubset(bits)


def is_smaller_sparse(width: int, count: int) -> bool:
    """Whether so many indices take less room than a bitmap."""
    return count < width / log2(width)


def to_bitmap(width: int, bits: Bits | npt.NDArray[np.int32]) -> bytes:
    """A byte for every eight bits, the lowest first."""
    flags = np.zeros(width, np.uint8)
    flags[np.asarray(bits, np.int64)] = 1
    return np.packbits(flags, bitorder="little").tobytes()


def from_bitmap(bitmap: bytes) -> Bits:
    flags: npt.NDArray[np.uint8] = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return tuple(np.flatnonzero(flags).tolist())


class CountingBloom:
    """A Bloom filter from which elements can be taken out again: it counts who set a bit.

    An element that was added twice must be removed twice.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    @property
    def bits(self) -> Bits:
        return tuple(sorted(self._counts))

    def add(self, bits: Bits) -> None:
        self._counts.update(bits)

    def remove(self, bits: Bits) -> None:
        """Take out an element that is there; `KeyError` where some bit of it is not."""
        missing = [bit for bit in bits if bit not in self._counts]
        if missing:
            raise KeyError(missing[0])
        for bit in bits:
            self._counts[bit] -= 1
            if not self._counts[bit]:
                del self._counts[bit]

    def __eq__(self, other: object) -> bool:
        return self._counts == other._counts if isinstance(other, CountingBloom) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
