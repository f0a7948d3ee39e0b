"""sbstree: from a digest to the interfaces that want the event (Jerzak §5.3.2).

A trie over the indices of bits. The path from the root to a place lists the bits of a filter in ascending order, so
that the layout depends on what is there and not on the order in which it came; a conjunction is wanted where all bits
of its path are in the digest. A filter without bits wants everything and stands at the root.

A filter is known by its key and interface, never by its bits: two filters may share their bits, and only a key says
whether one of them has gone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from palio.routing.forwarding.bloom.bits import Bits

Owner: TypeAlias = tuple[int, Hashable]
"""An interface, and the key of a filter that came by it."""


@dataclass(slots=True)
class _Place:
    children: dict[int, _Place] = field(default_factory=dict)
    owners: Counter[Owner] = field(default_factory=Counter)
    interfaces: Counter[int] = field(default_factory=Counter)


class Sbstree:
    """Filters as paths of bits; tells which interfaces have one that a digest satisfies."""

    def __init__(self) -> None:
        self._root = _Place()
        self._size = 0
        self.operations = 0
        """Places that were visited, over all digests."""

    def __len__(self) -> int:
        return self._size

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """File a filter, or one more conjunction of it. Costs a step for each bit."""
        place = self._root
        for bit in bits:
            place = place.children.setdefault(bit, _Place())
        place.owners[interface, key] += 1
        place.interfaces[interface] += 1
        self._size += 1

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Take out what was added so; `KeyError` where it was not."""
        path = [self._root]
        for bit in bits:
            path.append(path[-1].children[bit])
        place = path[-1]
        if (interface, key) not in place.owners:
            raise KeyError(key)
        _take(place.owners, (interface, key))
        _take(place.interfaces, interface)
        self._size -= 1
        for parent, child, bit in zip(path[-2::-1], path[:0:-1], reversed(bits), strict=True):
            if child.children or child.owners:
                break
            del parent.children[bit]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        found: set[int] = set()
        present = frozenset(bits)
        stack = [(self._root, 0)]
        visits = 0
        while stack:
            place, start = stack.pop()
            visits += 1
            found.update(place.interfaces)
            children = place.children
            if len(children) < len(bits) - start:
                stack += [(child, bisect_right(bits, bit, start)) for bit, child in children.items() if bit in present]
            else:
                stack += [(children[bits[at]], at + 1) for at in range(start, len(bits)) if bits[at] in children]
        self.operations += visits
        return found

    def layout(self) -> Any:
        """The whole trie as nested mappings of bits, with the owners of each place."""
        return _layout(self._root)


def _layout(place: _Place) -> Any:
    return dict(place.owners), {bit: _layout(child) for bit, child in place.children.items()}


def _take(counts: Counter[Any], key: Any) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
