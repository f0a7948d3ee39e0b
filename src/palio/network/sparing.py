"""How often is something said that happens again and again? Once in a while, with how many there were since then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

PAUSE: Final = 5.0  # seconds between two lines of one kind
_Kind = TypeVar("_Kind", bound=Hashable)


class Sparing(Generic[_Kind]):
    """What happened, by its kind."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a clock that never jumps."""
        self.counts: Counter[_Kind] = Counter()
        self._now = now
        self._said: dict[_Kind, tuple[float, int]] = {}  # when, and how many there had been

    def note(self, kind: _Kind) -> int:
        """It happened; how many there were since the last line, where another one is due, and 0 where none is."""
        self.counts[kind] += 1
        now = self._now()
        at, before = self._said.get(kind, (now - PAUSE, 0))
        if now - at < PAUSE:
            return 0
        count = self.counts[kind]
        self._said[kind] = now, count
        return count - before
