"""What was found out about what is met again and again: by what it is, or, for tuples, by which object it is.

To look a tuple up by what it holds would read all of that: of a hundred matches, a hundred objects all over the memory.
By its place in memory one look tells; the tuple is kept, so that no other can come to lie there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sized
from typing import Final, Generic, TypeVar

MOST_ITEMS: Final = 2_000_000  # in all that is remembered together, each with
_EACH: Final = 8  # more for itself

_Value = TypeVar("_Value", bound=Hashable)
_Key = TypeVar("_Key", bound=Sized)
_Found = TypeVar("_Found")


class Remembered(Generic[_Value, _Found]):
    """Findings of some items each; all are forgotten when they are too many."""

    __slots__ = ("_items", "found")

    def __init__(self) -> None:
        self.found: dict[_Value, _Found] = {}
        self._items = 0

    def put(self, key: _Value, found: _Found, items: int) -> _Found:
        items += _EACH
        if self._items + items > MOST_ITEMS:
            self.clear()
        self._items += items
        self.found[key] = found
        return found

    def clear(self) -> None:
        if self.found:
            self.found = {}
            self._items = 0


class Recurring(Generic[_Key, _Found]):
    """Findings by the identity of what they are about.

    >>> lengths = Recurring()
    >>> key = ("a", "b")
    >>> lengths.get(key)
    >>> lengths.put(key, 2), lengths.get(key), lengths.get(tuple("ab"))
    (2, 2, None)
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known = Remembered[int, tuple[_Key, _Found]]()

    def get(self, key: _Key) -> _Found | None:
        found = self._known.found.get(id(key))
        return None if found is None else found[1]

    def put(self, key: _Key, found: _Found) -> _Found:
        self._known.put(id(key), (key, found), len(key))
        return found

    def clear(self) -> None:
        self._known.clear()
