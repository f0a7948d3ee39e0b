"""Kernels of prefix forwarding: extract the forwarding tree of an event, and collect tags along one.

Encoding of a forwarding tree, level by level. For every node that has children: how many, then for each child the
number of children skipped since the one before, doubled, plus one where the child has children of its own. Numbers are
LEB128: seven bits to a byte, low ones first, the eighth bit set where more follow. A forwarding tree without a branch
is one zero.

The arrays of a tree travel as one table. Callers pass it as a plain tuple, because Numba takes 1.5 microseconds longer
to unbox a NamedTuple; the kernel gives the fields their names again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.native import compiled, compiled_with_arrays, inlined

Numbers: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Octets: TypeAlias = npt.NDArray[np.uint8]
Words: TypeAlias = npt.NDArray[np.uint64]
Packed: TypeAlias = tuple[Any, ...]

_MAX_VARINT_BYTES: Final = 5


class SearchTable(NamedTuple):
    """A tree version laid out for search.

    The children of a node on one attribute are a group. A group is spans of slots that do not overlap, in ascending
    order, each leading to one child.
    """

    children: Numbers  # by node, and one more: the children of n are children[n] up to children[n + 1]
    final: Flags  # by node: whether a broker may have tags there
    group_start: Numbers  # by node, and one more: its first group
    group_attribute: Numbers
    span_start: Numbers  # by group, and one more: its first span
    span_first: Numbers  # first slot of a span
    span_last: Numbers
    span_child: Numbers


class EventSlots(NamedTuple):
    """The slots of a batch of events, in ascending order of attribute; those of event i begin at starts[i]."""

    starts: Offsets
    attributes: Numbers
    slots: Numbers


class Workspace(NamedTuple):
    """Scratch memory of `extract`: each has room for all nodes of the tree."""

    queue: Numbers  # nodes found, level by level
    parent: Numbers  # by place in the queue: place of the parent
    kept: Numbers  # by place in the queue: children that are kept


class TagTable(NamedTuple):
    """Tags of one broker as bit sets of `width` words to a node."""

    children: Numbers
    tags: Words
    below: Words  # the tags of a node and of all nodes below it
    width: int
    queue: Numbers  # scratch memory: room for all nodes, and one more


@inlined
def _last_at_most(values: Numbers, begin: int, end: int, wanted: int) -> int:
    """The last index in [begin, end) whose value is at most the wanted one; `begin - 1` if there is none."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] <= wanted:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@inlined
def _put_varint(octets: Octets, at: int, number: int) -> int:
    while number > 127:
        octets[at] = (number & 127) | 128
        number >>= 7
        at += 1
    octets[at] = number
    return at + 1


@compiled
def extract(
    packed_events: Packed, packed_tree: Packed, packed_work: Packed, height: int, octets: Octets, ends: Offsets
) -> int:
    """Write the forwarding trees of `EventSlots` one after the other; returns how many events fitted into `octets`.

    `ends[i]` becomes the end of the tree of event i. Nothing below `height` is examined, unless that is 0.
    """
    starts, attributes, slots = EventSlots(*packed_events)
    tree = SearchTable(*packed_tree)
    queue, parent, count = Workspace(*packed_work)
    children, final, span_first, span_last = tree.children, tree.final, tree.span_first, tree.span_last
    group_start, group_attribute, span_start = tree.group_start, tree.group_attribute, tree.span_start
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
                    group = _last_at_most(group_attribute, group_start[node], group_start[node + 1], asked)
                    if group < group_start[node] or group_attribute[group] != asked:
                        group = -1
                if group < 0:
                    continue
                span = _last_at_most(span_first, span_start[group], span_start[group + 1], slots[each])
                if span < span_start[group] or span_last[span] < slots[each]:
                    continue
                child = tree.span_child[span]
                # Insert in ascending order, each once: several values of an attribute may lead to one child, and the
                # spans of a group need not have the order of its children.
                place = size
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
        # Nodes from here on stand at `height`: their children were not examined, so they must all be kept.
        first_cut = here
        # Bottom up: drop what leads to no final node.
        for each in range(size):
            count[each] = 0
        kept = 0
        for each in range(size - 1, 0, -1):
            if count[each] > 0 or final[queue[each]] or each >= first_cut:
                count[parent[each]] += 1
                kept += 1
            else:
                queue[each] = -1
        # Worst case: two numbers for each node, and the count of the root. The caller doubles the buffer and goes on.
        # Checked before the first byte, so that an event is written whole or not at all.
        if at + (2 * kept + 1) * _MAX_VARINT_BYTES > len(octets):
            return event
        if count[0] == 0:
            at = _put_varint(octets, at, 0)
        child = 1
        for here in range(size):
            if count[here] == 0:
                continue
            at = _put_varint(octets, at, count[here])
            before = children[queue[here]] - 1
            while child < size and parent[child] < here:
                child += 1
            while child < size and parent[child] == here:
                if queue[child] >= 0:
                    skipped = queue[child] - before - 1
                    before = queue[child]
                    at = _put_varint(octets, at, (skipped << 1) | (1 if count[child] > 0 else 0))
                child += 1
        ends[event] = at
    return len(starts) - 1


@compiled
def collect_tags(
    octets: Octets, starts: Offsets, skipped: int, packed_table: Packed, out: Words, understood: Flags
) -> None:
    """Collect the tags along forwarding trees, of which tree i is `octets[starts[i]:starts[i + 1]]`.

    The first `skipped` bytes of each are not part of the tree; its height follows, then its branches. A node at the
    height stands for itself and all below it. A tree that names a child which does not exist, or has the wrong length,
    is not understood: the bytes came from another broker and must not be trusted.
    """
    children, tags, below, width, queue = TagTable(*packed_table)
    for tree in range(len(starts) - 1):
        at, stop = starts[tree] + skipped, starts[tree + 1]
        height = int(octets[at]) if at < stop else 0
        at += 1
        # Tags at the root hold for every event.
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
                    if at >= stop or shift > 28:  # cut short, or longer than five bytes
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
                # Also bounds the queue: positions ascend, so that no node is entered twice.
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


@compiled_with_arrays
def union_below(tags: Words, parents: Numbers, width: int, below: Words) -> None:
    """Write the tags of every node and of all nodes below it; children have higher numbers than their parents."""
    below[:] = tags
    for node in range(len(parents) - 1, 0, -1):
        for word in range(width):
            below[parents[node] * width + word] |= below[node * width + word]
