"""Was this event here before? Of each broker that lets events in, in each of its lives, the last so many are known.

They are numbered, and come almost in order: one bit for each of the last numbers says which came. That is a thousandth
of what remembering their names would take, and stays where a processor finds it quickly. As long as each follows the
one before it they are only counted, and the bits are made up for when one does not.
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
        self._windows: dict[tuple[int, int], _Window] = {}

    def add(self, id: EventId) -> bool:
        """Whether an event is new; from now on it is not.

        >>> seen = Seen()
        >>> [seen.add(EventId(1, 1, number)) for number in (5, 7, 6, 5, 7, 6)]
        [True, True, True, False, False, False]
        """
        window = self._windows.get((id.node, id.incarnation)) or self._begin(id)
        if id.sequence == window.highest + 1:
            window.highest += 1
            window.run += 1
            return True
        return window.add(id.sequence)

    def _begin(self, id: EventId) -> _Window:
        if len(self._windows) >= _SOURCES:
            del self._windows[next(iter(self._windows))]
        window = self._windows[id.node, id.incarnation] = _Window(id.sequence - 1)
        return window


class _Window:
    """The highest number, how many came one after the other up to it, and a bit for each of those before that run."""

    __slots__ = ("bits", "highest", "run")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.run = 0
        self.bits = 0

    def add(self, number: int) -> bool:
        """Whether a number that does not follow the highest is new."""
        run = min(self.run, _WINDOW)
        self.bits = (self.bits << run | (1 << run) - 1) & _ALL
        self.run = 0
        ahead = number - self.highest
        if ahead > 0:
            self.bits = (self.bits << ahead & _ALL | 1) if ahead < _WINDOW else 1
            self.highest = number
            return True
        if -ahead >= _WINDOW:
            return True
        is_new = not self.bits >> -ahead & 1
        self.bits |= 1 << -ahead
        return is_new
