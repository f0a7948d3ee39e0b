"""Duplicate filter by sequence numbers, for networks with more than one way between two brokers.

Events are numbered by the broker that accepts them, and arrive almost in order: one bit for each of the last numbers
says whether it has arrived. That takes a thousandth of the memory of a set of ids, and fits a processor's cache. As
long as each number follows the one before it they are only counted; the bits are filled in when one does not.

Durable events are deduplicated by keys instead, in a window that is persisted (`delivery.event_log`).
"""

from __future__ import annotations

from typing import Final

from palio.routing.messages import EventId

_WINDOW_EVENTS: Final = 8_192  # numbers of one broker's events
_MAX_SOURCES: Final = 4_096  # incarnations of brokers
_ALL_BITS: Final = (1 << _WINDOW_EVENTS) - 1


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

    def add_run(self, first: EventId, count: int) -> bool:
        """Whether consecutive events are new because they follow the last one; otherwise nothing is added.

        >>> duplicates = DuplicateFilter()
        >>> [duplicates.add_run(EventId(1, 1, number), 3) for number in (5, 8, 10)]
        [True, True, False]
        >>> [duplicates.add(EventId(1, 1, number)) for number in (9, 10, 11)]
        [False, False, True]
        """
        window = self._windows.get((first.node, first.incarnation)) or self._begin(first)
        if first.sequence != window.highest + 1:
            return False
        window.highest += count
        window.run += count
        return True

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
