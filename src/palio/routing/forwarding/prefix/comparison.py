"""How different are two routing trees? A number from 0 to 1, for who must say when a new one is worth sending.

A node counts the less the further it is from the root: a change near the root makes brokers tag many filters higher
up than they belong, and so sends most events too far (Jerzak §4.4.2). A node of two trees is the same where the whole
path to it is. Counted are whole nodes, level by level, and weighed at the end, so that equal trees differ by just 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from palio.filters.tree import Leaf
from palio.routing.forwarding.prefix.tree_version import TreeVersion

Numbers = npt.NDArray[np.int64]


def wdiff(one: TreeVersion, other: TreeVersion) -> float:
    """The weight of nodes that only one of two trees has, as a share of the weight of all nodes of both."""
    levels = max(int(one.heights[-1]), int(other.heights[-1]))
    if not levels:
        return 0.0
    nodes = _by_level(one, levels) + _by_level(other, levels)
    common = np.zeros(levels, np.int64)
    for level, count in enumerate(_common(one, other)):
        common[level] = count
    weights = 1 / np.arange(1, levels + 1)
    return float(((nodes - 2 * common) * weights).sum() / (nodes * weights).sum())


def _by_level(tree: TreeVersion, levels: int) -> Numbers:
    return np.bincount(tree.heights, minlength=levels + 1)[1:]


def _common(one: TreeVersion, other: TreeVersion) -> list[int]:
    """How many nodes two trees have in common, level by level below the root."""
    known: dict[Leaf, int] = {leaf: number for number, leaf in enumerate(one.conditions)}
    total = len(known) + len(other.conditions)
    mine = np.arange(len(one.conditions))
    theirs = np.array([known.setdefault(leaf, len(known)) for leaf in other.conditions], np.int64)
    left, right = np.zeros(1, np.int64), np.zeros(1, np.int64)  # pairs of nodes with the same path
    found = []
    while len(left):
        left_nodes, left_pair = _children(one, left)
        right_nodes, right_pair = _children(other, right)
        _, in_left, in_right = np.intersect1d(
            left_pair * total + mine[one.condition_of[left_nodes]],
            right_pair * total + theirs[other.condition_of[right_nodes]],
            assume_unique=True,
            return_indices=True,
        )
        left, right = left_nodes[in_left], right_nodes[in_right]
        found.append(len(left))
    return found[:-1]


def _children(tree: TreeVersion, nodes: Numbers) -> tuple[Numbers, Numbers]:
    """The children of some nodes, and the place of the node that each is a child of."""
    counts = (tree.children[nodes + 1] - tree.children[nodes]).astype(np.int64)
    place = np.repeat(np.arange(len(nodes)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return tree.children[nodes][place] + within, place
