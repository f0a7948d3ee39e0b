"""What passes a link to a broker of somebody else? What both ends were told is wanted, and what its grant allows.

A neighbour may hear its grant's `may_subscribe` and say its `may_publish`. So what it wants is narrowed by the one when
it tells, and what it is told is wanted by the other: no event that may not pass is routed that way, and none has to be
thrown away under way. What comes in all the same, from one that does not keep to it, is not let in.
"""

from __future__ import annotations

import msgspec

from palio.filters.filter import Filter
from palio.network.security.grants import LinkFilters
from palio.routing import codec
from palio.routing.messages import Publish, Subscribe


class Border:
    """One end of a link that not everything may pass."""

    __slots__ = ("_filters", "refused")

    def __init__(self, filters: LinkFilters) -> None:
        self._filters = filters
        self.refused = 0  # events that should not have come

    def coming(self, frames: list[bytes]) -> list[bytes]:
        """What of some frames is let in, and how; `PalioError` for one that cannot be read."""
        return [passed for frame in frames if (passed := self._comes(frame)) is not None]

    def _comes(self, frame: bytes) -> bytes | None:
        kind = codec.kind_of(frame)
        if kind == codec.SUBSCRIBE:
            return self._narrowed(frame, self._filters.exports)
        if kind == codec.PUBLISH:
            message = codec.decode(frame)
            assert isinstance(message, Publish)
            if not self._filters.admits(codec.decode_event(message.body)):
                self.refused += 1
                return None
        return frame

    def going(self, frame: bytes) -> bytes:
        """How something is told."""
        return self._narrowed(frame, self._filters.imports) if codec.kind_of(frame) == codec.SUBSCRIBE else frame

    def _narrowed(self, frame: bytes, bound: Filter) -> bytes:
        message = codec.decode(frame)
        assert isinstance(message, Subscribe)
        return codec.encode(msgspec.structs.replace(message, wanted=message.wanted & bound))
