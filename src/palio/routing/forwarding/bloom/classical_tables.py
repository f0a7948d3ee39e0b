"""Classical structures of Bloom forwarding behind the interfaces of those that brokers run by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np

from palio.events import Event
from palio.filters.tree import Leaf
from palio.routing.forwarding.bloom.classical import Sbsposet
from palio.routing.forwarding.bloom.digest import Bits, BloomShape, index_type
from palio.routing.forwarding.bloom.predicate_index import Digests, PredicateIndex


class DigestStructure(Protocol):
    """From a digest to the interfaces that want the event: a trie, counters or a skiptree."""

    def __len__(self) -> int: ...

    def add(self, interface: int, key: Hashable, bits: Bits) -> None: ...

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None: ...

    def match(self, bits: Bits) -> set[int]: ...


class ClassicalTable:
    """A structure that compares one digest at a time, as `DigestTable` compares a batch."""

    def __init__(self, width: int, structure: DigestStructure) -> None:
        self._index_type = index_type(width)
        self._structure = structure
        self._uses: Counter[tuple[int, Bits]] = Counter()

    def __len__(self) -> int:
        return len(self._structure)

    def add(self, interface: int, bits: Bits) -> None:
        # The structures know filters by keys; filters with equal bits are numbered here.
        self._structure.add(interface, (bits, self._uses[interface, bits]), bits)
        self._uses[interface, bits] += 1

    def remove(self, interface: int, bits: Bits) -> None:
        self._uses[interface, bits] -= 1
        self._structure.remove(interface, (bits, self._uses[interface, bits]), bits)
        if not self._uses[interface, bits]:
            del self._uses[interface, bits]

    def match_batch(
        self, starts: Sequence[int], packed: bytes, arrivals: Sequence[int | None]
    ) -> list[tuple[int, ...]]:
        """The interfaces that each of many digests satisfies, ascending, without the one it came by."""
        bits = np.frombuffer(packed, self._index_type).tolist()
        return [
            tuple(sorted(self._structure.match(tuple(bits[first:last])) - {came_by}))
            for first, last, came_by in zip(starts, starts[1:], arrivals, strict=False)
        ]


class PosetPredicateIndex(PredicateIndex):
    """Predicates that find the digest of one event at a time by an sbsposet."""

    def __init__(self, shape: BloomShape) -> None:
        super().__init__(shape)
        self._poset = Sbsposet()

    def add(self, predicate: Leaf, version: int = 0) -> Bits:
        bits = super().add(predicate, version)
        self._poset.add(predicate.attribute, predicate.values, bits)
        return bits

    def remove(self, predicate: Leaf) -> Bits:
        self._poset.remove(predicate.attribute, predicate.values)
        return super().remove(predicate)

    def digests(self, events: Sequence[Event]) -> Digests:
        found = [self._poset.match(event.attributes) for event in events]
        starts = np.zeros(len(events) + 1, np.int64)
        np.cumsum([len(bits) for bits in found], out=starts[1:])
        return starts, np.array([bit for bits in found for bit in bits], np.int32)
