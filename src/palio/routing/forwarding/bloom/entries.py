"""Conjunctions of filters in a structure of bits, each counted: the first of equal ones enters it, the last leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import TypeAlias

from palio.routing.forwarding.bloom.bits import Bits
from palio.routing.forwarding.bloom.sbstree import Owner

Entry: TypeAlias = tuple[Owner, Bits]


class Entries:
    """Bits under interfaces and keys."""

    def __init__(self) -> None:
        self._uses: Counter[Entry] = Counter()

    def __len__(self) -> int:
        """How many were added and not removed, equal ones too."""
        return self._uses.total()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._uses)

    def add(self, interface: int, key: Hashable, bits: Bits) -> Entry | None:
        """Count one more; the entry where it is the first."""
        entry = ((interface, key), bits)
        self._uses[entry] += 1
        return entry if self._uses[entry] == 1 else None

    def remove(self, interface: int, key: Hashable, bits: Bits) -> Entry | None:
        """Count one less; the entry where it was the last, `KeyError` where there is none."""
        entry = ((interface, key), bits)
        if entry not in self._uses:
            raise KeyError(key)
        self._uses[entry] -= 1
        if self._uses[entry]:
            return None
        del self._uses[entry]
        return entry
