"""Which branches does an event satisfy? The one time that its content is looked at (Jerzak §4.3).

Siblings on an attribute exclude each other, so a value leads to at most one of them, found by binary search; the
source tries every child. Costs the attributes of the event, once, and then the nodes found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from palio.filters.tree import Attributes
from palio.routing.conjunctive import possible_values
from palio.routing.forwarding.prefix import kernels
from palio.routing.forwarding.prefix.forwarding_tree import ForwardingTree
from palio.routing.forwarding.prefix.tree_index import TreeIndex

_ROOM: Final = 4096  # bytes for the forwarding trees of a batch, to begin with


class Extraction:
    """Finds forwarding trees in one tree version; `height` cuts them, unless it is 0."""

    def __init__(self, index: TreeIndex, height: int = 0) -> None:
        self._index = index
        self._height = height
        nodes = len(index.tree)
        self._queue, self._parent, self._count = (np.empty(nodes, np.int32) for _ in range(3))
        self._octets = np.empty(_ROOM, np.uint8)

    def extract(self, events: Sequence[Attributes]) -> list[ForwardingTree]:
        """The forwarding tree of each event."""
        index, found, starts = self._index, [], [0]
        for event in events:
            found += index.slots(possible_values(event))
            starts.append(len(found))
        pairs = np.array(found, np.int32).reshape(-1, 2)
        return self._trees(
            np.array(starts, np.int64), np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        )

    def _trees(
        self, starts: kernels.Places, attributes: kernels.Numbers, slots: kernels.Numbers
    ) -> list[ForwardingTree]:
        index, tree = self._index, self._index.tree
        trees: list[ForwardingTree] = []
        ends = np.empty(len(starts) - 1, np.int64)
        while True:
            done = kernels.extract(
                starts[len(trees) :],
                attributes,
                slots,
                self._height,
                tree.children,
                tree.final,
                index.group_start,
                index.group_attribute,
                index.span_start,
                index.span_first,
                index.span_last,
                index.span_child,
                self._queue,
                self._parent,
                self._count,
                self._octets,
                ends,
            )
            begin, octets, height = 0, self._octets.tobytes(), bytes((self._height,))
            for end in ends[:done].tolist():
                trees.append(ForwardingTree(height + octets[begin:end]))
                begin = end
            if len(trees) == len(starts) - 1:
                return trees
            self._octets = np.empty(2 * len(self._octets), np.uint8)
