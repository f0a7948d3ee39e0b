"""What was found out about tuples that are met again and again, as the same objects.

To look one up by what it holds would read all of that: of a hundred matches, a hundred objects all over the memory. By
its place in memory one look tells; the tuple is kept, so that no other can come to lie there.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final, Generic, TypeVar

MOST_ITEMS: Final = 2_000_000  # in all tuples that are remembered together, each with
EACH: Final = 8  # more for itself

_Key = TypeVar("_Key", bound=Sized)
_Found = TypeVar("_Found")


class Recurring(Generic[_Key, _Found]):
    """Findings by the identity of what they are about; all are forgotten when they are too many.

    >>> lengths = Recurring()
    >>> key = ("a", "b")
    >>> lengths.get(key)
    >>> lengths.put(key, 2), lengths.get(key), lengths.get(tuple("ab"))
    (2, 2, None)
    """

    __slots__ = ("_found", "_items")

    def __init__(self) -> None:
        self._found: dict[int, tuple[_Key, _Found]] = {}
        self._items = 0

    def get(self, key: _Key) -> _Found | None:
        found = self._found.get(id(key))
        return None if found is None else found[1]

    def put(self, key: _Key, found: _Found) -> _Found:
        items = EACH + len(key)
        if self._items + items > MOST_ITEMS:
            self.clear()
        self._items += items
        self._found[id(key)] = key, found
        return found

    def clear(self) -> None:
        if self._found:
            self._found = {}
            self._items = 0
