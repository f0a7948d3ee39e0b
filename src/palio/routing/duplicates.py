"""Duplicate filters: by sequence numbers for events on the way, by keys for durable events.

`DuplicateFilter` is for networks with more than one way between brokers. Events are numbered by the broker that accepts
them, and come almost in order: one bit for each of the last numbers says which came. That is a thousandth of what
remembering ids would take, and stays where a processor finds it quickly. As long as each number follows the one before
it they are only counted, and the bits are made up for when one does not.

`DeduplicationWindow` holds the last keys of durable events. It outlives crashes: keys are persisted with the records
they belong to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from palio.events import Event
from palio.routing.effects import DEDUPLICATION_WINDOW_KEYS, Client
from palio.routing.messages import EventId, Key

_WINDOW_EVENTS: Final = 8_192  # numbers of one broker's events
_MAX_SOURCES: Final = 4_096  # incarnations of brokers
_ALL_BITS: Final = (1 << _WINDOW_EVENTS) - 1
_Key = TypeVar("_Key")


class DuplicateFilter:
    """The last events of every broker. An event older than its broker's window counts as new."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: dict[tuple[int, int], _SequenceWindow] = {}

    def add(self, id: EventId) -> bool:
        """Whether an event is new; from now on it is not.

        >>> duplicates = DuplicateFilter()
        >>> [duplicates.add(EventId(1, 1, number)) for number in (5, 7, 6, 5, 7, 6)]
        [True, True, True, False, False, False]
        """
        window = self._windows.get((id.node, id.incarnation)) or self._begin(id)
        if id.sequence == window.highest + 1:
            window.highest += 1
            window.run += 1
            return True
        return window.add(id.sequence)

    def _begin(self, id: EventId) -> _SequenceWindow:
        if len(self._windows) >= _MAX_SOURCES:
            del self._windows[next(iter(self._windows))]
        window = self._windows[id.node, id.incarnation] = _SequenceWindow(id.sequence - 1)
        return window


class _SequenceWindow:
    """The highest number, the length of the unbroken run up to it, and a bit for each number before that run."""

    __slots__ = ("bits", "highest", "run")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.run = 0
        self.bits = 0

    def add(self, number: int) -> bool:
        """Whether a number that does not follow the highest is new."""
        run = min(self.run, _WINDOW_EVENTS)
        self.bits = (self.bits << run | (1 << run) - 1) & _ALL_BITS
        self.run = 0
        ahead = number - self.highest
        if ahead > 0:
            self.bits = (self.bits << ahead & _ALL_BITS | 1) if ahead < _WINDOW_EVENTS else 1
            self.highest = number
            return True
        if -ahead >= _WINDOW_EVENTS:
            return True
        is_new = not self.bits >> -ahead & 1
        self.bits |= 1 << -ahead
        return is_new


class DeduplicationWindow(Generic[_Key]):
    """The last keys; the oldest goes when there are too many."""

    __slots__ = ("_keys", "_size")

    def __init__(self, keys: Iterable[_Key] = (), size: int = DEDUPLICATION_WINDOW_KEYS) -> None:
        self._size = size
        # A plain dictionary finds its oldest key by passing over all that were deleted before it.
        self._keys: OrderedDict[_Key, None] = OrderedDict()
        for key in keys:
            self.add(key)

    def add(self, key: _Key) -> None:
        self._keys[key] = None
        if len(self._keys) > self._size:
            self._keys.popitem(last=False)

    def discard(self, key: _Key) -> None:
        self._keys.pop(key, None)

    def __contains__(self, key: _Key) -> bool:
        return key in self._keys


def event_identity(publisher: Client, event: Event) -> Key:
    """The identity of an event, whichever broker accepts it and however often its publisher sends it."""
    source = event.source or ""
    said = f"{len(publisher)}\n{publisher}{len(source)}\n{source}{event.id}"
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def log_key(identity: Key) -> bytes:
    """The key of an event in the event log of this broker."""
    return b"p" + identity


def queue_key(identity: Key) -> bytes:
    """The key of an event that was given to clients of this broker."""
    return b"q" + identity
