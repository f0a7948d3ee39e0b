"""Comparison of answers: a checksum per event over the (event, subscription) pairs.

The checksum is the one the C++ sketch prints: the sum, modulo 2^64, of a mixed (event << 32 | subscription).
Kept per event, so that an engine that only got through some of the events is compared on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Answers:
    """What an engine said about the first events of a task: matches and checksum of each."""

    matches: NDArray[np.int64]
    checksum: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.matches)

    @classmethod
    def of_pairs(cls, rows: NDArray[np.int64], subscriptions: NDArray[np.int64], events: int) -> Answers:
        checksum = np.zeros(events, np.uint64)
        keys = rows.astype(np.uint64) << np.uint64(32) | subscriptions.astype(np.uint64)
        np.add.at(checksum, rows, mix64(keys))
        return cls(np.bincount(rows, minlength=events), checksum)

    @classmethod
    def of_lists(cls, found: Sequence[Iterable[int]]) -> Answers:
        """From a collection of subscription numbers per event."""
        subscriptions = [np.fromiter(each, np.int64) for each in found]
        rows = np.repeat(np.arange(len(found)), [len(each) for each in subscriptions])
        return cls.of_pairs(rows, np.concatenate([np.empty(0, np.int64), *subscriptions]), len(found))

    @property
    def total(self) -> int:
        return int(self.matches.sum())

    def first(self, events: int) -> Answers:
        return Answers(self.matches[:events], self.checksum[:events])

    def sum(self) -> int:
        """One checksum for all events."""
        return int(np.add.reduce(self.checksum, dtype=np.uint64))

    def agrees_with(self, other: Answers) -> bool:
        """Whether both say the same of every event that both saw (and there is one)."""
        events = min(len(self), len(other))
        return events > 0 and bool(np.array_equal(self.checksum[:events], other.checksum[:events]))


def mix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The sketch's mixing function (the finaliser of SplitMix64), in wrapping 64-bit arithmetic."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def pairs_of_table(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and subscription numbers of a result of `Matcher.match_batch`, whose ids are numbers as text."""
    rows = table.column("row").to_numpy()
    parts = [np.empty(0, np.int64)]
    for chunk in table.column("subscription").chunks:
        numbers = chunk.dictionary.cast(pa.int64()).to_numpy(zero_copy_only=False)
        parts.append(numbers[chunk.indices.to_numpy(zero_copy_only=False)])
    return rows, np.concatenate(parts)
