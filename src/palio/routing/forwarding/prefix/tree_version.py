"""Tree version: an immutable routing tree that brokers agree on, and its encoding.

Nodes are numbered level by level, so that the children of a node follow each other and "its third child" is a sum.
Children stand in the order of their conditions. All that a broker does for an event runs over arrays of integers.

A forwarding tree names children by their positions, so it has a meaning only in one tree. Events therefore carry the
version of the whole tree. As printed, an event carries the version of the youngest node that it refers to, and brokers
disregard younger ones; but a younger sibling shifts the positions of older ones, and an event is lost between two
brokers that have the same tree (Jerzak §4.4.2).

`encode_tree` writes what the optimiser announces to all brokers; the version is the digest of these bytes. Bytes that
are no tree are refused. That siblings exclude each other is not checked: a forged tree could as well leave filters out,
and brokers accept trees only from within their network.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from palio.errors import InvalidArgument
from palio.filters.kinds import KINDS, Kind, Position, exact_number
from palio.filters.tree import Leaf
from palio.filters.value_sets import EMPTY, Intervals, ValueSet
from palio.routing.conjunctions import Conjunction
from palio.routing.forwarding.prefix.routing_tree import Node, RoutingTree

Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
ROOT: Final = 0


class TreeVersion:
    """The ordered conditions of a tree, and for each node its condition and where its children begin.

    `final` flags the nodes at which a broker's tags may be; a path to no such node is left out of forwarding trees.
    Where brokers map their filters onto a tree that the optimiser made, any node may have tags. `ends` are the nodes at
    which conjunctions are known to end, for a broker that built the tree from the filters that it tags.
    """

    def __init__(
        self,
        version: bytes,
        conditions: tuple[Leaf, ...],
        condition_of: Numbers,
        children: Numbers,
        final: Flags | None = None,
        ends: Mapping[Conjunction, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.version = version
        self.conditions = conditions
        self.condition_of = condition_of  # by node; -1 for the root
        self.children = children  # those of node n are children[n] up to children[n + 1]
        self.final = np.ones(len(condition_of), np.bool_) if final is None else final
        self.ends = ends

    @classmethod
    def of(cls, tree: RoutingTree, version: bytes) -> TreeVersion:
        """A snapshot of a routing tree; tags are where its conjunctions end."""
        nodes, children = _by_level(tree)
        # By identity, which is quicker than by value: a routing tree holds each distinct condition once.
        ordered = sorted({id(node.condition): node for node in nodes[1:]}.values(), key=lambda node: node.order)
        number = {id(node.condition): place for place, node in enumerate(ordered)}
        return cls(
            version,
            tuple(node.condition for node in ordered if node.condition is not None),
            np.array([-1, *(number[id(node.condition)] for node in nodes[1:])], np.int32),
            np.array(children, np.int32),
            np.array([node.ends > 0 for node in nodes], np.bool_),
        )

    @classmethod
    def with_ends(cls, tree: RoutingTree, version: bytes) -> TreeVersion:
        """A snapshot that also remembers the end nodes of the conjunctions it was built from."""
        made = cls.of(tree, version)
        number = {id(node): place for place, node in enumerate(_by_level(tree)[0])}
        made.ends = {conjunction: [number[id(node)] for node in ends] for conjunction, ends in tree.ends().items()}
        return made

    def __len__(self) -> int:
        """The number of nodes, the root among them."""
        return len(self.condition_of)

    @cached_property
    def parents(self) -> Numbers:
        """The parent of each node; -1 for the root."""
        counts = np.diff(self.children)
        return np.concatenate((np.array([-1], np.int32), np.repeat(np.arange(len(self), dtype=np.int32), counts)))

    @cached_property
    def heights(self) -> Numbers:
        """The distance of each node from the root."""
        found = np.zeros(len(self), np.int32)
        first, last, height = 0, 1, 0
        while first < last:  # level by level
            found[first:last] = height
            first, last, height = last, int(self.children[last]), height + 1
        return found

    def path(self, node: int) -> tuple[Leaf, ...]:
        """The conditions from the root to a node."""
        found = []
        while node != ROOT:
            found.append(self.conditions[self.condition_of[node]])
            node = int(self.parents[node])
        return tuple(reversed(found))

    def branch(self, node: int) -> tuple[int, ...]:
        """The positions of the children that lead from the root to a node."""
        found = []
        while node != ROOT:
            above = int(self.parents[node])
            found.append(node - int(self.children[above]))
            node = above
        return tuple(reversed(found))


def _by_level(tree: RoutingTree) -> tuple[list[Node], list[int]]:
    """The nodes of a tree in level order, and for each where its children begin among them."""
    nodes, children = [tree.root], [1]
    for node in nodes:  # grows while it is read: breadth first
        nodes.extend(node.children)
        children.append(len(nodes))
    return nodes, children


_COMPRESSION_LEVEL: Final = 1  # the fastest: the bytes are mostly small numbers, and shrink to a third
_MAX_UNCOMPRESSED_BYTES: Final = 512 * 1024 * 1024  # bounds what a small message can make a broker allocate
_decoder: Final = msgspec.msgpack.Decoder(tuple[list[tuple[str, Any]], bytes, bytes])
_POSITION_TYPES: dict[Kind, type] = {Kind.STRING: str, Kind.BYTES: bytes}  # positions of other kinds are integers


def tree_digest(data: bytes) -> bytes:
    """The version of an encoded tree: eight bytes that only equal trees share."""
    return blake2b(data, digest_size=8).digest()


def encode_tree(tree: TreeVersion) -> bytes:
    content = (
        [(leaf.attribute, _encode_values(leaf.values)) for leaf in tree.conditions],
        tree.condition_of[1:].astype("<i4").tobytes(),
        np.diff(tree.children).astype("<i4").tobytes(),
    )
    return zlib.compress(msgspec.msgpack.encode(content), _COMPRESSION_LEVEL)


def decode_tree(data: bytes) -> TreeVersion:
    """The tree that was encoded; `InvalidArgument` for other bytes."""
    try:
        # What is beyond the bound stays compressed; the truncated rest then fails to decode.
        content = zlib.decompressobj().decompress(data, _MAX_UNCOMPRESSED_BYTES)
        conditions, condition_of, counts = _decoder.decode(content)
        return _check(
            TreeVersion(
                tree_digest(data),
                tuple(Leaf(name, _decode_values(parts)) for name, parts in conditions),
                np.concatenate(([-1], np.frombuffer(condition_of, "<i4"))).astype(np.int32),
                np.cumsum(np.concatenate(([1], np.frombuffer(counts, "<i4")))).astype(np.int32),
            )
        )
    except (zlib.error, msgspec.DecodeError, ValueError, TypeError, ArithmeticError, LookupError) as problem:
        raise InvalidArgument(f"these bytes are no routing tree: {problem}") from None


def _check(tree: TreeVersion) -> TreeVersion:
    # Kernels follow these arrays without bounds checks: every child must lie within the tree and after its parent.
    nodes, children = len(tree), tree.children
    if len(children) != nodes + 1 or children[-1] != nodes or (children[:-1] <= np.arange(nodes)).any():
        raise ValueError("its nodes do not make a tree")
    below = tree.condition_of[1:]
    if len(below) and (below.min() < 0 or below.max() >= len(tree.conditions)):
        raise ValueError("a node has no condition")
    if ((np.diff(tree.parents[1:]) == 0) & (np.diff(below) <= 0)).any():
        raise ValueError("children are not in order")
    return tree


def _encode_values(values: ValueSet) -> list[Any]:
    return [
        (int(kind), part.inside, [_encode_cut(kind, cut) for cut in part.cuts])
        for kind, part in zip(KINDS, values.parts, strict=True)
        if not part.is_empty
    ]


def _decode_values(parts: Any) -> ValueSet:
    return ValueSet.of({Kind(kind): _decode_intervals(Kind(kind), inside, cuts) for kind, inside, cuts in parts})


def _decode_intervals(kind: Kind, inside: bool, cuts: list[Any]) -> Intervals:
    positions = tuple(_decode_cut(kind, cut) for cut in cuts)
    if inside not in (True, False) or any(low >= high for low, high in pairwise(positions)):
        raise ValueError("values are not in order")
    return Intervals(inside, positions) if inside or positions else EMPTY


def _encode_cut(kind: Kind, position: Position) -> Any:
    return (str(position[0]), position[1]) if kind is Kind.DECIMAL else position


def _decode_cut(kind: Kind, cut: Any) -> Position:
    if kind is Kind.DECIMAL:
        number, after = cut
        numerator, _, denominator = number.partition("/")
        return exact_number(Fraction(int(numerator), int(denominator or 1))), int(bool(after))
    if type(cut) is not _POSITION_TYPES.get(kind, int):
        raise ValueError(f"a {kind.name.lower()} is at {cut!r}")
    return cut
