"""Has this event been here before? The last so many are remembered, also across crashes, by whoever keeps the disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

from palio.events import Event
from palio.routing.effects import REMEMBERED, Client
from palio.routing.messages import Key


def identity(publisher: Client, event: Event) -> Key:
    """Who an event is, by whichever broker and however often its publisher lets it in."""
    source = event.source or ""
    said = f"{len(publisher)}\n{publisher}{len(source)}\n{source}{event.id}"
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def published(identity: Key) -> bytes:
    """The key of an event that was let in here."""
    return b"p" + identity


def queued(identity: Key) -> bytes:
    """The key of an event that was given to clients here."""
    return b"q" + identity


class Window:
    """The last keys; the oldest goes when there are too many."""

    __slots__ = ("_keys", "_size")

    def __init__(self, keys: Iterable[bytes] = (), size: int = REMEMBERED) -> None:
        self._size = size
        # A plain dictionary finds its oldest key by passing over all that were deleted before it.
        self._keys: OrderedDict[bytes, None] = OrderedDict()
        for key in keys:
            self.add(key)

    def add(self, key: bytes) -> None:
        self._keys[key] = None
        if len(self._keys) > self._size:
            self._keys.popitem(last=False)

    def discard(self, key: bytes) -> None:
        self._keys.pop(key, None)

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys
