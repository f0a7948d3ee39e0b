"""From many events to their digests at once: the sbsposet on the columnar index.

Every distinct predicate is a filter of its own in the matcher, which finds all that each event of a batch satisfies;
the digest is the union of their bits. `Sbsposet` is the same as the source has it, one event at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.negation import negation
from palio.filters.tree import Leaf
from palio.matching.columnar.axes import address_of
from palio.routing.effects import Job
from palio.routing.forwarding.bloom import kernels
from palio.routing.forwarding.bloom.bits import Bits
from palio.routing.forwarding.bloom.shape import BloomShape, predicate_text
from palio.routing.forwarding.numbered import NumberedFilters

Digests = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
"""Where the bits of each row start, with one start more at the end; and the bits, in order within a row."""


@dataclass(slots=True)
class _Predicate:
    number: int
    bits: Bits
    born: int
    uses: int = 0


class Predicates:
    """Predicates with their bits, counted; makes digests of events."""

    def __init__(self, shape: BloomShape) -> None:
        self.shape = shape
        self._known: dict[Leaf, _Predicate] = {}
        self._filters = NumberedFilters()
        self._own: npt.NDArray[np.int32] = np.zeros((0, shape.hashes), np.int32)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, predicate: Leaf, version: int = 0) -> Bits:
        """Count one more use of a predicate, which is new at this version if it is new, and give its bits."""
        known = self._known.get(predicate)
        if known is None:
            bits = self.shape.bits_of(predicate_text(predicate))
            known = _Predicate(self._filters.add(single(predicate)), bits, version)
            self._known[predicate] = known
            if known.number >= len(self._own):
                more = np.zeros((max(8, len(self._own)), self.shape.hashes), np.int32)
                self._own = np.concatenate([self._own, more])
            self._own[known.number] = bits
        known.uses += 1
        return known.bits

    def remove(self, predicate: Leaf) -> Bits:
        """Count one use less; the predicate goes with the last."""
        known = self._known[predicate]
        known.uses -= 1
        if not known.uses:
            del self._known[predicate]
            self._filters.remove(known.number)
        return known.bits

    def since(self, version: int, most: int) -> list[tuple[Leaf, Bits]] | None:
        """The predicates that are newer than a version; None where they are more than so many."""
        found: list[tuple[Leaf, Bits]] = []
        for predicate, each in reversed(self._known.items()):  # they are in the order of their births
            if each.born <= version:
                break
            if len(found) == most:
                return None
            found.append((predicate, each.bits))
        return found

    def __iter__(self) -> Iterator[tuple[Leaf, Bits]]:
        return ((predicate, each.bits) for predicate, each in self._known.items())

    def work(self) -> Job | None:
        """What is worth doing beside everything else."""
        return self._filters.work()

    def digests(self, events: Sequence[Event]) -> Digests:
        """The digests of many events."""
        rows, numbers = self._filters.find(events)
        return gather(self.shape, self._own, rows, numbers, len(events))


def gather(
    shape: BloomShape,
    own: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int32],
    count: int,
) -> Digests:
    """The digests of so many rows, from the numbers of the predicates that each satisfies, in the order of the rows."""
    starts = np.zeros(count + 1, np.int64)
    bits = np.empty(len(rows) * shape.hashes, np.int32)
    present = np.zeros((shape.width + 63) // 64, np.int64)
    own, rows, numbers = (np.ascontiguousarray(each) for each in (own, rows, numbers))  # type: ignore[assignment]
    made = kernels.gather_digests(
        address_of(rows),
        address_of(numbers),
        len(rows),
        address_of(own),
        shape.hashes,
        address_of(present),
        len(present),
        address_of(starts),
        address_of(bits),
        count,
    )
    return starts, bits[:made]


def single(predicate: Leaf) -> Filter:
    """A predicate as a filter."""
    return Filter(predicate, lambda: negation(predicate))
