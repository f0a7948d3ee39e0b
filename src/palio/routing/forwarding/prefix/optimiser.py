"""Who makes the tree? One subscriber that hears of all filters, and says when the tree has changed enough.

Forwarding trees need one routing tree at all brokers, and brokers never know the same filters in the same order. So one
node makes the tree (Jerzak §4.4.1): it hears of every filter through the network itself, keeps conditions and no
interfaces, and lets all have a new version when the tree differs from the last one by more than a threshold. Until then
brokers tag new filters as near to their place as the old tree lets them, and events go too far, never astray.

How often the trees are compared is left open. Comparing costs the size of both; here it waits until the filters that
came and went are a fixed share of all, so that a filter costs the same at any size of the tree.
"""

from __future__ import annotations

from typing import Final

from palio.filters.filter import Filter
from palio.routing.conjunctive import conjunctive
from palio.routing.forwarding.prefix.comparison import wdiff
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_version import TreeVersion

_SHARE: Final = 8  # of the threshold: how many filters change before trees are compared


class TreeOptimiser:
    """Makes versions of the tree of all filters that it was told of."""

    def __init__(self, threshold: float, limit: int) -> None:
        self._threshold = threshold
        self._limit = limit
        self._tree = RoutingTree()
        self._sent = TreeVersion.of(self._tree, b"")
        self._changes = 0
        self._compared_at = 0  # how many conjunctions there were

    def added(self, wanted: Filter) -> None:
        for conjunction in conjunctive(wanted, self._limit):
            self._tree.insert(conjunction)
        self._changes += 1

    def removed(self, wanted: Filter) -> None:
        """The same filter was added before, and as often."""
        for conjunction in conjunctive(wanted, self._limit):
            self._tree.remove(conjunction)
        self._changes += 1

    def update(self) -> TreeVersion | None:
        """The tree, where it is time for all to have it."""
        if self._changes <= self._compared_at * self._threshold / _SHARE:
            return None
        self._changes, self._compared_at = 0, len(self._tree)
        current = TreeVersion.of(self._tree, b"")
        if wdiff(current, self._sent) <= self._threshold:
            return None
        self._sent = current
        return current
