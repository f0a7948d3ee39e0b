"""Counting Bloom sketches: whether two brokers have the same table, for a few bits of each entry (Shen §5.5).

Equal tables have equal sketches. Unequal ones may have equal sketches, too: a false equality. A sketch is exchanged
with the number of entries, so that a false equality needs as many missing entries as invented ones. Hashes have another
seed in every round: a difference that one round overlooks is hidden from the next with the same small probability,
whatever hid it before.

A sketch counts the entries of each bit, so that entries can be removed; only the bits travel. The sketch of a union of
tables is the union of their bits.

The source's Theorem 6 treats the bits as independent, which is pessimistic: with 4 bits and 2 hashes for each of 1,000
entries, of which one is missing, it gives 0.297, where 0.16 are measured. `false_equality` is the accurate form.
Sums of hashes would be shorter still, and are no use here for parts of tables: they have no union.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, exp, log, log2
from typing import Final

import numpy as np
import numpy.typing as npt

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.interest_index import home_key
from palio.routing.messages import Key, TableSketch
from palio.routing.strategies import Stabilising

ENTRY_BYTES: Final = 32  # a key, and the digest of its filter
MAX_SKETCH_BYTES: Final = 1024 * 1024  # more entries than fit are sketched with a higher rate of false equality
MAX_HASHES: Final = 64

Elements = npt.NDArray[np.uint64]
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def entry_digest(wanted: Filter, home: int | None) -> bytes:
    """The digest of a filter, with its home broker where it has one."""
    return wanted.digest if home is None else home_key(home, wanted.digest)


def elements_of(entries: bytes) -> Elements:
    """Entries of 32 bytes as one number each."""
    words = np.frombuffer(entries, "<u8").reshape(-1, ENTRY_BYTES // 8)
    found = np.zeros(len(words), np.uint64)
    for place in range(words.shape[1]):
        found = _mix(found ^ words[:, place])
    return found


@dataclass(frozen=True, slots=True)
class SketchShape:
    """The bits of a sketch, a multiple of eight, and the hashes of an entry."""

    bits: int
    hashes: int

    @classmethod
    def for_rate(cls, entries: int, rate: float) -> SketchShape:
        """The smallest sketch of some entries with a rate of false equality between tables of equal length."""
        # One entry is missing and another one invented at least, and half of the bits are set.
        hashes = min(MAX_HASHES, max(1, ceil(log2(1 / rate) / 2)))
        return cls.of_bits(ceil(max(1, entries) * hashes / log(2)), hashes)

    @classmethod
    def of_bits(cls, bits: int, hashes: int) -> SketchShape:
        return cls(8 * min(MAX_SKETCH_BYTES, max(1, ceil(bits / 8))), hashes)

    @classmethod
    def of(cls, chosen: Stabilising, entries: int) -> SketchShape:
        """The sketch of some entries that the options ask for."""
        if chosen.sketch_bits is None:
            if chosen.sketch_hashes is not None:
                raise InvalidArgument("sketch_hashes goes with sketch_bits, the bits of each entry; give both")
            return cls.for_rate(entries, chosen.false_equality)
        hashes = chosen.sketch_hashes or max(1, round(chosen.sketch_bits * log(2)))
        return cls.of_bits(max(1, entries) * chosen.sketch_bits, min(MAX_HASHES, hashes))


class CountingSketch:
    """The entries of each bit, counted. An entry that was added once must be removed once."""

    __slots__ = ("_counts", "_entries", "_seed", "_shape")

    def __init__(self, shape: SketchShape, seed: int) -> None:
        self._shape = shape
        self._seed = seed
        self._entries = 0
        self._counts = np.zeros(shape.bits, np.int64)

    def add(self, elements: Elements) -> None:
        self._counts += self._bit_counts(elements)
        self._entries += len(elements)

    def remove(self, elements: Elements) -> None:
        """Remove entries that were added."""
        counts = self._counts - self._bit_counts(elements)
        if (counts < 0).any():
            raise KeyError("an entry that was not added")
        self._counts = counts
        self._entries -= len(elements)

    @property
    def vector(self) -> bytes:
        """The bits that are set."""
        return np.packbits(self._counts > 0, bitorder="little").tobytes()

    def message(self) -> TableSketch:
        return TableSketch(self._entries, self._shape.hashes, self.vector)

    def _bit_counts(self, elements: Elements) -> npt.NDArray[np.int64]:
        return np.bincount(_positions(elements, self._seed, self._shape), minlength=self._shape.bits)


def sketch_of(entries: bytes, shape: SketchShape, seed: int) -> TableSketch:
    """The sketch of a table, given as the bytes of its entries."""
    sketch = CountingSketch(shape, seed)
    sketch.add(elements_of(entries))
    return sketch.message()


def is_equal(entries: bytes, other: TableSketch, seed: int) -> bool:
    """Whether a table has the sketch of another one."""
    if len(entries) != ENTRY_BYTES * other.entries:
        return False
    if len(other.vector) > MAX_SKETCH_BYTES:
        return False  # nobody sends such a sketch; entries are listed, and compared exactly
    return sketch_of(entries, SketchShape(8 * len(other.vector), other.hashes), seed) == other


def union_of(vectors: Iterable[bytes]) -> bytes:
    """The bits of a union of tables, from theirs."""
    first, *others = (np.frombuffer(each, np.uint8) for each in vectors)
    for each in others:
        first = first | each
    return first.tobytes()


def joined_entries(table: Mapping[Key, Filter], home_of: Callable[[Key], int | None]) -> bytes:
    """The bytes of all entries of a table, in its order."""
    return b"".join([part for key, wanted in table.items() for part in (key, entry_digest(wanted, home_of(key)))])


# Rates


def false_equality(shape: SketchShape, one: int, other: int, only_one: int, only_other: int) -> float:
    """The probability that tables of `one` and `other` entries have equal bits, where some are in one of them only."""
    bits, hashes = shape.bits, shape.hashes
    hidden_in_other: float = (1 - exp(-hashes * other / bits)) ** (hashes * only_one)
    hidden_in_one: float = (1 - exp(-hashes * one / bits)) ** (hashes * only_other)
    return hidden_in_other * hidden_in_one


def false_equality_of_independent_bits(
    shape: SketchShape, one: int, other: int, only_one: int, only_other: int
) -> float:
    """The same probability as the source has it (Shen, Theorem 6), which is an upper bound."""
    bits, hashes = shape.bits, shape.hashes
    first = exp(-hashes * other / bits) * (1 - exp(-hashes * only_one / bits))
    second = exp(-hashes * one / bits) * (1 - exp(-hashes * only_other / bits))
    probability: float = (1 - first - second) ** bits
    return probability


def _positions(elements: Elements, seed: int, shape: SketchShape) -> npt.NDArray[np.int64]:
    """The bits of all hashes of all elements: enhanced double hashing, whose steps differ from hash to hash."""
    salted = elements ^ _mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64))
    place, step = _mix(salted), _mix(salted + _GOLDEN)
    found = np.empty((shape.hashes, len(elements)), np.int64)
    bits = np.uint64(shape.bits)
    for number in range(shape.hashes):
        found[number] = place % bits
        place = place + step
        step = step + np.uint64(number + 1)
    return found.ravel()


def _mix(values: Elements) -> Elements:
    """The finaliser of SplitMix64: every bit of a value changes half of the bits of the result."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[0]
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[1]
    return values ^ (values >> np.uint64(31))
