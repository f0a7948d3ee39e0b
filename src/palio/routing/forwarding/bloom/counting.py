"""The counting sbstree: from a digest to the interfaces, by counting down (Jerzak §5.5).

Every bit has the list of filters that own it. A filter's counter starts at the number of its bits, each bit of a digest
counts down whoever is in its list, and who arrives at nothing is wanted. The work is the length of the lists of the
digest's bits. The source calls that independent of the number of filters; it is so only as long as the lists stay
short, and they grow where filters share predicates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from palio.routing.forwarding.bloom.bits import Bits
from palio.routing.forwarding.bloom.entries import Entries, Entry


class CountingSbstree:
    """Filters in the lists of their bits; tells which interfaces have one that a digest satisfies."""

    def __init__(self) -> None:
        self._entries = Entries()
        self._postings: dict[int, dict[Entry, None]] = {}
        self._unconditional: Counter[int] = Counter()
        self.operations = 0
        """Counters that were counted down, over all digests."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """File a filter, or one more conjunction of it."""
        entry = self._entries.add(interface, key, bits)
        if entry is not None:
            self._unconditional.update([interface] if not bits else ())
            for bit in bits:
                self._postings.setdefault(bit, {})[entry] = None

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Take out what was added so; `KeyError` where it was not."""
        entry = self._entries.remove(interface, key, bits)
        if entry is not None:
            self._unconditional -= Counter([interface] if not bits else ())
            for bit in bits:
                del self._postings[bit][entry]
                if not self._postings[bit]:
                    del self._postings[bit]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        found = set(self._unconditional)
        left: dict[Entry, int] = {}
        for bit in bits:
            for entry in self._postings.get(bit, ()):
                self.operations += 1
                left[entry] = left.get(entry, len(entry[1])) - 1
                if not left[entry]:
                    found.add(entry[0][0])
        return found

    def layout(self) -> Mapping[int, frozenset[Entry]]:
        """Who is in the list of each bit, and under -1 who has no bit."""
        unconditional = frozenset(entry for entry in self._entries if not entry[1])
        return {-1: unconditional, **{bit: frozenset(entries) for bit, entries in self._postings.items()}}
