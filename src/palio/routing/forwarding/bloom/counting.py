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
from palio.routing.forwarding.bloom.sbstree import Owner

_Entry = tuple[Owner, Bits]


class CountingSbstree:
    """Filters in the lists of their bits; tells which interfaces have one that a digest satisfies."""

    def __init__(self) -> None:
        self._uses: Counter[_Entry] = Counter()
        self._postings: dict[int, dict[_Entry, None]] = {}
        self._unconditional: Counter[int] = Counter()
        self.operations = 0
        """Counters that were counted down, over all digests."""

    def __len__(self) -> int:
        return self._uses.total()

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """File a filter, or one more conjunction of it."""
        entry = ((interface, key), bits)
        self._uses[entry] += 1
        if not bits:
            self._unconditional[interface] += 1
        for bit in bits:
            self._postings.setdefault(bit, {})[entry] = None

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Take out what was added so; `KeyError` where it was not."""
        entry = ((interface, key), bits)
        if entry not in self._uses:
            raise KeyError(key)
        if not bits:
            self._unconditional -= Counter({interface: 1})
        self._uses[entry] -= 1
        if self._uses[entry]:
            return
        del self._uses[entry]
        for bit in bits:
            del self._postings[bit][entry]
            if not self._postings[bit]:
                del self._postings[bit]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        found = set(self._unconditional)
        left: dict[_Entry, int] = {}
        for bit in bits:
            for entry in self._postings.get(bit, ()):
                self.operations += 1
                left[entry] = left.get(entry, len(entry[1])) - 1
                if not left[entry]:
                    found.add(entry[0][0])
        return found

    def layout(self) -> Mapping[int, frozenset[_Entry]]:
        """Who is in the list of each bit, and under -1 who has no bit."""
        unconditional = frozenset(entry for entry in self._uses if not entry[1])
        return {-1: unconditional, **{bit: frozenset(entries) for bit, entries in self._postings.items()}}
