"""Where was an event, and when? Stamps on its envelope, made by who has a wall clock as it passes a link.

One is added when a broker writes the event to its links, and completed when the next one reads it. The clocks of two
brokers differ: what a stamp says is what either of them believed.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from msgspec.structs import force_setattr

from palio.routing.messages import Publish

_WRITTEN: Final = struct.Struct("<qd")
_READ: Final = struct.Struct("<d")
_STAMP: Final = struct.Struct("<qdd")
_MOST: Final = 64  # stamps on one event; on a longer way the later ones are left out


class Stamp(NamedTuple):
    """One link: which broker wrote the event to it and when, and when the next broker read it."""

    broker: int
    written: float
    read: float


def stamp_written(event: Publish, broker: int, time: float) -> Publish:
    """The event as a broker writes it to its links."""
    if len(event.stamps) % _STAMP.size or len(event.stamps) >= _MOST * _STAMP.size:
        return event
    id, body, header, kept = event.id, event.body, event.header, event.kept
    stamps = event.stamps + _WRITTEN.pack(broker, time)
    return Publish(id, body, header, event.hops, event.useless, event.epoch, event.publisher, stamps, kept)


def stamp_read(event: Publish, time: float) -> None:
    """Complete the stamp of an event that was just read and that nobody else has yet; where there is none, add none."""
    if len(event.stamps) % _STAMP.size == _WRITTEN.size:
        force_setattr(event, "stamps", event.stamps + _READ.pack(time))


def stamps_of(event: Publish) -> tuple[Stamp, ...]:
    """The stamps of an event, in the order of its way; none where they cannot be read."""
    return stamps_in(event.stamps)


def stamps_in(written: bytes) -> tuple[Stamp, ...]:
    """The same, as they are written on its envelope."""
    return () if len(written) % _STAMP.size else tuple(map(Stamp._make, _STAMP.iter_unpack(written)))
