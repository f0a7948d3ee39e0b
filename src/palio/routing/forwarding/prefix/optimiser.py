"""Tree optimiser: builds the routing tree for all brokers, and decides when a new version is announced.

Forwarding trees need one routing tree at all brokers, and brokers never know the same filters in the same order. So one
node builds the tree (Jerzak §4.4.1): all brokers report their filters to it, it keeps conditions and no
interfaces, and it announces a new version when the tree differs from the last one by more than a threshold. Until then
brokers tag new filters as near to their place as the old tree lets them, and events go too far, never astray. A second
threshold is of time, which the source names as future work (§10.2): a smaller difference is announced after a while.

How often the trees are compared is left open. A comparison costs the size of both; here it waits until the filters that
came and went are a fixed share of all, so that the cost of a filter does not depend on the size of the tree.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.routing.conjunctions import CONJUNCTION_LIMIT, to_conjunctions
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from palio.routing.messages import Key, Report

Nodes: TypeAlias = npt.NDArray[np.int64]


def wdiff(one: TreeVersion, other: TreeVersion) -> float:
    """Weighted difference of two trees: the weight of nodes that only one has, as a share of the weight of all.

    A node weighs 1 / height: a change near the root makes brokers tag many filters higher up than they belong, and so
    sends most events too far (Jerzak §4.4.2). Two nodes are equal where their whole paths are.
    """
    levels = max(int(one.heights[-1]), int(other.heights[-1]))
    if not levels:
        return 0.0
    nodes = _by_level(one, levels) + _by_level(other, levels)
    # Nodes are counted as integers and weighted last, so that equal trees differ by exactly 0.
    common = np.zeros(levels, np.int64)
    for level, count in enumerate(_common(one, other)):
        common[level] = count
    weights = 1 / np.arange(1, levels + 1)
    return float(((nodes - 2 * common) * weights).sum() / (nodes * weights).sum())


def _by_level(tree: TreeVersion, levels: int) -> Nodes:
    return np.bincount(tree.heights, minlength=levels + 1)[1:]


def _common(one: TreeVersion, other: TreeVersion) -> list[int]:
    """How many nodes two trees have in common, for each level below the root."""
    known: dict[Leaf, int] = {leaf: number for number, leaf in enumerate(one.conditions)}
    total = len(known) + len(other.conditions)
    mine = np.arange(len(one.conditions))
    theirs = np.array([known.setdefault(leaf, len(known)) for leaf in other.conditions], np.int64)
    left, right = np.zeros(1, np.int64), np.zeros(1, np.int64)  # pairs of nodes with equal paths
    found = []
    while len(left):
        left_nodes, left_pair = _children(one, left)
        right_nodes, right_pair = _children(other, right)
        # Nodes of equal paths have equal parents (the pair) and equal conditions.
        _, in_left, in_right = np.intersect1d(
            left_pair * total + mine[one.condition_of[left_nodes]],
            right_pair * total + theirs[other.condition_of[right_nodes]],
            assume_unique=True,
            return_indices=True,
        )
        left, right = left_nodes[in_left], right_nodes[in_right]
        found.append(len(left))
    return found[:-1]


def _children(tree: TreeVersion, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """The children of some nodes, and for each the position of its parent among these."""
    counts = (tree.children[nodes + 1] - tree.children[nodes]).astype(np.int64)
    place = np.repeat(np.arange(len(nodes)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return tree.children[nodes][place] + within, place


_COMPARISONS_PER_THRESHOLD: Final = 8  # trees are compared when an eighth of the threshold's filters has changed


class TreeOptimiser:
    """The routing tree of the filters that brokers report, and the decision when it is worth announcing."""

    def __init__(self, threshold: float, announced: TreeVersion | None = None, limit: int = CONJUNCTION_LIMIT) -> None:
        """`announced` is the tree that brokers have, of an earlier optimiser; None where there is none."""
        self._threshold = threshold
        self._limit = limit
        self._tree = RoutingTree()
        self._announced = announced or TreeVersion.of(self._tree, b"")
        self._wanted: dict[int, dict[Key, Filter]] = {}
        self._changes = 0
        self._compared_at = 0  # conjunctions in the tree at the last comparison

    def add(self, wanted: Filter) -> None:
        for conjunction in to_conjunctions(wanted, self._limit):
            self._tree.insert(conjunction)
        self._changes += 1

    def remove(self, wanted: Filter) -> None:
        """Undo one `add` of an equal filter."""
        for conjunction in to_conjunctions(wanted, self._limit):
            self._tree.remove(conjunction)
        self._changes += 1

    def on_report(self, report: Report) -> None:
        """Take a broker's report of changed filters."""
        known = self._wanted.setdefault(report.node, {})
        added = dict(report.added)
        for key in [each for each in known if each not in added] if report.anew else report.removed:
            gone = known.pop(key, None)
            if gone is not None:
                self.remove(gone)
        for key, wanted in added.items():
            # Complete reports repeat what is known, and each filter of a broker counts once.
            if key not in known:
                known[key] = wanted
                self.add(wanted)
        if not known:
            del self._wanted[report.node]

    def on_announcement(self, announced: TreeVersion) -> None:
        """Take note that brokers have another tree now: of an optimiser that was elected in their part."""
        self._announced = announced

    def update(self) -> TreeVersion | None:
        """The tree, where it differs from the announced one by more than the threshold."""
        if self._changes <= self._compared_at * self._threshold / _COMPARISONS_PER_THRESHOLD:
            return None
        return self._compare(self._threshold)

    def refresh(self) -> TreeVersion | None:
        """The tree, where it differs from the announced one at all: the second threshold, which is of time."""
        return self._compare(0.0)

    def _compare(self, threshold: float) -> TreeVersion | None:
        self._changes, self._compared_at = 0, len(self._tree)
        current = TreeVersion.of(self._tree, b"")
        if wdiff(current, self._announced) <= threshold:
            return None
        self._announced = current
        return current
