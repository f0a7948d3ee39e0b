"""skiptree: from a digest to the interfaces, by leaving out (Jerzak §5.6.1).

A filter is wanted unless it owns a bit that the digest lacks. So all filters are candidates at first, and between two
neighbouring bits of the digest everyone who owns a bit strictly in between goes. To take out a gap at once there are
fingers above the bits: the lowest span 128 bits, each level four times more, and a finger knows everyone who owns a
bit in its span. A gap is filled with the largest fingers that lie in it.

The gaps before the first bit of the digest and after the last belong to it, which the source leaves out. It leaves out
removal too: here a finger counts how often each filter owns a bit below it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Final

from palio.routing.forwarding.bloom.bits import Bits
from palio.routing.forwarding.bloom.entries import Entries, Entry

_LOWEST_SPAN: Final = 128
_FACTOR: Final = 4

_Fingers = dict[int, Counter[Entry]]  # by the number of the span they stand for


class Skiptree:
    """Filters by their bits, with fingers over ranges of bits, in digests of one width."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.spans = tuple(_spans(width))
        self._levels: tuple[_Fingers, ...] = tuple({} for _ in self.spans)
        self._owners: dict[int, set[Entry]] = {}
        self._used: list[int] = []  # the bits that have an owner, in order
        self._entries = Entries()
        self.operations = 0
        """Fingers and bits whose owners were taken out, over all digests."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """File a filter, or one more conjunction of it."""
        entry = self._entries.add(interface, key, bits)
        if entry is None:
            return
        for bit in bits:
            if bit not in self._owners:
                insort(self._used, bit)
                self._owners[bit] = set()
            self._owners[bit].add(entry)
            for span, fingers in zip(self.spans, self._levels, strict=True):
                fingers.setdefault(bit // span, Counter())[entry] += 1

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Take out what was added so; `KeyError` where it was not."""
        entry = self._entries.remove(interface, key, bits)
        if entry is None:
            return
        for bit in bits:
            self._owners[bit].remove(entry)
            if not self._owners[bit]:
                del self._owners[bit], self._used[bisect_left(self._used, bit)]
            for span, fingers in zip(self.spans, self._levels, strict=True):
                finger = fingers[bit // span]
                finger[entry] -= 1
                if not finger[entry]:
                    del finger[entry]
                if not finger:
                    del fingers[bit // span]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        candidates = set(self._entries)
        for low, high in _gaps(bits, self._width):
            for owners in self._owners_within(low, high):
                self.operations += 1
                candidates.difference_update(owners)
        return {interface for (interface, _), _ in candidates}

    def fingers_within(self, low: int, high: int) -> list[tuple[int, int]]:
        """The largest fingers that fit between two bits and have owners, as (first bit, last bit), in order."""
        return [
            (number * self.spans[level], (number + 1) * self.spans[level] - 1)
            for level, number in self._largest(low, high)
            if level >= 0 and number in self._levels[level]
        ]

    def _owners_within(self, low: int, high: int) -> Iterator[set[Entry] | Counter[Entry]]:
        for level, number in self._largest(low, high):
            if level >= 0:
                if number in self._levels[level]:
                    yield self._levels[level][number]
                continue
            # A stretch at the border that no finger fits into, from this bit to the next multiple of a finger.
            end = min(high, (number // self.spans[0] + 1) * self.spans[0])
            for at in range(bisect_left(self._used, number), bisect_left(self._used, end)):
                yield self._owners[self._used[at]]

    def _largest(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """What fills the bits from `low` up to but without `high`: (level, finger), or (-1, bit) for a border."""
        while low < high:
            level = len(self.spans) - 1
            while level >= 0 and (low % self.spans[level] or low + self.spans[level] > high):
                level -= 1
            if level < 0:
                yield -1, low
                low = (low // self.spans[0] + 1) * self.spans[0]
            else:
                yield level, low // self.spans[level]
                low += self.spans[level]


def _spans(width: int) -> Iterator[int]:
    span = min(_LOWEST_SPAN, width)
    yield span
    while span * _FACTOR <= width:
        span *= _FACTOR
        if span < width:
            yield span


def _gaps(bits: Bits, width: int) -> Iterator[tuple[int, int]]:
    """The stretches of bits that are not set, each from its first bit up to but without its last."""
    low = 0
    for bit in bits:
        if low < bit:
            yield low, bit
        low = bit + 1
    if low < width:
        yield low, width
