"""Why an event was sent on: keys of filters behind the link that it matches, and whether they are all (Shen §3.3).

Keys are of 64 bits. Of the 32 that the source has, two filters of a hundred thousand share one more often than not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar, Final

from palio.errors import WireError
from palio.routing.forwarding.headers import register
from palio.routing.messages import Key

_BYTES: Final = 8
_PERSON: Final = b"palio-reuse"


def short_key(key: Key) -> int:
    """Sixty-four bits that stand for a key on an event."""
    return int.from_bytes(blake2b(key, digest_size=_BYTES, person=_PERSON).digest(), "little")


@register
@dataclass(frozen=True, slots=True)
class ReuseHeader:
    """Keys of filters that match, and whether no other filter behind the link does."""

    kind: ClassVar[int] = 1

    data: bytes

    @classmethod
    def of(cls, keys: Iterable[int], complete: bool) -> ReuseHeader:
        packed = array("Q", keys)
        if _SWAPPED:
            packed.byteswap()
        return cls(bytes((complete,)) + packed.tobytes())

    @property
    def complete(self) -> bool:
        return self.data[0] == 1

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
        if not data or data[0] > 1 or (len(data) - 1) % _BYTES:
            raise WireError("a list of keys is whether it is complete, and whole keys")
        return cls(data)


_SWAPPED: Final = array("H", [1]).tobytes()[0] == 0
