"""Items by place, of which there is mostly one at each: a tuple then, and a dictionary where there are more.

Who looks a hundred places up reads half as much of the memory as where each has a dictionary.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from itertools import chain, repeat
from typing import Generic, TypeVar

_Place = TypeVar("_Place", bound=Hashable)
_Item = TypeVar("_Item", bound=Hashable)


class Several(Generic[_Place, _Item]):
    """The items of some places, each once.

    >>> several = Several()
    >>> several.add("a", 1), several.add("a", 2), several.add("b", 3), several.all_at("abc")
    (1, 2, 1, [1, 2, 3])
    >>> several.remove("a", 1), several.remove("b", 3), "b" in several, several.all_at("abc")
    (1, 0, False, [2])
    """

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at: dict[_Place, tuple[_Item, ...] | dict[_Item, None]] = {}

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, place: object) -> bool:
        return place in self._at

    def at(self, place: _Place) -> Collection[_Item]:
        return self._at.get(place, ())

    def all_at(self, places: Iterable[_Place]) -> list[_Item]:
        """The items of places, one after the other; those of which nothing is known are passed over."""
        return list(chain.from_iterable(map(self._at.get, places, repeat(()))))

    def add(self, place: _Place, item: _Item) -> int:
        """Put an item somewhere; how many are there now."""
        held = self._at.get(place, ())
        if not held:
            self._at[place] = (item,)
            return 1
        if not isinstance(held, dict):
            held = self._at[place] = dict.fromkeys(held)
        held[item] = None
        return len(held)

    def remove(self, place: _Place, item: _Item) -> int:
        """Take an item out that is there; how many are left."""
        held = self._at[place]
        if not isinstance(held, dict) or len(held) == 1:
            del self._at[place]
            return 0
        del held[item]
        return len(held)
