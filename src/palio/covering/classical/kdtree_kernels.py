"""Kernels of the k-d tree: build it over points, and search it for points that dominate a corner or are dominated.

Points and directions are those of `covering_kernels`. A search writes the rows it finds in an order that depends on the
points alone, and stops when there is no more room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from palio.covering.covering_kernels import DOMINATED, DOMINATING
from palio.matching.columnar.native import compiled_with_arrays

LEAF_POINTS = 32  # points at the end of a branch


@compiled_with_arrays
def build_tree(points: Any, order: Any, starts: Any, ends: Any, bounds: Any) -> None:
    """Order points so that each node's lie together, halved by one coordinate after the other, with bounds.

    Node i has the children 2i + 1 and 2i + 2. `bounds` has the greatest coordinates of each node's points, and the
    least ones negated, so that both directions search for greater values.
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
            bounds[DOMINATING, node, coordinate] = greatest
            bounds[DOMINATED, node, coordinate] = -least
        if 2 * node + 2 >= starts.shape[0]:
            continue
        depth = 0
        while (1 << (depth + 1)) <= node + 1:
            depth += 1
        axis = depth % dimensions
        # Skip coordinates in which all points of the node are equal: they cannot be halved.
        for _ in range(dimensions):
            if bounds[DOMINATING, node, axis] > -bounds[DOMINATED, node, axis]:
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


@compiled_with_arrays
def find_in_tree(
    points: Any, alive: Any, starts: Any, ends: Any, bounds: Any, corner: Any, direction: int, found: Any
) -> tuple[int, int]:
    """Write the rows of live points that dominate a corner, or are dominated by it.

    Returns how many were written, and how many nodes and points were examined. `points` are in the order of the tree.
    The corner is negated where dominated points are searched for.
    """
    sign = 1.0 if direction == DOMINATING else -1.0
    stack = np.empty(64, np.int64)
    stack[0] = 0
    height = 1
    written = 0
    looks = 0
    while height > 0:
        height -= 1
        node = stack[height]
        looks += 1
        reaches = True
        for coordinate in range(corner.shape[0]):
            if bounds[direction, node, coordinate] < corner[coordinate]:
                reaches = False
                break
        if not reaches:
            continue
        if 2 * node + 2 < starts.shape[0]:
            stack[height] = 2 * node + 2
            stack[height + 1] = 2 * node + 1
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
