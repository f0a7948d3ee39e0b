"""What travels with an event: the version of a routing tree, and the branches of it that the event satisfies.

The bytes are the value itself: a broker that passes an event on writes what it read, and reads no more of it than the
version before it knows whether it has that tree.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from palio.errors import WireError
from palio.routing.forwarding.headers import register
from palio.routing.forwarding.prefix.forwarding_tree import ForwardingTree

VERSION_BYTES: Final = 8


@register
class PrefixHeader(Struct, frozen=True, gc=False):
    """A forwarding tree means something only to who has the routing tree of that version."""

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
        """The branches are looked at by who goes along them."""
        if len(data) <= VERSION_BYTES + 1:
            raise WireError("a forwarding tree is cut short")
        return cls(data)
