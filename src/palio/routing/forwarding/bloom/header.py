"""The digest of an event as it travels: the indices of its bits, or a bitmap where that is shorter (Jerzak §5.2.3).

The first byte says how wide the digest is, as a power of two, which of the two follows, and whether a client made it
instead of a broker. The bytes are the value itself: a broker that passes an event on writes what it read.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from palio.errors import WireError
from palio.routing.forwarding.bloom.bits import Bits, from_bitmap, to_bitmap
from palio.routing.forwarding.bloom.shape import SHORT, index_type
from palio.routing.forwarding.headers import register

_IS_BITMAP: Final = 0x80
_IS_OF_CLIENT: Final = 0x40
_POWER: Final = 0x3F
_LARGEST_POWER: Final = 30
_SHORT_POWER: Final = SHORT.bit_length() - 1
_SHORT_BYTES: Final = index_type(SHORT).itemsize
_LONG_BYTES: Final = index_type(SHORT << 1).itemsize


@register
class BloomHeader(Struct, frozen=True, gc=False):
    """A digest. Equal digests of brokers have equal bytes."""

    kind: ClassVar[int] = 3

    data: bytes

    @classmethod
    def of(cls, width: int, bits: Bits | npt.NDArray[np.int32]) -> BloomHeader:
        """From the indices of bits, in order."""
        power = width.bit_length() - 1
        index = index_type(width)
        if len(bits) * index.itemsize <= (width + 7) // 8:
            return cls(bytes((power,)) + np.asarray(bits, index).tobytes())
        return cls(bytes((power | _IS_BITMAP,)) + to_bitmap(width, bits))

    @property
    def width(self) -> int:
        return 1 << (self.data[0] & _POWER)

    @property
    def is_of_client(self) -> bool:
        """Whether it may leave out what it likes: it leads an event on its way, and says nothing where that ends."""
        return bool(self.data[0] & _IS_OF_CLIENT)

    def of_client(self) -> BloomHeader:
        """The same digest as a client's word."""
        return BloomHeader(bytes((self.data[0] | _IS_OF_CLIENT,)) + self.data[1:])

    @property
    def indices(self) -> npt.NDArray[Any]:
        """The indices of the bits."""
        if self.data[0] & _IS_BITMAP:
            return np.array(from_bitmap(self.data[1:]))
        return np.frombuffer(self.data, index_type(self.width), offset=1)

    @property
    def packed(self) -> bytes:
        """The indices of the bits, as `index_type` has them."""
        if self.data[0] & _IS_BITMAP:
            return self.indices.astype(index_type(self.width)).tobytes()
        return self.data[1:]

    @property
    def bits(self) -> Bits:
        return tuple(self.indices.tolist())

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, data: bytes) -> BloomHeader:
        power = data[0] & _POWER if data else 0
        if not 1 <= power <= _LARGEST_POWER:
            raise WireError("a digest begins with its width")
        made, room = cls(data), len(data) - 1
        if data[0] & _IS_BITMAP:
            if room != ((1 << power) + 7) // 8:
                raise WireError("a bitmap that is not as long as it is wide")
        elif room % (_SHORT_BYTES if power <= _SHORT_POWER else _LONG_BYTES):
            raise WireError("an index of a digest is cut short")
        # A kernel writes at these places: one beyond the width must never come to it.
        if power != _SHORT_POWER and room and int(made.indices.max(initial=0)) >= made.width:
            raise WireError("an index of a digest is beyond its width")
        return made
