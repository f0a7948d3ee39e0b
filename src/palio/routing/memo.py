"""Bounded memoisation, by value or, for tuples, by identity.

A lookup of a tuple by value would hash all of it: of a hundred matches, a hundred objects all over the memory. A lookup
by its address reads none of them. The memo holds the tuple, so that no other can come to lie at that address.
"""

from __future__ import annotations

from collections.abc import Hashable, Sized
from typing import Final, Generic, TypeVar

MAX_ITEMS: Final = 2_000_000  # in all entries of one memo together
_ITEMS_PER_ENTRY: Final = 8  # that an entry counts for beside its own

_Value = TypeVar("_Value", bound=Hashable)
_Key = TypeVar("_Key", bound=Sized)
_Found = TypeVar("_Found")


class Memo(Generic[_Value, _Found]):
    """Results by value; all are forgotten when their items are too many."""

    __slots__ = ("_items", "found")

    def __init__(self) -> None:
        # Public, because a caller on the path of every event saves a call by reading the dictionary itself.
        self.found: dict[_Value, _Found] = {}
        self._items = 0

    def put(self, key: _Value, found: _Found, items: int) -> _Found:
        items += _ITEMS_PER_ENTRY
        if self._items + items > MAX_ITEMS:
            self.clear()
        self._items += items
        self.found[key] = found
        return found

    def clear(self) -> None:
        self.found.clear()  # in place: `IdentityMemo` shares the dictionary
        self._items = 0


class IdentityMemo(Generic[_Key, _Found]):
    """Results by the identity of their key.

    >>> lengths = IdentityMemo()
    >>> key = ("a", "b")
    >>> lengths.get(key)
    >>> lengths.put(key, 2), lengths.get(key), lengths.get(tuple("ab"))
    (2, 2, None)
    """

    __slots__ = ("_memo", "entries")

    def __init__(self) -> None:
        self._memo = Memo[int, tuple[_Key, _Found]]()
        self.entries = self._memo.found  # by `id`: the key and its result; public as `found` is

    def get(self, key: _Key) -> _Found | None:
        entry = self.entries.get(id(key))
        return None if entry is None else entry[1]

    def put(self, key: _Key, found: _Found) -> _Found:
        self._memo.put(id(key), (key, found), len(key))
        return found

    def clear(self) -> None:
        self._memo.clear()
