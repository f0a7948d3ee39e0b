"""Which bits stand for a predicate: the width, the hashes and the key that a whole network shares.

Jerzak §5.2: a predicate sets `k` of `m` bits, found by hashing its text twice and stepping from the first hash by the
second. All brokers must agree on all of it, or events are lost, so a `BloomShape` is a constant of the network.

Decided here, where the source is silent: the width is a power of two and the step is odd, so that the `k` bits of a
predicate are all different; the hash is keyed BLAKE2b over the canonical text of the predicate, which equal conditions
share in every process; a network may choose its own key, so that nobody outside can aim at its bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import ceil, log2
from typing import Any, Final

import numpy as np

from palio.errors import InvalidArgument
from palio.filters.kinds import KINDS
from palio.filters.tree import Leaf
from palio.routing.forwarding.bloom.bits import Bits

SHORT: Final = 1 << 16  # up to this width an index of a bit has two bytes
_PERSON: Final = b"palio-predicate"
_WIDEST: Final = 1 << 30
_MOST_HASHES: Final = 64


@dataclass(frozen=True, slots=True)
class BloomShape:
    """The width `m` of a digest in bits, the number `k` of hashes, and the key of the hash."""

    width: int = SHORT
    hashes: int = 3
    key: bytes = b""

    def __post_init__(self) -> None:
        if not 2 <= self.width <= _WIDEST or self.width & (self.width - 1):
            raise InvalidArgument(f"a digest is a power of two of bits wide, up to 2^30, not {self.width}")
        if not 1 <= self.hashes <= min(_MOST_HASHES, self.width):
            raise InvalidArgument(f"a predicate sets from 1 to {_MOST_HASHES} bits of the digest, not {self.hashes}")
        if len(self.key) > blake2b.MAX_KEY_SIZE:
            raise InvalidArgument(f"a key has at most {blake2b.MAX_KEY_SIZE} bytes, not {len(self.key)}")

    @classmethod
    def for_rate(cls, rate: float, satisfied: int, key: bytes = b"") -> BloomShape:
        """A shape in which a predicate that an event does not satisfy seems satisfied at most this often.

        What counts is not how many predicates there are, as one might think (Jerzak §5.2.1 does), but how many of them
        one event satisfies: only those are in its digest. Every hash costs room in every header and work at every
        broker, and width costs nearly nothing; so there are as few hashes as indices of sixteen bits allow.
        """
        if not 0.0 < rate < 1.0 or satisfied < 1:
            raise InvalidArgument(f"a rate lies between 0 and 1 and an event satisfies something: {rate}, {satisfied}")
        most = min(_MOST_HASHES, ceil(-log2(rate)))  # more hashes than that help nobody
        shapes = [cls(_width(rate, satisfied, hashes), hashes, key) for hashes in range(1, most + 1)]
        return next((each for each in shapes if each.width <= SHORT), min(shapes, key=lambda each: each.width))

    def bits_of(self, text: str) -> Bits:
        """The bits of a predicate, given as its canonical text."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self.key, person=_PERSON).digest()
        start = int.from_bytes(digest[:8], "little")
        step = int.from_bytes(digest[8:], "little") | 1
        return tuple(sorted((start + step * place) % self.width for place in range(self.hashes)))


def _width(rate: float, satisfied: int, hashes: int) -> int:
    """The least width that keeps a rate with so many hashes, or the greatest there is."""
    width = 2
    while width < _WIDEST and (width < hashes or false_positives(width, satisfied, hashes) > rate):
        width *= 2
    return width


def predicate_text(predicate: Leaf) -> str:
    """The canonical text of a predicate without tests: its attribute, and for each kind of value where its set changes.

    Equal conditions have equal texts, and unlike ones unlike texts. SQL would read better, and takes ten times as long
    to write.
    """
    parts = [
        f"{kind.value}{'+' if part.inside else '-'}{part.cuts!r}"
        for kind, part in zip(KINDS, predicate.values.parts, strict=True)
        if not part.is_empty
    ]
    return "\0".join([predicate.attribute, *parts])


def fill(width: int, elements: int, hashes: int) -> float:
    """The share of bits that so many elements are expected to set."""
    return 1.0 - (1.0 - 1.0 / width) ** (hashes * elements)


def false_positives(width: int, elements: int, hashes: int) -> float:
    """How often an element that was never added seems to be there (Jerzak §5.2.1)."""
    return fill(width, elements, hashes) ** hashes


def index_type(width: int) -> np.dtype[Any]:
    """How an index of a bit is written, in digests of a width."""
    return np.dtype("<u2" if width <= SHORT else "<u4")
