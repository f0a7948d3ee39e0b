"""Forwarding tree: the branches of a routing tree that an event satisfies, and the header that carries them.

A branch names a node by the positions of the children that lead to it (Jerzak §4.3). The first broker extracts the
forwarding tree of an event, the one time that content is examined; every broker collects the interfaces that it has
tagged along the branches. Branches that reach no filter's end are kept where other brokers may have tags on them. A
tree may be cut at a height; a node there stands for itself and all below it, which sends an event further than need be,
never less far (Jerzak §4.3.2).

Extraction costs the attributes of the event, once, and then the nodes found: siblings on an attribute exclude each
other, so a value leads to at most one of them, found by binary search; the source tries every child.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Final, TypeAlias

import numpy as np
from msgspec import Struct

from palio.errors import WireError
from palio.filters.tree import Attributes
from palio.routing.conjunctions import Conjunction, possible_values
from palio.routing.forwarding.headers import register
from palio.routing.forwarding.prefix import tree_kernels
from palio.routing.forwarding.prefix.tree_index import TreeIndex

Branch: TypeAlias = tuple[int, ...]
Places: TypeAlias = "dict[int, Places]"
MAX_HEIGHT: Final = 255


class ForwardingTree(Struct, frozen=True, gc=False):
    """Branches as the bytes that travel: the height, 0 for none, and a code (see `tree_kernels`).

    >>> found = ForwardingTree.of([(0, 0, 0, 0), (2,)])
    >>> found.code.hex(), found.branches
    ('020102010101010100', ((0, 0, 0, 0), (2,)))
    """

    data: bytes

    @property
    def height(self) -> int:
        return self.data[0]

    @property
    def code(self) -> bytes:
        return self.data[1:]

    @classmethod
    def of(cls, branches: Iterable[Branch], height: int = 0) -> ForwardingTree:
        """The tree of some branches and of all their prefixes."""
        root: Places = {}
        for branch in branches:
            places = root
            for place in branch:
                places = places.setdefault(place, {})
        code = bytearray()
        level = [root]
        for places in level:  # grows while it is read: breadth first
            code += _number(len(places))
            before = -1
            for place, below in sorted(places.items()):
                code += _number((place - before - 1) << 1 | bool(below))
                before = place
                if below:
                    level.append(below)
        return cls(bytes((height,)) + code)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The positions that lead to each of the leaves, in ascending order."""
        return tuple(sorted(_leaves(self._places())))

    def __len__(self) -> int:
        """The number of nodes, the root not among them."""
        level = [self._places()]
        for places in level:
            level.extend(places.values())
        return len(level) - 1

    def covers(self, other: ForwardingTree) -> bool:
        """Whether every receiver of an event with the other tree also receives one with this tree.

        That holds for any routing tree if this tree has all branches of the other (Jerzak §4.3.1).
        """
        return _covers(self._places(), self.height, other._places(), other.height)

    def _places(self) -> Places:
        numbers = _numbers(self.code)
        root: Places = {}
        level = [root]
        for places in level:
            place = -1
            for _ in range(next(numbers)):
                number = next(numbers)
                place += (number >> 1) + 1
                places[place] = {}
                if number & 1:
                    level.append(places[place])
        return root


# Loops, no recursion: a tree of nested conditions is as deep as there are conditions.
def _covers(wide: Places, height: int, narrow: Places, other_height: int) -> bool:
    level, depth = [(wide, narrow)], 0
    while level:
        if depth and depth == height:  # nodes stand for all below them
            return True
        if depth and depth == other_height:
            return False
        if any(place not in places for places, others in level for place in others):
            return False
        level = [(places[place], below) for places, others in level for place, below in others.items()]
        depth += 1
    return True


def _leaves(root: Places) -> Iterator[Branch]:
    open_: list[tuple[Branch, Places]] = [((), root)]
    while open_:
        above, places = open_.pop()
        for place, below in places.items():
            if below:
                open_.append(((*above, place), below))
            else:
                yield (*above, place)


def _number(number: int) -> bytes:
    code = bytearray()
    while number > 127:
        code.append(number & 127 | 128)
        number >>= 7
    code.append(number)
    return bytes(code)


def _numbers(code: bytes) -> Iterator[int]:
    number = shift = 0
    for octet in code:
        number |= (octet & 127) << shift
        shift += 7
        if octet < 128:
            yield number
            number = shift = 0


VERSION_BYTES: Final = 8


@register
class PrefixHeader(Struct, frozen=True, gc=False):
    """The version of a routing tree, and a forwarding tree, which has a meaning only in that version.

    The bytes are the value itself: a broker that passes an event on writes what it read, and decodes only the version
    to find out whether it has that tree.
    """

    kind: ClassVar[int] = 2

    data: bytes

    @classmethod
    def of(cls, version: bytes, tree: ForwardingTree) -> PrefixHeader:
        return cls(version + tree.data)

    @property
    def version(self) -> bytes:
        return self.data[:VERSION_BYTES]

    @property
    def tree(self) -> ForwardingTree:
        return ForwardingTree(self.data[VERSION_BYTES:])

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, data: bytes) -> PrefixHeader:
        """Only the length is checked here; `Tags.interfaces_along` checks the branches."""
        if len(data) <= VERSION_BYTES + 1:
            raise WireError("a forwarding tree is cut short")
        return cls(data)


_INITIAL_BUFFER_BYTES: Final = 4096  # for the forwarding trees of a batch; doubled on demand


class TreeExtractor:
    """Extracts forwarding trees from one tree version; `height` cuts them, unless it is 0."""

    def __init__(self, index: TreeIndex, height: int = 0) -> None:
        self._index = index
        self._height = height
        nodes = len(index.tree)
        self._workspace = tuple(np.empty(nodes, np.int32) for _ in tree_kernels.Workspace._fields)
        self._octets = np.empty(_INITIAL_BUFFER_BYTES, np.uint8)

    def extract(self, events: Sequence[Attributes]) -> list[ForwardingTree]:
        """The forwarding tree of each event."""
        index, found, starts = self._index, [], [0]
        for event in events:
            found += index.slots(possible_values(event))
            starts.append(len(found))
        pairs = np.array(found, np.int32).reshape(-1, 2)
        event_starts = np.array(starts, np.int64)
        attributes, slots = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        trees: list[ForwardingTree] = []
        ends = np.empty(len(events), np.int64)
        # The kernel stops at the event that does not fit the buffer; it goes on from there with twice the room.
        while True:
            remaining = (event_starts[len(trees) :], attributes, slots)
            done = tree_kernels.extract(remaining, index.table, self._workspace, self._height, self._octets, ends)
            begin, octets, height = 0, self._octets.tobytes(), bytes((self._height,))
            for end in ends[:done].tolist():
                trees.append(ForwardingTree(height + octets[begin:end]))
                begin = end
            if len(trees) == len(events):
                return trees
            self._octets = np.empty(2 * len(self._octets), np.uint8)


_MAX_CACHED_INTERFACE_SETS: Final = 1024


class Tags:
    """One broker's interfaces at the nodes of a tree version that all brokers share.

    A filter is tagged with its interface at the nodes of its conjunctions (`TreeIndex.tag_nodes`). The paths to these
    nodes admit at least what the filter matches, so an event sent along them goes too far at worst. Tags are counted:
    several filters of one interface may share a node.
    """

    def __init__(self, index: TreeIndex) -> None:
        self._index = index
        self._counts: dict[tuple[int, int], int] = {}  # filters by node and bit
        self._bits: dict[int, int] = {}  # by interface
        self._interfaces: list[int] = []  # by bit
        self._width = 1  # words of 64 bits to a node
        self._words = np.zeros(len(index.tree), np.uint64)
        self._below: tree_kernels.Words | None = None  # of each node and all below it; made for trees that are cut
        self._interface_sets: dict[bytes, tuple[int, ...]] = {}  # few sets of neighbours occur
        self._queue = np.empty(len(index.tree) + 1, np.int32)

    def add(self, interface: int, conjunctions: Iterable[Conjunction]) -> None:
        bit = self._bit(interface)
        for conjunction in conjunctions:
            for node in self._index.tag_nodes(conjunction):
                before = self._counts.get((node, bit), 0)
                self._counts[node, bit] = before + 1
                if not before:
                    self._words[node * self._width + (bit >> 6)] |= np.uint64(1 << (bit & 63))
                    self._below = None

    def remove(self, interface: int, conjunctions: Iterable[Conjunction]) -> None:
        """Undo an `add` with the same conjunctions."""
        # `tag_nodes` is a function of tree and conjunction, so that it finds the nodes that `add` tagged.
        bit = self._bits[interface]
        for conjunction in conjunctions:
            for node in self._index.tag_nodes(conjunction):
                left = self._counts.pop((node, bit)) - 1
                if left:
                    self._counts[node, bit] = left
                else:
                    self._words[node * self._width + (bit >> 6)] ^= np.uint64(1 << (bit & 63))
                    self._below = None

    def forward(self, trees: Sequence[ForwardingTree]) -> list[tuple[int, ...] | None]:
        """The interfaces along each forwarding tree; None for one that this routing tree cannot have made."""
        return self.interfaces_along([tree.data for tree in trees], 0)

    def interfaces_along(self, written: Sequence[bytes], skipped: int) -> list[tuple[int, ...] | None]:
        """As `forward`, from bytes of which the first `skipped` are not part of the tree: headers need no copies."""
        octets = np.frombuffer(b"".join(written), np.uint8)
        starts = np.array([0, *accumulate(map(len, written))], np.int64)
        # The first byte of a tree is its height: only trees that were cut need the tags below a node.
        if self._below is None and octets[starts[:-1] + skipped].any():
            self._below = np.empty_like(self._words)
            tree_kernels.union_below(self._words, self._index.tree.parents, self._width, self._below)
        out = np.empty(len(written) * self._width, np.uint64)
        understood = np.empty(len(written), np.bool_)
        below = self._words if self._below is None else self._below
        table = (self._index.tree.children, self._words, below, self._width, self._queue)
        tree_kernels.collect_tags(octets, starts, skipped, table, out, understood)
        words, size = out.tobytes(), 8 * self._width
        return [
            self._interface_set(words[place : place + size]) if fine else None
            for place, fine in zip(range(0, len(words), size), understood.tolist(), strict=True)
        ]

    def _interface_set(self, words: bytes) -> tuple[int, ...]:
        """The interfaces of a bit set."""
        known = self._interface_sets.get(words)
        if known is None:
            octets = np.frombuffer(words, np.uint64).astype("<u8").view(np.uint8)
            bits = np.flatnonzero(np.unpackbits(octets, bitorder="little"))
            known = tuple(sorted(self._interfaces[bit] for bit in bits.tolist()))
            if len(self._interface_sets) >= _MAX_CACHED_INTERFACE_SETS:
                self._interface_sets.clear()
            self._interface_sets[words] = known
        return known

    def _bit(self, interface: int) -> int:
        if interface not in self._bits:
            self._bits[interface] = len(self._interfaces)
            self._interfaces.append(interface)
            self._interface_sets.clear()
            # One word more for each node; the layout by node changes, so all words are copied.
            if len(self._interfaces) > 64 * self._width:
                wider = np.zeros((len(self._index.tree), self._width + 1), np.uint64)
                wider[:, :-1] = self._words.reshape(-1, self._width)
                self._width, self._words, self._below = self._width + 1, wider.reshape(-1), None
        return self._bits[interface]


class TaggedTree:
    """A tree version with one broker's tags: writes the headers of events, and reads where headers lead.

    Forwarding trees are cut at a height, unless it is 0.
    """

    def __init__(self, index: TreeIndex, height: int, wanted: Iterable[tuple[int, Iterable[Conjunction]]]) -> None:
        self._index = index
        self._height = height
        self.tags = Tags(index)
        for interface, conjunctions in wanted:
            self.tags.add(interface, conjunctions)

    @property
    def version(self) -> bytes:
        return self._index.tree.version

    @cached_property
    def _extractor(self) -> TreeExtractor:
        return TreeExtractor(self._index, self._height)

    def headers(self, events: Sequence[Attributes]) -> list[PrefixHeader]:
        """The header of each event."""
        return [PrefixHeader.of(self.version, tree) for tree in self._extractor.extract(events)]

    def interfaces(self, headers: Sequence[PrefixHeader]) -> list[tuple[int, ...] | None]:
        """The interfaces to which headers of this version lead; None for one that this tree cannot have made."""
        return self.tags.interfaces_along([header.data for header in headers], VERSION_BYTES)
