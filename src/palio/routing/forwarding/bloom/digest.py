"""Event digest: the Bloom filter of the predicates that an event satisfies, its parameters and its header.

Jerzak §5.2: a predicate sets `k` of `m` bits, found by hashing its text twice and stepping from the first hash by the
second. All brokers must agree on these parameters, or events are lost; so a `BloomShape` is a constant of the network.
Decided here, where the source is silent: the width is a power of two and the step is odd, so that the `k` bits of a
predicate are all different; the hash is keyed BLAKE2b over the canonical text of the predicate, which equal conditions
share in every process; a network may choose its own key, so that an outsider cannot aim at its bits.

Jerzak §5.2.3: an event satisfies few predicates, so the sorted indices of the bits that are set are smaller than a
bitmap as long as fewer than m / log2 m of them are. An empty digest then costs nothing at any width, and the width may
be chosen generously. All structures work with such `Bits`; a bitmap is for the wire, where it is the smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil, log2
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from palio.errors import InvalidArgument, WireError
from palio.filters.kinds import KINDS
from palio.filters.tree import Leaf
from palio.routing.forwarding.headers import register

Bits: TypeAlias = tuple[int, ...]
"""The indices of the bits that are set, ascending and distinct."""


def union(many: Iterable[Bits]) -> Bits:
    """The bits that are set in any of many digests."""
    return tuple(sorted(set().union(*many)))


def to_bitmap(width: int, bits: Bits | npt.NDArray[np.int32]) -> bytes:
    """The bits as bytes, the lowest bit first."""
    flags = np.zeros(width, np.uint8)
    flags[np.asarray(bits, np.int64)] = 1
    return np.packbits(flags, bitorder="little").tobytes()


def from_bitmap(bitmap: bytes) -> Bits:
    flags: npt.NDArray[np.uint8] = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return tuple(np.flatnonzero(flags).tolist())


MAX_TWO_BYTE_WIDTH: Final = 1 << 16  # bits of a digest whose indices take two bytes each; wider ones take four
_HASH_PERSONALISATION: Final = b"palio-predicate"
_MAX_WIDTH: Final = 1 << 30
_MAX_HASHES: Final = 64


@dataclass(frozen=True, slots=True)
class BloomShape:
    """Parameters of a Bloom filter: the width `m` in bits, the number `k` of hashes, and the key of the hash.

    The name and the fields enter the digest of constants in annotated headers: renaming them changes the wire format.
    """

    width: int = MAX_TWO_BYTE_WIDTH
    hashes: int = 3
    key: bytes = b""

    def __post_init__(self) -> None:
        if not 2 <= self.width <= _MAX_WIDTH or self.width & (self.width - 1):
            raise InvalidArgument(f"a digest is a power of two of bits wide, up to 2^30, not {self.width}")
        if not 1 <= self.hashes <= min(_MAX_HASHES, self.width):
            raise InvalidArgument(f"a predicate sets from 1 to {_MAX_HASHES} bits of the digest, not {self.hashes}")
        if len(self.key) > blake2b.MAX_KEY_SIZE:
            raise InvalidArgument(f"a key has at most {blake2b.MAX_KEY_SIZE} bytes, not {len(self.key)}")

    @classmethod
    def for_rate(cls, rate: float, satisfied: int, key: bytes = b"") -> BloomShape:
        """A shape in which a predicate that an event does not satisfy seems satisfied at most this often.

        What counts is how many predicates one event satisfies, since only those are in its digest, and not how many
        there are in all (as in Jerzak §5.2.1). Every hash takes space in every header and time at every broker, while
        width costs nearly nothing; so the fewest hashes are chosen that keep indices within sixteen bits.
        """
        if not 0.0 < rate < 1.0 or satisfied < 1:
            raise InvalidArgument(f"a rate lies between 0 and 1 and an event satisfies something: {rate}, {satisfied}")
        max_hashes = min(_MAX_HASHES, ceil(-log2(rate)))  # the optimum of a Bloom filter; more only fill it up
        shapes = [cls(_min_width(rate, satisfied, hashes), hashes, key) for hashes in range(1, max_hashes + 1)]
        return next(
            (each for each in shapes if each.width <= MAX_TWO_BYTE_WIDTH), min(shapes, key=lambda each: each.width)
        )

    def bits_of(self, text: str) -> Bits:
        """The bits of a predicate, given as its canonical text."""
        digest = blake2b(
            text.encode("utf-8", "surrogatepass"), digest_size=16, key=self.key, person=_HASH_PERSONALISATION
        ).digest()
        start = int.from_bytes(digest[:8], "little")
        step = int.from_bytes(digest[8:], "little") | 1
        return tuple(sorted((start + step * place) % self.width for place in range(self.hashes)))


def _min_width(rate: float, satisfied: int, hashes: int) -> int:
    """The least width that keeps a rate with a number of hashes, or the greatest there is."""
    width = 2
    while width < _MAX_WIDTH and (width < hashes or false_positive_rate(width, satisfied, hashes) > rate):
        width *= 2
    return width


def predicate_text(predicate: Leaf) -> str:
    """The canonical text of a predicate without tests: its attribute, and for each kind of value where its set changes.

    Equal conditions have equal texts, and different ones different texts. SQL would read better, and takes ten times as
    long to write.
    """
    parts = [
        f"{kind.value}{'+' if part.inside else '-'}{part.cuts!r}"
        for kind, part in zip(KINDS, predicate.values.parts, strict=True)
        if not part.is_empty
    ]
    return "\0".join([predicate.attribute, *parts])


def expected_fill(width: int, elements: int, hashes: int) -> float:
    """The share of bits that a number of elements is expected to set."""
    return 1.0 - (1.0 - 1.0 / width) ** (hashes * elements)


def false_positive_rate(width: int, elements: int, hashes: int) -> float:
    """The probability that an element which was never added seems to be there (Jerzak §5.2.1)."""
    return expected_fill(width, elements, hashes) ** hashes


def index_type(width: int) -> np.dtype[Any]:
    """The type of an index on the wire, in digests of a width."""
    return np.dtype("<u2" if width <= MAX_TWO_BYTE_WIDTH else "<u4")


# The first byte: the base-two logarithm of the width, and two flags.
_BITMAP_FLAG: Final = 0x80
_CLIENT_FLAG: Final = 0x40
_POWER_MASK: Final = 0x3F
_MAX_POWER: Final = 30
_TWO_BYTE_POWER: Final = MAX_TWO_BYTE_WIDTH.bit_length() - 1


@register
class BloomHeader(Struct, frozen=True, gc=False):
    """The digest of an event on the wire: the indices of its bits, or a bitmap where that is shorter.

    Equal digests of brokers have equal bytes. The bytes are the value itself: a broker that passes an event on writes
    what it read.
    """

    kind: ClassVar[int] = 3

    data: bytes

    @classmethod
    def of(cls, width: int, bits: Bits | npt.NDArray[np.int32]) -> BloomHeader:
        """From the indices of bits, ascending."""
        power = width.bit_length() - 1
        index = index_type(width)
        if len(bits) * index.itemsize <= (width + 7) // 8:
            return cls(bytes((power,)) + np.asarray(bits, index).tobytes())
        return cls(bytes((power | _BITMAP_FLAG,)) + to_bitmap(width, bits))

    @property
    def width(self) -> int:
        return 1 << (self.data[0] & _POWER_MASK)

    @property
    def is_of_client(self) -> bool:
        """Whether a client wrote it: it may lack any bit, so that it directs the event and proves no absence."""
        return bool(self.data[0] & _CLIENT_FLAG)

    def of_client(self) -> BloomHeader:
        """This digest, marked as written by a client."""
        return BloomHeader(bytes((self.data[0] | _CLIENT_FLAG,)) + self.data[1:])

    @property
    def indices(self) -> npt.NDArray[Any]:
        """The indices of the bits."""
        if self.data[0] & _BITMAP_FLAG:
            return np.array(from_bitmap(self.data[1:]))
        return np.frombuffer(self.data, index_type(self.width), offset=1)

    @property
    def packed(self) -> bytes:
        """The indices of the bits, as `index_type` has them."""
        if self.data[0] & _BITMAP_FLAG:
            return self.indices.astype(index_type(self.width)).tobytes()
        return self.data[1:]

    @property
    def bits(self) -> Bits:
        return tuple(self.indices.tolist())

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, data: bytes) -> BloomHeader:
        power = data[0] & _POWER_MASK if data else 0
        if not 1 <= power <= _MAX_POWER:
            raise WireError("a digest begins with its width")
        made, length = cls(data), len(data) - 1
        if data[0] & _BITMAP_FLAG:
            if length != ((1 << power) + 7) // 8:
                raise WireError("a bitmap that is not as long as it is wide")
        elif length % (2 if power <= _TWO_BYTE_POWER else 4):
            raise WireError("an index of a digest is cut short")
        # Kernels write to a bitmap at these indices: one beyond the width would write out of bounds. An index of two
        # bytes cannot be beyond the usual width, which therefore costs no check.
        if power != _TWO_BYTE_POWER and length and int(made.indices.max(initial=0)) >= made.width:
            raise WireError("an index of a digest is beyond its width")
        return made
