"""Interest index: which interfaces want an event.

The distinct filters of all interfaces are in one index, so that one look tells all links and local keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain, repeat
from typing import Final, Generic, NamedTuple, TypeVar

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.effects import Job
from palio.routing.forwarding.filter_index import FilterIndex
from palio.routing.memo import Memo
from palio.routing.messages import LOCAL, Key

_Place = TypeVar("_Place", bound=Hashable)
_Item = TypeVar("_Item", bound=Hashable)


class Multimap(Generic[_Place, _Item]):
    """Sets of items by place: mostly of one, which is a tuple, and a dictionary where there are more.

    A lookup of a hundred places reads half as much memory as where each has a dictionary.

    >>> items = Multimap()
    >>> items.add("a", 1), items.add("a", 2), items.add("b", 3), items.all_at("abc")
    (1, 2, 1, [1, 2, 3])
    >>> items.remove("a", 1), items.remove("b", 3), "b" in items, items.all_at("abc")
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
        """The items of all places, one place after the other."""
        return list(chain.from_iterable(map(self._at.get, places, repeat(()))))

    def add(self, place: _Place, item: _Item) -> int:
        """Add an item; the number of items at its place now."""
        held = self._at.get(place, ())
        if not held:
            self._at[place] = (item,)
            return 1
        if not isinstance(held, dict):
            held = self._at[place] = dict.fromkeys(held)
        held[item] = None
        return len(held)

    def remove(self, place: _Place, item: _Item) -> int:
        """Remove an item that is there; the number of items left at its place."""
        held = self._at[place]
        if not isinstance(held, dict) or len(held) == 1:
            del self._at[place]
            return 0
        del held[item]
        return len(held)


class Interested(NamedTuple):
    """The links that want an event, in order, and the keys of local clients that do, in none."""

    links: tuple[int, ...]
    local: tuple[Key, ...]


_NOBODY: Final = Interested((), ())


class InterestIndex:
    """Filters under keys, by interface; equal filters are matched once."""

    def __init__(self) -> None:
        self._filters = FilterIndex()
        self._number_of: dict[bytes, int] = {}  # by the digest of the filter
        # By the number of a filter: the keys of local clients, and those of each link.
        self._local = Multimap[int, Key]()
        self._links: dict[int, dict[int, dict[Key, None]]] = {}
        self._digests: dict[int, dict[Key, bytes]] = {}
        # By the set of filters that an event matches: few distinct sets occur, and often.
        self._memo = Memo[bytes, Interested]()

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        digest = wanted.digest
        self._digests.setdefault(interface, {})[key] = digest
        number = self._number_of.get(digest)
        if number is None:
            number = self._number_of[digest] = self._filters.add(wanted)
        self._memo.clear()
        if interface == LOCAL:
            self._local.add(number, key)
        else:
            self._links.setdefault(number, {}).setdefault(interface, {})[key] = None

    def remove(self, interface: int, key: Key) -> None:
        digest = self._digests[interface].pop(key)
        number = self._number_of[digest]
        self._memo.clear()
        if interface == LOCAL:
            self._local.remove(number, key)
        else:
            keys_of = self._links[number]
            del keys_of[interface][key]
            if not keys_of[interface]:
                del keys_of[interface]
            if not keys_of:
                del self._links[number]
        if number not in self._local and number not in self._links:
            del self._number_of[digest]
            self._filters.remove(number)

    def __len__(self) -> int:
        return len(self._number_of)

    def work(self) -> Job | None:
        """Background work that makes the index faster, if there is any."""
        return self._filters.work()

    def find_interested(self, events: Sequence[Event]) -> list[Interested]:
        """For each event the interfaces that want it."""
        found = self._filters.find_each(events)
        known = self._memo.found.get
        return [(known(matched) or self._look_up(matched)) if matched else _NOBODY for matched in found]

    def _look_up(self, numbers: bytes) -> Interested:
        """The interfaces that have any of some filters, given as the bytes of their numbers."""
        matched = array("i", numbers)
        links = {link for number in matched if number in self._links for link in self._links[number]}
        interested = Interested(tuple(sorted(links)), tuple(self._local.all_at(matched)))
        return self._memo.put(numbers, interested, len(matched))
