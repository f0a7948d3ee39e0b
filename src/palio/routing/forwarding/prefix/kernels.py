"""The loops over a tree's arrays: finding the branches an event satisfies, and going along them.

A forwarding tree is written level by level. For every node that has children: how many, then for each child the number
of places skipped since the one before, doubled, plus one where the child has children of its own. Numbers are seven
bits to a byte, low ones first, the eighth bit saying that more follow. A forwarding tree without a branch is one zero.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.native import compiled, inlined

Numbers = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_WIDEST: Final = 5  # bytes that a number takes at most


@inlined
def _found(values: Numbers, begin: int, end: int, wanted: int) -> int:
    """The last place from `begin` on, and before `end`, whose value is at most the wanted one; `begin - 1` if none."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= wanted:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@inlined
def _put(octets: Octets, at: int, number: int) -> int:
    while number > 127:
        octets[at] = (number & 127) | 128
        number >>= 7
        at += 1
    octets[at] = number
    return at + 1


@compiled
def extract(
    starts: Places,
    attributes: Numbers,
    slots: Numbers,
    height: int,
    children: Numbers,
    final: Flags,
    group_start: Numbers,
    group_attribute: Numbers,
    span_start: Numbers,
    span_first: Numbers,
    span_last: Numbers,
    span_child: Numbers,
    queue: Numbers,
    parent: Numbers,
    count: Numbers,
    octets: Octets,
    ends: Places,
) -> int:
    """Write the forwarding trees of some events one after the other; how many events there was room for.

    `starts` says where an event's attributes and slots begin, `ends` where its tree ends; `queue`, `parent` and `count`
    are room for as many nodes as the tree has. Nothing below `height` is looked at, unless that is 0.
    """
    at = 0
    for event in range(len(starts) - 1):
        queue[0] = 0
        parent[0] = -1
        size, level_end, depth = 1, 1, 0
        here = 0
        while here < size:
            if here == level_end:
                level_end = size
                depth += 1
                if depth == height:
                    break
            node = queue[here]
            first_found = size
            group, asked = -1, -1
            for each in range(starts[event], starts[event + 1]):
                if attributes[each] != asked:
                    asked = attributes[each]
                    group = _found(group_attribute, group_start[node], group_start[node + 1], asked)
                    if group < group_start[node] or group_attribute[group] != asked:
                        group = -1
                if group < 0:
                    continue
                span = _found(span_first, span_start[group], span_start[group + 1], slots[each])
                if span < span_start[group] or span_last[span] < slots[each]:
                    continue
                child = span_child[span]
                place = size  # in their order, none twice: several values may lead to one child, or backwards
                while place > first_found and queue[place - 1] > child:
                    place -= 1
                if place > first_found and queue[place - 1] == child:
                    continue
                for moved in range(size, place, -1):
                    queue[moved] = queue[moved - 1]
                queue[place] = child
                parent[size] = here
                size += 1
            here += 1
        cut_off = here  # from here on nodes may have children that were not looked at
        # From the last level up: what leads to no final node is left out.
        for each in range(size):
            count[each] = 0
        kept = 0
        for each in range(size - 1, 0, -1):
            if count[each] > 0 or final[queue[each]] or each >= cut_off:
                count[parent[each]] += 1
                kept += 1
            else:
                queue[each] = -1
        if at + (2 * kept + 1) * _WIDEST > len(octets):
            return event
        if count[0] == 0:
            at = _put(octets, at, 0)
        child = 1
        for here in range(size):
            if count[here] == 0:
                continue
            at = _put(octets, at, count[here])
            before = children[queue[here]] - 1
            while child < size and parent[child] < here:
                child += 1
            while child < size and parent[child] == here:
                if queue[child] >= 0:
                    skipped = queue[child] - before - 1
                    before = queue[child]
                    at = _put(octets, at, (skipped << 1) | (1 if count[child] > 0 else 0))
                child += 1
        ends[event] = at
    return len(starts) - 1


@compiled
def forward(
    octets: Octets,
    starts: Places,
    skipped: int,
    children: Numbers,
    tags: Words,
    below: Words,
    width: int,
    queue: Numbers,
    out: Words,
    understood: Flags,
) -> None:
    """Gather the tags along some forwarding trees, each from `starts[i]` to `starts[i + 1]`.

    Before the height and the branches of a tree so many bytes are skipped. Tags are so many words to a node; `below`
    has those of a node and of all below it, which is what a node at a tree's height stands for. A tree that names a
    child that is not there, or has the wrong length, is not understood.
    """
    for tree in range(len(starts) - 1):
        at, stop = starts[tree] + skipped, starts[tree + 1]
        height = int(octets[at]) if at < stop else 0
        at += 1
        for word in range(width):
            out[tree * width + word] = tags[word]
        queue[0] = 0
        size, level_end, depth = 1, 1, 0
        here = 0
        fine = True
        while here < size and fine:
            if here == level_end:
                level_end = size
                depth += 1
            node = queue[here]
            here += 1
            left, place = -1, -1
            while left != 0 and fine:
                number, shift, more = 0, 0, True
                while more and fine:
                    if at >= stop or shift > 28:
                        fine = False
                        break
                    octet = int(octets[at])
                    at += 1
                    number |= (octet & 127) << shift
                    shift += 7
                    more = octet > 127
                if left < 0:
                    left = number
                    continue
                left -= 1
                place += (number >> 1) + 1
                child = children[node] + place
                if child >= children[node + 1]:
                    fine = False
                    break
                if depth + 1 == height:
                    for word in range(width):
                        out[tree * width + word] |= below[child * width + word]
                else:
                    for word in range(width):
                        out[tree * width + word] |= tags[child * width + word]
                if number & 1:
                    queue[size] = child
                    size += 1
        understood[tree] = fine and at == stop


@compiled
def gather_below(tags: Words, parents: Numbers, width: int, below: Words) -> None:
    """The tags of every node and of all nodes below it."""
    below[:] = tags
    for node in range(len(parents) - 1, 0, -1):
        for word in range(width):
            below[parents[node] * width + word] |= below[node * width + word]
