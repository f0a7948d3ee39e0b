"""Redundant trees: two ways from a root to every other broker that have no broker and no link in common.

Where no single broker divides the others, they have an *st-order*: a list that begins with the root s and ends with a
neighbour t of it, in which every other broker has neighbours before and after itself. Ways that only go down the list
to s, and ways that only go up to t and from there to s, meet nowhere else: these are the two trees (Itai and Rodeh).
The order is found by one depth-first search (Tarjan, Two streamlined depth-first search algorithms).

A network with brokers that do divide it falls into blocks, each of which hangs below one of its brokers. Each block has
an order of its own, with that broker as s. Two ways then meet at the dividing brokers and links, where there is no
choice, and nowhere else. The whole takes time in the number of links, but for the insertions into the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Neighbours = Callable[[int], Iterable[int]]


class RedundantTrees(NamedTuple):
    """For each broker but the root its parent in either tree."""

    first: dict[int, int]
    second: dict[int, int]


@dataclass(slots=True)
class _Block:
    """Brokers that no single one of them divides, below `root`; `order` is their st-order."""

    root: int
    order: list[int]
    is_before: dict[int, bool] = field(default_factory=dict)  # whether the next one goes before a broker, or after it


class _Search(NamedTuple):
    """Depth-first search: brokers in their order, the parent of each, and the first broker that lies above it to which
    a link leads from it or from below it."""

    order: list[int]
    parents: dict[int, int]
    lowest: dict[int, int]


def redundant_trees(root: int, neighbours: Neighbours) -> RedundantTrees:
    """The two trees of a root, over the brokers that can be reached from it.

    >>> ring = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (2, 0)}
    >>> redundant_trees(0, ring.__getitem__)
    RedundantTrees(first={1: 2, 2: 3, 3: 0}, second={3: 2, 2: 1, 1: 0})
    """
    found = _search(root, neighbours)
    place = {node: number for number, node in enumerate(found.order)}
    blocks: list[_Block] = []
    block_of: dict[int, _Block] = {}  # of a broker, that in which it is not the root
    for node in found.order[1:]:
        parent, low = found.parents[node], found.lowest[node]
        if place[low] >= place[parent]:
            # Nothing leads from here past its parent: a block begins, with this broker as its t.
            block = _Block(parent, [parent, node], {parent: True})
            blocks.append(block)
        else:
            block = block_of[parent]
            at = block.order.index(parent)
            goes_before = block.is_before.get(low, False)
            block.order.insert(at if goes_before else at + 1, node)
            block.is_before[parent] = not goes_before
        block_of[node] = block
    trees = RedundantTrees({}, {})
    for block in blocks:
        _join(block, neighbours, trees)
    return trees


def _search(root: int, neighbours: Neighbours) -> _Search:
    order, parents, lowest = [root], {}, {root: root}
    place = {root: 0}
    # A stack instead of recursion: a line of brokers would be as deep as it is long.
    stack = [(root, iter(sorted(neighbours(root))))]
    while stack:
        node, rest = stack[-1]
        other = next(rest, None)
        if other is None:
            stack.pop()
            if stack:
                above = stack[-1][0]
                lowest[above] = min(lowest[above], lowest[node], key=place.__getitem__)
        elif other not in place:
            place[other] = len(order)
            order.append(other)
            parents[other], lowest[other] = node, other
            stack.append((other, iter(sorted(neighbours(other)))))
        elif parents.get(node) != other:
            lowest[node] = min(lowest[node], other, key=place.__getitem__)
    return _Search(order, parents, lowest)


def _join(block: _Block, neighbours: Neighbours, trees: RedundantTrees) -> None:
    """Give each broker of a block its two parents: the lowest before it in the order, and the highest after it."""
    place = {node: number for number, node in enumerate(block.order)}
    last = block.order[-1]
    for node in reversed(block.order[1:]):
        within = [place[other] for other in neighbours(node) if other in place]
        # The last one goes up by its link to the root, so that it must go down by another, unless there is none.
        lower = [each for each in within if each < place[node] and (each or node != last or len(place) == 2)]
        trees.first[node] = block.order[min(lower)]
    for node in block.order[1:]:
        within = [place[other] for other in neighbours(node) if other in place]
        higher = [each for each in within if each > place[node]]
        trees.second[node] = block.order[max(higher)] if higher else block.root
