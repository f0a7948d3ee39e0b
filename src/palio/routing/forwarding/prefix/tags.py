"""Who wants what lies behind the nodes of a tree: one broker's own view of a tree that all share.

A filter is tagged with its interface at the nodes that its conjunctions reach (`TreeIndex.reached`). The paths to these
nodes admit at least what the filter matches, so an event sent along them goes too far at worst. Several filters of one
interface may share a node: tags are counted, so that one that leaves does not take another's along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from palio.routing.conjunctive import Conjunction
from palio.routing.forwarding.prefix import kernels
from palio.routing.forwarding.prefix.forwarding_tree import ForwardingTree
from palio.routing.forwarding.prefix.tree_index import TreeIndex

_MOST_REMEMBERED: Final = 1024


class Tags:
    """The interfaces that want something, at the nodes of one tree version."""

    def __init__(self, index: TreeIndex) -> None:
        self._index = index
        self._counts: dict[tuple[int, int], int] = {}  # by node and bit
        self._bits: dict[int, int] = {}
        self._interfaces: list[int] = []
        self._width = 1  # words to a node
        self._words = np.zeros(len(index.tree), np.uint64)
        self._below: kernels.Words | None = None
        self._names: dict[bytes, tuple[int, ...]] = {}
        self._queue = np.empty(len(index.tree) + 1, np.int32)

    def add(self, interface: int, conjunctions: Iterable[Conjunction]) -> None:
        bit = self._bit(interface)
        for conjunction in conjunctions:
            for node in self._index.reached(conjunction):
                before = self._counts.get((node, bit), 0)
                self._counts[node, bit] = before + 1
                if not before:
                    self._words[node * self._width + (bit >> 6)] |= np.uint64(1 << (bit & 63))
                    self._below = None

    def remove(self, interface: int, conjunctions: Iterable[Conjunction]) -> None:
        """Take away what was added with the same conjunctions."""
        bit = self._bits[interface]
        for conjunction in conjunctions:
            for node in self._index.reached(conjunction):
                left = self._counts.pop((node, bit)) - 1
                if left:
                    self._counts[node, bit] = left
                else:
                    self._words[node * self._width + (bit >> 6)] ^= np.uint64(1 << (bit & 63))
                    self._below = None

    def forward(self, trees: Sequence[ForwardingTree]) -> list[tuple[int, ...] | None]:
        """The interfaces along each forwarding tree; None for one that this routing tree cannot have made."""
        return self.gather([tree.data for tree in trees], 0)

    def gather(self, written: Sequence[bytes], skipped: int) -> list[tuple[int, ...] | None]:
        """The same from the bytes of trees, of which so many are something else."""
        octets = np.frombuffer(b"".join(written), np.uint8)
        starts = np.array([0, *accumulate(map(len, written))], np.int64)
        if self._below is None and octets[starts[:-1] + skipped].any():
            self._below = np.empty_like(self._words)
            kernels.gather_below(self._words, self._index.tree.parents, self._width, self._below)
        out = np.empty(len(written) * self._width, np.uint64)
        understood = np.empty(len(written), np.bool_)
        kernels.forward(
            octets,
            starts,
            skipped,
            self._index.tree.children,
            self._words,
            self._words if self._below is None else self._below,
            self._width,
            self._queue,
            out,
            understood,
        )
        words, size = out.tobytes(), 8 * self._width
        return [
            self._named(words[place : place + size]) if fine else None
            for place, fine in zip(range(0, len(words), size), understood.tolist(), strict=True)
        ]

    def _named(self, words: bytes) -> tuple[int, ...]:
        """The interfaces of bits: few sets of neighbours occur, so they are remembered."""
        known = self._names.get(words)
        if known is None:
            octets = np.frombuffer(words, np.uint64).astype("<u8").view(np.uint8)
            bits = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
            known = tuple(sorted(self._interfaces[bit] for bit in bits.tolist()))
            if len(self._names) >= _MOST_REMEMBERED:
                self._names.clear()
            self._names[words] = known
        return known

    def _bit(self, interface: int) -> int:
        if interface not in self._bits:
            self._bits[interface] = len(self._interfaces)
            self._interfaces.append(interface)
            self._names.clear()
            if len(self._interfaces) > 64 * self._width:
                wider = np.zeros((len(self._index.tree), self._width + 1), np.uint64)
                wider[:, :-1] = self._words.reshape(-1, self._width)
                self._width, self._words, self._below = self._width + 1, wider.reshape(-1), None
        return self._bits[interface]
