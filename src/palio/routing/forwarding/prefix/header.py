"""What travels with an event: the version of a routing tree, and the branches of it that the event satisfies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from palio.errors import WireError
from palio.routing.forwarding.headers import register
from palio.routing.forwarding.prefix.forwarding_tree import ForwardingTree

VERSION_BYTES: Final = 8
GREATEST_HEIGHT: Final = 255


@register
@dataclass(frozen=True, slots=True)
class PrefixHeader:
    """A forwarding tree means something only to who has the routing tree of that version."""

    kind: ClassVar[int] = 2

    version: bytes
    tree: ForwardingTree

    def encode(self) -> bytes:
        return b"%b%c%b" % (self.version, self.tree.height, self.tree.code)

    @classmethod
    def decode(cls, data: bytes) -> PrefixHeader:
        """The branches are looked at by who goes along them."""
        if len(data) <= VERSION_BYTES + 1:
            raise WireError("a forwarding tree is cut short")
        return cls(data[:VERSION_BYTES], ForwardingTree(data[VERSION_BYTES + 1 :], data[VERSION_BYTES]))
