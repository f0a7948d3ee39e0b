"""Which points lie beyond a corner? Read through columns of them, or down a tree of boxes.

A point has two coordinates for each attribute, how far down and how far up its filter reaches; to lie beyond a corner
is to be at least as great in all coordinates, and to lie before one, at most as great. Both kernels write the rows they
find, in an order that depends on the points alone, and stop when there is no more room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from palio.matching.columnar.native import compiled

BLOCK = 1024  # points that are tested together, coordinate by coordinate
LEAF = 32  # points at the end of a branch

BEYOND, BEFORE = 0, 1


@compiled
def find_in_columns(columns: Any, count: int, corner: Any, direction: int, first: int, found: Any) -> tuple[int, int]:
    """The rows of points beyond or before a corner, from one row on; how many, and the row to go on from.

    `columns` has a line for each coordinate. A coordinate is compared for a whole block at once, without branches, and
    the next one is only read where some point of the block has passed so far.
    """
    passed = np.empty(BLOCK, np.uint8)
    written = 0
    start = first
    while start < count:
        size = min(BLOCK, count - start)
        passed[:size] = 1
        left = size
        for coordinate in range(corner.shape[0]):
            asked = corner[coordinate]
            values = columns[coordinate, start : start + size]
            left = 0
            if direction == BEYOND:
                for row in range(size):
                    passed[row] &= np.uint8(values[row] >= asked)
                    left += passed[row]
            else:
                for row in range(size):
                    passed[row] &= np.uint8(values[row] <= asked)
                    left += passed[row]
            if left == 0:
                break
        if left > 0:
            for row in range(size):
                if passed[row]:
                    if written == found.shape[0]:
                        return written, start + row
                    found[written] = start + row
                    written += 1
        start += size
    return written, count


@compiled
def build_tree(points: Any, order: Any, starts: Any, ends: Any, bounds: Any) -> None:
    """Order points so that each node's lie together, halved by one coordinate after the other; and box them in.

    Node i has the nodes 2i + 1 and 2i + 2 below it. `bounds` has the greatest coordinates of each node's points, and
    the least ones, negated.
    """
    dimensions = points.shape[1]
    starts[0], ends[0] = 0, points.shape[0]
    for node in range(starts.shape[0]):
        start, end = starts[node], ends[node]
        for coordinate in range(dimensions):
            greatest, least = -np.inf, np.inf
            for place in range(start, end):
                value = points[order[place], coordinate]
                greatest = max(greatest, value)
                least = min(least, value)
            bounds[BEYOND, node, coordinate] = greatest
            bounds[BEFORE, node, coordinate] = -least
        if 2 * node + 2 >= starts.shape[0]:
            continue
        depth = 0
        while (1 << (depth + 1)) <= node + 1:
            depth += 1
        axis = depth % dimensions
        for _ in range(dimensions):
            if bounds[BEYOND, node, axis] > -bounds[BEFORE, node, axis]:
                break
            axis = (axis + 1) % dimensions
        rows = order[start:end].copy()
        values = np.empty(end - start, np.float64)
        for place in range(end - start):
            values[place] = points[rows[place], axis]
        order[start:end] = rows[np.argsort(values, kind="mergesort")]
        middle = (start + end) // 2
        starts[2 * node + 1], ends[2 * node + 1] = start, middle
        starts[2 * node + 2], ends[2 * node + 2] = middle, end


@compiled
def find_in_tree(
    points: Any, alive: Any, starts: Any, ends: Any, bounds: Any, corner: Any, direction: int, found: Any
) -> tuple[int, int]:
    """The rows of living points beyond or before a corner; how many, and how many nodes and points were looked at.

    `points` are in the order of the tree. The corner is negated where what lies before it is asked for.
    """
    sign = 1.0 if direction == BEYOND else -1.0
    waiting = np.empty(64, np.int64)
    waiting[0] = 0
    height = 1
    written = 0
    looks = 0
    while height > 0:
        height -= 1
        node = waiting[height]
        looks += 1
        reaches = True
        for coordinate in range(corner.shape[0]):
            if bounds[direction, node, coordinate] < corner[coordinate]:
                reaches = False
                break
        if not reaches:
            continue
        if 2 * node + 2 < starts.shape[0]:
            waiting[height] = 2 * node + 2
            waiting[height + 1] = 2 * node + 1
            height += 2
            continue
        for row in range(starts[node], ends[node]):
            looks += 1
            passes = alive[row]
            for coordinate in range(corner.shape[0]):
                if sign * points[row, coordinate] < corner[coordinate]:
                    passes = False
                    break
            if passes:
                if written == found.shape[0]:
                    return written, looks
                found[written] = row
                written += 1
    return written, looks
