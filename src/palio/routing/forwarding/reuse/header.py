"""Why an event was sent on: keys of filters behind the link that it matches, and whether they are all (Shen §3.3).

Keys are of 64 bits. Of the 32 that the source has, two filters of a hundred thousand share one more often than not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b
from typing import ClassVar, Final

from msgspec import Struct

from palio.errors import WireError
from palio.routing.forwarding.headers import register
from palio.routing.messages import Key

_BYTES: Final = 8
_PERSON: Final = b"palio-reuse"


def short_key(key: Key) -> int:
    """Sixty-four bits that stand for a key on an event."""
    return int.from_bytes(blake2b(key, digest_size=_BYTES, person=_PERSON).digest(), "little")


class Known(IntEnum):
    """What is known of the other filters behind a link: that some may match, that none does, or a client says none."""

    SOME = 0
    ALL = 1
    SAID_TO_BE_ALL = 2


@register
class ReuseHeader(Struct, frozen=True, gc=False):
    """Keys of filters that match, and what is known of all others behind the link."""

    kind: ClassVar[int] = 1

    data: bytes

    @classmethod
    def of(cls, keys: Iterable[int], known: Known) -> ReuseHeader:
        packed = array("Q", keys)
        if _SWAPPED:
            packed.byteswap()
        return cls(bytes((known,)) + packed.tobytes())

    @property
    def known(self) -> Known:
        return _KNOWN[self.data[0]]

    @property
    def complete(self) -> bool:
        """Whether a link for which there is no key need not have the event."""
        return self.data[0] != Known.SOME

    @property
    def keys(self) -> list[int]:
        packed = array("Q", self.data[1:])
        if _SWAPPED:
            packed.byteswap()
        return packed.tolist()

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, data: bytes) -> ReuseHeader:
        if not data or data[0] > Known.SAID_TO_BE_ALL or (len(data) - 1) % _BYTES:
            raise WireError("a list of keys is whether it is complete, and whole keys")
        return cls(data)


_SWAPPED: Final = array("H", [1]).tobytes()[0] == 0
_KNOWN: Final = tuple(Known)
