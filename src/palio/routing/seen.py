"""Was this event here before? Of each broker that lets events in, in each of its lives, the last so many are known.

They are numbered, and come almost in order: one bit for each of the last numbers says which came. That is a thousandth
of what remembering their names would take, and stays where a processor finds it quickly.
"""

from __future__ import annotations

from typing import Final

from palio.routing.messages import EventId

_WINDOW: Final = 8_192  # numbers of one broker's events
_SOURCES: Final = 4_096  # brokers, in all their lives
_ALL: Final = (1 << _WINDOW) - 1


class Seen:
    """The last events of every broker. An event that is older than all that is known of its broker counts as new."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: dict[tuple[int, int], tuple[int, int]] = {}  # the highest number, and a bit for each below it

    def add(self, id: EventId) -> bool:
        """Whether an event is new; from now on it is not.

        >>> seen = Seen()
        >>> [seen.add(EventId(1, 1, number)) for number in (5, 7, 6, 5, 7, 6)]
        [True, True, True, False, False, False]
        """
        source = id.node, id.incarnation
        highest, bits = self._windows.get(source) or self._begin(id)
        ahead = id.sequence - highest
        if ahead > 0:
            bits = (bits << ahead & _ALL | 1) if ahead < _WINDOW else 1
            self._windows[source] = id.sequence, bits
            return True
        if -ahead >= _WINDOW:
            return True
        if bits >> -ahead & 1:
            return False
        self._windows[source] = highest, bits | 1 << -ahead
        return True

    def _begin(self, id: EventId) -> tuple[int, int]:
        if len(self._windows) >= _SOURCES:
            del self._windows[next(iter(self._windows))]
        return id.sequence - 1, 0
