"""A tree version as bytes: what the maker of the tree sends to all. Its version is their digest.

Bytes that are no tree are refused. That siblings exclude each other is not checked: a tree that somebody made up could
as well leave filters out, and brokers take it only from who is of their network.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from palio.errors import InvalidArgument
from palio.filters.intervals import EMPTY, Intervals
from palio.filters.kinds import KINDS, Kind, Position, exact_number
from palio.filters.tree import Leaf
from palio.filters.values import ValueSet
from palio.routing.forwarding.prefix.tree_version import TreeVersion

_QUICKLY: Final = 1  # how hard to compress: the bytes are mostly small numbers, and a third as many will do
_LARGEST: Final = 512 * 1024 * 1024  # bytes that a tree may have before it is compressed
_decoder: Final = msgspec.msgpack.Decoder(tuple[list[tuple[str, Any]], bytes, bytes])
_TYPES: dict[Kind, type] = {Kind.STRING: str, Kind.BYTES: bytes}  # positions of other kinds are integers


def version_of(data: bytes) -> bytes:
    """Eight bytes that trees have in common only if they are the same."""
    return blake2b(data, digest_size=8).digest()


def encode_tree(tree: TreeVersion) -> bytes:
    content = (
        [(leaf.attribute, _written(leaf.values)) for leaf in tree.conditions],
        tree.condition_of[1:].astype("<i4").tobytes(),
        np.diff(tree.children).astype("<i4").tobytes(),
    )
    return zlib.compress(msgspec.msgpack.encode(content), _QUICKLY)


def decode_tree(data: bytes) -> TreeVersion:
    """The tree that was encoded; `InvalidArgument` for other bytes."""
    try:
        content = zlib.decompressobj().decompress(data, _LARGEST)
        conditions, condition_of, counts = _decoder.decode(content)
        return _checked(
            TreeVersion(
                version_of(data),
                tuple(Leaf(name, _read(parts)) for name, parts in conditions),
                np.concatenate(([-1], np.frombuffer(condition_of, "<i4"))).astype(np.int32),
                np.cumsum(np.concatenate(([1], np.frombuffer(counts, "<i4")))).astype(np.int32),
            )
        )
    except (zlib.error, msgspec.DecodeError, ValueError, TypeError, ArithmeticError, LookupError) as problem:
        raise InvalidArgument(f"these bytes are no routing tree: {problem}") from None


def _checked(tree: TreeVersion) -> TreeVersion:
    nodes, children = len(tree), tree.children
    if len(children) != nodes + 1 or children[-1] != nodes or (children[:-1] <= np.arange(nodes)).any():
        raise ValueError("its nodes do not make a tree")
    below = tree.condition_of[1:]
    if len(below) and (below.min() < 0 or below.max() >= len(tree.conditions)):
        raise ValueError("a node has no condition")
    if ((np.diff(tree.parents[1:]) == 0) & (np.diff(below) <= 0)).any():
        raise ValueError("children are not in order")
    return tree


def _written(values: ValueSet) -> list[Any]:
    return [
        (int(kind), part.inside, [_cut(kind, cut) for cut in part.cuts])
        for kind, part in zip(KINDS, values.parts, strict=True)
        if not part.is_empty
    ]


def _read(parts: Any) -> ValueSet:
    return ValueSet.of({Kind(kind): _intervals(Kind(kind), inside, cuts) for kind, inside, cuts in parts})


def _intervals(kind: Kind, inside: bool, cuts: list[Any]) -> Intervals:
    positions = tuple(_position(kind, cut) for cut in cuts)
    if inside not in (True, False) or any(low >= high for low, high in pairwise(positions)):
        raise ValueError("values are not in order")
    return Intervals(inside, positions) if inside or positions else EMPTY


def _cut(kind: Kind, position: Position) -> Any:
    return (str(position[0]), position[1]) if kind is Kind.DECIMAL else position


def _position(kind: Kind, cut: Any) -> Position:
    if kind is Kind.DECIMAL:
        number, after = cut
        numerator, _, denominator = number.partition("/")
        return exact_number(Fraction(int(numerator), int(denominator or 1))), int(bool(after))
    if type(cut) is not _TYPES.get(kind, int):
        raise ValueError(f"a {kind.name.lower()} is at {cut!r}")
    return cut
