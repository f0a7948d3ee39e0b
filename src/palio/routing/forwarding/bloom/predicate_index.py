"""Predicate index: from a batch of events to their digests, at their first broker.

Every distinct predicate is a filter of its own in the columnar matcher, which finds all that each event of a batch
satisfies; the digest is the union of their bits. `Sbsposet` (`classical`) is the source's structure for one event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.matching.columnar.native import address_of
from palio.routing.effects import Job
from palio.routing.forwarding.bloom import digest_kernels
from palio.routing.forwarding.bloom.digest import Bits, BloomHeader, BloomShape, index_type, predicate_text
from palio.routing.forwarding.filter_index import FilterIndex, NumberedFilters
from palio.routing.forwarding.precomputed_headers import TableVersion, annotation_prefix, concatenate_headers

Digests = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
"""Where the bits of each event start, with one start more at the end; and the bits, ascending within an event."""


@dataclass(slots=True)
class _Predicate:
    number: int
    bits: Bits
    added_at: int  # version of the table
    uses: int = 0


class PredicateIndex:
    """Predicates with their bits, counted; computes the digests of events."""

    def __init__(self, shape: BloomShape, filters: NumberedFilters | None = None) -> None:
        self.shape = shape
        self._predicates: dict[Leaf, _Predicate] = {}
        self._filters: NumberedFilters = FilterIndex() if filters is None else filters
        self._bits: npt.NDArray[np.int32] = np.zeros((0, shape.hashes), np.int32)

    def __len__(self) -> int:
        return len(self._predicates)

    def add(self, predicate: Leaf, version: int = 0) -> Bits:
        """Count one more use of a predicate, and return its bits; `version` is recorded where it is new."""
        known = self._predicates.get(predicate)
        if known is None:
            bits = self.shape.bits_of(predicate_text(predicate))
            known = _Predicate(self._filters.add(predicate_filter(predicate)), bits, version)
            self._predicates[predicate] = known
            if known.number >= len(self._bits):
                more = np.zeros((max(8, len(self._bits)), self.shape.hashes), np.int32)
                self._bits = np.concatenate([self._bits, more])
            self._bits[known.number] = bits
        known.uses += 1
        return known.bits

    def remove(self, predicate: Leaf) -> Bits:
        """Count one use less, and return its bits; the last use removes the predicate."""
        known = self._predicates[predicate]
        known.uses -= 1
        if not known.uses:
            del self._predicates[predicate]
            self._filters.remove(known.number)
        return known.bits

    def added_since(self, version: int, limit: int) -> list[tuple[Leaf, Bits]] | None:
        """The predicates that are newer than a version; None where there are more than `limit`."""
        found: list[tuple[Leaf, Bits]] = []
        for predicate, each in reversed(self._predicates.items()):  # the newest first
            if each.added_at <= version:
                break
            if len(found) == limit:
                return None
            found.append((predicate, each.bits))
        return found

    def __iter__(self) -> Iterator[tuple[Leaf, Bits]]:
        return ((predicate, each.bits) for predicate, each in self._predicates.items())

    def work(self) -> Job | None:
        """The background job of the matcher, if one is due."""
        return self._filters.work()

    def digests(self, events: Sequence[Event]) -> Digests:
        rows, numbers = self._filters.find(events)
        return gather_digests(self.shape, self._bits, rows, numbers, len(events))


def gather_digests(
    shape: BloomShape,
    bits_of: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int32],
    count: int,
) -> Digests:
    """The digests of `count` events, from matches: row of the event, ascending, and number of the predicate."""
    starts = np.zeros(count + 1, np.int64)
    bits = np.empty(len(rows) * shape.hashes, np.int32)
    present = np.zeros((shape.width + 63) // 64, np.int64)
    bits_of, rows, numbers = (np.ascontiguousarray(each) for each in (bits_of, rows, numbers))  # type: ignore[assignment]
    matches = (address_of(rows), address_of(numbers), len(rows), count)
    predicates = (address_of(bits_of), shape.hashes)
    made = digest_kernels.gather_digests(
        matches, predicates, address_of(present), len(present), address_of(starts), address_of(bits)
    )
    return starts, bits[:made]


def predicate_filter(predicate: Leaf) -> Filter:
    """The filter of one predicate."""
    return Filter.of_tree(predicate)


@dataclass(frozen=True)
class BloomWriter:
    """Writes the digests of events that a bulk job matched; `bits_of` has the bits of every predicate, by number."""

    entry: TableVersion
    shape: BloomShape
    bits_of: npt.NDArray[np.int32]

    def write(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], count: int) -> pa.BinaryArray:
        starts, bits = gather_digests(self.shape, self.bits_of, rows, numbers, count)
        start = annotation_prefix(self.entry, BloomHeader.kind)
        index = index_type(self.shape.width)
        if int(np.diff(starts).max(initial=0)) * index.itemsize * 8 <= self.shape.width:
            return concatenate_headers(start + BloomHeader.of(self.shape.width, ()).data, bits.astype(index), starts)
        # Some digest is shorter as a bitmap: write them one by one.
        digests = (bits[low:high] for low, high in pairwise(starts))
        return pa.array([start + BloomHeader.of(self.shape.width, each).data for each in digests], pa.binary())
