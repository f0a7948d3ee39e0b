"""Has this event been here before? The last so many are remembered, also across crashes, by whoever keeps the disk."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from palio.events import Event
from palio.routing.effects import Client
from palio.routing.messages import Key

REMEMBERED: Final = 100_000  # keys


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

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._keys: dict[bytes, None] = {}
        for key in keys:
            self.add(key)

    def add(self, key: bytes) -> None:
        self._keys[key] = None
        if len(self._keys) > REMEMBERED:
            del self._keys[next(iter(self._keys))]

    def discard(self, key: bytes) -> None:
        self._keys.pop(key, None)

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys
